// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// watchers are those who wait for executions to come, to begin and to end.
type watchers struct {
	count atomic.Int32
	mu    sync.Mutex
	wake  chan struct{} // closed with the next change; nil while nobody waits for it
}

// changed wakes those who wait. Without any it costs next to nothing.
func (w *watchers) changed() {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake != nil {
		close(w.wake)
		w.wake = nil
	}
}

// next returns what is closed with the next change.
func (w *watchers) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake == nil {
		w.wake = make(chan struct{})
	}
	return w.wake
}

// Watch yields the executions of owner that match and have not ended, the oldest
// first, and from then on each as it comes, begins to run and ends, with where it
// stands. Changes of one that follow each other within the interval of progress
// are joined. It yields nil when that was all for now, and now and then while
// nothing changes. It ends with ctx, or when everything has ended that ran on a
// server that shuts down. The watcher does not count as a follower.
func (e *Executor) Watch(ctx context.Context, owner auth.Owner, match func(*Execution) bool) iter.Seq2[*Execution, Info] {
	return func(yield func(*Execution, Info) bool) {
		e.watchers.count.Add(1)
		defer e.watchers.count.Add(-1)
		var known map[uint64]State
		for {
			wake := e.watchers.next()
			all := e.list(owner, match, 0)
			slices.Reverse(all)
			states := make(map[uint64]State, len(all))
			for _, x := range all {
				info := x.Info()
				states[x.number] = info.State
				if known[x.number] == info.State || known == nil && info.State == Ended {
					continue
				}
				if !yield(x, info) {
					return
				}
			}
			known = states
			idle := func() bool { return yield(nil, Info{}) }
			if !idle() || !e.awaitChange(ctx, wake, idle) {
				return
			}
		}
	}
}

// Changed wakes those who watch where something has changed that is not an
// execution: its session was closed.
func (e *Executor) Changed() { e.watchers.changed() }

// awaitChange waits for wake, and then for what changes at the same time. It
// reports false where the watching ends, or where idle does, which it calls now
// and then.
func (e *Executor) awaitChange(ctx context.Context, wake <-chan struct{}, idle func() bool) bool {
	heartbeat := time.NewTicker(e.config.Heartbeat)
	defer heartbeat.Stop()
	for waiting := true; waiting; {
		select {
		case <-wake:
			waiting = false
		case <-heartbeat.C:
			if !idle() {
				return false
			}
		case <-ctx.Done():
			return false
		case <-e.idle:
			select {
			case <-wake: // the last ends are still to be told
				waiting = false
			default:
				return false
			}
		}
	}
	select {
	case <-time.After(e.config.ProgressInterval):
		return true
	case <-ctx.Done():
		return false
	}
}
