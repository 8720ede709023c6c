// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// admission decides whether calls may run. It never runs one: the handler
// behind it runs what was admitted, and nothing else.
type admission struct {
	registry *tools.Registry
	sessions *session.Store
	rules    *rules
	desk     *approval.Desk
	executor *executor.Executor
	auditor  *auditor
	meters   *meters

	artifacts *artifacts
	offer     func() *tools.Offer // nil where no commands run
}

// look judges each message that asks for a tool to run, and leaves the order
// for the handler.
func (a *admission) look(ctx context.Context, message any) error {
	request, ok := message.(*pb.ExecuteToolRequest)
	if !ok {
		return nil
	}
	order, err := a.admit(ctx, request)
	if err != nil {
		return err
	}
	rpcOf(ctx).order = order
	return nil
}

// admit decides whether one call may run. What the caller did wrong is an
// error; what the model did wrong is an order that carries its refusal.
func (a *admission) admit(ctx context.Context, request *pb.ExecuteToolRequest) (*executor.Order, error) {
	for {
		order, input, err := a.envelope(ctx, request)
		if err != nil {
			return nil, err
		}
		if existing, err := a.executor.Existing(order); existing != nil || err != nil {
			return order, err // judged when it first came
		}
		current := a.rules.current()
		if err := a.judge(ctx, order, current, request.GetTool(), input); err != nil {
			return nil, err
		}
		if a.auditor.log != nil {
			order.Record = a.auditor.recorder(ctx, order, input)
		}
		if order.Refusal != nil || a.count(order, current, input) {
			return order, nil
		}
		// The policy was replaced meanwhile: the call is judged by the new one.
	}
}

// judge finds the tool, decodes the input and has the policy decide.
func (a *admission) judge(ctx context.Context, order *executor.Order, p *policy.Policy, name string, input toolInput) error {
	entry, refusal := a.find(order.Session, p, name)
	if refusal != nil {
		order.Refusal = refusal
		if entry != nil {
			order.Tool = entry.Spec.Name
		}
		return nil
	}
	order.Tool, order.Quick, order.Policy = entry.Spec.Name, entry.Spec.Quick, p.Version()
	subject := a.subjectOf(order.Session, entry, input.json)
	call, err := a.decode(entry, order.Session, p.Guard(subject), order.CallID, input)
	if wrong, ok := errors.AsType[*tools.InputError](err); ok {
		order.Refusal = refusedInput(order.Tool, wrong)
		return nil
	}
	if err != nil {
		return err
	}
	rpcOf(ctx).decoded(input.json)
	if order.Timeout == 0 {
		if order.Refusal = a.setTimeout(order, entry, call); order.Refusal != nil {
			return nil
		}
	}

	subject.Effects = call.Effects()
	grants := a.desk.Grants(order.Session)
	if len(grants) > 0 {
		subject.Digest = callDigest(order.Tool, input.json)
	}
	decision := p.Decide(subject, grants)
	order.Verdict, order.Rights, order.RunsPrograms = decision.Verdict, decision.Rights, decision.RunsPrograms()
	if decision.Action == policy.Deny {
		order.Refusal = refused(order)
		return nil
	}
	order.Call, order.Spec = call, &entry.Spec
	if decision.Action == policy.Ask {
		order.Quick = false
		subject.Digest = callDigest(order.Tool, input.json)
		order.Ask = question(ctx, order, p, subject, decision, call)
		order.Ask.Rejudge = func(grants []policy.Grant) policy.Verdict {
			return a.rejudge(order.Session, subject, grants).Verdict
		}
		order.Recheck = func() (policy.Verdict, tools.Rights) {
			now := a.rejudge(order.Session, subject, a.desk.Grants(order.Session))
			return now.Verdict, now.Rights
		}
	}
	return nil
}

// rejudge judges a call that waited, by the policy in force and with the settings
// that its session has by now.
func (a *admission) rejudge(s *session.Session, subject *policy.Call, grants []policy.Grant) policy.Decision {
	p, settings := a.rules.current(), s.Settings()
	if !available(s, p, subject.Spec) {
		return policy.Decision{Verdict: policy.Verdict{Action: policy.Deny, Rule: "tools", Reason: "The session no longer has the tool " + subject.Spec.Name + "."}}
	}
	now := *subject
	now.Labels, now.Level, now.Mode, now.Network = settings.Labels, settings.Level, settings.Mode, settings.Network
	if now.Offer != nil {
		now.Network = min(now.Network, now.Offer.Network)
	}
	return p.Decide(&now, grants)
}

// setTimeout gives a call the time it says it needs or, where it does not say,
// that of its tool. More than the server allows is refused.
func (a *admission) setTimeout(order *executor.Order, entry *tools.Entry, call tools.Call) *executor.Finished {
	order.Timeout = entry.Spec.DefaultTimeout
	timed, ok := call.(tools.Timed)
	if !ok || timed.Timeout() == 0 {
		return nil
	}
	order.Timeout = timed.Timeout()
	if longest := a.executor.Config().MaxTimeout; order.Timeout > longest {
		return refusedInput(order.Tool, &tools.InputError{Problems: []tools.Problem{{
			Message: fmt.Sprintf("asks for a timeout of %s: this server allows %s at most", order.Timeout, longest)}}})
	}
	return nil
}

// find returns the tool that a session calls by a name, or why there is none.
// One that is denied outright is not told from one that does not exist.
func (a *admission) find(s *session.Session, p *policy.Policy, name string) (*tools.Entry, *executor.Finished) {
	entry, ok := a.registry.Lookup(name)
	if !ok || !available(s, p, &entry.Spec) {
		return nil, refusal(executor.NoSuchTool, "no_such_tool", a.unknown(s, p, name))
	}
	if entry.Unavailable != "" {
		return entry, refusal(executor.NoSuchTool, "unavailable",
			fmt.Sprintf("The tool %s cannot be used here: it %s.", entry.Spec.Name, entry.Unavailable))
	}
	return entry, nil
}

// available reports whether a session has a tool.
func available(s *session.Session, p *policy.Policy, spec *tools.Spec) bool {
	settings := s.Settings()
	return settings.Tools.Has(spec) &&
		(!p.ExplicitOnly(spec) || settings.Tools.Names(spec)) &&
		!p.Hidden(s.Owner, settings.Labels, spec)
}

// decode returns the call that an input asks for. It is decoded once: policy and
// tool share this value.
func (a *admission) decode(entry *tools.Entry, s *session.Session, guard tools.Guard, callID string, input toolInput) (tools.Call, error) {
	if input.problem != nil {
		return nil, input.problem
	}
	return entry.Tool.Decode(a.envOf(s, guard, callID), input.json)
}

// envOf returns where a call of a session happens.
func (a *admission) envOf(s *session.Session, guard tools.Guard, callID string) tools.Env {
	env := tools.Env{
		SessionID: s.ID, CallID: callID, Workspace: s.Workspace,
		Session: s, Changes: s.Changes, Guard: guard, Artifacts: a.artifacts.of(s),
	}
	if a.offer != nil {
		offer := a.offer()
		env.Readable, env.Temporary = offer.Readable, offer.Temporary
	}
	return env
}

// subjectOf returns a call as the policy sees it, but for its effects.
func (a *admission) subjectOf(s *session.Session, entry *tools.Entry, input []byte) *policy.Call {
	settings := s.Settings()
	call := &policy.Call{
		Principal: s.Owner, SessionID: s.ID, Labels: settings.Labels,
		Level: settings.Level, Mode: settings.Mode, Workspace: s.Workspace.Dir(), Home: s.Home, Temp: s.Temp,
		Spec: &entry.Spec, Input: input, Network: settings.Network,
	}
	if a.offer != nil {
		call.Offer = a.offer()
		call.Network = min(call.Network, call.Offer.Network)
		call.DeniedThere = func(denial tools.Denial) bool { return deniedThere(s, denial) }
	}
	return call
}

// deniedThere reports whether the workspace of a session has a file that may not be
// read, or more files than can be looked at.
func deniedThere(s *session.Session, denial tools.Denial) bool {
	found := false
	_, all := s.Workspace.Look(".", maxLooked, func(path string, _ fs.FileMode) bool {
		found = found || path != "." && denial.Denies(path)
		return !found
	})
	return found || !all
}

const maxLooked = 100_000

// count counts the call against the limits of the policy that judged it, last of
// all, and refuses it where it is one too many. It reports false, and counts
// nothing, where another policy has come into force.
func (a *admission) count(order *executor.Order, p *policy.Policy, input toolInput) bool {
	call := limit.Call{Spec: order.Spec, Principal: order.Owner, Session: order.Session.ID}
	if p.LoopGuard() != (policy.LoopGuard{}) {
		call.Digest = callDigest(order.Tool, input.json)
	}
	permit, tooMany, ok := a.rules.take(p, call)
	if !ok {
		return false
	}
	for _, shadow := range permit.Shadows() {
		countLimited(a.meters.shadowLimited, shadow.Rule, order.Tool)
	}
	if tooMany != nil {
		countLimited(a.meters.limited, tooMany.Rule, order.Tool)
		order.Refusal = refusal(executor.RateLimited, "rate_limited", tooMany.Message)
		order.Refusal.Failure.Retryable, order.Refusal.Failure.RetryAfter = tooMany.RetryAfter > 0, tooMany.RetryAfter
		order.Call, order.Ask = nil, nil
		return true
	}
	if permit != nil {
		order.Release = permit.Release
	}
	return true
}

// question returns what a person is asked about a call.
func question(ctx context.Context, order *executor.Order, p *policy.Policy, subject *policy.Call, decision policy.Decision, call tools.Call) *approval.Question {
	q := &approval.Question{
		Digest:   bound(subject, order.Policy),
		Decision: decision,
		Preview:  tools.Preview{Kind: tools.PreviewText, Text: string(subject.Input)},
		Tiers:    p.Tiers(subject, decision),
	}
	if expire := p.Approvals().Expire; expire > 0 {
		q.Expires = time.Now().Add(expire)
	}
	if shown, ok := call.(tools.Previewer); ok {
		q.Preview = shown.Preview(ctx)
	}
	return q
}

// callDigest stands for a tool and its input, however it was written.
func callDigest(tool string, input []byte) [32]byte {
	return sha256.Sum256(append([]byte(tool+"\x00"), canonical(input)...))
}

// bound stands for one call in one session under one version of the policy: what
// an answer is bound to.
func bound(subject *policy.Call, version string) [32]byte {
	text := fmt.Appendf(nil, "%x %q %q %q", subject.Digest, subject.Principal, subject.SessionID, version)
	return sha256.Sum256(text)
}

// Limits of the envelope, in bytes.
const (
	maxCallID  = 256
	maxToolLen = 128
	maxText    = 4096
)

// envelope checks what is around the input, and finds the session.
func (a *admission) envelope(ctx context.Context, request *pb.ExecuteToolRequest) (*executor.Order, toolInput, error) {
	order := &executor.Order{
		Owner: principalOf(ctx).Name, Tool: request.GetTool(),
		CallID: request.GetCallId(), Purpose: request.GetPurpose(),
	}
	rpcOf(ctx).asks(request)
	switch {
	case order.Tool == "":
		return nil, toolInput{}, invalid("tool is empty: name the tool to execute; ListTools tells which there are")
	case len(order.Tool) > maxToolLen:
		return nil, toolInput{}, invalid("tool has %d bytes: at most %d", len(order.Tool), maxToolLen)
	case request.CallId != nil && order.CallID == "":
		return nil, toolInput{}, invalid("call_id is empty: leave it out to have one given, or name the call")
	case len(order.CallID) > maxCallID:
		return nil, toolInput{}, invalid("call_id has %d bytes: at most %d", len(order.CallID), maxCallID)
	case len(order.Purpose) > maxText:
		return nil, toolInput{}, invalid("purpose has %d bytes: at most %d", len(order.Purpose), maxText)
	case request.Input != nil && len(request.InputJson) > 0:
		return nil, toolInput{}, invalid("input and input_json are both set: send one of them")
	}
	if d := request.GetTimeout(); d != nil {
		timeout, longest := d.AsDuration(), a.executor.Config().MaxTimeout
		if err := d.CheckValid(); err != nil || timeout <= 0 || timeout > longest {
			return nil, toolInput{}, invalid("timeout must be more than 0 and at most %s; leave it out for the tool's default", longest)
		}
		order.Timeout = timeout
	}
	var ok bool
	if order.OnDisconnect, ok = onDisconnectFrom[request.GetOnDisconnect()]; !ok {
		return nil, toolInput{}, invalid("on_disconnect %d is unknown", request.GetOnDisconnect())
	}
	var err error
	if order.Session, err = a.sessions.Get(order.Owner, request.GetSessionId()); err != nil {
		return nil, toolInput{}, err
	}
	input := a.inputOf(request)
	rpcOf(ctx).inputBytes = len(input.json)
	if order.CallID != "" {
		order.Digest = digest(order.Tool, input)
	}
	return order, input, nil
}

// digest stands for a tool and its input. The tool counts as it was named.
func digest(tool string, input toolInput) [32]byte {
	h := sha256.New()
	h.Write([]byte(tool))
	h.Write([]byte{0})
	h.Write(input.json)
	return [32]byte(h.Sum(nil))
}

// unknown explains to the model that there is no such tool, with the nearest
// names among those the session has.
func (a *admission) unknown(s *session.Session, p *policy.Policy, name string) string {
	entries, _ := a.registry.All()
	var names []string
	for _, entry := range entries {
		if available(s, p, &entry.Spec) {
			names = append(names, entry.Spec.Name)
		}
	}
	message := fmt.Sprintf("There is no tool %q in this session.", name)
	if near := tools.Nearest(name, names); len(near) > 0 {
		return message + " Did you mean " + strings.Join(near, ", ") + "?"
	}
	return message + " ListTools tells which there are."
}

// refusal returns how a call ends that does not run.
func refusal(outcome executor.Outcome, code, message string) *executor.Finished {
	return &executor.Finished{
		Outcome: outcome,
		Result:  tools.TextResult(message),
		Failure: &executor.Failure{Code: code, Message: message},
	}
}

func refusedInput(tool string, wrong *tools.InputError) *executor.Finished {
	end := refusal(executor.InvalidInput, "invalid_input",
		fmt.Sprintf("The input of %s is not valid. Correct it and call again:\n%s", tool, wrong))
	end.Failure.Problems = wrong.Problems
	return end
}

// refused returns how a call ends that the policy denies.
func refused(order *executor.Order) *executor.Finished {
	end := refusal(executor.Denied, "denied", order.Verdict.Reason)
	verdict := order.Verdict
	end.Verdict, end.Policy = &verdict, order.Policy
	return end
}

var onDisconnectFrom = map[pb.OnDisconnect]executor.OnDisconnect{
	pb.OnDisconnect_ON_DISCONNECT_UNSPECIFIED: executor.Grace,
	pb.OnDisconnect_ON_DISCONNECT_GRACE:       executor.Grace,
	pb.OnDisconnect_ON_DISCONNECT_CANCEL:      executor.CancelAtOnce,
	pb.OnDisconnect_ON_DISCONNECT_DETACH:      executor.Detach,
}
