// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// FileLimits bound what WorkspaceService takes. Zero fields take their defaults.
type FileLimits struct {
	MaxFileBytes   int64         // of one file; 1 GiB
	MaxTreeBytes   int64         // of the files of a tree, and of its archive; 4 GiB
	MaxTreeEntries int           // of an archive; 200,000
	MaxUploads     int           // that are not finished, of one session; 16
	MaxUploadBytes int64         // of those, together; 2 GiB
	UploadTTL      time.Duration // how long an upload waits to be continued; 15 minutes
	Idle           time.Duration // how long a stream may bring nothing; 2 minutes
}

func (l FileLimits) withDefaults() FileLimits {
	return FileLimits{
		MaxFileBytes:   cmp.Or(l.MaxFileBytes, 1<<30),
		MaxTreeBytes:   cmp.Or(l.MaxTreeBytes, 4<<30),
		MaxTreeEntries: cmp.Or(l.MaxTreeEntries, 200_000),
		MaxUploads:     cmp.Or(l.MaxUploads, 16),
		MaxUploadBytes: cmp.Or(l.MaxUploadBytes, 2<<30),
		UploadTTL:      cmp.Or(l.UploadTTL, 15*time.Minute),
		Idle:           cmp.Or(l.Idle, 2*time.Minute),
	}
}

// The tools that calls of WorkspaceService are judged as.
var readsFiles, writesFiles, removesFiles = admission.ReadsFiles, admission.WritesFiles, admission.RemovesFiles

// A transfer is one call of WorkspaceService: what it may do was decided as for a
// call of a tool.
type transfer struct {
	service *workspaceService
	session *session.Session
	entry   *tools.Entry
	spec    *tools.Spec
	path    string // where the path of the request leads, relative to the workspace
	permit  *limit.Permit
	record  audit.Record
	began   time.Time
	written func() // tells that nothing more is written; nil where nothing is

	judged struct { // what is known as long as the policy and the settings stay
		policy   *policy.Policy
		settings *session.Settings
		grants   []policy.Grant
		call     *policy.Call
	}
	env         tools.Env
	makesConfig bool // what is written next is the configuration of a repository as the server makes it
	judgedIndex bool // what is written next is the index of a repository that was read
}

// effectsOf tells what a call would touch, by the names of a request.
type effectsOf func(env tools.Env, names ...string) []tools.Effect

// readsTree is [tools.Env.ReadsTree] as effectsOf.
func readsTree(env tools.Env, names ...string) []tools.Effect { return env.ReadsTree(names[0]) }

// begin admits a call. Where there is no error, end it.
func (s *workspaceService) begin(ctx context.Context, entry *tools.Entry, sessionID, path string, effects effectsOf) (*transfer, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	a := s.admission
	if a.Executor.Draining() {
		return nil, executor.ErrDraining
	}
	found, err := a.Sessions.Get(principalOf(ctx).Name, sessionID)
	if err != nil {
		return nil, err
	}
	rpc := rpcOf(ctx)
	rpc.session, rpc.tool = found.ID, entry.Spec.Name
	t := &transfer{service: s, session: found, entry: entry, spec: &entry.Spec, began: time.Now()}
	t.record = audit.Record{
		Step: audit.Transfer, Principal: found.Owner, OnBehalfOf: principalOf(ctx).OnBehalfOf, SessionID: found.ID, Tool: t.spec.Name, Path: path,
		Trace: rpc.span.Trace(), Action: policy.Allow.String(),
	}
	s.underWay.Add(1)
	if !found.Enter() {
		s.underWay.Add(-1)
		return nil, fmt.Errorf("%w: it was closed just now", session.ErrNotFound)
	}
	_, decide := span.Start(ctx, "decide")
	err = t.admit(path, effects)
	decide.Set("toolserver.tool", t.spec.Name)
	decide.Set("toolserver.action", t.record.Action)
	decide.Set("toolserver.rule", t.record.Rule)
	decide.Set("toolserver.policy", t.record.Policy)
	decide.End()
	if err != nil {
		t.end(&err)
		return nil, err
	}
	if t.spec.Level == tools.WorkspaceWrite && s.receiving != nil {
		t.written = s.receiving(t.env)
	}
	return t, nil
}

// fits returns an error where so many bytes more would take what is reserved.
func (t *transfer) fits(more uint64) error {
	if t.service.space == nil {
		return nil
	}
	if err := t.service.space(t.env, more); err != nil {
		return fmt.Errorf("%w: %w", errTooMany, err)
	}
	return nil
}

// admit has the policy decide, and counts the call.
func (t *transfer) admit(path string, effects effectsOf) error {
	a := t.service.admission
	for {
		p := t.refresh()
		t.judged.call.Effects, t.judged.call.Input = effects(t.env, path), t.input(p, path)
		if len(t.judged.call.Effects) == 0 {
			return fmt.Errorf("%s: %w", output.VisibleText(path), workspace.ErrOutside)
		}
		t.path = t.judged.call.Effects[0].Path
		if err := t.decide(p); err != nil {
			return err
		}
		permit, tooMany, ok := a.Count(p, t.session, t.spec)
		if !ok {
			continue // the policy was replaced meanwhile
		}
		if tooMany != nil {
			t.record.Action, t.record.Rule = policy.Deny.String(), tooMany.Rule
			return withRetryInfo(status.New(codes.ResourceExhausted, tooMany.Message), tooMany.RetryAfter).Err()
		}
		t.permit = permit
		if log := t.service.auditor.log; log != nil && log.Required() {
			intent := t.record
			intent.Step = audit.Proposed
			if log.Append(intent) != nil {
				return withRetryInfo(status.New(codes.Unavailable, "the server must record every transfer and cannot: nothing was done"), time.Second).Err()
			}
		}
		return nil
	}
}

// refresh sees to it that the call is judged by the policy in force and by the
// settings that its session has by now.
func (t *transfer) refresh() *policy.Policy {
	a, j := t.service.admission, &t.judged
	p, settings := a.Rules.Current(), t.session.Settings()
	if j.call == nil || j.policy != p || j.settings != settings {
		j.policy, j.settings = p, settings
		j.call = a.Subject(t.session, t.entry)
		j.call.Uploads = t.entry == admission.WritesFiles
		t.env = a.Env(t.session, p.Guard(j.call), "")
	}
	j.grants = a.Approvals.Grants(t.session.Ref())
	return p
}

// decide has the policy decide on the effects of the call.
func (t *transfer) decide(p *policy.Policy) error {
	if err := admission.Selected(p, t.judged.settings, t.spec); err != nil {
		t.record.Action = policy.Deny.String()
		return err
	}
	d := p.Decide(t.judged.call, t.judged.grants)
	t.record.Policy, t.record.Rule = d.Policy, d.Rule
	err := refusedBy(t.spec, d.Verdict)
	if err != nil {
		t.record.Action, t.record.Reason = d.Action.String(), d.Reason
	}
	return err
}

// may decides on one path that the call touches as part of something larger.
func (t *transfer) may(kind tools.EffectKind, path string) error {
	p := t.refresh()
	if err := admission.Selected(p, t.judged.settings, t.spec); err != nil {
		return err
	}
	t.judged.call.Effects = []tools.Effect{{Kind: kind, Path: path, Rooted: true}}
	t.judged.call.Input = t.input(p, path)
	t.judged.call.MakesConfig, t.judged.call.JudgedIndex = t.makesConfig, t.judgedIndex
	return refusedBy(t.spec, p.Decide(t.judged.call, t.judged.grants).Verdict)
}

// again judges the call once more, when what it brings has arrived.
func (t *transfer) again(path string, effects effectsOf) error {
	p := t.refresh()
	t.judged.call.Effects, t.judged.call.Input = effects(t.env, path), t.input(p, path)
	t.path = t.judged.call.Effects[0].Path
	return t.decide(p)
}

// input is what conditions of a policy see as the input of the call: the path that is
// judged, as CheckCall is asked about it.
func (t *transfer) input(p *policy.Policy, path string) json.RawMessage {
	if !p.Conditional() {
		return nil
	}
	input, _ := json.Marshal(admission.TransferInput{Path: output.ValidText(path)}) // of strings alone
	return input
}

// refusedBy returns why a call is not made, or nil. What a person would have to
// be asked about is refused, too: nobody is there to wait for the answer.
func refusedBy(spec *tools.Spec, v policy.Verdict) error {
	switch v.Action {
	case policy.Allow:
		return nil
	case policy.Ask:
		return denied("%s (%s). A transfer does not wait for a person: set the mode of the session to accept_edits or allow, or have a rule of the policy allow %s.",
			output.VisibleText(strings.TrimSuffix(v.Reason, ".")), v.Rule, spec.Name)
	}
	return denied("%s (%s)", output.VisibleText(v.Reason), v.Rule)
}

func denied(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, format, args...)
}

// withheld reports what is left out of the tree that is read; nil where that is
// nothing.
func (t *transfer) withheld() func(path string) bool { return t.env.WithheldBelow(t.path, true) }

// end writes the record of the call, and makes a status of its error.
func (t *transfer) end(err *error) {
	if t.written != nil {
		t.written()
	}
	t.permit.Release()
	t.session.Leave()
	t.service.underWay.Add(-1)
	*err = fileStatus(*err)
	if log := t.service.auditor.log; log != nil {
		t.record.DurationMs = float64(time.Since(t.began)) / 1e6
		t.record.Outcome = outcomeOfStatus(*err)
		if t.record.Reason == "" && *err != nil {
			t.record.Reason = status.Convert(toStatus(*err)).Message()
		}
		log.Append(t.record)
	}
}

func outcomeOfStatus(err error) string {
	if err == nil {
		return executor.Succeeded.String()
	}
	return strings.ToLower(status.Code(toStatus(err)).String())
}

// errTooMany is wrapped by errors about what is more than the server takes.
var errTooMany = errors.New("this is more than the server takes")
