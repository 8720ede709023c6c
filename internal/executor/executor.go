// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/span"
)

var (
	// ErrNotFound says that the principal has no such execution.
	ErrNotFound = errors.New("no such execution")
	// ErrConflict says that a call id was used for another call before.
	ErrConflict = errors.New("call id was used for another call")
	// ErrAhead says that a reader wants to begin after an event that is yet to be.
	ErrAhead = errors.New("no such event yet")
	// ErrNoInput says that an execution takes no input, or not that.
	ErrNoInput = errors.New("no input taken")
	// ErrGap says that input is missing before what was sent.
	ErrGap = errors.New("input is missing")
	// ErrFull says that too many executions are unfinished.
	ErrFull = errors.New("server is full")
	// ErrDraining says that the server takes no new calls.
	ErrDraining = errors.New("server is shutting down")
)

// Config is what an executor is made of.
type Config struct {
	// Logger takes what goes wrong inside tools. Required.
	Logger *zap.Logger

	// Sessions resolves the sessions that orders name. Required.
	Sessions *session.Store

	// Steps takes part in the steps of every call; nil means [NoSteps].
	Steps Steps

	// Approvals keeps the questions of calls that wait, whose only asker the executor
	// is. Without it nobody can be asked.
	Approvals *approval.Store

	// Mask, if set, returns a text without the secrets in it. It is called with the
	// texts of every result, of whatever tool, and with those that come before it.
	Mask func(text string) string

	// Records, if set, keep executions beyond the end of the process.
	Records *Records

	// Tenants has how many executions of each tenant may be unfinished.
	Tenants quota.Tenants

	Limits
}

// An Executor runs calls. Its methods are safe for concurrent use.
type Executor struct {
	config Config
	limits logLimits
	ids    ids

	outputBytes atomic.Uint64
	waiting     atomic.Int64 // executions that wait for an answer
	lanes       lanes
	watchers    watchers

	mu        sync.Mutex
	number    uint64 // of the newest execution
	byNumber  map[uint64]*Execution
	byCall    map[callKey]*Execution    // by the call ids that callers gave
	claiming  map[callKey]chan struct{} // call ids that are being claimed; closed when that is decided
	past      map[sessionKey]*pastCalls // of executions that are no longer kept
	tenants   map[string]*tenantCounts  // that have executions
	batches   map[session.Ref][]*Batch  // in the order they came
	ended     []*Batch                  // the oldest end first
	running   int                       // executions whose tools have not ended
	unended   int                       // executions without their last event
	pastTotal int                       // of past
	draining  *Cancellation             // of what waits for an answer while the server stops; nil before
	closed    bool
	idle      chan struct{} // closed when draining and nothing runs
	retained  []*Execution  // ended, oldest end first
	expiry    *time.Timer   // for the first of retained; nil without one
}

type callKey struct {
	owner         auth.Owner
	session, call string
}

// New returns an executor.
func New(config Config) *Executor {
	config.Limits = config.Limits.WithDefaults()
	if config.Steps == nil {
		config.Steps = NoSteps{}
	}
	e := &Executor{
		config: config,
		limits: logLimits{
			events: config.MaxLogEvents, bytes: int(config.MaxLogBytes),
			total: int64(config.LogMemory), floor: 2 * MaxChunk, patience: config.ReaderPatience,
		},
		ids:      newIDs(newIDKey()),
		byNumber: make(map[uint64]*Execution),
		claiming: make(map[callKey]chan struct{}),
		byCall:   make(map[callKey]*Execution),
		past:     make(map[sessionKey]*pastCalls),
		tenants:  make(map[string]*tenantCounts),
		batches:  make(map[session.Ref][]*Batch),
		lanes:    lanes{places: places{most: config.MaxActive}},
		idle:     make(chan struct{}),
	}
	if r := config.Records; r != nil {
		e.ids, e.number = newIDs(r.config.Key), r.config.Run<<runShift
	}
	if config.Approvals != nil {
		config.Approvals.SetAsker(asker{e})
	}
	return e
}

// Config returns the limits in force.
func (e *Executor) Config() Config { return e.config }

// Start begins to carry out a job, or to follow it: the same call id with
// the same digest returns the execution there is. It does not wait for
// the call, nor for the answer to a question. What it needs of the job it copies.
// ctx gives the call its identity and trace; its end means nothing.
func (e *Executor) Start(ctx context.Context, job *Job) (*Execution, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x := e.newExecution(job, cancel)
	if of := span.Of(ctx); of.Sampled() {
		x.Trace = of.Trace()
	}
	var gone error
	x.session, gone = e.config.Sessions.Resolve(job.Session)
	if existing, err := e.enter(x, job, gone); existing != nil || err != nil {
		cancel(nil)
		job.Permit.Release()
		return existing, err
	}
	refusal := cmp.Or(e.config.Steps.Proposed(x), job.Refusal)
	if refusal != nil {
		x.refuse(refusal)
		return x, nil
	}
	x.accepted()
	x.await(&waiting{ctx: ctx, call: job.Call, rights: job.Rights})
	e.lanes.place(x)
	switch {
	case job.Question != nil:
		x.ask(ctx)
	case !e.lanes.enter(x):
		x.queue(ctx)
	case !x.start():
		x.finish(x.Stopped(context.Cause(ctx)))
	}
	return x, nil
}

// newExecution returns what a job becomes once it is registered.
func (e *Executor) newExecution(job *Job, cancel context.CancelCauseFunc) *Execution {
	x := &Execution{
		Order: job.Order, Created: time.Now(), executor: e, permit: job.Permit, batch: job.Batch, kept: job.Artifacts, asSent: job.AsSent, waited: job.Question != nil,
		log: eventLog{limits: &e.limits, events: make([]Event, 0, fewestEvents)}, state: Waiting, cancel: cancel,
		ending: make(chan struct{}), done: make(chan struct{}),
	}
	x.Order.Timeout = min(cmp.Or(job.Timeout, e.config.DefaultTimeout), e.config.MaxTimeout)
	x.caller = x.log.follow(0)
	return x
}

// register gives x its ids and makes it known, unless its call id is known
// already: then it returns the execution that has it. A job that was not judged,
// because its call id was known, is not made known; nor is one whose session is gone.
func (e *Executor) register(x *Execution, judged bool, gone error) (*Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if existing, err := e.sameCall(&x.Order, x.asSent); existing != nil || err != nil {
		return existing, err
	}
	if err := e.refuses(x, judged, gone); err != nil {
		return nil, err
	}
	if !x.session.Enter() {
		return nil, fmt.Errorf("%w: %q was closed", session.ErrNotFound, x.Order.Session.ID)
	}
	e.count(x, 1, 0)
	e.name(x)
	e.byNumber[x.number] = x
	if x.Order.CallID != x.ID {
		e.byCall[keyOf(&x.Order)] = x
	}
	e.running++
	e.unended++
	e.watchers.changed()
	return nil, nil
}

// refuses returns why an execution cannot be had now, or nil. The executor is locked.
func (e *Executor) refuses(x *Execution, judged bool, gone error) error {
	switch {
	case !judged:
		return fmt.Errorf("%w: what was known of call %.64q was just forgotten: call again", ErrNotFound, x.Order.CallID)
	case e.draining != nil:
		return ErrDraining
	case e.running >= e.config.MaxRunning && e.countsOf(x).running > 0: // no tenant keeps another out
		return fmt.Errorf("%w: %d executions are unfinished, the most there may be", ErrFull, e.running)
	case gone != nil:
		return gone
	}
	return e.checkTenant(x)
}

// name gives an execution its ids, once. The executor is locked.
func (e *Executor) name(x *Execution) {
	if x.number != 0 {
		return
	}
	e.number++
	x.number, x.ID = e.number, e.ids.of(e.number, x.Order.Session.Owner)
	x.Order.CallID = cmp.Or(x.Order.CallID, x.ID)
}

func keyOf(o *Order) callKey { return callKey{o.Session.Owner, o.Session.ID, o.CallID} }

// CancelWhere is CancelSession for all executions that match, wherever they run. match
// is called once for each that has not ended.
func (e *Executor) CancelWhere(ctx context.Context, match func(*Execution) bool, reason, by string) (int, error) {
	unfinished := slices.DeleteFunc(e.unfinished(func(*Execution) bool { return true }), func(x *Execution) bool { return !match(x) })
	stopAll(unfinished, &Cancellation{Reason: reason, By: by})
	for _, x := range unfinished {
		select {
		case <-x.done:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return len(unfinished), nil
}

func (e *Executor) unfinished(match func(*Execution) bool) []*Execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*Execution
	for _, x := range e.byNumber {
		select {
		case <-x.done:
		default:
			if match(x) {
				list = append(list, x)
			}
		}
	}
	return list
}

// leave makes room for other calls: the tool of x has ended.
func (e *Executor) leave(x *Execution) {
	x.session.Leave()
	x.permit.Release()
	e.mu.Lock()
	e.running--
	e.count(x, -1, 0)
	e.mu.Unlock()
	e.lanes.leave(x)
}

// keep keeps an execution that ended, for as long and as many as configured.
func (e *Executor) keep(x *Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unended--
	e.retained = append(e.retained, x)
	e.limits.used.Add(int64(len(x.Order.Input)))
	e.count(x, 0, 1)
	for len(e.retained) > e.config.MaxRetained || len(e.retained) > 1 && e.limits.used.Load() > e.limits.total {
		e.makeRoom()
	}
	if e.expiry == nil && !e.closed {
		e.expiry = time.AfterFunc(e.config.Retention, e.expire)
	}
	e.closeIfIdle()
}

// makeRoom forgets the oldest execution of the tenant that has the most.
func (e *Executor) makeRoom() {
	if len(e.tenants) > 1 {
		most := e.countsOf(e.retained[0])
		for _, counts := range e.tenants {
			if counts.retained > most.retained {
				most = counts
			}
		}
		i := slices.IndexFunc(e.retained, func(x *Execution) bool { return e.countsOf(x) == most })
		x := e.retained[i] // to the front, where it is most of the time
		copy(e.retained[1:i+1], e.retained[:i])
		e.retained[0] = x
	}
	e.forgetOldest()
}

func (e *Executor) forgetOldest() {
	x := e.retained[0]
	e.retained[0] = nil // the slice keeps its memory
	e.retained = e.retained[1:]
	e.limits.used.Add(-int64(len(x.Order.Input)))
	e.count(x, 0, -1)
	delete(e.byNumber, x.number)
	if k := keyOf(&x.Order); e.byCall[k] == x {
		delete(e.byCall, k)
		if !e.closed {
			e.remember(x)
		}
	}
	x.log.forget()
}

// expire forgets what ended too long ago, and sets the timer for the next.
func (e *Executor) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expiry = nil
	for len(e.retained) > 0 {
		if left := e.config.Retention - time.Since(e.retained[0].ended); left > 0 {
			if e.draining == nil {
				e.expiry = time.AfterFunc(left, e.expire)
			}
			return
		}
		e.forgetOldest()
	}
}

func (e *Executor) closeIfIdle() {
	if e.draining != nil && e.unended == 0 {
		select {
		case <-e.idle:
		default:
			close(e.idle)
		}
	}
}

// Drain takes no new calls and waits for those that run. Those that wait for an
// answer are cancelled, with reason; when ctx ends, the rest is too. After Drain
// every execution has ended.
func (e *Executor) Drain(ctx context.Context, reason string) {
	stopped := &Cancellation{Reason: reason, By: auth.Server}
	e.mu.Lock()
	e.draining = stopped
	e.closeIfIdle()
	e.mu.Unlock()
	stopAll(e.unfinished((*Execution).isAsked), stopped)
	select {
	case <-e.idle:
		return
	case <-ctx.Done():
	}
	stopAll(e.unfinished(func(*Execution) bool { return true }), stopped)
	if r := e.config.Records; r != nil {
		defer time.AfterFunc(e.config.StopGrace+flushTime, r.giveUp).Stop()
	}
	<-e.idle
}

// Close forgets everything. Call it after Drain; again, it does nothing.
func (e *Executor) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	if e.expiry != nil {
		e.expiry.Stop()
	}
	for len(e.retained) > 0 {
		e.forgetOldest()
	}
	for _, list := range e.batches {
		for _, b := range list {
			if b.expiry != nil {
				b.expiry.Stop()
			}
		}
	}
	clear(e.batches)
	e.ended = nil
}

// Stats are counts for metrics. What waits for an answer does not run.
type Stats struct {
	Running, Waiting, Retained int
	LogBytes                   int64
	DroppedEvents, OutputBytes uint64
}

// Stats returns the counts of now.
func (e *Executor) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := int(e.waiting.Load())
	return Stats{
		Running: max(e.running-waiting, 0), Waiting: waiting, Retained: len(e.retained), LogBytes: e.limits.used.Load(),
		DroppedEvents: e.limits.dropped.Load(), OutputBytes: e.outputBytes.Load(),
	}
}

// Draining reports whether new calls are refused.
func (e *Executor) Draining() bool { return e.drainCause() != nil }

func (e *Executor) drainCause() *Cancellation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}
