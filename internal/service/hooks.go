// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// This file asks the operator's hooks after a call was admitted. Before that, admission
// does.

// Asked tells hooks that a person is asked.
func (s steps) Asked(x *executor.Execution, q *approval.Question) {
	s.notify(hook.ApprovalRequested, x, func(e *hook.Event) {
		e.Verdict = admission.HookVerdict(&q.Verdict)
		e.Preview = q.Preview.Text
	})
}

// Reports asks hooks about what a tool reports while it runs.
func (s steps) Reports(x *executor.Execution, report tools.Report) bool {
	hooks := s.config.Hooks
	if !hooks.Has(hook.BeforeUpdate) && !hooks.Has(hook.AfterUpdate) {
		return true
	}
	return s.reports(x, report)
}

func (s steps) reports(x *executor.Execution, report tools.Report) bool {
	update := updateOf(report)
	if _, output := report.(tools.Output); !output { // which is masked as it is read
		update.Text = s.masked(update.Text)
	}
	a := s.about(x)
	a.event.Update = update
	for _, h := range s.hooksAbout(hook.BeforeUpdate, x) {
		answer, run, err := s.ask(x.Context(), h, a)
		if err != nil {
			return false // it was not passed, and the call has to stop
		}
		if run.Outcome == hook.Failed {
			s.auditor.hooked(x, run)
		}
		if answer.Suppress || run.Blocks() {
			return false
		}
	}
	s.notify(hook.AfterUpdate, x, func(e *hook.Event) { e.Update = update })
	return true
}

// updateOf returns what a tool reports as hooks are told it.
func updateOf(report tools.Report) *hook.Update {
	switch r := report.(type) {
	case tools.Output:
		return &hook.Update{Kind: "output", Stream: streamNames[r.Stream], Text: string(r.Data)}
	case tools.Progress:
		return &hook.Update{Kind: "progress", Text: r.Message, Done: r.Done, Total: r.Total}
	case tools.Partial:
		return &hook.Update{Kind: "partial_result", Text: textOf(r.Content)}
	case tools.UserMessage:
		return &hook.Update{Kind: "user_message", Text: r.Message}
	case tools.Nested:
		return &hook.Update{Kind: "nested"} // the calls of an agent have hooks of their own
	}
	return &hook.Update{Kind: "other"}
}

var streamNames = map[tools.Stream]string{tools.Stdout: "stdout", tools.Stderr: "stderr", tools.Terminal: "terminal"}

// textOf joins the texts of content.
func textOf(content []tools.Content) string {
	var all []string
	for _, c := range content {
		switch c := c.(type) {
		case tools.Text:
			all = append(all, string(c))
		case tools.JSON:
			all = append(all, string(c))
		}
	}
	return strings.Join(all, "\n")
}

// Returned asks hooks about the result of a tool, and adds their texts and those of the
// hooks before the call to it.
func (s steps) Returned(ctx context.Context, x *executor.Execution, call tools.Call, end *executor.Finished) {
	if s.config.Hooks != nil {
		s.returned(ctx, x, call, end)
	}
}

func (s steps) returned(ctx context.Context, x *executor.Execution, call tools.Call, end *executor.Finished) {
	var said []executor.HookText
	if before := x.Order.Hooked; before != nil {
		if len(before.ChangedBy) > 0 {
			said = append(said, executor.HookText{Hook: strings.Join(before.ChangedBy, ", "), Text: "(changed the input of this call before it ran)"})
		}
		said = append(said, before.Context...)
	}
	after, changed := s.hooksAbout(hook.AfterCall, x), s.hooksAbout(hook.FileChanged, x)
	if len(after)+len(changed) > 0 {
		x.Pause()
		ctx, cancel := s.afterwards(ctx)
		defer cancel()
		said = s.afterCall(ctx, x, call, end, after, changed, said)
	}
	for i, c := range end.Result.Content {
		if text, ok := c.(tools.Text); ok && strings.Contains(string(text), hookMark) {
			end.Result.Content = slices.Clone(end.Result.Content)
			end.Result.Content[i] = tools.Text(ownWords(string(text)))
		}
	}
	s.tell(x, end, said)
}

// afterwards returns a context for what is done after a call that has ended, or has to.
func (s steps) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), s.executor.Config().StopGrace, context.Cause(ctx))
}

// afterCall asks the hooks that are about what a call has done.
func (s steps) afterCall(ctx context.Context, x *executor.Execution, call tools.Call, end *executor.Finished, after, changed []*hook.Hook, said []executor.HookText) []executor.HookText {
	a := s.about(x)
	event := &a.event
	event.Input = call.Input()
	event.Result = s.hookResult(x, end)
	if len(changed) > 0 && a.gone == nil {
		effects, _ := effectsOf(x)
		info := x.Info()
		event.TellPaths(hook.ChangedFiles(ctx, a.where.Env.Workspace, effects, info.Access, info.Started))
	}
	if len(event.Paths) > 0 { // what they change is what hooks after the call see
		for _, h := range changed {
			said = s.askChanged(ctx, x, h, a, end, said)
		}
		if restate(end) {
			event.Result = s.hookResult(x, end)
		}
	}
	for _, h := range after {
		answer, run, err := s.ask(ctx, h, a)
		if err != nil { // no hook has passed the result
			hooks := end.Hooks
			*end = *x.Stopped(err)
			end.Hooks = hooks
			return nil
		}
		end.Hooks = append(end.Hooks, run)
		s.auditor.hooked(x, run)
		if run.Blocks() {
			withhold(end, &run)
			return nil
		}
		if run.Outcome == hook.Failed {
			answer.Context = "(It failed: " + run.Message + ".)"
		}
		if answer.Context != "" {
			said = append(said, executor.HookText{Hook: h.Name, Text: answer.Context})
		}
	}
	return said
}

// hookResult returns the end of a call as hooks are told it: without secrets, as everybody
// else is.
func (s steps) hookResult(x *executor.Execution, end *executor.Finished) *hook.Result {
	masked := end.Masked(s.executor.Config().Mask, x.Order.Form.System != "")
	result := &hook.Result{Outcome: masked.Outcome.String(), Text: textOf(masked.Result.Content), Details: masked.Result.Details}
	if masked.Failure != nil {
		result.Failure = masked.Failure.Code
	}
	if exit := masked.Result.Exit; exit != nil && exit.Reason == tools.Exited {
		result.ExitCode = &exit.Code
	}
	return result
}

// masked returns a text without secrets.
func (s steps) masked(text string) string {
	if mask := s.executor.Config().Mask; mask != nil {
		return mask(text)
	}
	return text
}

// restate has the result of a call tell what is in its files after hooks have changed
// them, and reports whether they have.
func restate(end *executor.Finished) bool {
	if end.Result.Restate == nil {
		return false
	}
	now, changed := end.Result.Restate()
	if !changed {
		return false
	}
	first := max(0, len(end.Result.Content)-len(now.Content)) // what was said of the call before
	end.Result.Content = slices.Concat(end.Result.Content[:first], now.Content)
	end.Result.Details = now.Details
	return true
}

// ownWords escapes lines of a text that look as if a hook had said what follows.
func ownWords(text string) string {
	if !strings.Contains(text, hookMark) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if rest := strings.TrimLeft(line, " \t"); strings.HasPrefix(rest, hookMark) {
			b.WriteString(line[:len(line)-len(rest)] + `\`)
			line = rest
		}
		b.WriteString(line)
	}
	return b.String()
}

// hookMark begins the line before what a hook says.
const hookMark = "[hook "

// askChanged asks a hook about changed files and adds its text. There is nothing left to
// block: a failure is part of the text.
func (s steps) askChanged(ctx context.Context, x *executor.Execution, h *hook.Hook, a *asking, end *executor.Finished, said []executor.HookText) []executor.HookText {
	answer, run, err := s.ask(ctx, h, a)
	if err != nil {
		return append(said, executor.HookText{Hook: h.Name, Text: "(It was stopped before it had ended, as the call was.)"})
	}
	end.Hooks = append(end.Hooks, run)
	s.auditor.hooked(x, run)
	text := answer.Context
	if run.Outcome == hook.Failed {
		text = strings.TrimSpace(text + "\n(It failed: " + run.Message + ".)")
	}
	if text != "" {
		said = append(said, executor.HookText{Hook: h.Name, Text: text})
	}
	return said
}

// withhold takes the result of a call away, which a hook does not let through.
func withhold(end *executor.Finished, run *hook.Run) {
	code, message := "hook_blocked", fmt.Sprintf("The call ran, and the hook %s of this server keeps its result back: %s", run.Hook, run.Message)
	if run.Outcome == hook.Failed {
		code = "hook_failed"
		message = fmt.Sprintf("The call ran, and its result is kept back: the hook %s of this server has to pass it, and failed: %s. Its operator has to mend that.", run.Hook, strings.TrimSuffix(run.Message, "."))
	}
	hooks := end.Hooks
	*end = executor.Finished{
		Outcome: executor.Failed, Hooks: hooks, Result: tools.TextResult(message),
		Failure: &executor.Failure{Code: code, Message: message},
	}
}

// tell adds what hooks say to the result, within the budget of the answer: they have a
// quarter of it, and the result what they leave.
func (s steps) tell(x *executor.Execution, end *executor.Finished, said []executor.HookText) {
	if len(said) == 0 {
		return
	}
	var b strings.Builder
	for _, text := range said {
		fmt.Fprintf(&b, "\n"+hookMark+"%s]\n%s\n", text.Hook, strings.TrimRight(ownWords(text.Text), "\n"))
	}
	env := tools.Env{Answer: x.Order.Answer, Measure: x.Order.Measure}
	if found, err := s.config.Sessions.Resolve(x.Order.Session); err == nil {
		env.Artifacts = s.artifacts.of(found)
	}
	addition := env.Share(4).Begin(b.String(), "hooks.txt")
	content := end.Result.Content
	var reason []tools.Content
	if end.Failure != nil && len(content) > 0 { // the reason is its last content
		content, reason = content[:len(content)-1], content[len(content)-1:]
	}
	result := tools.Result{Content: content}
	env.Less(env.Measure.Of(textOf(addition)+textOf(reason))).Fit(x.Order.Tool, &result)
	end.Result.Content = slices.Concat(result.Content, addition, reason)
}

// asking is where hooks are asked about an execution, and what all are told of it; or why
// they cannot be asked.
type asking struct {
	where hook.Where
	event hook.Event
	gone  error
}

// ask asks a hook about an execution. One that cannot be asked has failed. An error says
// that ctx ended before the answer came.
func (s steps) ask(ctx context.Context, h *hook.Hook, a *asking) (answer hook.Answer, run hook.Run, err error) {
	if a.gone != nil {
		run = h.Unasked(a.gone)
	} else if answer, run, err = s.config.Hooks.Ask(ctx, h, a.where, a.event); err != nil {
		return answer, run, err
	}
	s.config.Hooks.Report(run)
	return answer, run, nil
}

// about returns how hooks are asked about an execution.
func (s steps) about(x *executor.Execution) *asking {
	found, err := s.config.Sessions.Resolve(x.Order.Session)
	if err != nil {
		return &asking{gone: err}
	}
	o := &x.Order
	event := admission.CallEvent(found, o)
	event.ExecutionID = x.ID
	event.TellEffects(effectsOf(x))
	return &asking{where: s.admission.HookPlace(found, s.entryOf(o.Tool), o.MaxMode, o.OnBehalfOf, o.CallID), event: event}
}

// effectsOf returns the effects of an execution, as far as they are kept, and how many
// more there were.
func effectsOf(x *executor.Execution) (effects []tools.Effect, more int) {
	if x.Order.Effects == nil {
		return nil, 0
	}
	for i := range x.Order.Effects.Judged {
		effects = append(effects, x.Order.Effects.Judged[i].Effect)
	}
	return effects, x.Order.Effects.More
}

// hooksAbout returns the hooks at a point that are about an execution.
func (s steps) hooksAbout(point hook.Point, x *executor.Execution) []*hook.Hook {
	if !s.config.Hooks.Has(point) {
		return nil
	}
	entry := s.entryOf(x.Order.Tool)
	effects, more := effectsOf(x)
	if more > 0 { // what was not kept may be anything
		effects = append(effects, tools.Effect{Kind: tools.RunsProgram, Program: tools.UnknownWord})
	}
	return s.config.Hooks.About(point, &entry.Spec, effects)
}

// entryOf returns a tool as it is now; of one that is gone, its name.
func (s steps) entryOf(tool string) *tools.Entry {
	if entry, ok := s.config.Registry.Lookup(tool, everyTool); ok {
		return entry
	}
	return &tools.Entry{Spec: tools.Spec{Name: tool}}
}

// notify tells the hooks at a point about an execution, and does not wait.
func (s steps) notify(point hook.Point, x *executor.Execution, complete func(*hook.Event)) {
	list := s.hooksAbout(point, x)
	if len(list) == 0 {
		return
	}
	a := s.about(x)
	if a.gone != nil {
		return
	}
	complete(&a.event)
	done := a.where.Env.Session.Busy()
	s.config.Hooks.Notify(list, a.where, a.event, done)
}

// denied tells hooks of a call that was denied.
func (s steps) denied(x *executor.Execution, end *executor.Finished) {
	s.notify(hook.Denied, x, func(e *hook.Event) {
		if v := end.Verdict; v != nil {
			e.Verdict = admission.HookVerdict(v)
		}
	})
}

// sessionHooks asks the hooks about the beginning or the end of a session, and waits.
func (s *Server) sessionHooks(ctx context.Context, point hook.Point, found *session.Session, reason string) {
	if !s.config.Hooks.Has(point) {
		return
	}
	event := admission.SessionEvent(found)
	event.Reason = reason
	where := s.admission.HookPlace(found, &tools.Entry{}, 0, "", "")
	for _, h := range s.config.Hooks.At(point) {
		_, run, err := s.config.Hooks.Ask(ctx, h, where, event)
		if err != nil {
			return // ctx has ended
		}
		s.config.Hooks.Report(run)
		s.auditor.hookedSession(found, run)
	}
}

// madeDefault is told of a session that was made for who named none.
func (s *Server) madeDefault(made *session.Session) {
	s.auditor.madeDefault(made)
	s.sessionHooks(s.closing, hook.SessionStart, made, "")
}

// endsIdle is told of a session that ends because nobody used it.
func (s *Server) endsIdle(ends *session.Session) {
	s.sessionHooks(s.closing, hook.SessionEnd, ends, "it was not used for "+ends.Settings().IdleTTL.String())
}

// ranHook counts a run of a hook, and logs what went wrong.
func (s *Server) ranHook(run hook.Run) {
	s.meters.hooked(run)
	if run.Outcome == hook.Failed {
		s.config.Logger.Warn("a hook failed", zap.String("hook", run.Hook), zap.String("point", string(run.Point)),
			zap.String("reason", run.Message), zap.String("detail", run.Detail), zap.Bool("advisory", run.Advisory), zap.Duration("took", run.Took))
	}
}
