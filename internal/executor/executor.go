// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
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

// Config sets the limits of an executor. Zero fields take the defaults named.
type Config struct {
	// Logger takes what goes wrong inside tools. Required.
	Logger *zap.Logger

	// Observe, if set, is called once for each execution, with its end, just
	// before anybody sees it.
	Observe func(*Execution, *Finished)

	// Starting, if set, is called just before a tool runs. What it returns, if
	// anything, is how the call ends instead.
	Starting func(*Execution) *Finished

	// Desk is where questions are put. Without one nobody can be asked.
	Desk *approval.Desk

	// Mask, if set, returns a text without the secrets in it. It is asked about the
	// texts of every result, whatever tool it is of, and of what comes before it.
	Mask func(text string) string

	MaxRunning       int           // unfinished executions at once; 20,000
	DefaultTimeout   time.Duration // of a tool that names none; 2 minutes
	MaxTimeout       time.Duration // 1 hour
	StopGrace        time.Duration // for a tool that was told to stop; 5 seconds
	DisconnectGrace  time.Duration // for a client to come back; 30 seconds
	Retention        time.Duration // of ended executions; 10 minutes
	MaxRetained      int           // ended executions kept; 10,000
	MaxRemembered    int           // call ids of a session, of executions that are no longer kept; 20,000
	MaxRememberedAll int           // the same of all sessions together; 500,000
	MaxResultBytes   int           // content of a result; 1 MiB
	MaxLogBytes      int           // events of one execution; 256 KiB
	MaxLogEvents     int           // events of one execution; 10,000
	LogMemory        int64         // bytes of all logs together; 256 MiB
	ReaderPatience   time.Duration // how long a full log waits for a reader that stopped; 1 second
	ProgressInterval time.Duration // between two reports of progress; 100 ms
	Heartbeat        time.Duration // on a stream without events; 15 seconds
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.MaxRunning = cmp.Or(c.MaxRunning, 20_000)
	c.DefaultTimeout = cmp.Or(c.DefaultTimeout, 2*time.Minute)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, time.Hour)
	c.StopGrace = cmp.Or(c.StopGrace, 5*time.Second)
	c.DisconnectGrace = cmp.Or(c.DisconnectGrace, 30*time.Second)
	c.Retention = cmp.Or(c.Retention, 10*time.Minute)
	c.MaxRetained = cmp.Or(c.MaxRetained, 10_000)
	c.MaxRemembered = cmp.Or(c.MaxRemembered, 20_000)
	c.MaxRememberedAll = cmp.Or(c.MaxRememberedAll, 500_000)
	c.MaxResultBytes = cmp.Or(c.MaxResultBytes, 1<<20)
	c.MaxLogBytes = cmp.Or(c.MaxLogBytes, 256<<10)
	c.MaxLogEvents = cmp.Or(c.MaxLogEvents, 10_000)
	c.LogMemory = cmp.Or(c.LogMemory, 256<<20)
	c.ReaderPatience = cmp.Or(c.ReaderPatience, time.Second)
	c.ProgressInterval = cmp.Or(c.ProgressInterval, 100*time.Millisecond)
	c.Heartbeat = cmp.Or(c.Heartbeat, 15*time.Second)
	return c
}

// An Executor runs calls. Its methods are safe for concurrent use.
type Executor struct {
	config Config
	limits logLimits
	birth  string // tells this executor's ids from those of any other

	outputBytes atomic.Uint64
	waiting     atomic.Int64 // executions that wait for an answer
	lanes       lanes
	watchers    watchers

	mu        sync.Mutex
	number    uint64 // of the newest execution
	byNumber  map[uint64]*Execution
	byCall    map[callKey]*Execution    // by the call ids that callers gave
	past      map[sessionKey]*pastCalls // of executions that are no longer kept
	running   int                       // executions whose tools have not ended
	unended   int                       // executions without their last event
	pastTotal int                       // of past
	draining  bool
	closed    bool
	idle      chan struct{} // closed when draining and nothing runs
	retained  []*Execution  // ended, oldest end first
	expiry    *time.Timer   // for the first of retained; nil without one
}

type callKey struct{ owner, session, call string }

// New returns an executor.
func New(config Config) *Executor {
	config = config.WithDefaults()
	return &Executor{
		config: config,
		limits: logLimits{
			events: config.MaxLogEvents, bytes: config.MaxLogBytes,
			total: config.LogMemory, floor: 2 * MaxChunk, patience: config.ReaderPatience,
		},
		birth:    strings.ToLower(rand.Text()[:8]),
		byNumber: make(map[uint64]*Execution),
		byCall:   make(map[callKey]*Execution),
		past:     make(map[sessionKey]*pastCalls),
		idle:     make(chan struct{}),
	}
}

// Config returns the limits in force.
func (e *Executor) Config() Config { return e.config }

// Start begins to carry out an order, or to follow it: the same call id with
// the same digest returns the execution there is. It does not wait for
// the call, nor for the answer to a question. What it needs of the order it copies.
// ctx gives the call its identity and trace; its end means nothing.
func (e *Executor) Start(ctx context.Context, order *Order) (*Execution, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x := e.newExecution(order, cancel)
	if of := span.Of(ctx); of.Sampled() {
		x.Trace = of.Trace()
	}
	if existing, err := e.register(x, order.Call != nil || order.Refusal != nil); existing != nil || err != nil {
		cancel(nil)
		order.release()
		return existing, err
	}
	refusal := order.Refusal
	if order.Record != nil {
		refusal = cmp.Or(order.Record(x), refusal)
	}
	if refusal != nil {
		x.finish(*refusal)
		return x, nil
	}
	x.accepted()
	call := order.Call
	if order.Ask != nil {
		x.ask(ctx, *order.Ask, call)
		return x, nil
	}
	if !e.lanes.enter(x, func() { x.turn(ctx, call) }) {
		x.queue(ctx)
		return x, nil
	}
	if !x.start() {
		x.finish(x.stopped(context.Cause(ctx)))
		return x, nil
	}
	go x.run(ctx, call)
	return x, nil
}

// newExecution returns what an order becomes once it is registered.
func (e *Executor) newExecution(order *Order, cancel context.CancelCauseFunc) *Execution {
	x := &Execution{
		Order: *order, Created: time.Now(), executor: e,
		log: eventLog{limits: &e.limits}, state: Waiting, cancel: cancel,
		ending: make(chan struct{}), done: make(chan struct{}),
	}
	x.Order.Call, x.Order.Ask, x.Order.Record = nil, nil, nil
	x.Order.Timeout = min(cmp.Or(order.Timeout, e.config.DefaultTimeout), e.config.MaxTimeout)
	x.caller = x.log.follow(0)
	return x
}

// register gives x its ids and makes it known, unless its call id is known
// already: then it returns the execution that has it. One that was not judged,
// because its call id was known, is not made known.
func (e *Executor) register(x *Execution, judged bool) (*Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if existing, err := e.sameCall(&x.Order); existing != nil || err != nil {
		return existing, err
	}
	switch {
	case !judged:
		return nil, fmt.Errorf("%w: what was known of call %.64q was just forgotten: call again", ErrNotFound, x.Order.CallID)
	case e.draining:
		return nil, ErrDraining
	case e.running >= e.config.MaxRunning:
		return nil, fmt.Errorf("%w: %d executions are unfinished, the most there may be", ErrFull, e.running)
	case !x.Order.Session.Enter():
		return nil, fmt.Errorf("%w: %q was closed", session.ErrNotFound, x.Order.Session.ID)
	}
	e.number++
	x.number = e.number
	x.ID = e.idOf(e.number)
	e.byNumber[x.number] = x
	if x.Order.CallID == "" {
		x.Order.CallID = x.ID
	} else {
		e.byCall[keyOf(&x.Order)] = x
	}
	e.running++
	e.unended++
	e.watchers.changed()
	return nil, nil
}

func keyOf(o *Order) callKey { return callKey{o.Owner, o.Session.ID, o.CallID} }

func (e *Executor) sameCall(order *Order) (*Execution, error) {
	if order.CallID == "" {
		return nil, nil
	}
	existing := e.byCall[keyOf(order)]
	if existing != nil && existing.Order.Session != order.Session && order.Session.ID != session.DefaultID {
		return nil, nil // of a session that was closed and had the same id
	}
	if existing == nil {
		return e.samePast(order)
	}
	if existing.Order.Digest != order.Digest && !existing.Order.sameText(order) {
		return nil, conflict(existing)
	}
	return existing, nil
}

// samePast is sameCall for executions that are no longer kept.
func (e *Executor) samePast(order *Order) (*Execution, error) {
	existing, past := e.pastOf(order.Owner, order.Session.ID, order.CallID)
	if existing == nil || existing.Order.Session != order.Session {
		return nil, nil
	}
	if !past.is(order) {
		return nil, conflict(existing)
	}
	return existing, nil
}

func conflict(x *Execution) error {
	return fmt.Errorf("%w: %.64q ran %s as execution %s with another tool or input: use a new id for a new call",
		ErrConflict, x.Order.CallID, x.Order.Tool, x.ID)
}

func (o *Order) sameText(other *Order) bool { return o.Text != 0 && o.Text == other.Text }

// KnownText reports whether the order's call id is known with the same text, so that
// the order need not be judged: Start returns the execution there is.
func (e *Executor) KnownText(order *Order) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	existing, err := e.sameCall(order)
	return existing != nil && err == nil && existing.Order.sameText(order)
}

// Existing returns the execution that has the order's call id, or nil if there
// is none; [ErrConflict] when it was made for another call.
func (e *Executor) Existing(order *Order) (*Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sameCall(order)
}

// Find returns an execution of owner.
func (e *Executor) Find(owner, id string) (*Execution, error) {
	if number, ok := strings.CutPrefix(id, e.birth+"-"); ok {
		n, err := strconv.ParseUint(number, 10, 64)
		e.mu.Lock()
		x := e.byNumber[n]
		e.mu.Unlock()
		if err == nil && x != nil && (owner == auth.Everybody || x.Order.Owner == owner) && x.ID == id {
			return x, nil
		}
	}
	return nil, fmt.Errorf("%w: %.64q: it never was, is not yours, or is no longer kept. Every event of a call has the id of its execution; a call id of yours is known for longer", ErrNotFound, id)
}

// FindCall returns the execution of owner with a call id.
func (e *Executor) FindCall(owner, sessionID, callID string) (*Execution, error) {
	sessionID = cmp.Or(sessionID, session.DefaultID)
	e.mu.Lock()
	x := e.byCall[callKey{owner, sessionID, callID}]
	if x == nil {
		x, _ = e.pastOf(owner, sessionID, callID)
	}
	e.mu.Unlock()
	if x != nil {
		return x, nil
	}
	// A call id that was given here is the id of its execution.
	if x, err := e.Find(owner, callID); err == nil && x.Order.CallID == callID && x.Order.Session.ID == sessionID {
		return x, nil
	}
	return nil, fmt.Errorf("%w: session %.64q has no call %.64q: a call id is the one that the call was made with, and counts in the session it was made in", ErrNotFound, sessionID, callID)
}

// List returns the executions of owner that match, newest first, at most limit
// of them. after is where to continue, 0 for the beginning; next is where the
// next page continues, 0 on the last.
func (e *Executor) List(owner string, match func(*Execution) bool, after uint64, limit int) (page []*Execution, next uint64) {
	e.mu.Lock()
	var all []*Execution
	for _, x := range e.byNumber {
		if (owner == auth.Everybody || x.Order.Owner == owner) && (after == 0 || x.number < after) {
			all = append(all, x)
		}
	}
	e.mu.Unlock()
	all = slices.DeleteFunc(all, func(x *Execution) bool { return !match(x) })
	slices.SortFunc(all, func(a, b *Execution) int { return cmp.Compare(b.number, a.number) })
	if len(all) <= limit {
		return all, 0
	}
	return all[:limit], all[limit-1].number
}

// CancelSession cancels what runs in a session, waits for it to end, and
// returns how many executions that were.
func (e *Executor) CancelSession(ctx context.Context, s *session.Session, reason, by string) (int, error) {
	unfinished := e.unfinished(func(x *Execution) bool { return x.Order.Session == s })
	for _, x := range unfinished {
		x.Cancel(reason, by)
	}
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
func (e *Executor) leave(x *Execution, finished *Finished) {
	x.Order.Session.Leave()
	x.Order.release()
	e.mu.Lock()
	e.running--
	e.mu.Unlock()
	e.lanes.leave(x)
	if e.config.Observe != nil {
		e.config.Observe(x, finished)
	}
}

// keep keeps an execution that ended, for as long and as many as configured.
func (e *Executor) keep(x *Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unended--
	e.retained = append(e.retained, x)
	for len(e.retained) > e.config.MaxRetained || len(e.retained) > 1 && e.limits.used.Load() > e.limits.total {
		e.forgetOldest()
	}
	if e.expiry == nil && !e.closed {
		e.expiry = time.AfterFunc(e.config.Retention, e.expire)
	}
	e.closeIfIdle()
}

func (e *Executor) forgetOldest() {
	x := e.retained[0]
	e.retained[0] = nil // the slice still points there
	e.retained = e.retained[1:]
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
			if !e.draining {
				e.expiry = time.AfterFunc(left, e.expire)
			}
			return
		}
		e.forgetOldest()
	}
}

func (e *Executor) closeIfIdle() {
	if e.draining && e.unended == 0 {
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
	e.mu.Lock()
	e.draining = true
	e.closeIfIdle()
	e.mu.Unlock()
	for _, x := range e.unfinished((*Execution).asked) {
		x.Cancel(reason, auth.Server)
	}
	select {
	case <-e.idle:
		return
	case <-ctx.Done():
	}
	for _, x := range e.unfinished(func(*Execution) bool { return true }) {
		x.Cancel(reason, auth.Server)
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
func (e *Executor) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}
