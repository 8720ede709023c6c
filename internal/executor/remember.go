// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
	"unique"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

// A pastCall is what is left of an execution with a call id once it is no longer
// kept: enough to know the call again, and to tell how it ended. With its place in a
// map it takes about 100 bytes.
type pastCall struct {
	digest  [16]byte // of Order.Digest, the first half
	asSent  uint64
	number  uint64 // of the execution
	tool    unique.Handle[string]
	ended   uint32 // in seconds
	lastSeq uint32
	outcome uint8
}

// pastCalls are those of one session, by the digests of their call ids. The lock of
// the executor guards them.
type pastCalls struct {
	session   session.Ref
	byID      map[[16]byte]pastCall
	forgotten uint64 // call ids that were too many
}

type sessionKey struct {
	owner   auth.Owner
	session string
}

// idDigest stands for a call id, which may be long.
func idDigest(callID string) [16]byte {
	sum := sha256.Sum256([]byte(callID))
	return [16]byte(sum[:16])
}

// remember keeps what is needed to know a call again that is no longer kept, as long
// as its session lives.
func (e *Executor) remember(x *Execution) {
	o := &x.Order
	key := sessionKey{o.Session.Owner, o.Session.ID}
	past := e.past[key]
	if past != nil && past.session.Epoch > o.Session.Epoch {
		return // there is a later session with this id: its calls are those that may come again
	}
	if past == nil || past.session != o.Session {
		past = &pastCalls{session: o.Session, byID: make(map[[16]byte]pastCall)}
		if !x.session.AfterClose(func() { e.forgetSession(past) }) {
			return
		}
		e.past[key] = past
	}
	_, last := x.log.bounds()
	past.byID[idDigest(o.CallID)] = pastCall{
		digest: [16]byte(o.Digest[:16]), asSent: x.asSent, number: x.number, tool: unique.Make(o.Tool),
		ended: uint32(x.ended.Unix()), lastSeq: uint32(last), outcome: uint8(x.outcome),
	}
	e.pastTotal++
	if len(past.byID) > e.config.MaxRemembered {
		e.shed(past)
	}
	if e.pastTotal > e.config.MaxRememberedAll {
		largest := past
		for _, other := range e.past {
			if len(other.byID) > len(largest.byID) {
				largest = other
			}
		}
		e.shed(largest)
	}
}

// shed forgets the oldest quarter of what is remembered of a session.
func (e *Executor) shed(past *pastCalls) {
	numbers := make([]uint64, 0, len(past.byID))
	for _, p := range past.byID {
		numbers = append(numbers, p.number)
	}
	slices.Sort(numbers)
	newest := numbers[(len(numbers)-1)/4]
	if past.forgotten == 0 {
		e.config.Logger.Warn("a session has more call ids than are remembered: the oldest can be used again",
			zap.Stringer("principal", past.session.Owner), zap.String("session", past.session.ID), zap.Int("remembered", len(numbers)))
	}
	for id, p := range past.byID {
		if p.number <= newest {
			delete(past.byID, id)
			past.forgotten++
			e.pastTotal--
		}
	}
}

// forgetSession forgets the calls of a session that is closed.
func (e *Executor) forgetSession(past *pastCalls) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := sessionKey{past.session.Owner, past.session.ID}
	if e.past[key] == past {
		delete(e.past, key)
	}
	e.pastTotal -= len(past.byID)
	past.byID = nil
}

// pastOf returns the execution, without its result, that had a call id in a session
// of now, and what is known of the call; nil where there is none.
func (e *Executor) pastOf(owner auth.Owner, sessionID, callID string) (*Execution, pastCall) {
	past := e.past[sessionKey{owner, sessionID}]
	if past == nil {
		return nil, pastCall{}
	}
	p, ok := past.byID[idDigest(callID)]
	if !ok {
		return nil, pastCall{}
	}
	ended := time.Unix(int64(p.ended), 0)
	x := &Execution{
		ID: e.ids.of(p.number, owner), number: p.number, executor: e,
		Order: Order{Session: past.session, CallID: callID, Tool: p.tool.Value()}, asSent: p.asSent,
		state: Ended, ended: ended, outcome: Outcome(p.outcome),
		ending: make(chan struct{}), done: make(chan struct{}),
	}
	x.log = eventLog{
		limits: &e.limits, first: uint64(p.lastSeq), ended: true,
		events: []Event{{Seq: uint64(p.lastSeq), Time: ended, Body: *e.lost(x)}},
	}
	close(x.ending)
	close(x.done)
	return x, p
}

// is reports whether an order, or a text, is for the call that p is left of.
func (p *pastCall) is(o *Order, asSent uint64) bool {
	return p.digest == [16]byte(o.Digest[:16]) || p.asSent != 0 && p.asSent == asSent
}

// lost returns the end of an execution whose result is no longer kept.
func (e *Executor) lost(x *Execution) *Finished {
	return x.forgotten(fmt.Sprintf("Results are kept for %s after the end of a call, and at most %d of them.", e.config.Retention, e.config.MaxRetained))
}

// forgotten returns the end of an execution whose result is not kept, for a reason.
func (x *Execution) forgotten(reason string) *Finished {
	finished := withFailure(Lost, "result_lost", fmt.Sprintf(
		"The call %.64q ended at %s as execution %s (%s), and its result is no longer kept. It was not run again. %s To run it again, call with a new call id.",
		x.Order.CallID, x.ended.UTC().Format(time.RFC3339), x.ID, x.outcome, reason))
	finished.LostResult = &LostResult{Outcome: x.outcome, Ended: x.ended, Reason: reason}
	return finished
}

// ForgottenCalls returns how many call ids of a session are remembered no longer,
// because there were more than may be.
func (e *Executor) ForgottenCalls(s session.Ref) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if past := e.past[sessionKey{s.Owner, s.ID}]; past != nil && past.session == s {
		return past.forgotten
	}
	return 0
}
