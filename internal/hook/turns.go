// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"slices"
	"sync"
)

// turns gives out so many places at a time. Who waits is served in the order they came,
// the tenants that have the fewest places first. Once there is more than one tenant, none
// has all places: a quarter is left for the others, where there are at least two.
type turns struct {
	most int

	mu      sync.Mutex
	all     int
	of      map[string]int // places that tenants have
	first   string         // the tenant that came first
	asked   bool           // there is one
	several bool           // there are others
	waiting []*turn        // in the order they came
}

// turn is one who waits for a place.
type turn struct {
	tenant string
	given  chan struct{} // closed when the place is theirs
}

func newTurns(most int) *turns { return &turns{most: most, of: make(map[string]int)} }

// take waits for a place, and reports false where ctx ends before there is one. Give it
// back.
func (t *turns) take(ctx context.Context, tenant string) bool {
	t.mu.Lock()
	if t.free(tenant) {
		t.give(tenant)
		t.mu.Unlock()
		return true
	}
	own := &turn{tenant, make(chan struct{})}
	t.waiting = append(t.waiting, own)
	t.mu.Unlock()
	select {
	case <-own.given:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, own)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it was given meanwhile
		t.back(tenant)
	}
	return false
}

// try takes a place, and reports false where there is none.
func (t *turns) try(tenant string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.free(tenant) {
		return false
	}
	t.give(tenant)
	return true
}

// back gives a place back, and those that are free to who waits.
func (t *turns) back(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.of[tenant]--; t.of[tenant] == 0 {
		delete(t.of, tenant)
	}
	for {
		next := -1
		for i, w := range t.waiting {
			if t.free(w.tenant) && (next < 0 || t.of[w.tenant] < t.of[t.waiting[next].tenant]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.give(w.tenant)
		close(w.given)
	}
}

// free reports whether a tenant may have another place. The turns are locked.
func (t *turns) free(tenant string) bool {
	if !t.asked {
		t.first, t.asked = tenant, true
	}
	t.several = t.several || tenant != t.first
	share := t.most
	if t.several && t.most > 1 {
		share -= max(1, t.most/4)
	}
	return t.all < t.most && t.of[tenant] < share
}

// give gives a tenant a place. The turns are locked.
func (t *turns) give(tenant string) {
	t.all++
	t.of[tenant]++
}
