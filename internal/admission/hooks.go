// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// hooked is what the hooks said of a call. They are asked once, also where the policy is
// replaced meanwhile and the call judged again.
type hooked struct {
	executor.Hooked
	input   json.RawMessage // that a hook put in the place of the caller's; nil: none did
	refusal *executor.Refusal
}

// maxRewrites is how often hooks change the input of one call.
const maxRewrites = 10

// hooks asks the operator's hooks about a call that the policy lets pass or asks about,
// in their order. Each sees what those before made of the call, which was decoded and
// judged by then. Where one changes the input, all that are about what the call has become
// are asked about that, from the first on. An error says that the caller went away.
func (a *Admission) hooks(ctx context.Context, job *executor.Job, p *policy.Policy, s *session.Session, decoded *decodedCall, timeout time.Duration) (*hooked, error) {
	said := new(hooked)
	job.Hooked = &said.Hooked
	passed := make(map[*hook.Hook]string) // the input that each has passed
	rewrites := 0
	next := func() *hook.Hook {
		for _, h := range a.Hooks.At(hook.BeforeCall) {
			if input, asked := passed[h]; (!asked || input != string(job.Input)) && h.IsAbout(&decoded.entry.Spec, decoded.call.Effects()) {
				return h
			}
		}
		return nil
	}
	for h := next(); h != nil; h = next() {
		answer, run, err := a.Hooks.Ask(ctx, h, a.hookPlace(s, p, decoded.subject, job.CallID), tell(job, s, decoded))
		if err != nil {
			return nil, err
		}
		before := string(job.Input)
		if answer.Rewrite != nil {
			err := a.rewrite(ctx, job, p, s, decoded, said, answer.Rewrite.Input, timeout)
			changed := err == nil && string(job.Input) != before
			if changed {
				rewrites++
			}
			switch {
			case err != nil:
			case rewrites > maxRewrites:
				err = fmt.Errorf("hooks have changed the input %d times, and each time the others have to pass it again", rewrites)
			case !slices.Contains(said.ChangedBy, h.Name):
				said.ChangedBy = append(said.ChangedBy, h.Name)
			}
			if err != nil {
				run.Outcome, run.Message, answer = hook.Failed, err.Error(), hook.Answer{}
			}
		}
		passed[h] = string(job.Input) // which it made, or had passed
		a.Hooks.Report(run)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		said.Runs = append(said.Runs, run)
		if run.Blocks() {
			said.refusal = blocked(job, &run)
		}
		if job.Refusal == nil {
			job.Refusal = said.refusal
		}
		if job.Refusal != nil {
			job.Call, job.Question = nil, nil
			return said, nil
		}
		if answer.Ask != nil && said.Ask == nil {
			said.Ask = &policy.Verdict{Action: policy.Ask, Rule: "hook " + h.Name, Reason: fmt.Sprintf("The hook %s asks: %s", h.Name, answer.Ask.Reason)}
		}
		said.Context = slices.DeleteFunc(said.Context, func(t executor.HookText) bool { return t.Hook == h.Name }) // about another input
		if answer.Context != "" {
			said.Context = append(said.Context, executor.HookText{Hook: h.Name, Text: answer.Context})
		}
	}
	if said.Ask != nil || len(said.ChangedBy) > 0 {
		job.Question, job.Access, job.Timeout = nil, nil, timeout
		a.judge(ctx, job, p, decoded, &said.Hooked)
	}
	return said, nil
}

// again gives a call that is judged again what the hooks said of it before.
func (a *Admission) again(ctx context.Context, job *executor.Job, p *policy.Policy, s *session.Session, decoded *decodedCall, said *hooked, timeout time.Duration) {
	job.Hooked = &said.Hooked
	if job.Refusal == nil {
		job.Refusal = said.refusal
	}
	if job.Refusal != nil {
		job.Call, job.Question = nil, nil
		return
	}
	if said.input != nil {
		if err := a.rewrite(ctx, job, p, s, decoded, said, said.input, timeout); err != nil {
			job.Refusal = blocked(job, &hook.Run{Hook: said.ChangedBy[len(said.ChangedBy)-1], Outcome: hook.Failed, Message: err.Error()})
			job.Call, job.Question = nil, nil
		}
		return
	}
	job.Question, job.Access, job.Timeout = nil, nil, timeout
	a.judge(ctx, job, p, decoded, &said.Hooked)
}

// rewrite puts another input in the place of the caller's: it is decoded and judged as if
// it had come so. The error says why it is none of the tool.
func (a *Admission) rewrite(ctx context.Context, job *executor.Job, p *policy.Policy, s *session.Session, decoded *decodedCall, said *hooked, input json.RawMessage, timeout time.Duration) error {
	trial := *job
	entry, refusal := a.find(s, p, job.Tool)
	other, err := a.decode(&trial, p, s, entry, refusal, Input{JSON: input})
	if err != nil {
		return fmt.Errorf("it changed the input to one that cannot be decoded: %w", err)
	}
	if trial.Refusal != nil {
		return fmt.Errorf("it changed the input to one that %s does not take: %s", job.Tool, strings.Join(strings.Fields(trial.Refusal.Failure.Message), " "))
	}
	said.input, job.Input, *decoded = input, trial.Input, other
	job.Question, job.Access, job.Timeout = nil, nil, timeout
	a.judge(ctx, job, p, decoded, &said.Hooked)
	return nil
}

// blocked returns how a call ends that a hook does not let through.
func blocked(job *executor.Job, run *hook.Run) *executor.Refusal {
	code, reason := "denied", fmt.Sprintf("The hook %s of this server blocked the call: %s", run.Hook, run.Message)
	if run.Outcome == hook.Failed {
		code = "hook_failed"
		reason = fmt.Sprintf("The call did not run: the hook %s of this server has to pass it, and failed: %s. Nothing in the call can mend that; its operator has to.", run.Hook, strings.TrimSuffix(run.Message, "."))
	}
	job.Verdict = policy.Verdict{Action: policy.Deny, Rule: "hook " + run.Hook, Reason: reason}
	refusal, verdict := executor.Refuse(executor.Denied, code, reason), job.Verdict
	refusal.Verdict = &verdict
	return refusal
}

// hookPlace returns where the commands of hooks run that are asked about a call.
func (a *Admission) hookPlace(s *session.Session, p *policy.Policy, subject *policy.Subject, callID string) hook.Where {
	return hook.Where{Env: *a.Env(s, p.Restrictions(subject), callID), Deny: p.HookDenial(subject)}
}

// HookPlace is where the commands of hooks run that are asked about a session, or about a
// call that has been judged.
func (a *Admission) HookPlace(s *session.Session, entry *tools.Entry, most tools.Mode, onBehalfOf, callID string) hook.Where {
	p := a.ActivePolicy.Current()
	subject := a.Subject(s, entry, most, onBehalfOf)
	where := a.hookPlace(s, p, subject, callID)
	where.Writes = p.HookWrites(subject)
	return where
}

// tell returns what hooks are told of a call before it is admitted.
func tell(job *executor.Job, s *session.Session, decoded *decodedCall) hook.Event {
	event := CallEvent(s, &job.Order)
	event.Mode, event.Input, event.Verdict = decoded.subject.Mode.String(), job.Input, HookVerdict(&job.Verdict)
	event.TellEffects(decoded.call.Effects(), 0)
	return event
}

// SessionEvent returns what hooks are told of a session.
func SessionEvent(s *session.Session) hook.Event {
	return hook.Event{SessionID: s.ID, Principal: s.Owner.Name(), Tenant: s.Owner.Tenant(), Workspace: s.Workspace.Dir(), Mode: s.Mode().String()}
}

// CallEvent returns what hooks are told of a call at every point.
func CallEvent(s *session.Session, o *executor.Order) hook.Event {
	event := SessionEvent(s)
	event.CallID, event.Tool, event.CalledAs, event.Purpose, event.OnBehalfOf = o.CallID, o.Tool, o.CalledAs, o.Purpose, o.OnBehalfOf
	return event
}

// HookVerdict returns a verdict as hooks are told it.
func HookVerdict(v *policy.Verdict) *hook.Verdict {
	return &hook.Verdict{Action: v.Action.String(), Rule: v.Rule, Reason: v.Reason}
}
