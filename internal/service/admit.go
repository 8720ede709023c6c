// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/span"
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

	logger    *zap.Logger
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
	ctx, decide := span.Start(ctx, "decide")
	defer decide.End()
	order, err := a.admit(ctx, request)
	if err != nil {
		return err
	}
	describe(decide, order)
	rpcOf(ctx).order = order
	return nil
}

// describe notes what was decided about a call. The reason is not told: it may name
// what is in the input.
func describe(decide span.Span, order *executor.Order) {
	if !decide.Sampled() {
		return
	}
	decide.Set("toolserver.tool", order.Tool)
	if order.Call == nil && order.Refusal == nil {
		decide.Set("toolserver.replayed", "true") // decided when it first came
		return
	}
	action := order.Verdict.Action.String()
	if order.Refusal != nil {
		action = policy.Deny.String()
		decide.Set("toolserver.outcome", order.Refusal.Outcome.String())
	}
	decide.Set("toolserver.action", action)
	decide.Set("toolserver.rule", order.Verdict.Rule)
	decide.Set("toolserver.policy", order.Policy)
}

// admit decides whether one call may run. What the caller did wrong is an
// error; what the model did wrong is an order that carries its refusal.
func (a *admission) admit(ctx context.Context, request *pb.ExecuteToolRequest) (*executor.Order, error) {
	for {
		order, input, answer, err := a.envelope(ctx, request)
		if err != nil {
			return nil, err
		}
		if a.executor.KnownText(order) {
			return order, nil // judged when it first came
		}
		current := a.rules.current()
		read, err := a.read(order, current, request.GetTool(), &input, answer)
		if err != nil {
			return nil, err
		}
		if order.CallID != "" {
			order.Digest = callDigest(order.Tool, input.canonical())
			if existing, err := a.executor.Existing(order); existing != nil || err != nil {
				return order, err // the same call, written otherwise; or another
			}
		}
		if order.Refusal == nil {
			rpcOf(ctx).decoded(input.json)
			a.judge(ctx, order, current, read)
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

// readCall is a call that was decoded, and how a policy sees it.
type readCall struct {
	entry   *tools.Entry
	call    tools.Call
	subject *policy.Call
}

// read finds the tool and decodes the input. A call that cannot be read is refused by
// its order.
func (a *admission) read(order *executor.Order, p *policy.Policy, name string, input *toolInput, answer int) (readCall, error) {
	entry, refusal := a.find(order.Session, p, name)
	if refusal != nil {
		order.Refusal = refusal
		if entry != nil {
			order.Tool = entry.Spec.Name
		}
		return readCall{}, nil
	}
	order.Tool, order.Policy = entry.Spec.Name, p.Version()
	subject := a.subjectOf(order.Session, entry)
	env := a.envOf(order.Session, p.Guard(subject), order.CallID)
	env.Answer = answer
	call, err := decode(entry, env, *input)
	if wrong, ok := errors.AsType[*tools.InputError](err); ok {
		order.Refusal = refusedInput(order.Tool, wrong)
		return readCall{}, nil
	}
	if err != nil {
		return readCall{}, err
	}
	input.call = call
	if p.Conditional() {
		subject.Input = call.Input()
	}
	return readCall{entry, call, subject}, nil
}

// judge has the policy decide about a call.
func (a *admission) judge(ctx context.Context, order *executor.Order, p *policy.Policy, read readCall) {
	entry, call, subject := read.entry, read.call, read.subject
	if order.Timeout == 0 {
		if order.Refusal = a.setTimeout(order, entry, call); order.Refusal != nil {
			return
		}
	}
	subject.Effects = call.Effects()
	grants := a.desk.Grants(order.Session)
	if len(grants) > 0 {
		subject.Digest = callDigest(order.Tool, call.Input())
	}
	decision := p.Decide(subject, grants)
	order.Verdict, order.Rights, order.RunsPrograms = decision.Verdict, decision.Rights, decision.RunsPrograms()
	order.Effects = executor.KeptEffects(&decision)
	if decision.Action == policy.Deny {
		order.Refusal = refused(order, &decision)
		return
	}
	order.Call, order.Spec = call, &entry.Spec
	asks := decision.Action == policy.Ask
	if !asks && !order.Session.Settings().Ordered {
		return
	}
	waits := &waitingCall{admission: a, session: order.Session, judgedBy: p, call: call, subject: subject, asked: asks}
	order.Recheck = waits.recheck
	if asks {
		subject.Input = call.Input()
		subject.Digest = callDigest(order.Tool, subject.Input)
		order.Ask = question(ctx, order, p, subject, decision, call)
		order.Ask.Rejudge = waits.withGrants
	}
}

// A waitingCall is a call that waits for a person or for its turn, and is judged
// again by the policy in force and with the settings that its session has by then.
type waitingCall struct {
	admission *admission
	session   *session.Session
	judgedBy  *policy.Policy
	call      tools.Call
	subject   *policy.Call
	asked     bool // a person is asked
}

// recheck judges the call once it was allowed or its turn has come.
func (w *waitingCall) recheck() executor.Rechecked {
	now, call := w.judge(w.admission.desk.Grants(w.session))
	if now.Action == policy.Ask && !w.asked {
		now = denies(now.Rule, "A person has to approve it by now: call again.")
	}
	return executor.Rechecked{Verdict: now.Verdict, Rights: now.Rights, Call: call}
}

// withGrants judges the call while it waits. One that cannot be judged goes on
// waiting: a person's answer is about it still.
func (w *waitingCall) withGrants(grants []policy.Grant) (v policy.Verdict) {
	defer func() {
		if reason := recover(); reason != nil {
			w.admission.logger.Error("a call that waits could not be judged again", zap.String("tool", w.subject.Spec.Name),
				zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
			v = policy.Verdict{Action: policy.Ask}
		}
	}()
	now, _ := w.judge(grants)
	return now.Verdict
}

// judge returns the decision of now, and the call to run if it runs.
func (w *waitingCall) judge(grants []policy.Grant) (policy.Decision, tools.Call) {
	p, settings := w.admission.rules.current(), w.session.Settings()
	if !available(w.session, p, w.subject.Spec) {
		return denies("tools", "The session no longer has the tool "+w.subject.Spec.Name+"."), nil
	}
	now := *w.subject
	now.Input = w.call.Input()
	now.Labels, now.Level, now.Mode, now.Network = settings.Labels, settings.Level, settings.Mode, settings.Network
	if now.Offer != nil {
		now.Network = min(now.Network, now.Offer.Network)
	}
	call := w.call
	if p != w.judgedBy {
		// What the call leaves out, and which of its paths are judged by themselves,
		// is for the new policy to say.
		renewer, ok := call.(tools.Renewer)
		if !ok {
			return denies("policy", "The policy was replaced, and the call cannot be judged by the new one: call again."), nil
		}
		var err error
		if call, err = renewer.Renew(p.Guard(&now)); err != nil {
			return denies("changed", "What it would touch changed while it waited: "+err.Error()+". Call again."), nil
		}
		now.Effects = call.Effects()
	}
	return p.Decide(&now, grants), call
}

func denies(rule, reason string) policy.Decision {
	return policy.Decision{Verdict: policy.Verdict{Action: policy.Deny, Rule: rule, Reason: reason}}
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
func decode(entry *tools.Entry, env tools.Env, input toolInput) (tools.Call, error) {
	if input.problem != nil {
		return nil, input.problem
	}
	return entry.Tool.Decode(env, input.json)
}

// envOf returns where a call of a session happens.
func (a *admission) envOf(s *session.Session, guard tools.Guard, callID string) tools.Env {
	env := tools.Env{
		SessionID: s.ID, CallID: callID, Workspace: s.Workspace,
		Session: s, Changes: s.Changes, Guard: guard, Artifacts: a.artifacts.of(s), Help: a.helpOf(s),
	}
	if a.offer != nil {
		offer := a.offer()
		env.Readable, env.Temporary = offer.Readable, offer.Temporary
	}
	return env
}

// subjectOf returns a call as the policy sees it, but for its input and effects.
func (a *admission) subjectOf(s *session.Session, entry *tools.Entry) *policy.Call {
	settings := s.Settings()
	call := &policy.Call{
		Principal: s.Owner, SessionID: s.ID, Labels: settings.Labels,
		Level: settings.Level, Mode: settings.Mode, Workspace: s.Workspace.Dir(), Home: s.Home, Temp: s.Temp,
		Spec: &entry.Spec, Network: settings.Network,
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
		call.Digest = callDigest(order.Tool, input.canonical())
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

// callDigest stands for a tool and its input, which is in its canonical form.
func callDigest(tool string, input []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(tool))
	h.Write([]byte{0})
	h.Write(input)
	return [32]byte(h.Sum(nil))
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

// envelope checks what is around the input, and finds the session and how long an
// answer may be.
func (a *admission) envelope(ctx context.Context, request *pb.ExecuteToolRequest) (*executor.Order, toolInput, int, error) {
	order := &executor.Order{
		Owner: principalOf(ctx).Name, OnBehalfOf: principalOf(ctx).OnBehalfOf, Tool: request.GetTool(),
		CallID: request.GetCallId(), Purpose: request.GetPurpose(),
	}
	rpcOf(ctx).asks(request)
	switch {
	case order.Tool == "":
		return nil, toolInput{}, 0, invalid("tool is empty: name the tool to execute")
	case len(order.Tool) > maxToolLen:
		return nil, toolInput{}, 0, invalid("tool has %d bytes: at most %d", len(order.Tool), maxToolLen)
	case request.CallId != nil && order.CallID == "":
		return nil, toolInput{}, 0, invalid("call_id is empty: leave it out to have one given, or name the call")
	case len(order.CallID) > maxCallID:
		return nil, toolInput{}, 0, invalid("call_id has %d bytes: at most %d", len(order.CallID), maxCallID)
	case len(order.Purpose) > maxText:
		return nil, toolInput{}, 0, invalid("purpose has %d bytes: at most %d", len(order.Purpose), maxText)
	case request.Input != nil && len(request.InputJson) > 0:
		return nil, toolInput{}, 0, invalid("input and input_json are both set: send one of them")
	}
	if d := request.GetTimeout(); d != nil {
		timeout, longest := d.AsDuration(), a.executor.Config().MaxTimeout
		if err := d.CheckValid(); err != nil || timeout <= 0 || timeout > longest {
			return nil, toolInput{}, 0, invalid("timeout must be more than 0 and at most %s; leave it out for the tool's default", longest)
		}
		order.Timeout = timeout
	}
	var ok bool
	if order.OnDisconnect, ok = onDisconnectFrom[request.GetOnDisconnect()]; !ok {
		return nil, toolInput{}, 0, invalid("on_disconnect %d is unknown", request.GetOnDisconnect())
	}
	var err error
	if order.Session, err = a.sessions.Get(order.Owner, request.GetSessionId()); err != nil {
		return nil, toolInput{}, 0, err
	}
	asked, err := budgetFrom(request.GetAnswer())
	if err != nil {
		return nil, toolInput{}, 0, err
	}
	answer, err := order.Session.Answer(asked)
	if err != nil {
		return nil, toolInput{}, 0, err
	}
	input := a.inputOf(request)
	rpcOf(ctx).inputBytes = len(input.json)
	if order.CallID != "" {
		order.Text = textHash(order.Tool, input)
	}
	return order, input, answer, nil
}

// textHash stands for a tool as it was named and its input as it was sent, while
// this process lives.
func textHash(tool string, input toolInput) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	h.WriteString(tool)
	h.WriteByte(0)
	h.Write(input.json)
	return h.Sum64()
}

// maxListed is how many tools are listed where none is like what was called.
const maxListed = 60

var hashSeed = maphash.MakeSeed()

// unknown explains to the model that there is no such tool, with the nearest
// names among those the session has.
func (a *admission) unknown(s *session.Session, p *policy.Policy, name string) string {
	entries, _ := a.registry.All()
	var names, aliases []string
	for _, entry := range entries {
		if available(s, p, &entry.Spec) && entry.Unavailable == "" {
			names = append(names, entry.Spec.Name)
			aliases = append(aliases, entry.Spec.Aliases...)
		}
	}
	message := fmt.Sprintf("There is no tool %q in this session. ", name)
	if near := nearest.Names(name, slices.Concat(names, aliases)); len(near) > 0 {
		return message + tools.DidYouMean(near, "")
	}
	if len(names) == 0 {
		return message + "It has no tools at all."
	}
	more := ""
	if n := len(names) - maxListed; n > 0 {
		names, more = names[:maxListed], fmt.Sprintf(", and %d more", n)
	}
	return message + "Its tools are: " + strings.Join(names, ", ") + more + "."
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
func refused(order *executor.Order, decision *policy.Decision) *executor.Finished {
	reason := order.Verdict.Reason
	if rule, ok := strings.CutPrefix(order.Verdict.Rule, "rule "); ok {
		reason = fmt.Sprintf("Denied by the rule %s of this server: %s", rule, reason)
	}
	if parts := deniedParts(decision); parts != "" {
		reason += " Of the command, this was denied: " + parts + ". Nothing of it ran."
	}
	end := refusal(executor.Denied, "denied", reason)
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
