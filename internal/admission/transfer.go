// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// ErrDenied is what an error is about a transfer that may not be made.
var ErrDenied = errors.New("the transfer is denied")

// deniedError says why, in words for the caller.
type deniedError string

func (e deniedError) Error() string        { return string(e) }
func (e deniedError) Is(target error) bool { return target == ErrDenied }

// A LimitError is about a transfer that is over a limit.
type LimitError struct{ limit.Refusal }

func (e *LimitError) Error() string { return e.Message }

// The tools that calls of WorkspaceService are judged as. They are in no
// registry, for no model calls them; CheckCall knows them.
var (
	ReadsFiles = transferTool(tools.Spec{
		Name: "workspace_read", Label: "Read files", Summary: "Send files of the workspace to the caller.", Level: tools.ReadOnly,
	}, func(env tools.Env, in TransferInput) []tools.Effect {
		if in.Recursive {
			return env.ReadsTree(in.Path)
		}
		return env.Reads(in.Path)
	})
	WritesFiles = transferTool(tools.Spec{
		Name: "workspace_write", Label: "Write files", Summary: "Take files of the caller into the workspace.", Level: tools.WorkspaceWrite,
	}, func(env tools.Env, in TransferInput) []tools.Effect { return env.Writes(in.Path) })
	RemovesFiles = transferTool(tools.Spec{
		Name: "workspace_remove", Label: "Remove files", Summary: "Remove files of the workspace.", Level: tools.WorkspaceWrite,
	}, func(env tools.Env, in TransferInput) []tools.Effect {
		return effects.Removes(env, in.Path, in.Recursive)
	})

	transferTools = map[string]*tools.Entry{
		ReadsFiles.Spec.Name: ReadsFiles, WritesFiles.Spec.Name: WritesFiles, RemovesFiles.Spec.Name: RemovesFiles,
	}
)

// TransferInput is what conditions of a policy see as the input of a transfer.
type TransferInput struct {
	Path      string `json:"path" check:"min=1,max=4096" jsonschema:"what is read, written or removed, relative to the workspace"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"a directory is meant with everything in it; default false"`
}

func transferTool(spec tools.Spec, effects func(tools.Env, TransferInput) []tools.Effect) *tools.Entry {
	spec.Category, spec.ConcurrencySafe = "workspace", true
	tool := tools.New(spec, effects, func(context.Context, tools.Env, TransferInput, tools.Sink) (tools.Result, error) {
		return tools.Result{}, tools.Failf("no_such_tool", "%s is not called as a tool: it is what calls of WorkspaceService are judged as.", spec.Name)
	})
	return &tools.Entry{Tool: tool, Spec: tool.Spec()}
}

// A TransferRequest asks to move or remove files, outside of any tool.
type TransferRequest struct {
	Principal auth.Principal
	SessionID string       // empty: the default session
	Tool      *tools.Entry // what the transfer is judged as
	Path      string       // relative to the workspace
	Effects   EffectsOf
}

// EffectsOf tells what a transfer would touch, by the names of a request.
type EffectsOf func(env tools.Env, names ...string) []tools.Effect

// A Transfer moves or removes files, by the rules for a call of a tool. It is judged
// again for each path that only its content names. One goroutine uses it at a time.
type Transfer struct {
	Session  *session.Session
	Spec     *tools.Spec
	Env      tools.Env
	Path     string          // where the path of the request leads, relative to the workspace
	Decision policy.Decision // the newest on the whole of it

	// MakesConfig and JudgedIndex tell of what is written next: the configuration of a
	// repository as the server makes it, the index of a repository that was read.
	MakesConfig, JudgedIndex bool

	admission *Admission
	request   TransferRequest
	permit    *limit.Permit

	judged struct { // what is known as long as the policy and the settings stay
		policy   *policy.Policy
		settings *session.Settings
		grants   []policy.Grant
		call     *policy.Subject
	}
}

// Transfer judges a transfer, and counts it. A transfer that is refused is returned too
// where its session is known. Release whatever is returned.
func (a *Admission) Transfer(request TransferRequest) (*Transfer, error) {
	if a.Executor.Draining() {
		return nil, executor.ErrDraining
	}
	found, err := a.sessionOf(request.Principal, request.SessionID)
	if err != nil {
		return nil, err
	}
	if err := a.rate(found); err != nil {
		return nil, err
	}
	if !found.Enter() {
		return nil, fmt.Errorf("%w: it was closed just now", session.ErrNotFound)
	}
	t := &Transfer{Session: found, Spec: &request.Tool.Spec, admission: a, request: request}
	t.Decision.Action = policy.Allow
	for {
		p, err := t.decide()
		if err != nil {
			a.ActivePolicy.fired.note(t.Decision.Verdict, t.Decision.Effects)
			return t, err
		}
		permit, tooMany, ok := a.countTransfer(p, t.Session, t.Spec)
		if !ok {
			continue // the policy was replaced meanwhile
		}
		a.ActivePolicy.fired.note(t.Decision.Verdict, t.Decision.Effects)
		if tooMany != nil {
			t.Decision.Action, t.Decision.Rule = policy.Deny, tooMany.Limit
			return t, &LimitError{*tooMany}
		}
		t.permit = permit
		return t, nil
	}
}

// Release says that the transfer has ended.
func (t *Transfer) Release() {
	t.permit.Release()
	t.Session.Leave()
}

// Again judges the transfer once more, when what it brings has arrived.
func (t *Transfer) Again() error {
	_, err := t.decide()
	return err
}

// May judges one path that the transfer touches as part of something larger.
func (t *Transfer) May(kind tools.EffectKind, path string) error {
	p := t.refresh()
	if err := selected(p, t.Session, t.Spec); err != nil {
		return err
	}
	call := t.judged.call
	call.Effects, call.Input = []tools.Effect{{Kind: kind, Path: path, Rooted: true}}, t.input(p, path)
	call.MakesConfig, call.JudgedIndex = t.MakesConfig, t.JudgedIndex
	return t.refusal(p.Decide(call, t.judged.grants).Verdict)
}

// Changed reports whether the policy or the settings of the session are others than
// when the transfer was last judged. By then it is judged by those.
func (t *Transfer) Changed() bool {
	before := t.judged.call
	t.refresh()
	return t.judged.call != before
}

// refresh sees to it that the transfer is judged by the policy in force and by the
// settings that its session has by now.
func (t *Transfer) refresh() *policy.Policy {
	a, j := t.admission, &t.judged
	p, settings := a.ActivePolicy.Current(), t.Session.Settings()
	if j.call == nil || j.policy != p || j.settings != settings {
		j.policy, j.settings = p, settings
		j.call = a.Subject(t.Session, t.request.Tool, t.request.Principal.MaxMode, t.request.Principal.OnBehalfOf)
		j.call.Uploads = t.request.Tool == WritesFiles
		t.Env = *a.Env(t.Session, p.Restrictions(j.call), "")
	}
	j.grants = a.grants(t.Session)
	return p
}

// decide has the policy decide on the whole of the transfer.
func (t *Transfer) decide() (*policy.Policy, error) {
	p, path := t.refresh(), t.request.Path
	call := t.judged.call
	call.Effects, call.Input = t.request.Effects(t.Env, path), t.input(p, path)
	if len(call.Effects) == 0 {
		return p, fmt.Errorf("%s: %w", output.VisibleText(path), workspace.ErrOutside)
	}
	t.Path = call.Effects[0].Path
	if err := selected(p, t.Session, t.Spec); err != nil {
		t.Decision.Action = policy.Deny
		return p, err
	}
	t.Decision = p.Decide(call, t.judged.grants)
	return p, t.refusal(t.Decision.Verdict)
}

// input is what conditions of a policy see as the input of the transfer: the path that
// is judged, as CheckCall is asked about it.
func (t *Transfer) input(p *policy.Policy, path string) json.RawMessage {
	if !p.Conditional() {
		return nil
	}
	input, _ := json.Marshal(TransferInput{Path: output.ValidText(path)}) // of strings alone
	return input
}

// refusal returns why the transfer is not made, or nil. What a person would have to
// be asked about is refused, too: nobody is there to wait for the answer.
func (t *Transfer) refusal(v policy.Verdict) error {
	switch v.Action {
	case policy.Allow:
		return nil
	case policy.Ask:
		return deniedError(fmt.Sprintf("%s (%s). A transfer does not wait for a person: set the mode of the session to accept_edits or allow, or have a rule of the policy allow %s.",
			output.VisibleText(strings.TrimSuffix(v.Reason, ".")), v.Rule, t.Spec.Name))
	}
	return deniedError(fmt.Sprintf("%s (%s)", output.VisibleText(v.Reason), v.Rule))
}

// selected returns an error where the session is without calls of this kind: its
// selection of tools excludes them by a pattern, or the operator has sessions name
// what they want and it does not. What the selection includes is what a model is
// shown, and says nothing about them.
// One below another is also without what that one is without.
func selected(p *policy.Policy, s *session.Session, spec *tools.Spec) error {
	for ; s != nil; s = s.Parent() {
		chosen := s.Settings().Tools
		excludes := tools.Selection{Exclude: chosen.Exclude}
		if !excludes.Has(spec) || p.ExplicitOnly(spec) && !chosen.Names(spec) {
			return deniedError(fmt.Sprintf("There is no tool %q in this session: its selection of tools leaves it out.", spec.Name))
		}
	}
	return nil
}
