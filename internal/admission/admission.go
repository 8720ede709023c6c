// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether a call may run. A plain [Request] comes in; an
// order for the executor comes out, which carries its refusal where the call may not
// run. It knows nothing of gRPC and of streams, so that whoever has a call to make can
// ask: the interceptor for each message, a batch for each of its calls, a hook again
// after it rewrote an input, a schedule, a sub-agent. It never runs a call.
//
// Locks: the mutex of [Rules] is the only one here. Whoever holds it may take that of
// the limiter, and no other. There are no goroutines.
package admission

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
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// ErrInvalid is what errors about a malformed request are.
var ErrInvalid = errors.New("invalid request")

// invalidError is an error about a malformed request, in words for the caller.
type invalidError string

func (e invalidError) Error() string        { return string(e) }
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(format string, args ...any) error { return invalidError(fmt.Sprintf(format, args...)) }

// Config is what admission decides with. Fields without a remark are required.
type Config struct {
	Registry  *tools.Registry
	Sessions  *session.Store
	Rules     *Rules
	Approvals *approval.Desk
	Executor  *executor.Executor
	Logger    *zap.Logger

	// Offer, if set, tells what commands can be given and kept from.
	Offer func() *tools.Offer

	// Kept, if set, tells what of a workspace the server looks after; nil where that
	// is nothing.
	Kept func(tools.Env, tools.Protection) func(path string, below bool) string

	// Artifacts, if set, returns what a session keeps artifacts in.
	Artifacts func(*session.Session) tools.Artifacts

	// Record, if set, returns what records a call that was decided. input is in its
	// canonical form.
	Record func(order *executor.Order, input []byte, trace string) func(*executor.Execution) *executor.Finished

	// Limited, if set, is told of each call that is over a limit; shadow says that the
	// limit only counts.
	Limited func(limit, tool string, shadow bool)
}

// An Admission decides whether calls may run. Its methods are safe for concurrent use.
type Admission struct {
	Config
	supposed *tools.Offer // of [Admission.Suppose]
}

// New returns an admission.
func New(config Config) *Admission { return &Admission{Config: config} }

// A Request asks for one call of a tool.
type Request struct {
	Principal auth.Principal
	SessionID string // empty: the default session
	Tool      string
	CallID    string // empty: one is given
	Purpose   string
	Input     Input
	Answer    tools.Budget  // of the text of the answer; none: the session's
	Timeout   time.Duration // 0: the tool's

	OnDisconnect executor.OnDisconnect

	// Trace is the id of the trace that the request is part of, if there is one.
	Trace string
}

// Input is the input of a call as JSON text. An input that has no such text has a
// problem, and bytes that stand for it instead.
type Input struct {
	JSON    []byte
	Problem *tools.InputError
}

// Admitted is what was decided about a request.
type Admitted struct {
	Order *executor.Order

	// Input is the input of the call with the names and the values of the schema, if
	// the tool has accepted it.
	Input []byte
}

// Known reports whether the call came before, so that nothing was decided now.
func (a Admitted) Known() bool { return a.Order.Call == nil && a.Order.Refusal == nil }

// callInput is the input of a call, and the call once it was decoded.
type callInput struct {
	Input
	call tools.Call
}

// canonical returns the one form that all spellings of the input have. It is made
// when it is first asked for.
func (in callInput) canonical() []byte {
	if in.call != nil {
		return in.call.Input()
	}
	return tools.Canonical(in.JSON)
}

// named returns an input with the names and the values that the schema of its tool
// has, among those of a session.
func (a *Admission) named(s *session.Session, tool string, input Input) callInput {
	entry, ok := a.Registry.Lookup(tool, a.has(s, a.Rules.Current()))
	if !ok {
		entry, ok = transferTools[tool]
	}
	if ok {
		input.JSON = entry.Spec.Rename(input.JSON)
		if input.Problem == nil {
			input.JSON = tools.Settle(entry.Tool, input.JSON)
		}
	}
	return callInput{Input: input}
}

// has reports which tools a session has.
func (a *Admission) has(s *session.Session, p *policy.Policy) func(*tools.Spec) bool {
	return func(spec *tools.Spec) bool { return Available(s, p, spec) }
}

// Admit decides whether one call may run. What the caller did wrong is an error; what
// the model did wrong is an order that carries its refusal.
func (a *Admission) Admit(ctx context.Context, request Request) (Admitted, error) {
	for {
		order, input, answer, err := a.envelope(request)
		if err != nil {
			return Admitted{}, err
		}
		if a.Executor.KnownText(order) {
			return Admitted{Order: order}, nil // judged when it first came
		}
		current := a.Rules.Current()
		read, err := a.read(order, current, request.Tool, &input, answer)
		if err != nil {
			return Admitted{}, err
		}
		if order.CallID != "" {
			order.Digest = callDigest(order.Tool, input.canonical())
			if existing, err := a.Executor.Existing(order); existing != nil || err != nil {
				return Admitted{Order: order}, err // the same call, written otherwise; or another
			}
		}
		admitted := Admitted{Order: order}
		if order.Refusal == nil {
			admitted.Input = input.JSON
			a.judge(ctx, order, current, read)
		}
		if a.Record != nil {
			order.Record = a.Record(order, input.canonical(), request.Trace)
		}
		if order.Refusal != nil || a.count(order, current, input) {
			return admitted, nil
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
func (a *Admission) read(order *executor.Order, p *policy.Policy, name string, input *callInput, answer int) (readCall, error) {
	entry, refusal := a.find(order.Session, p, name)
	if refusal != nil {
		order.Refusal = refusal
		if entry != nil {
			order.Tool = entry.Spec.Name
		}
		return readCall{}, nil
	}
	order.Tool, order.Policy = entry.Spec.Name, p.Version()
	subject := a.Subject(order.Session, entry)
	env := a.Env(order.Session, p.Guard(subject), order.CallID)
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
func (a *Admission) judge(ctx context.Context, order *executor.Order, p *policy.Policy, read readCall) {
	entry, call, subject := read.entry, read.call, read.subject
	if order.Timeout == 0 {
		if order.Refusal = a.setTimeout(order, entry, call); order.Refusal != nil {
			return
		}
	}
	subject.Effects = call.Effects()
	grants := a.Approvals.Grants(order.Session)
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
	admission *Admission
	session   *session.Session
	judgedBy  *policy.Policy
	call      tools.Call
	subject   *policy.Call
	asked     bool // a person is asked
}

// recheck judges the call once it was allowed or its turn has come.
func (w *waitingCall) recheck() executor.Rechecked {
	now, call := w.judge(w.admission.Approvals.Grants(w.session))
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
			w.admission.Logger.Error("a call that waits could not be judged again", zap.String("tool", w.subject.Spec.Name),
				zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
			v = policy.Verdict{Action: policy.Ask}
		}
	}()
	now, _ := w.judge(grants)
	return now.Verdict
}

// judge returns the decision of now, and the call to run if it runs.
func (w *waitingCall) judge(grants []policy.Grant) (policy.Decision, tools.Call) {
	p, settings := w.admission.Rules.Current(), w.session.Settings()
	if !Available(w.session, p, w.subject.Spec) {
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
func (a *Admission) setTimeout(order *executor.Order, entry *tools.Entry, call tools.Call) *executor.Finished {
	order.Timeout = entry.Spec.DefaultTimeout
	timed, ok := call.(tools.Timed)
	if !ok || timed.Timeout() == 0 {
		return nil
	}
	order.Timeout = timed.Timeout()
	if longest := a.Executor.Config().MaxTimeout; order.Timeout > longest {
		return refusedInput(order.Tool, &tools.InputError{Problems: []tools.Problem{{
			Message: fmt.Sprintf("asks for a timeout of %s: this server allows %s at most", order.Timeout, longest)}}})
	}
	return nil
}

// find returns the tool that a session calls by a name, or why there is none.
// One that is denied outright is not told from one that does not exist.
func (a *Admission) find(s *session.Session, p *policy.Policy, name string) (*tools.Entry, *executor.Finished) {
	entry, ok := a.Registry.Lookup(name, a.has(s, p))
	if !ok {
		return nil, executor.Refuse(executor.NoSuchTool, "no_such_tool", a.unknown(s, p, name))
	}
	if entry.Unavailable != "" {
		return entry, executor.Refuse(executor.NoSuchTool, "unavailable",
			fmt.Sprintf("The tool %s cannot be used here: it %s.", entry.Spec.Name, entry.Unavailable))
	}
	return entry, nil
}

// Available reports whether a session has a tool.
func Available(s *session.Session, p *policy.Policy, spec *tools.Spec) bool {
	settings := s.Settings()
	return settings.Tools.Has(spec) &&
		(!p.ExplicitOnly(spec) || settings.Tools.Names(spec)) &&
		!p.Hidden(s.Owner, settings.Labels, spec)
}

// decode returns the call that an input asks for. It is decoded once: policy and
// tool share this value.
func decode(entry *tools.Entry, env tools.Env, input callInput) (tools.Call, error) {
	if input.Problem != nil {
		return nil, input.Problem
	}
	return entry.Tool.Decode(env, input.JSON)
}

// Env returns where a call of a session happens.
func (a *Admission) Env(s *session.Session, guard tools.Guard, callID string) tools.Env {
	env := tools.Env{
		SessionID: s.ID, CallID: callID, Workspace: s.Workspace,
		Session: s, Changes: s.Changes, Guard: guard, Help: a.helpOf(s),
	}
	if a.Artifacts != nil {
		env.Artifacts = a.Artifacts(s)
	}
	if a.Offer != nil {
		offer := a.Offer()
		env.Readable, env.Temporary = offer.Readable, offer.Temporary
	}
	return env
}

// Subject returns a call as the policy sees it, but for its input and effects.
func (a *Admission) Subject(s *session.Session, entry *tools.Entry) *policy.Call {
	settings := s.Settings()
	call := &policy.Call{
		Principal: s.Owner, SessionID: s.ID, Labels: settings.Labels,
		Level: settings.Level, Mode: settings.Mode, Workspace: s.Workspace.Dir(), Home: s.Home, Temp: s.Temp,
		Spec: &entry.Spec, Network: settings.Network,
	}
	if a.Offer != nil {
		call.Offer = a.Offer()
		call.Network = min(call.Network, call.Offer.Network)
		call.DeniedThere = func(denial tools.Denial) bool { return deniedThere(s, denial) }
	}
	if a.Kept != nil {
		call.Kept = a.keptOf(s)
	}
	return call
}

// keptOf returns what is looked after of the workspace of a session, as it is when a
// call is first judged.
func (a *Admission) keptOf(s *session.Session) func(tools.Protection) policy.Kept {
	var once sync.Once
	var kept policy.Kept
	return func(p tools.Protection) policy.Kept {
		once.Do(func() {
			if kept = a.Kept(a.Env(s, nil, ""), p); kept == nil {
				kept = func(string, bool) string { return "" }
			}
		})
		return kept
	}
}

// deniedThere reports whether the workspace of a session has a file that may not be
// read, or more files than can be looked at.
func deniedThere(s *session.Session, denial tools.Denial) bool {
	found := false
	_, all := s.Workspace.Examine(".", maxLooked, func(path string, _ fs.FileMode) bool {
		found = found || path != "." && denial.Denies(path)
		return !found
	})
	return found || !all
}

const maxLooked = 100_000

// count counts the call against the limits of the policy that judged it, last of
// all, and refuses it where it is one too many. It reports false, and counts
// nothing, where another policy has come into force.
func (a *Admission) count(order *executor.Order, p *policy.Policy, input callInput) bool {
	call := limit.Call{Spec: order.Spec, Principal: order.Owner, Session: order.Session.ID}
	if p.LoopGuard() != (limit.Guard{}) {
		call.Digest = callDigest(order.Tool, input.canonical())
	}
	permit, tooMany, ok := a.Rules.Take(p, call)
	if !ok {
		return false
	}
	a.tellLimited(order.Tool, permit, tooMany)
	if tooMany != nil {
		order.Refusal = executor.Refuse(executor.RateLimited, "rate_limited", tooMany.Message)
		order.Refusal.Failure.Retryable, order.Refusal.Failure.RetryAfter = tooMany.RetryAfter > 0, tooMany.RetryAfter
		order.Call, order.Ask = nil, nil
		return true
	}
	if permit != nil {
		order.Release = permit.Release
	}
	return true
}

// tellLimited tells which limits a call is over.
func (a *Admission) tellLimited(tool string, permit *limit.Permit, tooMany *limit.Refusal) {
	if a.Limited == nil {
		return
	}
	for _, shadow := range permit.Shadows() {
		a.Limited(shadow.Rule, tool, true)
	}
	if tooMany != nil {
		a.Limited(tooMany.Rule, tool, false)
	}
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

// Limits of a request, in bytes.
const (
	MaxCallID = 256
	MaxTool   = 128
	MaxText   = 4096 // of what people write
)

// envelope checks what is around the input, and finds the session and how long an
// answer may be.
func (a *Admission) envelope(r Request) (*executor.Order, callInput, int, error) {
	longest := a.Executor.Config().MaxTimeout
	switch {
	case r.Tool == "":
		return nil, callInput{}, 0, invalid("tool is empty: name the tool to execute")
	case len(r.Tool) > MaxTool:
		return nil, callInput{}, 0, invalid("tool has %d bytes: at most %d", len(r.Tool), MaxTool)
	case len(r.CallID) > MaxCallID:
		return nil, callInput{}, 0, invalid("call_id has %d bytes: at most %d", len(r.CallID), MaxCallID)
	case len(r.Purpose) > MaxText:
		return nil, callInput{}, 0, invalid("purpose has %d bytes: at most %d", len(r.Purpose), MaxText)
	case r.Timeout < 0 || r.Timeout > longest:
		return nil, callInput{}, 0, invalid("timeout must be more than 0 and at most %s; leave it out for the tool's default", longest)
	}
	found, err := a.Sessions.Get(r.Principal.Name, r.SessionID)
	if err != nil {
		return nil, callInput{}, 0, err
	}
	answer, err := found.Answer(r.Answer)
	if err != nil {
		return nil, callInput{}, 0, err
	}
	order := &executor.Order{
		Owner: r.Principal.Name, OnBehalfOf: r.Principal.OnBehalfOf, Session: found, Tool: r.Tool, CallID: r.CallID,
		Purpose: r.Purpose, Timeout: r.Timeout, OnDisconnect: r.OnDisconnect,
	}
	input := a.named(found, r.Tool, r.Input)
	if order.CallID != "" {
		order.Text = textHash(order.Tool, input)
	}
	return order, input, answer, nil
}

// textHash stands for a tool as it was named and its input as it was sent, while
// this process lives.
func textHash(tool string, input callInput) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	h.WriteString(tool)
	h.WriteByte(0)
	h.Write(input.JSON)
	return h.Sum64()
}

// maxListed is how many tools are listed where none is like what was called.
const maxListed = 60

var hashSeed = maphash.MakeSeed()

// unknown explains to the model that there is no such tool, with the nearest
// names among those the session has.
func (a *Admission) unknown(s *session.Session, p *policy.Policy, name string) string {
	entries, _ := a.Registry.All()
	var names, aliases []string
	for _, entry := range entries {
		if Available(s, p, &entry.Spec) && entry.Unavailable == "" {
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

func refusedInput(tool string, wrong *tools.InputError) *executor.Finished {
	end := executor.Refuse(executor.InvalidInput, "invalid_input",
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
	end := executor.Refuse(executor.Denied, "denied", reason)
	verdict := order.Verdict
	end.Verdict, end.Policy = &verdict, order.Policy
	return end
}
