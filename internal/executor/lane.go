// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"
	"sync"

	"github.com/toolserver/toolserver/internal/session"
)

// lanes see to it that calls of batches, and of sessions that want so, run in order:
// those that only read beside each other, any other alone. A call first needs its turn
// in its batch, then in its session. Of calls that may run by that, the places decide
// how many do. A call that waits for its turn has no goroutine.
//
// The mutex is the innermost: whoever holds that of an execution may take it, and
// turns are called without any.
type lanes struct {
	mu        sync.Mutex
	bySession map[session.Ref]*lane
	places    places
}

// A lane has the calls of one session.
type lane struct {
	running map[*Execution]bool
	alone   bool // what runs, runs alone
	queue   []*Execution
}

// enter gives a call its turn, if it has come, and reports so. Otherwise the turn of
// the execution is called when it comes, without a lock and on the goroutine of whoever
// makes room, unless the call has left before.
func (l *lanes) enter(x *Execution) bool {
	ordered, inBatch := x.session.Settings().Ordered, x.batch != nil && x.batch.lane != nil
	if !ordered && !inBatch && l.places.most == 0 { // which never changes
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.gone {
		return true // to nothing: it has ended
	}
	if (!inBatch || x.batch.lane.admit(x)) && (!ordered || l.admit(x)) && l.places.take(x) {
		return true
	}
	x.waits = true
	x.executor.waiting.Add(1)
	return false
}

// admit gives a call its turn in its lane, or queues it there.
func (l *lanes) admit(x *Execution) bool {
	s := x.Order.Session
	at := l.bySession[s]
	if at == nil {
		at = &lane{running: make(map[*Execution]bool)}
		if l.bySession == nil {
			l.bySession = make(map[session.Ref]*lane)
		}
		l.bySession[s] = at
	}
	if len(at.queue) == 0 && at.admits(x) {
		at.admit(x)
		return true
	}
	at.queue = append(at.queue, x)
	return false
}

// safe reports whether the call may run beside others.
func (x *Execution) safe() bool { return x.Order.ConcurrencySafe }

func (l *lane) admits(x *Execution) bool {
	return len(l.running) == 0 || x.safe() && !l.alone
}

func (l *lane) admit(x *Execution) {
	l.running[x] = true
	l.alone = !x.safe()
}

// leave makes room for those that wait: the call has ended, or will not run.
func (l *lanes) leave(x *Execution) {
	for _, next := range l.left(x) {
		next.turn()
	}
}

// left takes a call out of its lanes and its place, and returns those whose turn has come.
func (l *lanes) left(x *Execution) (next []*Execution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.gone = true
	x.stopWaiting()
	next = l.places.leave(x)
	turns := l.leftLane(x)
	if x.batch != nil && x.batch.lane != nil {
		for _, turn := range x.batch.lane.leave(x) {
			if !turn.session.Settings().Ordered || l.admit(turn) {
				turns = append(turns, turn)
			}
		}
	}
	for _, turn := range turns {
		if l.places.take(turn) {
			next = append(next, turn)
		}
	}
	for _, turn := range next {
		turn.stopWaiting()
	}
	return next
}

// stopWaiting notes that a call no longer waits for its turn. The lanes are locked.
func (x *Execution) stopWaiting() {
	if x.waits {
		x.waits = false
		x.executor.waiting.Add(-1)
	}
}

// leftLane takes a call out of its lane and returns those whose turn has come there.
func (l *lanes) leftLane(x *Execution) (next []*Execution) {
	at := l.bySession[x.Order.Session]
	if at == nil {
		return nil
	}
	delete(at.running, x)
	if i := slices.Index(at.queue, x); i >= 0 {
		at.queue = slices.Delete(at.queue, i, i+1)
	}
	for len(at.queue) > 0 && at.admits(at.queue[0]) {
		first := at.queue[0]
		at.queue = slices.Delete(at.queue, 0, 1)
		at.admit(first)
		next = append(next, first)
	}
	if len(at.running) == 0 {
		delete(l.bySession, x.Order.Session)
	}
	return next
}
