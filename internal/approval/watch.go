// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"iter"
)

// A Change is something that happened on the desk.
type Change struct {
	Kind     ChangeKind
	Pending  []*Question // of a Snapshot: all that wait, oldest first
	Question *Question   // of the others
	Answer   Answer      // of Ended
}

// ChangeKind is what a change tells.
type ChangeKind int

const (
	// Snapshot is everything there is: what the watcher knew before counts no
	// more. It comes first, and again after a watcher fell so far behind that
	// changes were lost to it.
	Snapshot ChangeKind = 1 + iota

	// Asked is a question that waits from now on.
	Asked

	// Ended is a question that was answered, expired or was withdrawn.
	Ended
)

// watcher is one who watches, as the desk sees it.
type watcher struct {
	viewer Viewer
	queue  []Change
	bytes  int
	behind bool          // there is more to tell than the queue has: begin again
	news   chan struct{} // has room for one
}

// What waits for a watcher at most.
const (
	maxQueued      = 1024
	maxQueuedBytes = 4 << 20
)

// Watch tells what the viewer may see: a [Snapshot], then every change, in
// order. A watcher that does not keep up gets another snapshot in place of what
// it missed; nobody waits for it. The watch ends with an error: the cause of ctx,
// or [ErrClosed].
func (d *Desk) Watch(ctx context.Context, viewer Viewer) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		w := &watcher{viewer: viewer, behind: true, news: make(chan struct{}, 1)}
		d.mu.Lock()
		d.watchers[w] = struct{}{}
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			delete(d.watchers, w)
			d.mu.Unlock()
		}()
		for {
			changes, closed := d.news(w)
			for _, change := range changes {
				if !yield(change, nil) {
					return
				}
			}
			if closed {
				yield(Change{}, ErrClosed)
				return
			}
			select {
			case <-w.news:
			case <-ctx.Done():
				yield(Change{}, context.Cause(ctx))
				return
			}
		}
	}
}

// news takes what is new to a watcher.
func (d *Desk) news(w *watcher) (changes []Change, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changes = w.queue
	if w.behind {
		pending := d.sorted(func(q *Question) bool { return w.viewer.sees(q.owners()...) })
		changes = []Change{{Kind: Snapshot, Pending: questions(pending)}}
	}
	w.queue, w.bytes, w.behind = nil, 0, false
	return changes, d.closed
}

// tell leaves a change for the watchers that may see it.
func (d *Desk) tell(change Change) {
	if len(d.watchers) == 0 {
		return
	}
	weight := change.Question.Weight()
	for w := range d.watchers {
		if w.behind || !w.viewer.sees(change.Question.owners()...) {
			continue
		}
		w.queue = append(w.queue, change)
		w.bytes += weight
		if len(w.queue) > maxQueued || w.bytes > maxQueuedBytes {
			w.queue, w.behind = nil, true
		}
		w.wakeUp()
	}
}

func (w *watcher) wakeUp() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}
