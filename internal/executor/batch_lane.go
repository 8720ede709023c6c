// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import "slices"

// A batchLane has the calls of one batch in the order they came. A call has its place
// from when it came, also while a person is asked about it, so that nothing that came
// later overtakes it where the two do not go together. The lock of the lanes guards it.
type batchLane struct {
	most      int  // calls that run at once; 0: no bound
	exclusive bool // what is not safe runs alone
	running   map[*Execution]bool
	queue     []*Execution
}

// laneState is where a call stands in the lane of its batch.
type laneState int

const (
	unplaced   laneState = iota // it has no place: there is no lane, or the call has left
	placed                      // it came, and may not run yet
	turnsReady                  // it waits for its turn
	turned                      // it had its turn
)

// laneOf returns the lane of a strategy; nil for one that needs none.
func laneOf(strategy Strategy, parallel int) *batchLane {
	lane := &batchLane{running: make(map[*Execution]bool)}
	switch strategy {
	case Parallel:
		return nil
	case Sequential:
		lane.most = 1
	case Batched:
		lane.most = parallel
	default:
		lane.exclusive = true
	}
	return lane
}

// place gives a call its place behind those that came before.
func (l *lanes) place(x *Execution) {
	if x.batch == nil || x.batch.lane == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.gone {
		return
	}
	x.turning = placed
	x.batch.lane.queue = append(x.batch.lane.queue, x)
}

// admit gives a call its turn, if that has come, and reports so.
func (b *batchLane) admit(x *Execution) bool {
	x.turning = turnsReady
	return slices.Contains(b.next(), x)
}

// next gives those their turn that are ready and for which it has come. A call needs to
// go together with what runs and with all that came before it.
func (b *batchLane) next() (next []*Execution) {
	before, safe := len(b.running), true
	for x := range b.running {
		safe = safe && x.safe()
	}
	kept := b.queue[:0]
	for i, x := range b.queue {
		if b.most > 0 && before >= b.most || b.exclusive && !safe {
			kept = append(kept, b.queue[i:]...) // nothing that follows can run
			break
		}
		if x.turning == turnsReady && (!b.exclusive || x.safe() || before == 0) {
			x.turning = turned
			b.running[x] = true
			next = append(next, x)
		} else {
			kept = append(kept, x)
		}
		before++
		safe = safe && x.safe()
	}
	clear(b.queue[len(kept):]) // the slice keeps its memory
	b.queue = kept
	return next
}

// leave takes a call out, and returns those whose turn has come.
func (b *batchLane) leave(x *Execution) []*Execution {
	switch x.turning {
	case unplaced:
		return nil
	case turned:
		delete(b.running, x)
	default:
		if i := slices.Index(b.queue, x); i >= 0 {
			b.queue = slices.Delete(b.queue, i, i+1)
		}
	}
	x.turning = unplaced
	return b.next()
}
