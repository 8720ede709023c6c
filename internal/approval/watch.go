// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"iter"
)

// A Change is a question that was asked or ended, or all that wait.
type Change struct {
	Kind     ChangeKind
	Pending  []*Question // of a Snapshot: all that wait, oldest first
	Question *Question   // of the others
	Answer   Answer      // of Ended
}

// ChangeKind says what changed.
type ChangeKind int

const (
	// Snapshot has all pending questions, and replaces what the watcher knew before.
	// It comes first, and again after a watcher fell so far behind that changes were
	// lost.
	Snapshot ChangeKind = 1 + iota

	// Asked is a question that waits from now on.
	Asked

	// Ended is a question that was answered, expired or was withdrawn.
	Ended
)

// A watcher has the changes that one Watch has not yielded yet.
type watcher struct {
	viewer Viewer
	queue  []Change
	bytes  int
	behind bool          // changes were lost: a snapshot comes next
	news   chan struct{} // has room for one
}

// What waits for a watcher at most.
const (
	maxQueued      = 1024
	maxQueuedBytes = 4 << 20
)

// Watch yields what the viewer may see: a [Snapshot], then every change, in
// order. A watcher that does not keep up gets another snapshot in place of what
// it missed; nobody waits for the watcher. The watch ends with an error: the cause of ctx,
// or [ErrClosed].
func (s *Store) Watch(ctx context.Context, viewer Viewer) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		w := &watcher{viewer: viewer, behind: true, news: make(chan struct{}, 1)}
		s.mu.Lock()
		s.watchers[w] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.watchers, w)
			s.mu.Unlock()
		}()
		for {
			changes, closed := s.news(w)
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

// news returns the changes that wait for a watcher.
func (s *Store) news(w *watcher) (changes []Change, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes = w.queue
	if w.behind {
		pending := s.sorted(func(q *Question) bool { return w.viewer.sees(q.owners()...) })
		changes = []Change{{Kind: Snapshot, Pending: questions(pending)}}
	}
	w.queue, w.bytes, w.behind = nil, 0, false
	return changes, s.closed
}

// notify leaves a change for the watchers that may see it.
func (s *Store) notify(change Change) {
	if len(s.watchers) == 0 {
		return
	}
	weight := change.Question.Weight()
	for w := range s.watchers {
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
