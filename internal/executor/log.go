// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// eventLog is the numbered, bounded log of one execution. One writer appends;
// any number of readers follow, each at its own pace. What no longer fits is
// dropped from the old end, and a reader that is behind is told.
//
// A writer that is about to drop what nobody has read yet waits for the
// fastest reader, but only while that reader moves: one that takes nothing for
// limits.patience is not waited for until it moves again. So output is
// delivered whole to a reader that keeps reading, and a reader that stopped
// holds nobody up.
type eventLog struct {
	limits *logLimits

	mu      sync.Mutex
	events  []Event // numbered from first
	first   uint64
	bytes   int
	ended   bool // the last event is in
	readers []*reader
	moved   chan struct{} // tells the waiting writer that a reader moved; nil without one
}

// logLimits is shared by all logs of an executor.
type logLimits struct {
	events, bytes int   // of one log
	total         int64 // bytes of all logs; above it a log keeps only floor
	floor         int
	patience      time.Duration

	used    atomic.Int64 // bytes in all logs
	dropped atomic.Uint64
}

// reader is a place in a log.
type reader struct {
	seq     uint64        // the last event taken
	wake    chan struct{} // has room for one; filled when there is news
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
	for !l.ended && len(l.events) > 1 && l.tooLarge() {
		if stop == nil || !l.waitForReader(stop) {
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
	for len(l.events) > 1 && l.tooLarge() {
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
}

func (l *eventLog) tooLarge() bool {
	limit := l.limits.bytes
	if l.limits.used.Load() > l.limits.total {
		limit = min(limit, l.limits.floor)
	}
	return l.bytes > limit || len(l.events) > l.limits.events
}

func (l *eventLog) dropOldest() {
	l.release(eventWeight + l.events[0].Body.weight())
	l.limits.dropped.Add(1)
	l.events[0] = Event{} // the slice still points there
	l.events = l.events[1:]
	l.first++
}

func (l *eventLog) release(weight int) {
	l.bytes -= weight
	l.limits.used.Add(-int64(weight))
}

// waitForReader waits, if there is reason to, until a reader has taken the
// oldest event. It reports whether it waited, which unlocks the log meanwhile.
func (l *eventLog) waitForReader(stop <-chan struct{}) bool {
	oldest, hope := l.first, false
	for _, r := range l.readers {
		if r.seq >= oldest {
			return false
		}
		hope = hope || !r.stalled
	}
	if !hope {
		return false
	}
	moved := make(chan struct{}, 1)
	l.moved = moved
	l.mu.Unlock()
	timer := time.NewTimer(l.limits.patience)
	defer timer.Stop()
	select {
	case <-moved:
		l.mu.Lock()
		return true
	case <-stop:
	case <-timer.C:
	}
	l.mu.Lock()
	l.moved = nil
	for _, r := range l.readers {
		r.stalled = r.seq < oldest
	}
	return true
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

// follow returns a reader placed after an event.
func (l *eventLog) follow(after uint64) *reader {
	r := &reader{seq: after, wake: make(chan struct{}, 1)}
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
	l.tellWriter() // it may have waited for this one
}

func (l *eventLog) tellWriter() {
	if l.moved != nil {
		l.moved <- struct{}{}
		l.moved = nil
	}
}

// next returns the event after the reader's place and moves it there. It
// returns ok false at the end of the log, and a Heartbeat when nothing happened
// for that long.
func (l *eventLog) next(ctx context.Context, r *reader, heartbeat time.Duration) (event Event, ok bool, err error) {
	for {
		l.mu.Lock()
		last := l.first + uint64(len(l.events)) - 1
		switch {
		case r.seq+1 < l.first:
			event = Event{Seq: l.first - 1, Time: time.Now(), Body: Skipped{First: r.seq + 1}}
		case len(l.events) > 0 && r.seq < last:
			event = l.events[r.seq+1-l.first]
		case l.ended:
			l.mu.Unlock()
			return Event{}, false, nil
		default:
			r.waiting = true
		}
		if !r.waiting {
			r.seq = event.Seq
			r.stalled = false
			l.tellWriter()
			l.mu.Unlock()
			return event, true, nil
		}
		l.mu.Unlock()

		timer := time.NewTimer(heartbeat)
		select {
		case <-r.wake:
			timer.Stop()
			continue
		case <-ctx.Done():
			timer.Stop()
			err = context.Cause(ctx)
		case <-timer.C:
			event, ok = Event{Seq: r.seq, Time: time.Now(), Body: Heartbeat{}}, true
		}
		l.mu.Lock()
		if !r.waiting { // woken meanwhile
			<-r.wake
		}
		r.waiting = false
		l.mu.Unlock()
		return event, ok, err
	}
}

// forget gives back what the log holds of the common memory.
func (l *eventLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(l.bytes)
}
