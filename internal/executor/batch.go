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
	"time"
	"unsafe"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

var (
	// ErrBatchExists says that a session has a batch with this id.
	ErrBatchExists = errors.New("batch exists")
	// ErrCallTwice says that a batch has a call with this id.
	ErrCallTwice = errors.New("call id came twice in the batch")
	// ErrBatchFull says that a batch has as many calls as it may.
	ErrBatchFull = errors.New("batch is full")
)

// Strategy is which calls of a batch run at the same time. The zero value is Auto.
type Strategy int

const (
	// Auto runs calls that only read beside each other, any other alone, in the order
	// they came.
	Auto Strategy = iota
	// Sequential runs one after the other.
	Sequential
	// Parallel runs each when it comes.
	Parallel
	// Batched runs so many at once, in the order they came.
	Batched
)

// BatchOrder is what a batch is made of.
type BatchOrder struct {
	Session  session.Ref
	ID       string // empty: one is given
	Strategy Strategy
	Parallel int // of Batched
	Answer   int // room of the text that the results have together; 0: no bound
	Measure  tools.Measure
}

// A Batch is calls whose events have one order. It holds no events: those are in the
// logs of its executions, and the batch knows in which order they came. Its methods are
// safe for concurrent use.
//
// A batch ends once it was closed and all its calls have ended.
type Batch struct {
	BatchOrder
	Created time.Time

	executor *Executor
	lane     *batchLane // nil where every call runs when it comes
	budget   *textBudget

	// following is held while it changes who follows the executions.
	following sync.Mutex
	followers int

	mu      sync.Mutex
	calls   []batchCall // from 1: the first stands for the batch itself, whose events are facts
	facts   []any       // BatchStarted, CallRefused, SteeringPoint and BatchFinished, without those dropped
	byID    map[string]int
	order   []uint32 // the position of the call that each event is of; 0 for facts
	dropped uint64   // events before those of order
	open    int      // calls that have not ended
	held    int      // bytes of their inputs
	beyond  int      // calls that came when there were as many as may be
	refused int      // calls and orders that were not taken
	closed  bool     // no call follows
	ended   bool     // the last event is in the order
	readers []*BatchReader
	moved   chan struct{} // has room for one; filled when a reader moved or a call ended

	expiry *time.Timer // once the batch has ended; guarded by the executor, as weight is
	weight int64       // bytes that it is counted with among those of logs
}

// batchCall is what a batch knows of a call.
type batchCall struct {
	callID, tool string
	id           string     // of the execution; empty where the call was refused
	execution    *Execution // nil where it is no longer kept
	base         uint64     // how many events of the execution came before those in the order
	noted        uint64     // how many are in the order, or were
	dropped      uint64     // how many are no longer
	inputBytes   int
	outcome      Outcome // 0: the call has not ended
	ended        time.Time
}

// Bounds of a batch.
const (
	maxBatchOrder = 1 << 16  // events whose order is known
	maxUnsent     = 1 << 13  // events that nobody has read, from where no call is taken
	maxHeldInputs = 16 << 20 // bytes of inputs of calls that have not ended, likewise
	keptBatches   = 32       // of a session, once they have ended
	keptFacts     = 1 << 14  // that those have together
	maxRefused    = 1 << 14  // calls and orders that were not taken
)

// NewBatch begins a batch. Close it.
func (e *Executor) NewBatch(order BatchOrder) (*Batch, error) {
	b := &Batch{
		BatchOrder: order, Created: time.Now(), executor: e, lane: laneOf(order.Strategy, order.Parallel),
		calls: make([]batchCall, 1), byID: make(map[string]int), moved: make(chan struct{}, 1),
	}
	if order.Answer > 0 {
		b.budget = &textBudget{left: order.Answer, measure: order.Measure}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining != nil {
		return nil, ErrDraining
	}
	if b.ID == "" {
		e.number++
		b.ID = e.ids.of(e.number, b.Session.Owner)
	}
	if e.batchOf(b.Session, b.ID) != nil {
		return nil, fmt.Errorf("%w: session %.64q has a batch %.64q: watch that one, or use a new id for a new batch", ErrBatchExists, b.Session.ID, b.ID)
	}
	e.batches[b.Session] = append(e.batches[b.Session], b)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state(BatchStarted{})
	return b, nil
}

// FindBatch returns a batch of a session.
func (e *Executor) FindBatch(s session.Ref, id string) (*Batch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b := e.batchOf(s, id); b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("%w: session %.64q has no batch %.64q: it never was, or is no longer kept, for batches end with the server that ran them. Its calls are found by their ids", ErrNotFound, s.ID, id)
}

// batchOf returns a batch; nil where there is none. The executor is locked.
func (e *Executor) batchOf(s session.Ref, id string) *Batch {
	list := e.batches[s]
	if i := slices.IndexFunc(list, func(b *Batch) bool { return b.ID == id }); i >= 0 {
		return list[i]
	}
	return nil
}

// keepIfEnded has the executor keep the batch no longer than what has ended. It is called
// without a lock.
func (b *Batch) keepIfEnded() {
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	if ended {
		b.executor.keepBatch(b)
	}
}

// keepBatch keeps a batch that ended, and forgets the oldest of its session where those
// are too many.
func (e *Executor) keepBatch(b *Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || b.expiry != nil {
		return
	}
	b.weight = b.weigh()
	e.limits.used.Add(b.weight)
	for e.limits.used.Load() > e.limits.total && len(e.ended) > 0 {
		e.dropBatch(e.ended[0])
	}
	e.ended = append(e.ended, b)
	list := slices.Clone(e.batches[b.Session]) // from which batches are dropped
	ended, facts := 0, 0
	for _, old := range slices.Backward(list) {
		if old == b || old.expiry != nil {
			old.mu.Lock()
			ended, facts = ended+1, facts+len(old.facts)
			old.mu.Unlock()
			if old != b && (ended > keptBatches || facts > keptFacts) {
				e.dropBatch(old)
			}
		}
	}
	b.expiry = time.AfterFunc(e.config.Retention, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.dropBatch(b)
	})
}

// weigh returns about how many bytes a batch takes that has ended.
func (b *Batch) weigh() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	const each, call, fact = 4, int(unsafe.Sizeof(batchCall{}) + unsafe.Sizeof(CallSummary{})), 128
	weight := each*cap(b.order) + call*len(b.calls) + fact*len(b.facts)
	for i := range b.calls {
		weight += 2*len(b.calls[i].callID) + len(b.calls[i].tool)
	}
	return int64(weight)
}

// dropBatch forgets a batch. The executor is locked.
func (e *Executor) dropBatch(b *Batch) {
	if b.expiry != nil {
		b.expiry.Stop()
	}
	if i := slices.Index(e.ended, b); i >= 0 {
		e.ended = slices.Delete(e.ended, i, i+1)
		e.limits.used.Add(-b.weight)
	}
	list := e.batches[b.Session]
	if i := slices.Index(list, b); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if e.batches[b.Session] = list; len(list) == 0 {
		delete(e.batches, b.Session)
	}
}

// Start is [Executor.Start] for a call of the batch. What cannot be started is refused.
// The error says why it was.
func (b *Batch) Start(ctx context.Context, job *Job, tool string, inputBytes int) (*Execution, error) {
	position, err := b.Reserve(job.CallID, tool, inputBytes)
	if err != nil {
		job.Permit.Release()
		return nil, err
	}
	return b.StartReserved(ctx, position, job)
}

// Reserve gives a call its position before it is known whether it can be started: follow it
// with StartReserved or RefuseReserved. A call that the batch does not take is refused, and
// the error says why.
func (b *Batch) Reserve(callID, tool string, inputBytes int) (position int, err error) {
	if position, err = b.take(callID, tool, inputBytes); err != nil {
		b.RefuseReserved(position, callID, err)
	}
	return position, err
}

// StartReserved is Start for a call that has its position.
func (b *Batch) StartReserved(ctx context.Context, position int, job *Job) (*Execution, error) {
	job.Batch = b
	x, err := b.executor.Start(ctx, job)
	if err != nil {
		b.RefuseReserved(position, job.CallID, err)
		return nil, err
	}
	b.following.Lock()
	defer b.following.Unlock()
	x.log.join(b, position, x)
	for range b.followers {
		x.followed(+1)
	}
	if b.followers == 0 { // all left while the call was on its way
		x.followed(+1)
		x.followed(-1)
	}
	b.keepIfEnded()
	return x, nil
}

// take gives a call its position. A call that is refused has one too.
func (b *Batch) take(callID, tool string, inputBytes int) (position int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch most := b.executor.config.MaxBatchCalls; {
	case b.closed:
		return 0, fmt.Errorf("%w: the batch takes no more calls", ErrDraining)
	case len(b.calls) > most:
		b.beyond++
		return most + b.beyond, fmt.Errorf("%w: it has %d calls, the most there may be: send the others in another batch", ErrBatchFull, most)
	}
	position = len(b.calls)
	b.calls = append(b.calls, batchCall{callID: callID, tool: tool, inputBytes: inputBytes})
	b.open++
	b.held += inputBytes
	if callID == "" {
		return position, nil
	}
	if other, known := b.byID[callID]; known {
		return position, fmt.Errorf("%w: call %d has the id %.64q: give every call an id of its own", ErrCallTwice, other, callID)
	}
	b.byID[callID] = position
	return position, nil
}

// Refuse notes that a call was not taken, and why. It costs no other call anything.
func (b *Batch) Refuse(callID, tool string, err error) {
	position, full := b.take("", tool, 0)
	if full != nil {
		err = full
	}
	b.RefuseReserved(position, callID, err)
}

// RefuseOrder notes that an order was not taken, and why.
func (b *Batch) RefuseOrder(callID string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	b.state(CallRefused{0, callID, err})
}

// RefuseReserved is Refuse for a call that has its position.
func (b *Batch) RefuseReserved(position int, callID string, err error) {
	defer b.keepIfEnded()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	b.state(CallRefused{position, callID, err})
	if position > 0 && position < len(b.calls) {
		call := &b.calls[position]
		if call.callID = callID; b.byID[callID] == position {
			delete(b.byID, callID)
		}
		b.leave(call)
	}
	b.pause()
}

// leave notes that a call has ended. The batch is locked.
func (b *Batch) leave(call *batchCall) {
	b.open--
	b.held -= call.inputBytes
}

// pause notes that there are no calls to wait for, if that is so: either more may come,
// or this was the last. The batch is locked.
func (b *Batch) pause() {
	b.wakeWaiting()
	switch {
	case b.open > 0 || b.ended:
		return
	case !b.closed:
		b.state(SteeringPoint{len(b.calls) - 1 + b.beyond})
		return
	}
	finished := BatchFinished{Calls: make([]CallSummary, len(b.calls)-1), Duration: time.Since(b.Created)}
	for i, call := range b.calls[1:] {
		finished.Calls[i] = CallSummary{call.callID, call.id, call.tool, call.outcome}
	}
	b.state(finished)
	b.ended = true
}

// Close says that no call follows.
func (b *Batch) Close() {
	defer b.keepIfEnded()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.pause()
	}
}

// join adds the events of a log to those of a batch, now and from now on.
func (l *eventLog) join(b *Batch, position int, x *Execution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.mu.Lock()
	call := &b.calls[position]
	call.execution, call.id = x, x.ID
	call.callID = cmp.Or(call.callID, x.Order.CallID)
	b.byID[call.callID] = position
	n := len(l.events)
	if l.first > 1 { // what is no longer kept has one event in its place
		call.base = l.first - 2
		n++
	}
	for range n {
		b.note(uint32(position))
	}
	b.mu.Unlock()
	place := batchPlace{b, position}
	l.batches = append(l.batches, place)
	if l.ended {
		place.end(l.events[len(l.events)-1])
	}
}

// batchPlace is the place of a log in a batch. Its methods are called with the log
// locked.
type batchPlace struct {
	batch    *Batch
	position int
}

// add notes that the log has another event.
func (p batchPlace) add() {
	p.batch.mu.Lock()
	defer p.batch.mu.Unlock()
	p.batch.note(uint32(p.position))
}

// end notes that the log has its last event.
func (p batchPlace) end(last Event) {
	b := p.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	call := &b.calls[p.position]
	call.ended = last.Time
	if finished, ok := last.Body.(Finished); ok {
		call.outcome = finished.Outcome
	}
	b.leave(call)
	b.pause()
}

// forget notes that the execution is no longer kept.
func (p batchPlace) forget() {
	p.batch.mu.Lock()
	defer p.batch.mu.Unlock()
	p.batch.calls[p.position].execution = nil
}

// state adds a fact about the batch itself, unless the batch has ended. The batch is
// locked.
func (b *Batch) state(fact any) {
	if b.ended {
		return
	}
	b.facts = append(b.facts, fact)
	b.note(0)
}

// note adds an event to the order. The batch is locked.
func (b *Batch) note(position uint32) {
	if len(b.order) == maxBatchOrder {
		b.shed()
	}
	b.order = append(b.order, position)
	b.calls[position].noted++
	for _, r := range b.readers {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// shed forgets the older half of the order.
func (b *Batch) shed() {
	const half = maxBatchOrder / 2
	facts := b.calls[0].dropped
	for _, position := range b.order[:half] {
		b.calls[position].dropped++
	}
	b.order = append(make([]uint32, 0, maxBatchOrder), b.order[half:]...)
	b.facts = slices.Clone(b.facts[b.calls[0].dropped-facts:])
	b.dropped += half
}

// wakeWaiting wakes who waits for room.
func (b *Batch) wakeWaiting() {
	select {
	case b.moved <- struct{}{}:
	default:
	}
}

// AwaitRoom waits until the batch can take another call: until what it has said has been
// read, but for a bound, and the inputs that it holds are not too large. It is called by
// whoever brings the calls, and learns here that nothing more is taken from it.
func (b *Batch) AwaitRoom(ctx context.Context) error {
	b.mu.Lock()
	refused := b.refused
	b.mu.Unlock()
	if refused > maxRefused {
		return fmt.Errorf("%w: %d of its calls and orders were not taken: begin another", ErrBatchFull, refused)
	}
	for !b.hasRoom() {
		select {
		case <-b.moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (b *Batch) hasRoom() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	read := b.dropped + uint64(len(b.order))
	unsent := uint64(0)
	if len(b.readers) > 0 {
		unsent = read - min(read, b.readers[0].number)
	}
	return unsent < maxUnsent && b.held < maxHeldInputs
}
