// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
)

// An Order is a call that was judged and is to be carried out, or to be
// recorded as refused.
type Order struct {
	// Owner is the principal that made the call, OnBehalfOf whom it acts for, if not
	// for itself.
	Owner      string
	OnBehalfOf string
	Session    *session.Session

	// CallID makes the call idempotent within its session; empty: one is given.
	CallID string

	// Digest stands for tool and canonical input: the same call id may come again
	// with the same digest only. Text stands for both as they were sent, so that a
	// call that is sent again needs no decoding; 0 stands for nothing.
	Digest [32]byte
	Text   uint64

	// Tool is the name of the tool. For an unknown one: the name asked for. Spec
	// describes it; nil for an unknown one.
	Tool string
	Spec *tools.Spec

	// Call is what to run; nil for a refused call.
	Call tools.Call

	// Verdict is what let the call pass, or what asks.
	Verdict policy.Verdict

	// Effects are what the call would touch, for those who ask for it later. Without
	// any, it uses its tool alone, and the verdict on that is the verdict.
	Effects *Effects

	// Rights are what the commands of the call may touch. RunsPrograms says that it
	// has some, so that they are told.
	Rights       tools.Rights
	RunsPrograms bool

	// Ask is what a person is asked before the call runs; nil for one that runs
	// at once. The executor fills in whose call it is.
	Ask *approval.Question

	// Recheck, if set, judges a call that waited once more, when it is allowed or its
	// turn has come: what is denied by then does not run, and what runs has the rights of
	// then. Where it returns a call, that one runs in place of Call.
	Recheck func() Rechecked

	// Policy is the version of the policy that judged.
	Policy string

	// Refusal is how a refused call ends; nil for one that runs.
	Refusal *Finished

	// Record, if set, is told of the execution before anything of it happens.
	// What it returns, if anything, is how it ends at once.
	Record func(*Execution) *Finished

	// Release, if set, is called once the call has ended, or did not become an
	// execution.
	Release func()

	// Timeout is how long the tool may run, within the limits of the executor;
	// 0 means the default.
	Timeout      time.Duration
	OnDisconnect OnDisconnect
	Purpose      string
}

// Rechecked is what [Order.Recheck] says of a call that waited.
type Rechecked struct {
	Verdict policy.Verdict
	Rights  tools.Rights
	Call    tools.Call // nil for the one that was ordered
}

func (o *Order) release() {
	if o.Release != nil {
		o.Release()
	}
}

// OnDisconnect is what happens to an execution that no reader follows any more.
// The zero value is Grace.
type OnDisconnect int

const (
	// Grace continues for the grace period, then cancels.
	Grace OnDisconnect = iota
	// CancelAtOnce cancels.
	CancelAtOnce
	// Detach continues to the end.
	Detach
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
	Order   Order // without what only its beginning needs
	Created time.Time
	Trace   string // that the call which began it is part of, if that is exported

	executor *Executor
	number   uint64
	log      eventLog
	ending   chan struct{} // closed when the end is about to be written
	done     chan struct{} // closed when it is

	mu        sync.Mutex
	state     State
	started   time.Time
	ended     time.Time
	outcome   Outcome
	followers int
	caller    *reader                 // kept for the caller; nil once taken
	cancel    context.CancelCauseFunc // nil once the end began
	told      bool                    // to stop
	ticket    *approval.Ticket        // nil but while the call waits for an answer
	queued    bool                    // the call waits for its turn
	remark    string                  // what an approver said to the model
	waits     span.Span               // while somebody is asked
	runs      span.Span               // from when the tool begins to the end

	timeout  *time.Timer
	deadline time.Time     // when timeout is due
	left     time.Duration // what was left of it when the tool began to ask
	asking   int           // questions of the tool that wait
	grace    *time.Timer   // runs while nobody follows
	progress coalescer
	input    *input // nil for a call that never listened

	emitting sync.Mutex // held over the offsets and the order of output
	offsets  [tools.Terminal + 1]uint64
}

// run carries the call out, on the goroutine of a runner or, if it is quick, of
// its caller.
func (x *Execution) run(ctx context.Context, call tools.Call) {
	defer func() {
		if reason := recover(); reason != nil {
			x.executor.config.Logger.Error("tool panicked",
				zap.String("execution", x.ID), zap.String("tool", x.Order.Tool),
				zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
			x.finish(failed("internal", "The tool broke down by a mistake of its own. Its maker finds the reason in the server's log under "+x.ID+"."))
		}
	}()
	if starting := x.executor.config.Starting; starting != nil {
		if end := starting(x); end != nil {
			x.finish(*end)
			return
		}
	}
	ctx = x.traced(ctx)
	result, err := call.Run(ctx, x.Order.Rights, (*sink)(x))
	x.finish(x.conclude(ctx, result, err))
}

// traced begins the span of the tool, which ends with the execution: a tool that
// does not stop when told to has no say in that.
func (x *Execution) traced(ctx context.Context) context.Context {
	ctx, runs := span.Start(ctx, "run")
	if !runs.Sampled() {
		return ctx
	}
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
		Verdict: x.Order.Verdict, Policy: x.Order.Policy, Timeout: x.Order.Timeout,
	}
	if x.Order.RunsPrograms {
		rights := x.Order.Rights
		body.Rights = &rights
	}
	x.log.append(body, x.Created, nil)
}

// start notes that the tool begins to run, and gives it its time. It comes
// before the goroutine, so that a reader finds both first events at once and is
// woken for the end only. It reports false, and begins nothing, where the execution
// was told to stop before.
func (x *Execution) start() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.told {
		return false
	}
	x.begin(time.Now())
	return true
}

// queue notes that the call waits for its turn, unless that has come or the execution
// was told to stop meanwhile.
func (x *Execution) queue(ctx context.Context) {
	x.mu.Lock()
	waits, told := x.state == Waiting, x.told
	x.queued = waits && !told
	x.mu.Unlock()
	if waits && told {
		x.finish(x.stopped(context.Cause(ctx)))
	}
}

// turn begins a call that waited for its turn, if it still may run.
func (x *Execution) turn(ctx context.Context, call tools.Call) {
	now := x.recheck()
	if now.Call != nil {
		call = now.Call
	}
	x.mu.Lock()
	x.queued = false
	if x.told || x.cancel == nil || now.Verdict.Action == policy.Deny {
		told := x.told
		x.mu.Unlock()
		if told {
			x.finish(x.stopped(context.Cause(ctx)))
			return
		}
		x.finish(denied("denied", now.Verdict.Rule, "While the call waited for its turn it became forbidden: "+now.Verdict.Reason))
		return
	}
	x.Order.Rights = now.Rights
	x.begin(time.Now())
	// With the lock held the execution cannot end, nor can its executor close.
	go x.run(ctx, call)
	x.mu.Unlock()
}

func (x *Execution) begin(now time.Time) {
	x.Order.Recheck = nil // it holds the call
	x.state, x.started, x.deadline = Running, now, now.Add(x.Order.Timeout)
	x.timeout = time.AfterFunc(x.Order.Timeout, func() { x.stop(errTimedOut) })
	x.log.append(Started{}, now, nil)
	x.executor.watchers.changed()
}

// conclude tells from what a tool returned how the execution ended. A tool
// that did what it was asked succeeded, also when it was told to stop by then.
func (x *Execution) conclude(ctx context.Context, result tools.Result, err error) Finished {
	if x.remark != "" {
		result.Content = slices.Concat([]tools.Content{tools.Text(x.remark)}, result.Content)
	}
	if err == nil {
		return Finished{Outcome: Succeeded, Result: result}
	}
	finished := x.stopped(context.Cause(ctx))
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

// stopped returns how an execution ends that was told to stop.
func (x *Execution) stopped(cause error) Finished {
	if c, ok := errors.AsType[*Cancellation](cause); ok {
		finished := withFailure(Cancelled, "cancelled", "The call was "+strings.TrimSuffix(c.Error(), ".")+".")
		finished.Cancelled = c
		return finished
	}
	return withFailure(TimedOut, tools.TimedOutCode, fmt.Sprintf(
		"The call timed out after %s. Ask for less at once, or for a longer timeout if the server allows it.", x.Order.Timeout))
}

// failed returns the end of a call that ran and could not do it.
func failed(code, message string) Finished { return withFailure(Failed, code, message) }

// Refuse returns how a call ends that does not run.
func Refuse(outcome Outcome, code, message string) *Finished {
	finished := withFailure(outcome, code, message)
	return &finished
}

func withFailure(outcome Outcome, code, message string) Finished {
	return Finished{
		Outcome: outcome,
		Result:  tools.TextResult(message),
		Failure: &Failure{Code: code, Message: message},
	}
}

// stop tells a running call to stop, for a reason. The first reason counts. A
// tool that does not stop in time is left behind: the execution ends, and what
// the tool does later is nobody's business. A call that waits for an answer ends
// at once.
func (x *Execution) stop(cause error) {
	ticket, queued := x.tell(cause)
	switch {
	case ticket != nil:
		x.withdraw(ticket, cause)
	case queued:
		x.finish(x.stopped(cause))
	}
}

// tell notes that the execution is to stop, and tells its tool. It returns the
// question that a call waits for, if it does, and whether it waits for its turn.
func (x *Execution) tell(cause error) (ticket *approval.Ticket, queued bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel == nil || x.told {
		return nil, false
	}
	x.told = true
	x.cancel(cause)
	if x.ticket != nil || x.queued {
		return x.ticket, x.queued
	}
	if x.timeout != nil {
		x.timeout.Stop()
	}
	x.timeout = time.AfterFunc(x.executor.config.StopGrace, func() { x.finish(x.stopped(cause)) })
	return nil, false
}

// Cancel tells the execution to stop and why. It does not wait for the end and
// does nothing to an execution that ended.
func (x *Execution) Cancel(reason, by string) { x.stop(&Cancellation{Reason: reason, By: by}) }

// finish ends the execution, once. It counts as ended when its last event is
// in the log: nobody sees the one without the other.
func (x *Execution) finish(finished Finished) {
	x.mu.Lock()
	if x.cancel == nil {
		x.mu.Unlock()
		return
	}
	x.cancel(nil)
	x.cancel = nil
	x.stopWaiting(approval.Withdrawn)
	x.runs.Set("toolserver.outcome", finished.Outcome.String())
	if finished.Failure != nil {
		x.runs.Fail(finished.Failure.Code)
	}
	x.runs.End()
	if x.timeout != nil {
		x.timeout.Stop()
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

	finished.Waited, finished.Ran = ran.Sub(x.Created), now.Sub(ran)
	x.emitting.Lock()
	for _, n := range x.offsets {
		finished.OutputBytes += n
	}
	x.emitting.Unlock()
	finished = finished.masked(x.executor.config.Mask)
	finished = finished.sendable(x.executor.config.MaxResultBytes)
	x.executor.leave(x, &finished) // first: who sees the end may call again

	x.mu.Lock()
	x.log.end(finished, now)
	x.state, x.ended, x.outcome = Ended, now, finished.Outcome
	x.mu.Unlock()
	close(x.done)
	x.executor.watchers.changed()
	x.executor.keep(x)
}

// Done is closed when the execution has ended.
func (x *Execution) Done() <-chan struct{} { return x.done }

// Events returns the events after a number, and those to come, up to the last
// one. The reader counts as a follower for as long as it iterates; the data of an
// [Output] is its own until it calls Release. An error is
// about the reading, never about the call: [ErrAhead], or the cause of ctx.
func (x *Execution) Events(ctx context.Context, after uint64) iter.Seq2[Event, error] {
	return x.events(ctx, after, true)
}

// Observe is Events for somebody who looks on: it counts as no follower, so that the
// execution goes on or ends as without it.
func (x *Execution) Observe(ctx context.Context, after uint64) iter.Seq2[Event, error] {
	return x.events(ctx, after, false)
}

func (x *Execution) events(ctx context.Context, after uint64, follows bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if _, last := x.log.bounds(); after > last {
			yield(Event{}, fmt.Errorf("%w: event %d of %d", ErrAhead, after, last))
			return
		}
		var reader *reader
		if follows {
			reader = x.callersPlace(after)
			x.followed(+1)
			defer x.followed(-1)
		}
		if reader == nil {
			reader = x.log.follow(after)
		}
		defer func() { x.log.unfollow(reader) }()
		for {
			event, ok, err := x.log.next(ctx, reader, x.executor.config.Heartbeat)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !ok || !yield(event, nil) {
				return
			}
		}
	}
}

// callersPlace returns the place in the log that was kept for the caller, once.
// It is there before the tool runs: one that is faster than its caller would
// otherwise fill the log before anybody is known to read.
func (x *Execution) callersPlace(after uint64) *reader {
	x.mu.Lock()
	defer x.mu.Unlock()
	place := x.caller
	if place == nil || after != 0 {
		return nil
	}
	x.caller = nil
	return place
}

// followed counts followers, and acts when the last one left before the end.
func (x *Execution) followed(change int) {
	x.mu.Lock()
	x.followers += change
	if x.grace != nil {
		x.grace.Stop()
		x.grace = nil
	}
	abandoned := x.followers == 0 && x.state != Ended
	if abandoned && x.Order.OnDisconnect == Grace {
		grace := x.executor.config.DisconnectGrace
		x.grace = time.AfterFunc(grace, func() {
			x.Cancel(fmt.Sprintf("the client was disconnected and did not come back within %s", grace), auth.Server)
		})
	}
	x.mu.Unlock()
	if abandoned && x.Order.OnDisconnect == CancelAtOnce {
		x.Cancel("the client disconnected", auth.Server)
	}
}

// asked reports whether the call waits for an answer before it runs.
func (x *Execution) asked() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ticket != nil
}

// Info is where an execution stands at one moment.
type Info struct {
	State             State
	Outcome           Outcome
	Started, Ended    time.Time
	FirstSeq, LastSeq uint64
	Followers         int
	Rights            tools.Rights // an answer may change them
}

// Info returns where the execution stands.
func (x *Execution) Info() Info {
	first, last := x.log.bounds()
	x.mu.Lock()
	defer x.mu.Unlock()
	return Info{
		State: x.state, Outcome: x.outcome, Started: x.started, Ended: x.ended,
		FirstSeq: first, LastSeq: last, Followers: x.followers, Rights: x.Order.Rights,
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
