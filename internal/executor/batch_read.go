// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A BatchEvent is one numbered fact about a batch: [BatchStarted], [CallEvent],
// [CallRefused], [SteeringPoint] or [BatchFinished]. A [Heartbeat] is none: it has the number
// of the one before.
type BatchEvent struct {
	Number uint64
	Body   any
}

// BatchStarted says that a batch began.
type BatchStarted struct{}

// CallEvent is an event of a call.
type CallEvent struct {
	Position            int
	CallID, ExecutionID string
	Event               Event
}

// CallRefused says that a call was not taken, or an order, whose position is 0.
type CallRefused struct {
	Position int
	CallID   string
	Err      error
}

// SteeringPoint says that so many calls have come, and all of them have ended.
type SteeringPoint struct{ Calls int }

// BatchFinished is the end of a batch.
type BatchFinished struct {
	Calls    []CallSummary
	Duration time.Duration
}

// CallSummary tells how a call ended; one that was refused has no execution.
type CallSummary struct {
	CallID, ExecutionID, Tool string
	Outcome                   Outcome
}

// A BatchReader is a place in the events of a batch. It belongs to one goroutine.
type BatchReader struct {
	batch *Batch
	wake  chan struct{} // has room for one; filled when there is news

	number uint64 // of the last event taken; guarded by the batch
	taken  []uint64
	places []*batchFollower
	stand  []BatchEvent // for what is no longer kept
}

// batchFollower is the place of a reader in the log of one call.
type batchFollower struct {
	execution *Execution
	place     *reader
}

// Follow returns a reader placed after an event: [ErrAhead] where there is no such event
// yet. It counts as a follower of every call until it is closed.
func (b *Batch) Follow(after uint64) (*BatchReader, error) {
	b.following.Lock()
	defer b.following.Unlock()
	r := &BatchReader{batch: b, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	if last := b.dropped + uint64(len(b.order)); after > last {
		b.mu.Unlock()
		return nil, fmt.Errorf("%w: event %d of %d", ErrAhead, after, last)
	}
	r.taken = make([]uint64, len(b.calls))
	if r.number = after; after >= b.dropped { // else the first event stands in for what is missing
		for i, call := range b.calls {
			r.taken[i] = call.dropped
		}
		for _, position := range b.order[:after-b.dropped] {
			r.taken[position]++
		}
	}
	b.readers = append(b.readers, r)
	b.mu.Unlock()
	b.followers++
	for _, x := range b.executions() {
		x.followed(+1)
	}
	return r, nil
}

// Batch returns what is read.
func (r *BatchReader) Batch() *Batch { return r.batch }

// Close ends the reading. Where no reader is left, what becomes of the calls is for
// their orders to say.
func (r *BatchReader) Close() {
	b := r.batch
	b.following.Lock()
	defer b.following.Unlock()
	b.mu.Lock()
	b.readers = slices.DeleteFunc(b.readers, func(other *BatchReader) bool { return other == r })
	b.wakeWaiting()
	b.mu.Unlock()
	for position := range r.places {
		r.unfollow(position)
	}
	b.followers--
	for _, x := range b.executions() {
		x.followed(-1)
	}
}

// Next returns the next event, and reports false after the last; a [Heartbeat] when there
// was none for a while. An error is the cause of ctx.
func (r *BatchReader) Next(ctx context.Context) (event BatchEvent, ok bool, err error) {
	var quiet <-chan time.Time
	for {
		if event, ok, ended := r.take(); ok || ended {
			return event, ok, nil
		}
		if quiet == nil {
			quiet = time.After(r.batch.executor.config.Heartbeat)
		}
		select {
		case <-r.wake:
		case <-quiet:
			return BatchEvent{r.number, Heartbeat{}}, true, nil
		case <-ctx.Done():
			return BatchEvent{}, false, context.Cause(ctx)
		}
	}
}

// take returns the next event, if it is there, or that none follows.
func (r *BatchReader) take() (event BatchEvent, ok, ended bool) {
	if len(r.stand) > 0 {
		event, r.stand = r.stand[0], r.stand[1:]
		return event, true, false
	}
	b := r.batch
	b.mu.Lock()
	for len(r.taken) < len(b.calls) {
		r.taken = append(r.taken, 0)
	}
	if before := r.number; before < b.dropped {
		missing := r.catchUp()
		b.mu.Unlock()
		r.standIn(missing, before)
		return r.take()
	}
	at := r.number - b.dropped
	if at == uint64(len(b.order)) {
		defer b.mu.Unlock()
		return BatchEvent{}, false, b.ended
	}
	position := b.order[at]
	r.number++
	r.taken[position]++
	b.wakeWaiting()
	call, number := &b.calls[position], r.number
	if position == 0 {
		fact := b.facts[r.taken[0]-call.dropped-1]
		b.mu.Unlock()
		return BatchEvent{number, fact}, true, false
	}
	known, n := *call, r.taken[position]
	b.mu.Unlock()
	body := CallEvent{int(position), known.callID, known.id, r.eventOf(int(position), &known, n)}
	return BatchEvent{number, body}, true, false
}

// eventOf returns the event of a call that is its nth in the order.
func (r *BatchReader) eventOf(position int, call *batchCall, n uint64) (event Event) {
	seq, x := call.base+n, call.execution
	for len(r.places) <= position {
		r.places = append(r.places, nil)
	}
	if f := r.places[position]; x == nil && f != nil {
		x = f.execution // that is no longer kept, but for this reader
	}
	if x == nil {
		if event = (Event{Seq: seq, Time: call.ended, Body: Skipped{First: seq}}); n == call.noted && call.outcome != 0 {
			event.Body = *r.batch.lost(call)
		}
		return event
	}
	if r.places[position] == nil {
		after := seq - 1
		if n == 1 {
			after = 0 // also where the first events are no longer kept
		}
		f := &batchFollower{execution: x, place: x.callersPlace(after)}
		if f.place == nil {
			f.place = x.log.follow(after)
		}
		r.places[position] = f
	}
	x.log.takeAt(r.places[position].place, seq, &event)
	if _, last := event.Body.(Finished); last {
		r.unfollow(position)
	}
	return event
}

// lost returns the end of a call whose result is no longer kept.
func (b *Batch) lost(call *batchCall) *Finished {
	x := &Execution{ID: call.id, Order: Order{CallID: call.callID}, ended: call.ended, outcome: call.outcome}
	return b.executor.lost(x)
}

func (r *BatchReader) unfollow(position int) {
	if position < len(r.places) && r.places[position] != nil {
		f := r.places[position]
		f.execution.log.unfollow(f.place)
		r.places[position] = nil
	}
}

// missing are the events of a call that the order no longer has, from the nth on.
type missing struct {
	position int
	first    uint64
	batchCall
}

// catchUp places the reader behind what the order no longer has, and returns what that
// was. The batch is locked.
func (r *BatchReader) catchUp() (list []missing) {
	r.number = r.batch.dropped
	for position, call := range r.batch.calls {
		if first := r.taken[position] + 1; first <= call.dropped {
			r.taken[position] = call.dropped
			list = append(list, missing{position, first, call})
		}
	}
	return list
}

// standIn puts one event for each call in the place of those that are missing: its end,
// where that is among them. What was refused, the end of the batch tells. All but the
// last have the number of what was read before: who goes on after one of them gets all
// of them again.
func (r *BatchReader) standIn(list []missing, before uint64) {
	for _, m := range list {
		if m.position == 0 {
			continue
		}
		event := Event{Seq: m.base + m.dropped, Time: r.batch.Created, Body: Skipped{First: m.base + m.first}}
		if m.dropped == m.noted && m.outcome != 0 {
			event = r.eventOf(m.position, &m.batchCall, m.dropped)
		}
		r.stand = append(r.stand, BatchEvent{before, CallEvent{m.position, m.callID, m.id, event}})
	}
	if len(r.stand) > 0 {
		r.stand[len(r.stand)-1].Number = r.number
	}
}
