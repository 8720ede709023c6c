// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// eventLog is the numbered, bounded log of one execution. One writer appends;
// any number of readers follow, each at its own pace. What no longer fits is
// dropped from the old end, and a reader that is behind gets Skipped in its place.
//
// One reader sets the pace: the one that has followed longest, which is the
// caller unless it hung up. A writer that is about to drop events which that reader has
// not taken yet waits until the reader has taken half of the log, but only while the reader
// moves: a reader that takes nothing for limits.patience is passed over until it
// moves again. So a caller that keeps reading gets all output, whoever else
// watches, and a caller that stopped reading holds nobody up.
type eventLog struct {
	limits *logLimits

	mu      sync.Mutex
	events  []Event // numbered from first
	first   uint64
	bytes   int
	ended   bool          // the last event is in
	readers []*reader     // in the order they came
	waits   *reader       // what the writer waits for; nil when it does not
	goal    uint64        // the event that the writer waits for it to take
	moved   chan struct{} // tells the writer that it did
	batches []batchPlace  // whose events are those of the log too
}

// logLimits is shared by all logs of an executor.
type logLimits struct {
	events, bytes int   // of one log
	total         int64 // bytes of all logs; above it a log keeps only floor
	floor         int
	patience      time.Duration

	used    atomic.Int64 // bytes in all logs
	dropped atomic.Uint64
	chunks  sync.Pool // of *chunk
}

// reader is a place in a log.
type reader struct {
	seq     uint64        // the last event taken
	before  uint64        // seq when the writer last began to wait
	wake    chan struct{} // has room for one; filled when there is news; nil before the first wait
	waiting bool
	stalled bool // the writer gave up waiting for it
}

// append adds an event. It waits for readers only if stop is not nil, and no
// longer once stop is closed.
func (l *eventLog) append(body Body, now time.Time, stop <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.add(body, now)
	for !l.ended && l.tooLarge(1) {
		if stop == nil {
			l.trim()
			return
		}
		if !l.waitForPace(stop) {
			l.dropOldest()
		}
	}
}

// end adds the last event. Nothing is added after it.
func (l *eventLog) end(body Body, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.add(body, now)
	l.ended = true
	l.trim()
	for _, p := range l.batches {
		p.end(l.events[len(l.events)-1])
	}
}

// trim drops what is too much without waiting. What the reader that sets the
// pace has not taken stays, up to twice the size of a log.
func (l *eventLog) trim() {
	for l.tooLarge(2) || l.tooLarge(1) && (l.pace() == nil || l.pace().seq >= l.first) {
		l.dropOldest()
	}
}

func (l *eventLog) add(body Body, now time.Time) {
	if l.first == 0 {
		l.first = 1
	}
	l.events = append(l.events, Event{Seq: l.first + uint64(len(l.events)), Time: now, Body: body})
	weight := eventWeight + body.weight()
	l.bytes += weight
	l.limits.used.Add(int64(weight))
	for _, r := range l.readers {
		if r.waiting {
			r.waiting = false
			r.wake <- struct{}{}
		}
	}
	for _, p := range l.batches {
		p.add()
	}
}

// tooLarge reports whether the log is more than so many times what it may be.
// The newest event is never too much.
func (l *eventLog) tooLarge(times int) bool {
	limit := l.limits.bytes
	if l.limits.used.Load() > l.limits.total {
		limit = min(limit, l.limits.floor)
	}
	return len(l.events) > 1 && (l.bytes > times*limit || len(l.events) > times*l.limits.events)
}

// pace returns the reader that sets the pace, or nil if none does.
func (l *eventLog) pace() *reader {
	for _, r := range l.readers {
		if !r.stalled {
			return r
		}
	}
	return nil
}

func (l *eventLog) dropOldest() {
	l.release(eventWeight + l.events[0].Body.weight())
	if o, ok := l.events[0].Body.(Output); ok {
		o.Release()
	}
	l.limits.dropped.Add(1)
	l.events[0] = Event{} // the slice keeps its memory
	l.events = l.events[1:]
	l.first++
}

func (l *eventLog) release(weight int) {
	l.bytes -= weight
	l.limits.used.Add(-int64(weight))
}

// waitForPace waits, if there is reason to, for the reader that sets the pace.
// It reports whether it waited, which unlocks the log meanwhile. When that
// reader takes nothing, all those that took nothing either are passed over from
// then on: readers that stopped cost one wait together.
func (l *eventLog) waitForPace(stop <-chan struct{}) bool {
	pace := l.pace()
	if pace == nil || pace.seq >= l.first {
		return false
	}
	for _, r := range l.readers {
		r.before = r.seq
	}
	moved := make(chan struct{}, 1)
	l.waits, l.goal, l.moved = pace, l.first+uint64(len(l.events)/2), moved
	l.mu.Unlock()
	timer := time.NewTimer(l.limits.patience)
	defer timer.Stop()
	select {
	case <-moved:
	case <-stop:
	case <-timer.C:
	}
	l.mu.Lock()
	l.waits = nil
	if pace.seq == pace.before {
		for _, r := range l.readers {
			r.stalled = r.seq == r.before && r.seq < l.first
		}
	}
	return true
}

// tellWriter ends the wait of the writer for a reader.
func (l *eventLog) tellWriter(r *reader) {
	if l.waits == r {
		l.waits = nil
		l.moved <- struct{}{}
	}
}

// bounds returns the numbers of the oldest and the newest event kept; both are 0
// in an empty log.
func (l *eventLog) bounds() (first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return 0, 0
	}
	return l.first, l.first + uint64(len(l.events)) - 1
}

// held returns about how many bytes the log holds.
func (l *eventLog) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// follow returns a reader placed after an event.
func (l *eventLog) follow(after uint64) *reader {
	r := &reader{seq: after}
	l.mu.Lock()
	l.readers = append(l.readers, r)
	l.mu.Unlock()
	return r
}

func (l *eventLog) unfollow(r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.readers, r)
	l.readers = slices.Delete(l.readers, i, i+1)
	l.tellWriter(r)
}

// next returns the event after the reader's place and moves it there. It
// returns ok false at the end of the log, and a Heartbeat when nothing happened
// for that long. It waits in await, whose frame is small, as is its own: a reader that
// waits keeps its stack.
func (l *eventLog) next(ctx context.Context, r *reader, heartbeat time.Duration) (event Event, ok bool, err error) {
	for waits := false; ; waits = true {
		if l.take(r, waits, &event) {
			return event, event.Body != nil, nil
		}
		if !waits {
			runtime.Gosched() // a short call ends while others run
			continue
		}
		switch l.await(ctx, r, heartbeat) {
		case leaves:
			return Event{}, false, context.Cause(ctx)
		case idles:
			return Event{Seq: r.seq, Time: time.Now(), Body: Heartbeat{}}, true, nil
		}
	}
}

// take stores the event after the reader's place and moves the reader there; at the end
// of the log the event has no body. It reports false where there is no event yet, and
// then has the next one wake the reader, if the reader waits.
//
//go:noinline
func (l *eventLog) take(r *reader, waits bool, event *Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.first + uint64(len(l.events)) - 1
	switch {
	case r.seq+1 < l.first:
		*event = Event{Seq: l.first - 1, Time: time.Now(), Body: Skipped{First: r.seq + 1}}
	case len(l.events) > 0 && r.seq < last:
		*event = l.events[r.seq+1-l.first]
		if o, ok := event.Body.(Output); ok {
			o.retain()
		}
	case l.ended:
		*event = Event{}
		return true
	default:
		if r.waiting = waits; waits && r.wake == nil {
			r.wake = make(chan struct{}, 1)
		}
		return false
	}
	r.seq = event.Seq
	r.stalled = false
	if r.seq >= l.goal {
		l.tellWriter(r)
	}
	return true
}

// takeAt stores the event with a number, which is in the log or was, and moves the reader
// there.
func (l *eventLog) takeAt(r *reader, seq uint64, event *Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq < l.first {
		*event = Event{Seq: seq, Time: time.Now(), Body: Skipped{First: r.seq + 1}}
	} else {
		*event = l.events[seq-l.first]
		if o, ok := event.Body.(Output); ok {
			o.retain()
		}
	}
	r.seq = seq
	r.stalled = false
	if r.seq >= l.goal {
		l.tellWriter(r)
	}
}

// What ends the wait of a reader.
type wakeup int

const (
	woken  wakeup = iota // an event came
	idles                // nothing came for a while
	leaves               // the reader reads no more
)

// await waits for the next event.
//
//go:noinline
func (l *eventLog) await(ctx context.Context, r *reader, heartbeat time.Duration) wakeup {
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	select {
	case <-r.wake:
		return woken
	case <-ctx.Done():
		l.giveUp(r)
		return leaves
	case <-timer.C:
		l.giveUp(r)
		return idles
	}
}

// giveUp has the reader no longer be woken by the next event.
func (l *eventLog) giveUp(r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !r.waiting { // woken meanwhile
		<-r.wake
	}
	r.waiting = false
}

// forget gives back what the log holds of the common memory, and has batches no longer
// keep it.
func (l *eventLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(l.bytes)
	for _, p := range l.batches {
		p.forget()
	}
}

// keepBatches has the executor keep those batches no longer than itself that ended with
// the log.
func (l *eventLog) keepBatches() {
	l.mu.Lock()
	batches := l.batches
	l.mu.Unlock()
	for _, p := range batches {
		p.batch.keepIfEnded()
	}
}
