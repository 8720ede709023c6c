// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

// Existing returns the execution that has the call id of a job, or nil if there
// is none; [ErrConflict] when the execution was made for another call.
func (e *Executor) Existing(job *Job) (*Execution, error) {
	e.mu.Lock()
	existing, err := e.sameCall(&job.Order, job.AsSent)
	e.mu.Unlock()
	if existing != nil || err != nil {
		return existing, err
	}
	return e.storedCall(&job.Order)
}

// KnownAsSent reports whether the call id of a job is known with the same text, so that
// the job need not be judged: Start returns the execution there is.
func (e *Executor) KnownAsSent(job *Job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	existing, err := e.sameCall(&job.Order, job.AsSent)
	return existing != nil && err == nil && existing.wasSentAs(job.AsSent)
}

// sameCall returns the execution that has the call id of an order; [ErrConflict] where
// that was made for another call.
func (e *Executor) sameCall(order *Order, asSent uint64) (*Execution, error) {
	if order.CallID == "" {
		return nil, nil
	}
	existing := e.byCall[keyOf(order)]
	if existing != nil && existing.Order.Session != order.Session && order.Session.ID != session.DefaultID {
		return nil, nil // of a session that was closed and had the same id
	}
	if existing == nil {
		return e.samePast(order, asSent)
	}
	if existing.Order.Digest != order.Digest && !existing.wasSentAs(asSent) {
		return nil, conflict(existing)
	}
	return existing, nil
}

// samePast is sameCall for executions that are no longer kept.
func (e *Executor) samePast(order *Order, asSent uint64) (*Execution, error) {
	existing, past := e.pastOf(order.Session.Owner, order.Session.ID, order.CallID)
	if existing == nil || existing.Order.Session != order.Session {
		return nil, nil
	}
	if !past.is(order, asSent) {
		return nil, conflict(existing)
	}
	return existing, nil
}

func conflict(x *Execution) error {
	return fmt.Errorf("%w: %.64q ran %s as execution %s with another tool or input: use a new id for a new call",
		ErrConflict, x.Order.CallID, x.Order.Tool, x.ID)
}

func (x *Execution) wasSentAs(asSent uint64) bool { return asSent != 0 && x.asSent == asSent }

// Find returns an execution of owner, or of those whom it stands for.
func (e *Executor) Find(owner auth.Owner, id string) (*Execution, error) {
	x := e.find(id)
	if x == nil {
		var err error
		if x, err = e.stored(owner, id); err != nil {
			return nil, err
		}
	}
	if x != nil && owner.Covers(x.Order.Session.Owner) {
		return x, nil
	}
	return nil, fmt.Errorf("%w: %.64q: it never was, is not yours, or is no longer kept. Every event of a call has the id of its execution; a call id of yours is known for longer", ErrNotFound, id)
}

// find returns the execution with an id; nil where there is none.
func (e *Executor) find(id string) *Execution {
	n, _, ok := e.ids.number(id)
	if !ok {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byNumber[n]
}

// FindCall returns the execution of owner with a call id.
func (e *Executor) FindCall(owner auth.Owner, sessionID, callID string) (*Execution, error) {
	sessionID = cmp.Or(sessionID, session.DefaultID)
	e.mu.Lock()
	x := e.byCall[callKey{owner, sessionID, callID}]
	if x == nil {
		x, _ = e.pastOf(owner, sessionID, callID)
	}
	e.mu.Unlock()
	if x == nil {
		var err error
		if x, err = e.storedIn(owner, sessionID, callID); err != nil {
			return nil, err
		}
	}
	if x != nil {
		return x, nil
	}
	// A call id that was given here is the id of its execution.
	if x, err := e.Find(owner, callID); err == nil && x.Order.CallID == callID && x.Order.Session.ID == sessionID {
		return x, nil
	}
	return nil, fmt.Errorf("%w: session %.64q has no call %.64q: a call id is the one that the call was made with, and counts in the session it was made in", ErrNotFound, sessionID, callID)
}

// List returns the executions of owner that match, newest first, at most limit
// of them. after is where to continue, empty for the beginning; next is where the
// next page continues, empty on the last. An after that no page gave is an error.
func (e *Executor) List(owner auth.Owner, match func(*Execution) bool, after string, limit int) (page []*Execution, next string, err error) {
	last, _, ok := e.ids.number(after)
	if after != "" && !ok {
		return nil, "", fmt.Errorf("%w: the page after %.64q: no page ended there", ErrNotFound, after)
	}
	all := e.list(owner, match, last)
	if len(all) > limit {
		return all[:limit], all[limit-1].ID, nil
	}
	return e.listStored(owner, match, all, last, limit)
}

// list returns the executions of owner that match and that this process has, newest first: those
// before a number, or all for 0.
func (e *Executor) list(owner auth.Owner, match func(*Execution) bool, before uint64) (all []*Execution) {
	e.mu.Lock()
	for _, x := range e.byNumber {
		if owner.Covers(x.Order.Session.Owner) && (before == 0 || x.number < before) {
			all = append(all, x)
		}
	}
	e.mu.Unlock()
	all = slices.DeleteFunc(all, func(x *Execution) bool { return !match(x) })
	slices.SortFunc(all, func(a, b *Execution) int { return cmp.Compare(b.number, a.number) })
	return all
}

// listStored completes a page with executions of earlier runs. Where there are replicas, each
// lists what it has itself, and ListOver the rest.
func (e *Executor) listStored(owner auth.Owner, match func(*Execution) bool, page []*Execution, before uint64, limit int) (_ []*Execution, next string, err error) {
	r := e.config.Records
	if r == nil || r.config.Replicas != nil {
		return page, "", nil
	}
	if before == 0 || runOf(before) >= r.config.Run {
		before = r.config.Run << runShift
	}
	return e.listBefore(owner, match, page, before, limit)
}

// ListOver is List for executions of other replicas that are over, as far as their ends were
// recorded: those of the replica that was started last come first.
func (e *Executor) ListOver(owner auth.Owner, match func(*Execution) bool, after string, limit int) (page []*Execution, next string, err error) {
	r := e.config.Records
	if r == nil || r.config.Replicas == nil {
		return nil, "", nil
	}
	before, _, ok := e.ids.number(after)
	if after == "" {
		before, ok = math.MaxUint64, true
		err = r.catchUp()
	}
	if !ok {
		err = fmt.Errorf("%w: the page after %.64q: no page ended there", ErrNotFound, after)
	}
	if err != nil {
		return nil, "", err
	}
	return e.listBefore(owner, match, nil, before, limit)
}

// listBefore completes a page with recorded executions whose numbers are below one.
func (e *Executor) listBefore(owner auth.Owner, match func(*Execution) bool, page []*Execution, before uint64, limit int) (_ []*Execution, next string, err error) {
	full := false
	last, more, err := e.config.Records.list(owner, before, func(found *record) bool {
		x := e.restore(found)
		if !match(x) {
			return false
		}
		if full = len(page) == limit; !full {
			page = append(page, x)
		}
		return full
	})
	switch {
	case err != nil:
		return nil, "", err
	case full:
		last = page[len(page)-1].number
	case !more:
		return page, "", nil
	}
	return page, e.ids.of(last, owner), nil
}
