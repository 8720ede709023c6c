// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Run is what came of asking a hook once. It is data.
type Run struct {
	Hook     string
	Point    Point
	Outcome  Outcome
	Message  string // the reason, or what went wrong
	Detail   string // of what went wrong, for the operator alone
	Advisory bool   // a failure let the call pass
	Took     time.Duration
}

// Outcome is what a hook said, in short.
type Outcome int

const (
	Passed Outcome = 1 + iota
	Blocked
	Asked
	Rewrote
	Suppressed
	Failed // it could not be understood
)

var outcomeNames = [...]string{"unknown", "passed", "blocked", "asked", "rewrote", "suppressed", "failed"}

func (o Outcome) String() string { return outcomeNames[o] }

// Blocks reports whether the run keeps a call from happening.
func (r *Run) Blocks() bool { return r.Outcome == Blocked || r.Outcome == Failed && !r.Advisory }

// Where is where the command of a hook runs.
type Where struct {
	Env tools.Env

	// Writes is what a command may write that is there to change files; Deny is what
	// none reads.
	Writes tools.Confinement
	Deny   tools.Denial
}

// detailed is an error with what only the operator is to know: addresses, paths, and what
// programs write about themselves.
type detailed struct{ message, detail string }

func (d *detailed) Error() string { return d.message }

// maxMessage bounds what a hook says for people and models, in bytes.
const maxMessage = 4 << 10

// Ask asks one hook, and waits. What goes wrong with the hook is in the run, which is for
// [Hooks.Report] once it is final. The error is why nobody waits for an answer any more:
// the hook was stopped before it gave one, and has not failed.
func (h *Hooks) Ask(ctx context.Context, hook *Hook, where Where, event Event) (Answer, Run, error) {
	begun := time.Now()
	answer, err := h.ask(ctx, hook, where, event)
	if err != nil && ctx.Err() != nil {
		return Answer{}, Run{}, context.Cause(ctx)
	}
	run := Run{Hook: hook.Name, Point: hook.Point, Advisory: hook.Advisory, Outcome: Passed}
	switch {
	case err != nil:
		run.Outcome, run.Message = Failed, err.Error()
		if d, ok := errors.AsType[*detailed](err); ok {
			run.Detail = d.detail
		}
	case answer.Block != nil:
		run.Outcome, run.Message = Blocked, answer.Block.Reason
	case answer.Rewrite != nil:
		run.Outcome = Rewrote
	case answer.Ask != nil:
		run.Outcome, run.Message = Asked, answer.Ask.Reason
	case answer.Suppress:
		run.Outcome = Suppressed
	}
	run.Message = output.Short(run.Message, maxMessage)
	run.Took = time.Since(begun)
	return answer, run, nil
}

// Unasked returns the run of a hook that could not be asked.
func (hook *Hook) Unasked(reason error) Run {
	return Run{Hook: hook.Name, Point: hook.Point, Advisory: hook.Advisory, Outcome: Failed, Message: output.Short("it could not be asked: "+reason.Error(), maxMessage)}
}

// Report has a run counted and logged that is final.
func (h *Hooks) Report(run Run) { h.ran(run) }

// errTimeout is why a hook is stopped whose time is over.
var errTimeout = errors.New("the time of the hook is over")

func (h *Hooks) ask(ctx context.Context, hook *Hook, where Where, event Event) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hook.Timeout, errTimeout)
	defer cancel()
	if !hook.turns.take(ctx, event.Tenant) {
		return Answer{}, hook.late(ctx, fmt.Sprintf(" waiting for its turn: of it run %d at once, and those before it take long", hook.Concurrency))
	}
	defer hook.turns.back(event.Tenant)
	event.Hook, event.Point = hook.Name, hook.Point
	text, err := event.text()
	if err != nil {
		return Answer{}, err
	}
	if hook.URL != "" {
		return h.post(ctx, hook, text)
	}
	return h.run(ctx, hook, where, text, event.Paths)
}

// late says why a hook has not answered in time.
func (hook *Hook) late(ctx context.Context, doing string) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("it did not answer within %s%s", hook.Timeout, doing)
	}
	return fmt.Errorf("it was stopped before it answered: %w", context.Cause(ctx))
}

// Notify tells all hooks about something, and waits for none. What goes wrong is in the
// runs. done is called after the last.
func (h *Hooks) Notify(list []*Hook, where Where, event Event, done func()) {
	h.mu.Lock()
	if h.closing.Err() != nil {
		h.mu.Unlock()
		done()
		return
	}
	if !h.pending.try(event.Tenant) {
		h.mu.Unlock()
		for _, hook := range list {
			h.Report(Run{Hook: hook.Name, Point: hook.Point, Outcome: Failed, Advisory: true, Message: "it was not told: too many notifications are on their way already"})
		}
		done()
		return
	}
	h.notices.Add(1)
	h.mu.Unlock()
	go func() {
		defer h.notices.Done()
		defer h.pending.back(event.Tenant)
		defer done()
		for _, hook := range list {
			h.tell(hook, where, event)
		}
	}()
}

// tell tells one hook about something. A panic is a failure of that hook: nobody above
// would catch it.
func (h *Hooks) tell(hook *Hook, where Where, event Event) {
	defer func() {
		if reason := recover(); reason != nil {
			h.Report(hook.Unasked(fmt.Errorf("panic: %v\n%s", reason, debug.Stack())))
		}
	}()
	if _, run, err := h.Ask(h.closing, hook, where, event); err == nil {
		h.Report(run)
	}
}
