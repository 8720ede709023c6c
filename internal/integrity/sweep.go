// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"context"
	"slices"
	"time"
)

// soon has a sweep come soon.
func (k *keeper) soon() {
	k.pause = sweepSoon
	k.schedule()
}

// schedule has a sweep come after the pause, unless one is to come before.
func (k *keeper) schedule() {
	due := time.Now().Add(k.pause)
	if due.Before(k.rest) {
		due = k.rest
	}
	if !k.due.IsZero() && !due.Before(k.due) || k.ctx.Err() != nil {
		return
	}
	k.due = due
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Until(due), k.tick)
		return
	}
	k.timer.Reset(time.Until(due))
}

// tick is a sweep of its own accord.
func (k *keeper) tick() {
	begun := time.Now()
	k.Sweep(k.ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.due, k.rest = time.Time{}, time.Now().Add(sweepShare*time.Since(begun))
	if len(k.marks) > 0 || k.writing > 0 || k.owed {
		k.schedule()
		k.pause = min(2*k.pause, sweepLate)
	}
}

// Sweep looks for repositories everywhere, and reports whether it came to its end.
func (k *keeper) Sweep(ctx context.Context) (done bool) {
	k.sweeping.Lock()
	defer k.sweeping.Unlock()
	k.mu.Lock()
	ready, protections, begun := k.ready, slices.Clone(k.protections), time.Now()
	k.mu.Unlock()
	if !ready || k.ctx.Err() != nil {
		return !ready
	}
	var found []candidate
	w := walker{ctx: ctx, protections: protections, budget: maxDirs, inside: true, found: func(c candidate) { found = append(found, c) }}
	w.walk(k.tree, ".")
	k.serving.Lock()
	defer k.serving.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range found {
		k.adopt(c, false)
	}
	if !k.idle.IsZero() {
		k.trustPersons()
	}
	k.midway = len(k.marks) > 0
	k.tell(k.examine())
	k.midway = false
	if ctx.Err() != nil {
		return false
	}
	k.tell(k.unseenNow(&w))
	k.forgetGone()
	k.gaps = slices.DeleteFunc(k.gaps, func(g gap) bool { return g.to.Before(begun) })
	if !k.idle.IsZero() && k.idle.Before(begun.Add(-clockStep)) {
		k.owed = false
		k.noted.idle()
	}
	return true
}
