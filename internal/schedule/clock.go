// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/state"
)

const (
	maxWait    = 30 * time.Second // until the clock on the wall, which may be set, is read again
	setBack    = time.Minute      // by so much a clock is set, and not only corrected
	retryAfter = 5 * time.Second
)

// timed is when a schedule fires next. What was changed since is found out when its time comes.
type timed struct {
	at  time.Time
	key string
}

// timeHeap has the next of them first.
type timeHeap []timed

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)        { *h = append(*h, x.(timed)) }
func (h *timeHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// changed is told of each schedule that changes.
func (s *Schedules) changed(key string, r *record, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !there {
		delete(s.waited, key)
		for _, f := range r.Running {
			if cancel := s.running[r.session(f.At)]; cancel != nil {
				cancel(errDeleted)
			}
		}
		return
	}
	for _, f := range r.Running {
		if cancel := s.running[r.session(f.At)]; f.Replaced && cancel != nil {
			cancel(errReplaced)
		}
	}
	if r.Paused || r.Next.IsZero() || s.waited[key].Equal(r.Next) {
		return
	}
	s.waited[key] = r.Next
	heap.Push(&s.heap, timed{r.Next, key})
	if len(s.heap) > 2*len(s.waited)+1000 { // most of it was changed since
		s.heap = s.heap[:0]
		for key, at := range s.waited {
			s.heap = append(s.heap, timed{at, key})
		}
		heap.Init(&s.heap)
	}
	if s.heap[0].key == key {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// watch waits for the next time, again and again, with one timer.
func (s *Schedules) watch(k *buckets) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	wall, elapsed := s.now(), time.Now()
	for {
		select {
		case <-s.base.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		now := s.now()
		if now.Sub(wall)-time.Since(elapsed) < -setBack {
			s.recompute(k, now)
		}
		wall, elapsed = now, time.Now()
		timer.Reset(s.fireDue(k, now))
	}
}

// fireDue begins what is due, and returns how long there is nothing to do.
func (s *Schedules) fireDue(k *buckets, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.heap) > 0 {
		first := s.heap[0]
		if wait := first.at.Sub(now); wait > 0 {
			return min(wait, maxWait)
		}
		heap.Pop(&s.heap)
		if s.waited[first.key].Equal(first.at) {
			delete(s.waited, first.key)
		}
		r, _, there := k.records.Get(first.key)
		if !there || r.Paused || !r.Next.Equal(first.at) || s.closing {
			continue // it was changed since
		}
		s.atWork.Go(func() { s.due(k, first) })
	}
	return maxWait
}

// due sees to the times of a schedule that are due, if nobody else does.
func (s *Schedules) due(k *buckets, t timed) {
	for s.base.Err() == nil {
		var begin []firing
		s.slots <- struct{}{}
		_, err := s.change(s.base, k, t.key, func(r *record) bool {
			if !r.Next.Equal(t.at) {
				begin = s.unbegun(r)
				return false // somebody else has, or this process had and was not told
			}
			begin = r.advance(s.now(), s.me)
			return !r.Next.Equal(t.at)
		})
		<-s.slots
		if err == nil {
			if r, _, there := k.records.Get(t.key); there {
				s.begin(k, r, begin)
			}
			return
		}
		sleep(s.base, retryAfter) // the engine cannot be used
	}
}

// recompute has schedules go by a clock that was set back. What has fired does not do so again.
func (s *Schedules) recompute(k *buckets, now time.Time) {
	for _, key := range k.records.Keys(schedules) {
		s.change(s.base, k, key, func(r *record) bool {
			if r.times == nil || r.Paused || r.Next.IsZero() {
				return false
			}
			next := r.times.next(now)
			earlier := next.Before(r.Next)
			if earlier {
				r.Next = next
			}
			return earlier
		})
	}
}

// takeOver begins anew what processes began that are gone.
func (s *Schedules) takeOver(k *buckets) {
	key := replicas + state.Key(s.me)
	for s.base.Err() == nil {
		if s.options.Alone { // nobody asks whether it lives
			s.adopt(k)
		} else if revision, err := k.alive.Put(s.base, key, []byte(s.me), s.replicaTime); err == nil {
			k.replicas.Note(key, s.me, revision)
			s.adopt(k)
		}
		sleep(s.base, s.replicaTell)
	}
	if !s.options.Alone && !errors.Is(context.Cause(s.base), errKilled) {
		k.alive.Delete(context.WithoutCancel(s.base), key, 0)
	}
}

// errKilled is how tests end a scheduler as kill -9 would.
var errKilled = errors.New("killed")

// adopt takes over firings of the dead, and those of this process that it was not told of.
func (s *Schedules) adopt(k *buckets) {
	gone := func(f firing) bool {
		if f.By == s.me {
			return false
		}
		_, _, there := k.replicas.Get(replicas + state.Key(f.By))
		return s.options.Alone || !there
	}
	for _, key := range k.records.Keys(schedules) {
		known, _, there := k.records.Get(key)
		if !there {
			continue
		}
		s.begin(k, known, s.unbegun(known))
		if !slices.ContainsFunc(known.Running, gone) {
			continue
		}
		var begin []firing
		_, err := s.change(s.base, k, key, func(r *record) bool {
			begin = nil
			for i := range r.Running {
				if gone(r.Running[i]) {
					r.Running[i].By, r.Running[i].Taken = s.me, true
					begin = append(begin, r.Running[i])
				}
			}
			return len(begin) > 0
		})
		if r, _, there := k.records.Get(key); err == nil && there {
			s.begin(k, r, begin)
		}
	}
}
