// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
)

// ask asks whether the call may run, and does not wait: the answer begins or
// ends the execution. Meanwhile there is no goroutine, and no timeout.
func (x *Execution) ask(ctx context.Context, question approval.Question, call tools.Call) {
	desk := x.executor.config.Desk
	if desk == nil {
		x.finish(denied("denied", "approval", x.Order.Verdict.Reason+" Nobody can be asked for approval on this server."))
		return
	}
	x.mu.Lock()
	if x.told {
		x.mu.Unlock()
		x.finish(x.stopped(context.Cause(ctx)))
		return
	}
	// The lock is held until the question is in the log: the answer comes after.
	ticket, err := desk.Ask(x.about(question), func(answer approval.Answer) { x.answered(ctx, call, answer) })
	if err != nil {
		x.mu.Unlock()
		x.finish(unasked(err))
		return
	}
	x.ticket = ticket
	_, x.waits = span.Start(ctx, "approval.wait")
	x.executor.waiting.Add(1)
	x.log.append(ApprovalRequested{ticket.Question}, ticket.Question.Created, nil)
	x.mu.Unlock()
}

// about completes a question with the call it is about.
func (x *Execution) about(q approval.Question) approval.Question {
	q.Owner, q.OnBehalfOf, q.Session = x.Order.Owner, x.Order.OnBehalfOf, x.Order.Session
	q.ExecutionID, q.CallID, q.Tool = x.ID, x.Order.CallID, x.Order.Tool
	q.Purpose = x.Order.Purpose
	return sendableQuestion(q)
}

// answered goes on with a call that waited.
func (x *Execution) answered(ctx context.Context, call tools.Call, answer approval.Answer) {
	now := Rechecked{Verdict: policy.Verdict{Action: policy.Allow}, Rights: x.Order.Rights}
	if answer.Allows() {
		now = x.recheck()
	}
	x.mu.Lock()
	if x.ticket == nil {
		x.mu.Unlock()
		return
	}
	question := x.ticket.Question
	x.stopWaiting(answer.Kind)
	x.log.append(ApprovalResolved{question.ID, answer}, answer.At, nil)
	if x.told || !answer.Allows() || now.Verdict.Action == policy.Deny {
		told := x.told
		x.mu.Unlock()
		switch {
		case told: // while the answer was on its way
			x.finish(x.stopped(context.Cause(ctx)))
		case !answer.Allows():
			x.finish(x.refused(question, answer))
		default:
			x.finish(denied("denied", now.Verdict.Rule, fmt.Sprintf("%s allowed the call, but while it waited it became forbidden: %s", answer.By, now.Verdict.Reason)))
		}
		return
	}
	if answer.Comment != "" {
		x.remark = fmt.Sprintf("%s allowed the call and said: %s", answer.By, answer.Comment)
	}
	x.Order.Rights = now.Rights
	if now.Call != nil {
		call = now.Call
	}
	if x.executor.lanes.enter(x, func() { x.turn(ctx, call) }) {
		x.begin(time.Now())
		// With the lock held the execution cannot end, nor can its executor close.
		go x.run(ctx, call)
	} else {
		x.queued = true
	}
	x.mu.Unlock()
}

// recheck judges a call that waited once more. One that cannot be judged, because
// what judges it broke down, is denied.
func (x *Execution) recheck() (now Rechecked) {
	if x.Order.Recheck == nil {
		return Rechecked{Verdict: policy.Verdict{Action: policy.Allow}, Rights: x.Order.Rights}
	}
	defer func() {
		if reason := recover(); reason != nil {
			x.executor.config.Logger.Error("a call that waited could not be judged again",
				zap.String("execution", x.ID), zap.String("tool", x.Order.Tool),
				zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
			now.Verdict = policy.Verdict{Action: policy.Deny, Rule: "internal",
				Reason: "it could not be judged again by a mistake of the server. Its operator finds the reason in the log under " + x.ID + "."}
		}
	}()
	return x.Order.Recheck()
}

// stopWaiting notes that nobody is asked about the call any more, and why.
func (x *Execution) stopWaiting(answer approval.Kind) {
	if x.ticket != nil {
		x.ticket = nil
		x.waits.Set("toolserver.answer", answer.String())
		x.waits.End()
		x.executor.waiting.Add(-1)
	}
}

// withdraw ends a call that waits for an answer. It does nothing when the answer
// is on its way: then that ends the call, or finds that it was told to stop.
func (x *Execution) withdraw(ticket *approval.Ticket, cause error) {
	if !ticket.Withdraw() {
		return
	}
	now := time.Now()
	x.log.append(ApprovalResolved{ticket.Question.ID, approval.Answer{Kind: approval.Withdrawn, At: now}}, now, nil)
	x.finish(x.stopped(cause))
}

// refused returns how a call ends that was not allowed to run.
func (x *Execution) refused(q *approval.Question, a approval.Answer) Finished {
	switch a.Kind {
	case approval.Withdrawn: // by the desk
		return x.stopped(&Cancellation{Reason: "nobody can be asked any more", By: auth.Server})
	case approval.Expired:
		finished := denied("approval_expired", "approval expired", fmt.Sprintf(
			"Nobody answered within %s whether the call may run, so it did not run. Go on without it, or call again when somebody is there to answer.",
			q.Expires.Sub(q.Created).Round(time.Second)))
		finished.Failure.Retryable = true
		return finished
	}
	reason := a.By + " denied the call"
	if a.Kind == approval.DenyAlways {
		reason += fmt.Sprintf(", and for the rest of the session what is covered by %q", a.Grant.Tier.Label)
	}
	if a.Comment != "" {
		reason += ": " + a.Comment
	} else {
		reason += "."
	}
	reason += "\nIt did not run. Respect that: go on without it, or ask what to do instead."
	return denied("denied", "approver "+a.By, reason)
}

func denied(code, rule, reason string) Finished {
	finished := withFailure(Denied, code, reason)
	finished.Verdict = &policy.Verdict{Action: policy.Deny, Rule: rule, Reason: reason}
	return finished
}

// unasked returns how a call ends whose question the desk did not take.
func unasked(err error) Finished {
	if errors.Is(err, approval.ErrClosed) {
		finished := withFailure(Cancelled, "cancelled", "The call was cancelled by "+auth.Server+": "+err.Error()+".")
		finished.Cancelled = &Cancellation{Reason: err.Error(), By: auth.Server}
		return finished
	}
	finished := denied("too_many_questions", "approval", "The call needs approval, and nobody was asked: "+err.Error()+". Wait until some are answered.")
	finished.Failure.Retryable = true
	return finished
}

// Ask puts questions to a person and waits for the answers. While the person
// thinks, the time of the tool stands still.
func (s *sink) Ask(ctx context.Context, questions []tools.Question) ([]tools.Answer, error) {
	x := (*Execution)(s)
	desk := x.executor.config.Desk
	if desk == nil {
		return nil, tools.Failf("unanswered", "Nobody can be asked on this server.")
	}
	questions, err := sendableQuestions(questions)
	if err != nil {
		return nil, err
	}
	answers := make(chan approval.Answer, 1)
	x.pause()
	defer x.resume()
	ticket, err := desk.Ask(x.about(approval.Question{Questions: questions}), func(a approval.Answer) { answers <- a })
	if err != nil {
		return nil, &tools.Failure{Code: "unanswered", Message: "Nobody was asked: " + err.Error() + ".", Retryable: true}
	}
	x.emitInOrder(ApprovalRequested{ticket.Question})
	_, waits := span.Start(ctx, "answer.wait")
	answer := x.await(ctx, ticket, answers)
	waits.Set("toolserver.answer", answer.Kind.String())
	waits.End()
	x.emitInOrder(ApprovalResolved{ticket.Question.ID, answer})
	switch answer.Kind {
	case approval.Answered:
		return answer.Answers, nil
	case approval.Expired:
		return nil, &tools.Failure{Code: "unanswered", Retryable: true, Message: fmt.Sprintf(
			"Nobody answered within %s. Decide without an answer, or ask again when somebody is there.",
			ticket.Question.Expires.Sub(ticket.Question.Created).Round(time.Second))}
	case approval.DenyOnce:
		if answer.Comment == "" {
			return nil, tools.Failf("declined", "%s declined to answer.", answer.By)
		}
		return nil, tools.Failf("declined", "%s declined to answer: %s", answer.By, answer.Comment)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, tools.Failf("unanswered", "The question was withdrawn before anybody answered.")
}

// await waits for the answer to a question of the tool, until ctx or the
// execution ends.
func (x *Execution) await(ctx context.Context, ticket *approval.Ticket, answers <-chan approval.Answer) approval.Answer {
	select {
	case answer := <-answers:
		return answer
	case <-ctx.Done():
	case <-x.ending:
	}
	if ticket.Withdraw() {
		return approval.Answer{Kind: approval.Withdrawn, At: time.Now()}
	}
	return <-answers // was on its way
}

// pause stops the time of the tool, until as many calls of resume.
func (x *Execution) pause() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asking++
	if x.asking == 1 && !x.told && x.cancel != nil {
		x.timeout.Stop()
		x.left = time.Until(x.deadline)
	}
}

// resume lets the time of the tool go on with what was left of it.
func (x *Execution) resume() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asking--
	if x.asking == 0 && !x.told && x.cancel != nil {
		x.deadline = time.Now().Add(x.left)
		x.timeout.Reset(x.left)
	}
}

// Limits of what a person is shown, in bytes.
const (
	maxPreview     = 128 << 10
	maxEffectBytes = 64 << 10
	maxTierText    = 1 << 10
	maxQuestions   = 16
	maxOptions     = 64
)

// sendableQuestion cuts what is too long and says so: a person never approves
// what is hidden without knowing that it is.
func sendableQuestion(q approval.Question) approval.Question {
	q.Purpose = short(q.Purpose, maxMessage)
	shown := short(q.Preview.Text, maxPreview)
	q.HiddenBytes += max(len(q.Preview.Text)-len(shown), 0)
	q.Preview.Text = shown
	q.Decision.Policy = short(q.Decision.Policy, maxWord)
	q.Decision.Verdict = sendableVerdict(q.Decision.Verdict)
	q.Decision.Effects, q.MoreEffects = sendableEffects(q.Decision.Effects)
	// What is granted must be what is read, so a tier is shown whole or not at all.
	q.Tiers = slices.DeleteFunc(slices.Clone(q.Tiers), func(t policy.Tier) bool {
		return short(t.Pattern, maxTierText) != t.Pattern || short(t.Label, maxTierText) != t.Label
	})
	return q
}

// sendableEffects returns the effects that fit, each of them whole, and how many
// do not. Those that made the call one to ask about have the first place.
func sendableEffects(effects []policy.Judged) (shown []policy.Judged, more int) {
	effects = slices.Clone(effects)
	slices.SortStableFunc(effects, func(a, b policy.Judged) int { return cmp.Compare(a.Verdict.Action, b.Verdict.Action) })
	left := maxEffectBytes
	for _, judged := range effects {
		size := approval.JudgedWeight(judged)
		if size > left {
			more++
			continue
		}
		left -= size
		e := &judged.Effect
		for _, text := range []*string{&e.Path, &e.Named, &e.Program, &e.Host, &e.Tool, &e.Unclear} {
			*text = output.ValidText(*text)
		}
		e.Argv = slices.Clone(e.Argv)
		for i, word := range e.Argv {
			e.Argv[i] = output.ValidText(word)
		}
		judged.Verdict = sendableVerdict(judged.Verdict)
		shown = append(shown, judged)
	}
	return shown, more
}

func sendableVerdict(v policy.Verdict) policy.Verdict {
	v.Rule, v.Reason = short(v.Rule, maxWord), short(v.Reason, maxMessage)
	return v
}

// sendableQuestions refuses what is too much for one question: an option that
// is cut would be another one.
func sendableQuestions(questions []tools.Question) ([]tools.Question, error) {
	if len(questions) == 0 || len(questions) > maxQuestions {
		return nil, tools.Failf("bad_question", "%d questions at once: want 1 to %d.", len(questions), maxQuestions)
	}
	questions = slices.Clone(questions)
	for i := range questions {
		q := &questions[i]
		if len(q.Options) > maxOptions || len(q.Text) > maxMessage || len(q.Header) > maxWord {
			return nil, tools.Failf("bad_question", "Question %d is too long, or has more than %d options.", i+1, maxOptions)
		}
		q.Text, q.Header, q.Options = output.ValidText(q.Text), output.ValidText(q.Header), slices.Clone(q.Options)
		for j := range q.Options {
			o := &q.Options[j]
			if len(o.Label) > maxTierText || len(o.Description) > maxMessage {
				return nil, tools.Failf("bad_question", "Option %d of question %d is too long.", j+1, i+1)
			}
			o.Label, o.Description = output.ValidText(o.Label), output.ValidText(o.Description)
		}
	}
	return questions, nil
}
