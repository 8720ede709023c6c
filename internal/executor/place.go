// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"

	"github.com/toolserver/toolserver/internal/auth"
)

// places are the right of calls to run their tools. Where all are taken, a call waits:
// tenants take turns, in each tenant its principals, and calls of a principal run in the
// order they came. So a tenant waits for one call of each other tenant, however many
// they have. A tenant that holds no place gets one at once, beyond the bound if need
// be: calls that take long keep no other tenant out. The lock of the lanes guards all.
type places struct {
	most    int // 0: no bound, and nothing is counted
	taken   int
	tenants map[string]*tenantPlaces // that have calls which run or wait
	turns   []*tenantPlaces          // those of which calls wait; the first is next
}

// tenantPlaces are those of one tenant.
type tenantPlaces struct {
	name  string
	taken int
	turns []*ownerCalls // the first is next
}

// ownerCalls are the calls of one principal that wait, at least one.
type ownerCalls struct {
	owner auth.Owner
	queue []*Execution
}

// placing is what a call has to do with places.
type placing int

const (
	noPlace placing = iota
	waitsForPlace
	hasPlace
)

// take gives a call a place and reports so, or has it wait.
func (p *places) take(x *Execution) bool {
	if p.most == 0 || x.Order.Waits {
		return true
	}
	owner := x.Order.Session.Owner
	t := p.tenants[owner.Tenant()]
	if t == nil {
		if p.tenants == nil {
			p.tenants = make(map[string]*tenantPlaces)
		}
		t = &tenantPlaces{name: owner.Tenant()}
		p.tenants[t.name] = t
	}
	if t.taken == 0 || p.taken < p.most {
		p.give(t, x)
		return true
	}
	x.placing = waitsForPlace
	if len(t.turns) == 0 {
		p.turns = append(p.turns, t)
	}
	i := slices.IndexFunc(t.turns, func(o *ownerCalls) bool { return o.owner == owner })
	if i < 0 {
		t.turns = append(t.turns, &ownerCalls{owner, []*Execution{x}})
		return false
	}
	t.turns[i].queue = append(t.turns[i].queue, x)
	return false
}

func (p *places) give(t *tenantPlaces, x *Execution) {
	x.placing = hasPlace
	p.taken++
	t.taken++
}

// leave takes the place of a call back, or the call out of those that wait, and returns
// the calls that have a place now.
func (p *places) leave(x *Execution) (next []*Execution) {
	t := p.tenants[x.Order.Session.Owner.Tenant()]
	switch x.placing {
	case noPlace:
		return nil
	case hasPlace:
		p.taken--
		t.taken--
	case waitsForPlace:
		p.remove(t, x)
	}
	x.placing = noPlace
	if t.taken == 0 && len(t.turns) > 0 {
		next = append(next, p.nextOf(t))
	}
	for p.taken < p.most && len(p.turns) > 0 {
		first := p.turns[0]
		p.turns = append(p.turns[1:], first)
		next = append(next, p.nextOf(first))
	}
	if t.taken == 0 && len(t.turns) == 0 {
		delete(p.tenants, t.name)
	}
	return next
}

// nextOf gives a place to the call of a tenant whose turn it is.
func (p *places) nextOf(t *tenantPlaces) *Execution {
	first := t.turns[0]
	t.turns = append(t.turns[1:], first)
	x := first.queue[0]
	p.remove(t, x)
	p.give(t, x)
	return x
}

// remove takes a call out of those that wait.
func (p *places) remove(t *tenantPlaces, x *Execution) {
	i := slices.IndexFunc(t.turns, func(o *ownerCalls) bool { return o.owner == x.Order.Session.Owner })
	calls := t.turns[i]
	j := slices.Index(calls.queue, x)
	calls.queue = slices.Delete(calls.queue, j, j+1)
	if len(calls.queue) == 0 {
		t.turns = slices.Delete(t.turns, i, i+1)
	}
	if len(t.turns) == 0 {
		i := slices.Index(p.turns, t)
		p.turns = slices.Delete(p.turns, i, i+1)
	}
}
