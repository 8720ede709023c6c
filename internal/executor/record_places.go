// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"

	"github.com/google/btree"

	"github.com/toolserver/toolserver/internal/state"
)

// maxPlaces bounds what is known of records of other runs: each place takes some 300 bytes.
const maxPlaces = 200_000

// A place is where the record of an execution of an earlier run is: in a record of the
// history, or else in a claim.
type place struct {
	name     callName
	number   uint64
	owner    ownerTag  // zero where it is not known
	history  string    // by which the places of a tenant are counted; see nameFor
	log      state.Log // that has it; nil: there is a claim alone
	seq      uint64
	at, size int
}

// recordPlaces are where the records of earlier runs are. Where there are too many, one of the tenant
// that has the most goes, the one that was found first: the claims still tell whether a call may
// run.
type recordPlaces struct {
	mu       sync.Mutex
	byNumber *btree.BTreeG[*place]
	byCall   map[callName]*place
	found    map[string][]uint64 // numbers by history, in the order in which they were found, and some that are no longer known
	total    int                 // of found
}

func newPlaces() *recordPlaces {
	return &recordPlaces{
		byNumber: btree.NewG(32, func(a, b *place) bool { return a.number < b.number }), byCall: make(map[callName]*place), found: make(map[string][]uint64),
	}
}

// add takes note of a place. What the history tells counts more than a claim.
func (p *recordPlaces) add(one place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.byNumber.Get(&one)
	switch {
	case known && one.log == nil:
		return
	case known:
		one.history = before.history // where it is counted
	default:
		p.found[one.history] = append(p.found[one.history], one.number)
		p.total++
	}
	p.byNumber.ReplaceOrInsert(&one)
	p.byCall[one.name] = &one
	if p.total > maxPlaces {
		p.evict()
	}
}

func (p *recordPlaces) evict() {
	most := ""
	for history, numbers := range p.found {
		if len(numbers) > len(p.found[most]) {
			most = history
		}
	}
	first := &place{number: p.found[most][0]}
	p.found[most] = p.found[most][1:]
	p.total--
	if old, known := p.byNumber.Get(first); known {
		p.drop(old)
	}
}

// forget takes a place out of those that are known, unless another has taken its.
func (p *recordPlaces) forget(one *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(one)
}

func (p *recordPlaces) drop(one *place) {
	if now, _ := p.byNumber.Get(one); now == one {
		p.byNumber.Delete(one)
	}
	if p.byCall[one.name] == one {
		delete(p.byCall, one.name)
	}
}

// numbered returns the place of an execution, or nil.
func (p *recordPlaces) numbered(number uint64) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, _ := p.byNumber.Get(&place{number: number})
	return one
}

// called returns the place of a call, or nil. The name is not made where there are none.
func (p *recordPlaces) called(name func() callName) *place {
	p.mu.Lock()
	none := len(p.byCall) == 0
	p.mu.Unlock()
	if none {
		return nil
	}
	of := name()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byCall[of]
}

// below returns places with numbers below one, the greatest first, at most so many.
func (p *recordPlaces) below(number uint64, most int) (list []*place) {
	if number == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byNumber.DescendLessOrEqual(&place{number: number - 1}, func(one *place) bool {
		list = append(list, one)
		return len(list) < most
	})
	return list
}
