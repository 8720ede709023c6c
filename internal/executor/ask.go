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

// await notes what the call needs when it begins.
func (x *Execution) await(w *waiting) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting = w
}

// ask asks whether the call may run, and does not wait: the answer begins or
// ends the execution. Meanwhile there is no goroutine, and no timeout.
func (x *Execution) ask(ctx context.Context) {
	approvals := x.executor.config.Approvals
	if approvals == nil {
		x.finish(denied("denied", "approval", x.Order.Verdict.Reason+" Nobody can be asked for approval on this server."))
		return
	}
	x.mu.Lock()
	if x.stopping {
		x.mu.Unlock()
		x.finish(x.Stopped(context.Cause(ctx)))
		return
	}
	// The lock is held until the question is in the log: the answer comes after.
	question, err := approvals.Ask(x.about(*x.Order.Question))
	if err != nil {
		x.mu.Unlock()
		x.finish(unasked(err))
		return
	}
	x.asked, x.Order.Question = true, question
	_, x.waiting.span = span.Start(ctx, "approval.wait")
	x.executor.waiting.Add(1)
	x.log.append(ApprovalRequested{question}, question.Created, nil)
	x.mu.Unlock()
	x.executor.config.Steps.Asked(x, question)
	if cause := x.executor.drainCause(); cause != nil { // which did not find it asked
		x.stop(cause)
	}
}

// about completes a question with the call it is about.
func (x *Execution) about(q approval.Question) approval.Question {
	q.Session, q.OnBehalfOf, q.Chain = x.Order.Session, x.Order.OnBehalfOf, x.Order.Chain
	q.ExecutionID, q.CallID, q.Tool, q.CalledAs = x.ID, x.Order.CallID, x.Order.Tool, x.Order.CalledAs
	q.Purpose = x.Order.Purpose
	return sendableQuestion(q)
}

// asker is an executor as the approvals see it: it finds the executions that questions
// are about.
type asker struct{ *Executor }

// Resolved tells the steps of the call.
func (a asker) Resolved(q *approval.Question, answer approval.Answer) {
	a.config.Steps.Resolved(q, answer)
}

// Answered goes on with the call that asked, or with its tool.
func (a asker) Answered(q *approval.Question, answer approval.Answer) {
	x := a.find(q.ExecutionID)
	switch {
	case x == nil: // it ended, and is no longer kept
	case len(q.Questions) > 0:
		x.answerTool(q, answer)
	default:
		x.answered(q, answer)
	}
}

// Rejudge judges a call that waits. A call that cannot be judged, because what judges it
// broke down, goes on waiting for the answer of a person.
func (a asker) Rejudge(q *approval.Question) (v policy.Verdict) {
	v = policy.Verdict{Action: policy.Ask}
	x := a.find(q.ExecutionID)
	if x == nil {
		return v
	}
	call, _ := x.waitingCall()
	if call == nil {
		return v
	}
	defer func() {
		if reason := recover(); reason != nil {
			x.logPanic("a call that waits could not be judged again", reason)
		}
	}()
	return a.config.Steps.Rejudge(x, call).Verdict
}

// waitingCall returns the call of an execution that has not begun, and its context; nil
// for others.
func (x *Execution) waitingCall() (tools.Call, context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waiting == nil {
		return nil, nil
	}
	return x.waiting.call, x.waiting.ctx
}

// answered goes on with a call that waited.
func (x *Execution) answered(question *approval.Question, answer approval.Answer) {
	_, ctx := x.waitingCall()
	var now Rejudged
	if answer.Allows() {
		now, ctx = x.rejudge()
	}
	x.mu.Lock()
	if !x.asked || x.Order.Question.ID != question.ID {
		x.mu.Unlock()
		return
	}
	x.keepToShown(&now, answer.By)
	x.stopAsking(answer.Kind)
	x.log.append(ApprovalResolved{question.ID, answer}, answer.At, nil)
	if x.stopping || !answer.Allows() || now.Verdict.Action == policy.Deny {
		stopping := x.stopping
		x.mu.Unlock()
		switch {
		case stopping: // while the answer was on its way
			x.finish(x.Stopped(context.Cause(ctx)))
		case !answer.Allows():
			x.finish(x.refused(question, answer))
		default:
			x.finish(denied("denied", now.Verdict.Rule, fmt.Sprintf("%s allowed the call, but while it waited it became forbidden: %s", answer.By, now.Verdict.Reason)))
		}
		return
	}
	if answer.Comment != "" {
		x.comment = fmt.Sprintf("%s allowed the call and said: %s", answer.By, answer.Comment)
	}
	x.allow(now)
	if x.executor.lanes.enter(x) {
		x.begin(time.Now())
	} else {
		x.queued = true
	}
	x.mu.Unlock()
}

// rejudge judges a call that waited once more, and returns its context too. A call that
// cannot be judged, because what judges it broke down, is denied.
func (x *Execution) rejudge() (now Rejudged, ctx context.Context) {
	call, ctx := x.waitingCall()
	if call == nil {
		return Rejudged{}, ctx // it has ended
	}
	defer func() {
		if reason := recover(); reason != nil {
			x.logPanic("a call that waited could not be judged again", reason)
			now.Verdict = policy.Verdict{Action: policy.Deny, Rule: "internal",
				Reason: "it could not be judged again by a mistake of the server. Its operator finds the reason in the log under " + x.ID + "."}
		}
	}()
	return x.executor.config.Steps.Rejudge(x, call), ctx
}

// keepToShown denies a call that a person approved, and that would have access to more
// by now than the person was shown. The execution is locked.
func (x *Execution) keepToShown(now *Rejudged, by string) {
	if shown := x.Order.Access; shown != nil && now.Verdict.Action == policy.Ask && !now.Rights.Access().Within(shown) {
		now.Verdict.Action, now.Verdict.Rule = policy.Deny, "approval"
		now.Verdict.Reason = "by now it would have access to more than " + by + " was shown. Call again."
	}
}

func (x *Execution) logPanic(message string, reason any) {
	x.executor.config.Logger.Error(message, zap.String("execution", x.ID), zap.String("tool", x.Order.Tool),
		zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
}

// stopAsking notes that nobody is asked about the call any more, and why. The execution
// is locked.
func (x *Execution) stopAsking(answer approval.AnswerKind) {
	if x.asked {
		x.asked = false
		x.waiting.span.Set("toolserver.answer", answer.String())
		x.waiting.span.End()
		x.executor.waiting.Add(-1)
	}
}

// withdraw ends a call that waits for an answer. It does nothing where the answer
// is on its way: then [Execution.answered] ends the call.
func (x *Execution) withdraw(question *approval.Question, cause error) {
	if !x.executor.config.Approvals.Withdraw(question.ID) {
		return
	}
	now := time.Now()
	x.log.append(ApprovalResolved{question.ID, approval.Answer{Kind: approval.Withdrawn, At: now}}, now, nil)
	x.finish(x.Stopped(cause))
}

// refused returns how a call ends that was not allowed to run.
func (x *Execution) refused(q *approval.Question, a approval.Answer) *Finished {
	switch a.Kind {
	case approval.Withdrawn: // the approvals were closed
		return x.Stopped(&Cancellation{Reason: "nobody can be asked any more", By: auth.Server})
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

func denied(code, rule, reason string) *Finished {
	finished := withFailure(Denied, code, reason)
	finished.Verdict = &policy.Verdict{Action: policy.Deny, Rule: rule, Reason: reason}
	return finished
}

// unasked returns how a call ends whose question the approvals did not take.
func unasked(err error) *Finished {
	if errors.Is(err, approval.ErrClosed) {
		finished := withFailure(Cancelled, cancelledWithoutEffects, "The call was cancelled by "+auth.Server+": "+err.Error()+".")
		finished.Cancelled = &Cancellation{Reason: err.Error(), By: auth.Server}
		return finished
	}
	finished := denied("too_many_questions", "approval", "The call needs approval, and nobody was asked: "+err.Error()+". Wait until some are answered.")
	finished.Failure.Retryable = true
	return finished
}

// Ask asks a person and waits for the answers. Meanwhile the time of the tool does not
// pass.
func (s *sink) Ask(ctx context.Context, questions []tools.Question) ([]tools.Answer, error) {
	x := (*Execution)(s)
	if x.executor.config.Approvals == nil {
		return nil, tools.Failf("unanswered", "Nobody can be asked on this server.")
	}
	questions, err := sendableQuestions(questions)
	if err != nil {
		return nil, err
	}
	question, answers, err := x.askForTool(questions)
	if err != nil {
		return nil, &tools.Failure{Code: "unanswered", Message: "Nobody was asked: " + err.Error() + ".", Retryable: true}
	}
	defer x.resume(question.ID)
	x.emitInOrder(ApprovalRequested{question})
	_, waits := span.Start(ctx, "answer.wait")
	answer := x.answerOf(ctx, question, answers)
	waits.Set("toolserver.answer", answer.Kind.String())
	waits.End()
	x.emitInOrder(ApprovalResolved{question.ID, answer})
	switch answer.Kind {
	case approval.Answered:
		return answer.Answers, nil
	case approval.Expired:
		return nil, &tools.Failure{Code: "unanswered", Retryable: true, Message: fmt.Sprintf(
			"Nobody answered within %s. Decide without an answer, or ask again when somebody is there.",
			question.Expires.Sub(question.Created).Round(time.Second))}
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

// askForTool asks a question of the tool, and stops the time of the tool until as many
// calls of resume.
func (x *Execution) askForTool(questions []tools.Question) (*approval.Question, <-chan approval.Answer, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// The lock is held until the answer has a place.
	question, err := x.executor.config.Approvals.Ask(x.about(approval.Question{Questions: questions}))
	if err != nil {
		return nil, nil, err
	}
	if len(x.asking) == 0 && !x.stopping && x.cancel != nil {
		x.timeout.Stop()
		x.left = time.Until(x.deadline)
	}
	if x.asking == nil {
		x.asking = make(map[string]chan approval.Answer)
	}
	answers := make(chan approval.Answer, 1)
	x.asking[question.ID] = answers
	return question, answers, nil
}

// answerTool gives the answer to a question of the tool to whoever waits for it.
func (x *Execution) answerTool(q *approval.Question, answer approval.Answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if answers := x.asking[q.ID]; answers != nil {
		answers <- answer // which comes once
	}
}

// answerOf waits for the answer to a question of the tool, until ctx or the
// execution ends.
func (x *Execution) answerOf(ctx context.Context, question *approval.Question, answers <-chan approval.Answer) approval.Answer {
	select {
	case answer := <-answers:
		return answer
	case <-ctx.Done():
	case <-x.ending:
	}
	if x.executor.config.Approvals.Withdraw(question.ID) {
		return approval.Answer{Kind: approval.Withdrawn, At: time.Now()}
	}
	return <-answers // was on its way
}

// resume lets the time of the tool pass again once its last question has ended.
func (x *Execution) resume(questionID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.asking, questionID)
	if len(x.asking) == 0 && !x.stopping && x.cancel != nil {
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

// sendableQuestion cuts what is too long and says so: a person who approves knows
// whether something is hidden.
func sendableQuestion(q approval.Question) approval.Question {
	q.Purpose = short(q.Purpose, maxMessage)
	shown := short(q.Preview.Text, maxPreview)
	q.HiddenBytes += max(len(q.Preview.Text)-len(shown), 0)
	q.Preview.Text = shown
	q.Policy = short(q.Policy, maxWord)
	q.Verdict = sendableVerdict(q.Verdict)
	more := 0
	q.Effects, more = sendableEffects(q.Effects)
	q.MoreEffects += more
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
