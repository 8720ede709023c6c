// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether a call may run. A plain [Request] comes in; a job
// for the executor comes out, whose order has the refusal where the call may not run.
// The package knows nothing of gRPC and of streams, so that whoever has a call to make
// can ask: the interceptor for each message, a batch for each of its calls, a hook again
// after it rewrote an input, a schedule, a sub-agent. It never runs a call.
//
// An order is data. [Admission.Resume] admits an order that was stored, or that another
// server admitted.
//
// Locks: the mutex of [ActivePolicy] is the only one here. ActivePolicy.Take holds it for reading
// while the limiter counts, and so, where replicas share the limits, while the limiter asks the
// state for tokens, which the limiter bounds: a new policy waits for that. The limiter takes its own
// lock and that of the replica; both packages take none of admission. There are no goroutines.
package admission

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
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
	Registry     *tools.Registry
	Sessions     *session.Store
	ActivePolicy *ActivePolicy
	Approvals    *approval.Store
	Executor     *executor.Executor

	// Offer, if set, returns what the sandbox can give to commands and keep from them.
	Offer func() *tools.Offer

	// Monitored, if set, returns what the server protects of a workspace; nil where that is
	// nothing.
	Monitored func(tools.Env, tools.Protection) func(path string, below bool) string

	// Artifacts, if set, returns what a session keeps artifacts in.
	Artifacts func(*session.Session) tools.Artifacts

	// Hooks, if set, are the operator's own checks.
	Hooks *hook.Hooks

	// Rate, if set, counts a call or a transfer of a tenant, before anything is made of
	// its input. It returns why the tenant may not have one more, or nil.
	Rate func(tenant string) error

	// Room, if set, returns why a tenant may not call a tool that takes storage, or nil.
	Room func(tenant string, tool *tools.Spec) error

	// Limited, if set, is called for each call that is over a limit; shadow says that
	// the limit only counts.
	Limited func(limit, tool string, shadow bool)
}

// An Admission decides whether calls may run. Its methods are safe for concurrent use.
type Admission struct {
	Config
	supposed *tools.Offer // of [Admission.Suppose]
	results  *resultSchemas
}

// New returns an admission.
func New(config Config) *Admission {
	return &Admission{Config: config, results: &resultSchemas{registry: config.Registry}}
}

// Admitted is what was decided about a request.
type Admitted struct {
	*executor.Job

	// Input is the input of the call with the names and the values of the schema, if
	// the tool has accepted it.
	Input []byte
}

// Known reports whether the call came before, so that nothing was decided now.
func (a Admitted) Known() bool { return !a.Judged() }

// Admit decides whether one call may run. What the caller did wrong is an error; what
// the model did wrong is a job whose order has the refusal.
func (a *Admission) Admit(ctx context.Context, request *Request) (Admitted, error) {
	if err := a.checkEnvelope(request); err != nil {
		return Admitted{}, err
	}
	found, err := a.sessionOf(request.Principal, request.SessionID)
	if err != nil {
		return Admitted{}, err
	}
	return a.admit(ctx, request, found)
}

// Resume decides anew about an order that was stored, or that another server admitted:
// its input is decoded and judged as that of a new call, by the policy in force. The
// session must be the one that the order names, and not a later one with its id. A
// question keeps its id and its expiry where it is about the same call under the same
// policy, so that an answer finds it.
func (a *Admission) Resume(ctx context.Context, order executor.Order) (Admitted, error) {
	found, err := a.Sessions.Resolve(order.Session)
	if err != nil {
		return Admitted{}, err
	}
	if order.Refusal != nil {
		return Admitted{Job: &executor.Job{Order: order}}, nil
	}
	admitted, err := a.admit(ctx, &Request{
		Principal: auth.Principal{Name: order.Session.Owner.Name(), Tenant: order.Session.Owner.Tenant(), OnBehalfOf: order.OnBehalfOf, MaxMode: order.MaxMode}, SessionID: order.Session.ID,
		Tool: order.Tool, CallID: order.CallID, Purpose: order.Purpose, Input: Input{JSON: order.Input},
		Answer: tools.BudgetOf(order.Answer, order.Measure), Timeout: order.Timeout, OnDisconnect: order.OnDisconnect, Trace: order.Trace,
		CalledAs: order.CalledAs, Form: order.Form,
	}, found)
	if before := order.Question; err == nil && before != nil && admitted.Question != nil && admitted.Question.Digest == before.Digest {
		admitted.Question.ID, admitted.Question.Created, admitted.Question.Expires = before.ID, before.Created, before.Expires
	}
	return admitted, err
}

// admit decides about a request whose envelope is right.
func (a *Admission) admit(ctx context.Context, request *Request, found *session.Session) (Admitted, error) {
	if request.CallID != "" {
		request.asSent = hashAsSent(request)
		job, err := a.propose(request, found)
		if err != nil || a.Executor.KnownAsSent(job) {
			return Admitted{Job: job}, err // judged when it first came
		}
	}
	if err := a.rate(found); err != nil { // before the input costs anything
		return Admitted{}, err
	}
	if read := inPersona(found, request.Tool, request.Input); read != nil && request.CalledAs == "" {
		request = request.as(read)
	}
	var said *hooked // by the hooks of the operator
	for {
		job, err := a.propose(request, found)
		if err != nil {
			return Admitted{}, err
		}
		current := a.ActivePolicy.Current()
		entry, refusal := a.find(found, current, request.Tool)
		input := named(entry, request.Input)
		decoded, err := a.decode(job, current, found, entry, refusal, input)
		if err != nil {
			return Admitted{}, err
		}
		if job.Refusal != nil && request.CalledAs == "" {
			read := a.reread(request.Tool, request.Input, a.has(found, current), job.Refusal.Outcome == executor.InvalidInput)
			if read != nil && read.refusal == nil {
				request = request.as(read)
				if note := read.note(request.CalledAs); found.Once(note) {
					request.Form.Note = note
				}
				continue
			} else if read != nil {
				job.Refusal = read.refusal
			}
		}
		if job.CallID != "" {
			job.Digest = callDigest(job.OnBehalfOf, job.Identity(), job.Input)
			if existing, err := a.Executor.Existing(job); existing != nil || err != nil {
				return Admitted{Job: job}, err // the same call in another spelling; or another call
			}
		}
		if err := a.room(found, decoded.entry); err != nil {
			return Admitted{}, err
		}
		admitted := Admitted{Job: job}
		if job.Refusal == nil {
			admitted.Input = input.JSON
			found.Activate(&decoded.entry.Spec)
			a.judge(ctx, job, current, &decoded, nil)
		}
		if job.Refusal == nil && a.Hooks.Has(hook.BeforeCall) { // denied calls never reach a hook
			if said == nil {
				said, err = a.hooks(ctx, job, current, found, &decoded, request.Timeout)
			} else {
				a.again(ctx, job, current, found, &decoded, said, request.Timeout)
			}
			if err != nil {
				return Admitted{}, err
			}
		}
		if job.Refusal != nil || a.count(job, current, decoded.entry) {
			a.ActivePolicy.fired.note(job.Verdict, job.Effects.All())
			return admitted, nil
		}
		// The policy was replaced meanwhile: the call is judged by the new one.
	}
}

// decodedCall is a call that was decoded, and how a policy sees it.
type decodedCall struct {
	session *session.Session
	entry   *tools.Entry
	call    tools.Call
	subject *policy.Subject
}

// decode decodes the input of a call of a tool that was found, or not. A call that cannot be
// decoded gets a refusal.
func (a *Admission) decode(job *executor.Job, p *policy.Policy, s *session.Session, entry *tools.Entry, refusal *executor.Refusal, input Input) (decodedCall, error) {
	job.Input = input.JSON
	if refusal != nil {
		job.Input, job.Refusal = tools.Canonical(input.JSON), refusal
		if entry != nil {
			job.Tool = entry.Spec.Name
		}
		return decodedCall{}, nil
	}
	job.Tool, job.Version, job.Policy = entry.Spec.Name, entry.Spec.Version, p.Version()
	subject := a.Subject(s, entry, job.MaxMode, job.OnBehalfOf)
	env := a.Env(s, p.Restrictions(subject), job.CallID)
	env.Answer, env.Measure, env.OnBehalfOf, env.MaxMode = job.Answer, job.Measure, job.OnBehalfOf, job.MaxMode
	call, err := decodeInput(entry, env, input)
	if wrong, ok := errors.AsType[*tools.InputError](err); ok {
		if input.Problem == nil {
			wrong = inTheirWords(&job.Order, wrong)
		}
		job.Input, job.Refusal = tools.Canonical(input.JSON), refusedInput(cmp.Or(job.CalledAs, job.Tool), wrong)
		return decodedCall{}, nil
	}
	if err != nil {
		return decodedCall{}, err
	}
	job.Input = call.Input()
	if p.Conditional() {
		subject.Input = job.Input
	}
	return decodedCall{s, entry, call, subject}, nil
}

// decodeInput returns the call that an input asks for. It is decoded once: policy and
// tool share this value.
func decodeInput(entry *tools.Entry, env *tools.Env, input Input) (tools.Call, error) {
	if input.Problem != nil {
		return nil, input.Problem
	}
	return entry.Tool.Decode(env, input.JSON)
}

// judge has the policy decide about a call. What hooks said of it, if anything, makes the
// decision stricter, never laxer.
func (a *Admission) judge(ctx context.Context, job *executor.Job, p *policy.Policy, decoded *decodedCall, said *executor.Hooked) {
	subject := decoded.subject
	if job.Timeout == 0 {
		if job.Refusal = a.setTimeout(job, decoded.entry, decoded.call); job.Refusal != nil {
			return
		}
	}
	subject.Effects = decoded.call.Effects()
	grants := a.grants(decoded.session)
	if len(grants) > 0 {
		subject.Digest = callDigest(job.OnBehalfOf, job.Identity(), job.Input)
	}
	decision := p.Decide(subject, grants)
	a.conclude(ctx, job, p, decoded, said, &decision)
}

// conclude has a job follow what was decided.
func (a *Admission) conclude(ctx context.Context, job *executor.Job, p *policy.Policy, decoded *decodedCall, said *executor.Hooked, decision *policy.Decision) {
	entry, call, subject := decoded.entry, decoded.call, decoded.subject
	byHook := said.Tighten(&decision.Verdict)
	job.Verdict, job.Effects = decision.Verdict, executor.KeptEffects(decision)
	if decision.RunsPrograms() {
		job.Access = decision.Rights.Access()
	}
	if decision.Action == policy.Deny {
		job.Refusal = refused(&job.Order, decision)
		return
	}
	if decision.Action == policy.Ask {
		if job.Refusal = foreseen(call); job.Refusal != nil {
			return
		}
	}
	job.Call, job.Rights, job.ConcurrencySafe = job.Form.Around(a.results.promised(entry, call)), decision.Rights, entry.Spec.ConcurrencySafe && onlyReads(&entry.Spec, subject.Effects)
	job.Waits, job.Delegates = entry.Spec.Waits, entry.Spec.Delegates
	if decision.Action == policy.Ask {
		subject.Input, subject.Digest = job.Input, callDigest(job.OnBehalfOf, job.Identity(), job.Input)
		job.Question = question(ctx, &job.Order, p, subject, decision, call)
		if byHook {
			job.Question.Tiers = nil // a grant is the policy's, and the hook would ask again
		}
		if said != nil {
			job.Question.ChangedBy = said.ChangedBy
		}
	}
}

// onlyReads reports whether a call leaves everything as it is.
func onlyReads(spec *tools.Spec, effects []tools.Effect) bool {
	return spec.Needs() == tools.ReadOnly && !slices.ContainsFunc(effects, func(e tools.Effect) bool { return e.Kind == tools.WritesPath })
}

// setTimeout gives a call the time it says it needs or, where it does not say,
// that of its tool. More than the server allows is refused.
func (a *Admission) setTimeout(job *executor.Job, entry *tools.Entry, call tools.Call) *executor.Refusal {
	job.Timeout = entry.Spec.DefaultTimeout
	timed, ok := call.(tools.Timed)
	if !ok || timed.Timeout() == 0 {
		return nil
	}
	job.Timeout = timed.Timeout()
	if longest := a.Executor.Config().MaxTimeout; job.Timeout > longest {
		return refusedInput(cmp.Or(job.CalledAs, job.Tool), &tools.InputError{Problems: []tools.Problem{{
			Message: fmt.Sprintf("asks for a timeout of %s: this server allows %s at most", job.Timeout, longest)}}})
	}
	return nil
}

// find returns the tool that a session calls by a name, or why there is none.
// The answer is the same for a tool that is denied outright and for one that does not
// exist.
func (a *Admission) find(s *session.Session, p *policy.Policy, name string) (*tools.Entry, *executor.Refusal) {
	entry, ok := a.Registry.Lookup(name, a.has(s, p))
	if !ok {
		if spec, reason, absent := a.Registry.Absent(name); absent && Available(s, p, spec) {
			return nil, executor.Refuse(executor.NoSuchTool, "unavailable", fmt.Sprintf("The tool %s cannot be used for now: it %s.", name, reason))
		}
		return nil, executor.Refuse(executor.NoSuchTool, "no_such_tool", a.unknown(s, p, name))
	}
	if entry.Unavailable != "" {
		return entry, executor.Refuse(executor.NoSuchTool, "unavailable",
			fmt.Sprintf("The tool %s cannot be used here: it %s.", entry.Spec.Name, entry.Unavailable))
	}
	return entry, nil
}

// has reports which tools a session has.
func (a *Admission) has(s *session.Session, p *policy.Policy) func(*tools.Spec) bool {
	return func(spec *tools.Spec) bool { return Available(s, p, spec) }
}

// Available reports whether a session has a tool. One below another has only what that one
// has, and its own private tools.
func Available(s *session.Session, p *policy.Policy, spec *tools.Spec) bool {
	return spec.Private.To(s.Owner.Tenant(), s.Owner.Name(), s.ID) && selects(s, p, spec)
}

// selects reports whether a session and those above it select a tool.
func selects(s *session.Session, p *policy.Policy, spec *tools.Spec) bool {
	for ; s != nil; s = s.Parent() {
		settings := s.Settings()
		if !settings.Tools.Has(spec) || p.ExplicitOnly(spec) && !settings.Tools.Names(spec) ||
			p.Hidden(s.Owner.Tenant(), s.Owner.Name(), settings.Labels, spec) {
			return false
		}
	}
	return true
}

// question returns what a person is asked about a call.
func question(ctx context.Context, order *executor.Order, p *policy.Policy, subject *policy.Subject, decision *policy.Decision, call tools.Call) *approval.Question {
	q := &approval.Question{
		Digest:  bound(subject, order.Policy),
		Verdict: decision.Verdict, Policy: decision.Policy, Effects: decision.Effects, Access: order.Access,
		Preview: tools.Preview{Kind: tools.PreviewText, Text: string(subject.Input)},
		Tiers:   p.Tiers(subject, *decision),
	}
	if expire := p.Approvals().Expire; expire > 0 {
		q.Expires = time.Now().Add(expire)
	}
	if shown, ok := call.(tools.Previewer); ok {
		q.Preview = shown.Preview(ctx)
	}
	return q
}

// callDigest stands for a tool and its input, which is in its canonical form, on behalf
// of one user: neither a call id nor a grant for this call leads from one user of a
// runtime to another.
func callDigest(user, tool string, input []byte) [32]byte {
	h := sha256.New()
	if user != "" {
		h = hmac.New(sha256.New, []byte(user))
	}
	h.Write([]byte(tool))
	h.Write([]byte{0})
	h.Write(input)
	return [32]byte(h.Sum(nil))
}

// bound stands for one call in one session under one version of the policy, on behalf of
// one user: what an answer is bound to.
func bound(subject *policy.Subject, version string) [32]byte {
	text := fmt.Appendf(nil, "%x %q %q %q %q", subject.Digest, subject.Tenant, subject.Principal, subject.SessionID, version)
	if subject.OnBehalfOf != "" {
		text = fmt.Appendf(text, " %q", subject.OnBehalfOf)
	}
	return sha256.Sum256(text)
}
