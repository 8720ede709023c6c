// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
)

// State is where an execution stands.
type State int

const (
	Waiting State = 1 + iota
	Running
	Ended
)

// Cancellation is the cause of an execution that was cancelled.
type Cancellation struct{ Reason, By string }

func (c *Cancellation) Error() string {
	if c.Reason == "" {
		return "cancelled by " + c.By
	}
	return fmt.Sprintf("cancelled by %s: %s", c.By, c.Reason)
}

// errTimedOut is the cause of an execution whose time was over. Tools know it as
// that of any deadline.
var errTimedOut = fmt.Errorf("timed out: %w", context.DeadlineExceeded)

// An Execution is one call of a tool, from acceptance to its one end. Its
// methods are safe for concurrent use.
type Execution struct {
	ID      string
	Order   Order // without what only its beginning needs, once it runs
	Created time.Time
	Trace   string // the trace that the execution is part of, where traces are exported

	executor   *Executor
	session    *session.Session // nil for an execution that is no longer kept
	permit     *limit.Permit
	batch      *Batch          // that it was started in; nil without one
	kept       tools.Artifacts // for what the answer has no room for; nil without a batch
	asSent     uint64          // of Job
	number     uint64
	log        eventLog
	claim      atomic.Uint64 // revision of what makes the call id its own; 0 for a call that only reads
	waited     bool          // for the answer of a person, at first
	recorded   bool          // the end is stored
	settled    bool          // the claim says so
	unnumbered bool          // it was lost with its events: the end follows what a reader has seen
	ending     chan struct{} // closed when the end is about to be written
	done       chan struct{} // closed when it is

	mu        sync.Mutex
	state     State
	started   time.Time
	ended     time.Time
	outcome   Outcome
	followers int
	caller    *reader                 // kept for the caller; nil once taken
	cancel    context.CancelCauseFunc // nil once the end began
	stopping  bool                    // the call is to stop
	waiting   *waiting                // nil once the call has begun, or cannot
	asked     bool                    // the call waits for an answer to Order.Question
	queued    bool                    // the call waits for its turn
	placing   placing                 // guarded by the lanes
	turning   laneState               // likewise
	waits     bool                    // likewise: the call waits for its turn and is counted
	gone      bool                    // likewise: the call has left, and takes no place any more
	said      chan string             // what the client says; nil before it does
	comment   string                  // of the approver, for the model
	runs      span.Span               // from when the tool begins to the end
	running   context.Context         // of the tool; nil before it begins and after the end

	timeout  *time.Timer
	deadline time.Time                       // when timeout is due
	left     time.Duration                   // what was left of it when the tool began to ask
	asking   map[string]chan approval.Answer // pending questions of the tool, by id
	grace    *time.Timer                     // runs while nobody follows
	progress coalescer
	input    *input // nil for a call that never listened

	emitting sync.Mutex // held over the offsets and the order of output
	offsets  [tools.Terminal + 1]uint64
}

// waiting is what a call needs that has not begun.
type waiting struct {
	ctx    context.Context
	call   tools.Call
	rights tools.Rights
	span   span.Span // while a person is asked
}

// run carries the call out, on the goroutine of the execution. Its frame is small, and
// so are those of what it calls before the tool: ten thousand calls that wait in their
// tools keep their stacks.
func (x *Execution) run(w *waiting) {
	defer x.endPanicked()
	refusal := x.beginClaimed()
	if refusal == nil {
		refusal = x.executor.config.Steps.Starting(x)
	}
	if refusal != nil {
		x.refuse(refusal)
		return
	}
	ctx, call := x.traced(w.ctx), w.call
	result, err := call.Run(ctx, w.rights, (*sink)(x))
	x.conclude(ctx, call, &result, err)
}

// endPanicked ends an execution whose tool panicked.
func (x *Execution) endPanicked() {
	if reason := recover(); reason != nil {
		x.logPanic("tool panicked", reason)
		x.finish(failed("internal", "The tool broke down by a mistake of its own. Its maker finds the reason in the server's log under "+x.ID+"."))
	}
}

// refuse ends an execution that does not run.
//
//go:noinline
func (x *Execution) refuse(refusal *Refusal) { x.finish(refusal.finished(x.Order.Policy)) }

// traced begins the span of the tool. The span ends with the execution, also where the
// tool does not stop.
func (x *Execution) traced(ctx context.Context) context.Context {
	if x.Trace == "" {
		return ctx
	}
	ctx, runs := span.Start(ctx, "run")
	runs.Set("toolserver.tool", x.Order.Tool)
	runs.Set("toolserver.session", x.Order.Session.ID)
	runs.Set("toolserver.execution", x.ID)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel == nil { // it has ended
		runs.End()
		return ctx
	}
	x.runs = runs
	return ctx
}

// accepted notes that the call may run, or that a person is asked.
func (x *Execution) accepted() {
	body := Accepted{
		SessionID: x.Order.Session.ID, CallID: x.Order.CallID, Tool: x.Order.Tool,
		Verdict: x.Order.Verdict, Policy: x.Order.Policy, Timeout: x.Order.Timeout, Access: x.Order.Access,
	}
	x.log.append(body, x.Created, nil)
}

// start begins a call whose turn has come. It reports false, and begins nothing, where
// the execution is to stop.
func (x *Execution) start() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopping {
		return false
	}
	x.begin(time.Now())
	return true
}

// queue notes that the call waits for its turn, unless the turn has come or the
// execution is to stop meanwhile.
func (x *Execution) queue(ctx context.Context) {
	x.mu.Lock()
	waits, stopping := x.state == Waiting, x.stopping
	x.queued = waits && !stopping
	x.mu.Unlock()
	if waits && stopping {
		x.finish(x.Stopped(context.Cause(ctx)))
	}
}

// turn begins a call that waited for its turn, if it may run by now.
func (x *Execution) turn() {
	now, ctx := x.rejudge()
	x.mu.Lock()
	x.queued = false
	if x.cancel == nil { // it has ended, and ctx is nil
		x.mu.Unlock()
		return
	}
	if now.Verdict.Action == policy.Ask && x.Order.Question == nil {
		now.Verdict.Action, now.Verdict.Reason = policy.Deny, "A person has to approve it by now: call again."
	}
	x.keepToShown(&now, "who approved it")
	if x.stopping || now.Verdict.Action == policy.Deny {
		stopping := x.stopping
		x.mu.Unlock()
		if stopping {
			x.finish(x.Stopped(context.Cause(ctx)))
			return
		}
		x.finish(denied("denied", now.Verdict.Rule, "While the call waited for its turn it became forbidden: "+now.Verdict.Reason))
		return
	}
	x.allow(now)
	x.begin(time.Now())
	x.mu.Unlock()
}

// allow takes over what was decided about a call that waited. The execution is locked.
func (x *Execution) allow(now Rejudged) {
	x.waiting.rights = now.Rights
	if now.Call != nil {
		x.waiting.call = now.Call
	}
	if x.Order.Access != nil {
		x.Order.Access = now.Rights.Access()
	}
}

// begin starts the goroutine of the tool, and gives the tool its time. The first events
// come before the goroutine, so that a reader finds them at once and is woken for the
// end only. The execution is locked: it cannot end before, nor can its executor close.
func (x *Execution) begin(now time.Time) {
	w := x.waiting
	x.forgetOrder()
	x.state, x.started, x.deadline, x.running = Running, now, now.Add(x.Order.Timeout), w.ctx
	x.timeout = time.AfterFunc(x.Order.Timeout, func() { x.stop(errTimedOut) })
	x.log.append(Started{}, now, nil)
	x.executor.watchers.changed()
	go x.run(w)
}

// maxKeptInput is the largest input that is kept with an execution, for those who look at it.
const maxKeptInput = 256 << 10

// forgetOrder forgets what only a call needs that has not begun. The execution is
// locked.
func (x *Execution) forgetOrder() {
	x.waiting = nil
	x.Order.Question, x.Order.Refusal = nil, nil
	if len(x.Order.Input) > maxKeptInput {
		x.Order.Input = nil
	}
}

// Input returns what the tool was given, without secrets; nil where that is not kept.
func (x *Execution) Input() []byte {
	x.mu.Lock()
	input := x.Order.Input
	x.mu.Unlock()
	mask := x.executor.config.Mask
	if len(input) > maxKeptInput {
		return nil
	}
	if mask == nil {
		return input
	}
	return MaskedJSON(input, mask)
}

// conclude ends an execution whose tool returned.
//
//go:noinline
func (x *Execution) conclude(ctx context.Context, call tools.Call, result *tools.Result, err error) {
	end := x.returned(ctx, result, err)
	x.executor.config.Steps.Returned(ctx, x, call, end)
	x.finish(end)
}

// Context is done when the tool is to stop, or the execution does not run.
func (x *Execution) Context() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == nil {
		return notRunning
	}
	return x.running
}

// notRunning is a context that is done. It belongs to no call.
var notRunning = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Pause stops the time of a tool that has returned: what is done with its result has a
// time of its own.
func (x *Execution) Pause() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.stopping && x.cancel != nil {
		x.timeout.Stop()
	}
}

// returned makes the end of an execution of what its tool returned. A tool that did
// what it was asked to do succeeded, also where it was to stop by then.
func (x *Execution) returned(ctx context.Context, result *tools.Result, err error) *Finished {
	if x.comment != "" {
		result.Content = slices.Concat([]tools.Content{tools.Text(x.comment)}, result.Content)
	}
	if err == nil {
		return &Finished{Outcome: Succeeded, Result: *result}
	}
	finished := x.Stopped(context.Cause(ctx))
	if f, ok := errors.AsType[*tools.Failure](err); ok && f.Code == tools.TimedOutCode && finished.Outcome == TimedOut {
		finished = withFailure(TimedOut, f.Code, f.Message)
	}
	if ctx.Err() == nil {
		finished = failed("failed", err.Error())
		if f, ok := errors.AsType[*tools.Failure](err); ok {
			finished.Failure.Code, finished.Failure.Retryable = f.Code, f.Retryable
		}
	}
	// What was produced is kept, and the reason there is no more comes last.
	finished.Result.Content = slices.Concat(result.Content, finished.Result.Content)
	finished.Result.Details, finished.Result.Exit, finished.Result.Usage = result.Details, result.Exit, result.Usage
	return finished
}

// Stopped returns how the execution ends if it has to stop now, whatever its tool returned.
func (x *Execution) Stopped(cause error) *Finished {
	if i, ok := errors.AsType[*interruption](cause); ok {
		return i.finished()
	}
	if c, ok := errors.AsType[*Cancellation](cause); ok {
		finished := withFailure(Cancelled, "cancelled", "The call was "+strings.TrimSuffix(c.Error(), ".")+".")
		finished.Cancelled = c
		if c.By == auth.Server && x.leavesNothing() {
			finished.Failure.Code = cancelledWithoutEffects
		}
		return finished
	}
	return withFailure(TimedOut, tools.TimedOutCode, fmt.Sprintf(
		"The call timed out after %s. Ask for less at once, or for a longer timeout if the server allows it.", x.Order.Timeout))
}

// cancelledWithoutEffects is the code of a call that the server ended before it began, or that
// only reads: whoever makes it again does nothing twice.
const cancelledWithoutEffects = "cancelled_without_effects"

// leavesNothing reports whether everything is as it was before the call. What only waits for other
// calls answers for what they did.
func (x *Execution) leavesNothing() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.started.IsZero() || x.Order.ConcurrencySafe && !x.Order.Waits
}

// failed returns the end of a call that ran and could not do it.
func failed(code, message string) *Finished { return withFailure(Failed, code, message) }

func withFailure(outcome Outcome, code, message string) *Finished {
	return &Finished{
		Outcome: outcome,
		Result:  tools.TextResult(message),
		Failure: &Failure{Code: code, Message: message},
	}
}

// stop ends an execution for a reason. The first reason counts. A call that waits ends
// at once. A tool that runs has its context cancelled; where it does not stop in time,
// the execution ends all the same, and drops what the tool reports later.
func (x *Execution) stop(cause error) { x.end(cause, false) }

// end is stop; with waiting, only for a call that waits.
func (x *Execution) end(cause error, waiting bool) {
	question, queued := x.signalStop(cause, waiting)
	x.endWaiting(cause, question, queued)
}

// stopAll stops executions for a reason. None of them begins because another ends: all that wait are
// to stop before the first ends, and the last that came ends first, so that none gets its turn.
func stopAll(all []*Execution, cause error) {
	slices.SortFunc(all, func(a, b *Execution) int { return cmp.Compare(b.number, a.number) })
	var ends []func()
	for _, waiting := range []bool{true, false} {
		for _, x := range all {
			if question, queued := x.signalStop(cause, waiting); question != nil || queued {
				ends = append(ends, func() { x.endWaiting(cause, question, queued) })
			}
		}
	}
	for _, end := range ends {
		end()
	}
}

// endWaiting ends a call that waits, if it does, after signalStop.
func (x *Execution) endWaiting(cause error, question *approval.Question, queued bool) {
	switch {
	case question != nil:
		x.withdraw(question, cause)
	case queued:
		x.finish(x.Stopped(cause))
	}
}

// signalStop notes that the execution is to stop, and cancels the context of its tool.
// It returns the question that the call waits for, if there is one, and whether the call
// waits for its turn.
func (x *Execution) signalStop(cause error, waiting bool) (question *approval.Question, queued bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel == nil || x.stopping || waiting && !x.asked && !x.queued {
		return nil, false
	}
	x.stopping = true
	x.cancel(cause)
	if x.asked {
		return x.Order.Question, false
	}
	if x.queued {
		return nil, true
	}
	if x.timeout != nil {
		x.timeout.Stop()
	}
	x.timeout = time.AfterFunc(x.executor.config.StopGrace, func() { x.finish(x.Stopped(cause)) })
	return nil, false
}

// Stopping reports whether the execution is to stop already, or has ended.
func (x *Execution) Stopping() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stopping || x.cancel == nil
}

// Cancel stops the execution, for a reason. It does not wait for the end and
// does nothing to an execution that ended.
func (x *Execution) Cancel(reason, by string) { x.stop(&Cancellation{Reason: reason, By: by}) }

// finish ends the execution, once. It counts as ended when its last event is
// in the log: nobody sees the one without the other.
func (x *Execution) finish(finished *Finished) {
	x.mu.Lock()
	if x.cancel == nil {
		x.mu.Unlock()
		return
	}
	x.cancel(nil)
	x.cancel, x.running = nil, nil
	x.stopAsking(approval.Withdrawn)
	x.forgetOrder()
	x.runs.Set("toolserver.outcome", finished.Outcome.String())
	if finished.Failure != nil {
		x.runs.Fail(finished.Failure.Code)
	}
	x.runs.End()
	if x.timeout != nil {
		x.timeout.Stop()
		x.timeout = nil // thousands that ended are kept
	}
	if x.grace != nil {
		x.grace.Stop()
	}
	now := time.Now()
	if pending := x.progress.take(); pending != nil {
		x.log.append(*pending, now, nil)
	}
	ran := cmp.Or(x.started, now)
	x.mu.Unlock()
	close(x.ending)

	if x.Order.Hooked != nil {
		finished.Hooks = slices.Concat(x.Order.Hooked.Runs, finished.Hooks)
	}
	finished.Waited, finished.Ran = ran.Sub(x.Created), now.Sub(ran)
	x.emitting.Lock()
	for _, n := range x.offsets {
		finished.OutputBytes += n
	}
	x.emitting.Unlock()
	finished.Result.Restate = nil
	finished.dropInvisible() // before secrets are looked for: what is shown is what is masked
	finished.mask(x.executor.config.Mask, x.Order.Form.System != "")
	finished.cut(int(x.executor.config.MaxResultBytes))
	if x.batch != nil && x.batch.budget != nil {
		x.batch.budget.fit(finished, x.Order.Tool, x.kept)
	}
	finished.count(x.Order.Measure)
	x.executor.leave(x) // before the end: whoever sees the end may call again
	if records := x.executor.config.Records; records != nil {
		finished = records.ends(x, finished, now)
	}
	x.executor.config.Steps.Finished(x, finished) // the end that counts

	x.mu.Lock()
	x.log.end(*finished, now)
	x.state, x.ended, x.outcome = Ended, now, finished.Outcome
	close(x.done) // who sees that it ended sees the end
	x.mu.Unlock()
	x.executor.watchers.changed()
	if records := x.executor.config.Records; records != nil {
		records.enqueue(x)
	}
	x.executor.keep(x)
	x.log.keepBatches()
}

// Done is closed when the execution has ended.
func (x *Execution) Done() <-chan struct{} { return x.done }

// Info is where an execution stands at one moment.
type Info struct {
	State             State
	Outcome           Outcome
	Started, Ended    time.Time
	FirstSeq, LastSeq uint64
	Followers         int
	Access            *tools.Access // of the programs of the call, which an answer may change
}

// Info returns where the execution stands.
func (x *Execution) Info() Info {
	first, last := x.log.bounds()
	x.mu.Lock()
	defer x.mu.Unlock()
	return Info{
		State: x.state, Outcome: x.outcome, Started: x.started, Ended: x.ended,
		FirstSeq: first, LastSeq: last, Followers: x.followers, Access: x.Order.Access,
	}
}

// Finished returns the end of the execution, if it has ended.
func (x *Execution) Finished() (Finished, bool) {
	select {
	case <-x.done:
		x.log.mu.Lock()
		defer x.log.mu.Unlock()
		finished, ok := x.log.events[len(x.log.events)-1].Body.(Finished)
		return finished, ok
	default:
		return Finished{}, false
	}
}
