// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/state"
)

// changes reports whether a job may change something, itself or by others, or asks a person: then its
// call id is claimed before anything comes of it.
func (j *Job) changes() bool {
	return j.Refusal == nil && j.Call != nil && (!j.ConcurrencySafe || j.Delegates || j.Question != nil)
}

// enter makes an execution known, unless its call id is known, also from before a restart:
// then it returns the execution that has it.
func (e *Executor) enter(x *Execution, job *Job, gone error) (*Execution, error) {
	if e.config.Records == nil {
		return e.register(x, job.Judged(), gone)
	}
	if existing, err := e.storedCall(&x.Order); existing != nil || err != nil {
		return existing, err
	}
	if !job.changes() {
		return e.register(x, job.Judged(), gone)
	}
	key, existing, err := e.reserve(x, gone)
	if existing != nil || err != nil {
		return existing, err
	}
	defer e.unreserve(key)
	if existing, err := e.claim(x, job); existing != nil || err != nil {
		return existing, err
	}
	existing, err = e.register(x, true, gone)
	if err != nil { // the server began to shut down, or is full by now
		e.config.Records.unclaim(x)
	}
	return existing, err
}

// reserve has one of those who make the same call at the same time claim its id; others
// wait until that is decided.
func (e *Executor) reserve(x *Execution, gone error) (callKey, *Execution, error) {
	for {
		e.mu.Lock()
		existing, err := e.sameCall(&x.Order, x.asSent)
		if existing == nil && err == nil {
			err = e.refuses(x, true, gone)
		}
		if existing != nil || err != nil {
			e.mu.Unlock()
			return callKey{}, existing, err
		}
		e.name(x)
		key := keyOf(&x.Order)
		other := e.claiming[key]
		if other == nil {
			e.claiming[key] = make(chan struct{})
		}
		e.mu.Unlock()
		if other == nil {
			return key, nil, nil
		}
		<-other
	}
}

func (e *Executor) unreserve(key callKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.claiming[key])
	delete(e.claiming, key)
}

// claim claims the call id of an execution whose session is stored by then.
func (e *Executor) claim(x *Execution, job *Job) (*Execution, error) {
	if err := x.session.Persist(); err != nil {
		return nil, err
	}
	at := stageRuns
	if job.Question != nil {
		at = stageWaits
	}
	found, err := e.config.Records.claim(x, at)
	if err != nil {
		return nil, fmt.Errorf("the call did not run, for its call id could not be recorded: %w", state.Brief(err))
	}
	if found == nil {
		return nil, nil
	}
	return e.same(&x.Order, found)
}

// beginClaimed proves that a claimed call is still this server's, which may have waited for its turn,
// and records that one which waited for a person begins. It returns how the call ends instead.
func (x *Execution) beginClaimed() *Refusal {
	if x.claim.Load() == 0 {
		return nil
	}
	records := x.executor.config.Records
	err := records.prove()
	if err == nil && x.waited {
		err = records.begins(x)
	}
	if err != nil {
		refusal := Refuse(Failed, "not_recorded", fmt.Sprintf("The call did not run, for its beginning could not be recorded: %v. Call again later with a new call id.", state.Brief(err)))
		refusal.Failure.Retryable, refusal.Failure.RetryAfter = true, time.Second
		return refusal
	}
	return nil
}

// storedCall returns the execution of an earlier run that has the call id of an order; nil
// where there is none, [ErrConflict] where that was made for another call.
func (e *Executor) storedCall(order *Order) (*Execution, error) {
	if e.config.Records == nil || order.CallID == "" {
		return nil, nil
	}
	found, err := e.config.Records.ofCall(order.Session, order.CallID)
	if found == nil || err != nil {
		return nil, err
	}
	return e.same(order, found)
}

// same returns the execution of a record, where it is of the call that an order is for.
func (e *Executor) same(order *Order, found *record) (*Execution, error) {
	x := e.restore(found)
	if x.Order.Digest != order.Digest && order.Digest != [32]byte{} {
		return nil, conflict(x)
	}
	return x, nil
}

// storedIn is storedCall for a call id in the session of now that has an id.
func (e *Executor) storedIn(owner auth.Owner, sessionID, callID string) (*Execution, error) {
	if e.config.Records == nil {
		return nil, nil
	}
	found, err := e.config.Sessions.Peek(owner, sessionID)
	if err != nil {
		return nil, nil // and no calls with it
	}
	order := &Order{Session: found.Ref(), CallID: callID}
	x, err := e.storedCall(order)
	if x != nil || err != nil || e.config.Records.config.Replicas == nil {
		return x, err
	}
	record, err := e.config.Records.claimed(order.Session, callID)
	if record == nil || err != nil {
		return nil, err
	}
	return e.restore(record), nil
}

// stored returns an execution of an earlier run; nil where nothing is known of it. Of one
// that was never recorded, or by a later version, its owner is told that it is lost.
func (e *Executor) stored(owner auth.Owner, id string) (*Execution, error) {
	number, tag, ok := e.ids.number(id)
	r := e.config.Records
	if ok && r != nil && runOf(number) == r.config.Run {
		return nil, r.prove() // else others may know by now of a claim of this server that it does not know of
	}
	if !ok || r == nil || runOf(number) > r.config.Run && r.config.Replicas == nil {
		return nil, nil
	}
	if r.config.Replicas != nil {
		if err := r.config.Replicas.Bury(r.ctx, runOf(number)); err != nil {
			return nil, fmt.Errorf("execution %.64q is one of another replica: %w", id, err)
		}
	}
	found, err := r.ofNumber(number)
	switch {
	case err != nil && !errors.Is(err, errNewer):
		return nil, err
	case err == nil && found != nil:
		return e.restore(found), nil
	case tag != tagOf(owner):
		return nil, nil
	}
	x := e.over(&Execution{ID: id, number: number, unnumbered: true}, 1, time.Time{}, Lost)
	x.Order.Session.Owner = owner
	if err != nil {
		x.finishedBefore(lostCall("lost_unknown", "The execution was one of before the server was last started, and a later version of the server recorded it: this one cannot read that. It is not run again."))
		return x, nil
	}
	x.finishedBefore(lostCall("lost_unknown", "The execution was one of before the server was last started, and nothing is recorded of it: it only read and had not ended, or it ended too long ago. It is not run again."))
	return x, nil
}

// restore returns an execution of a record, as it is now.
func (e *Executor) restore(r *record) *Execution {
	x := &Execution{
		ID: e.ids.of(r.Number, r.Session.Owner), number: r.Number, Created: r.Created, Trace: r.Trace,
		Order: Order{
			Session: r.Session, CallID: r.CallID, OnBehalfOf: r.OnBehalfOf, Tool: r.Tool, Version: r.ToolIs, CalledAs: r.CalledAs, Purpose: r.Purpose, Policy: r.Policy,
			Access: r.Access, Effects: r.Effects, Timeout: r.Timeout, OnDisconnect: r.Disconnect, ConcurrencySafe: r.Reads,
		},
		started: r.Started,
	}
	copy(x.Order.Digest[:], r.Digest)
	if r.Verdict != nil {
		x.Order.Verdict = *r.Verdict
	}
	if r.Stage != stageEnded {
		x.unnumbered = true
		e.over(x, 1, r.Ended, Lost)
		x.finishedBefore(r.interrupted())
		return x
	}
	e.over(x, r.LastSeq, r.Ended, r.Outcome)
	switch {
	case r.End == nil:
		x.finishedBefore(x.forgotten("Results are kept for a time, and while there is room for them."))
	case r.End.TooLarge:
		x.finishedBefore(x.forgotten(fmt.Sprintf("A result of more than %d bytes does not outlive a restart of the server.", maxRecord)))
	default:
		x.replay(r.Events)
		x.finishedBefore(r.finished())
	}
	return x
}

// over makes an execution one that ended before the server was started.
func (e *Executor) over(x *Execution, last uint64, at time.Time, outcome Outcome) *Execution {
	x.executor, x.state, x.ended, x.outcome = e, Ended, at, outcome
	x.log = eventLog{limits: &e.limits, first: last, ended: true}
	x.ending, x.done = make(chan struct{}), make(chan struct{})
	close(x.ending)
	close(x.done)
	return x
}

// replay puts events before the last one into the log, the newest that can be read.
func (x *Execution) replay(stored []storedEvent) {
	for _, event := range slices.Backward(stored) {
		body, err := event.body()
		if err != nil || event.Seq != x.log.first-1 {
			break
		}
		x.log.first--
		x.log.events = append(x.log.events, Event{Seq: event.Seq, Time: event.Time, Body: body})
	}
	slices.Reverse(x.log.events)
}

// lastFor returns the end of an execution whose events nobody knows, as the one that
// follows what a reader has seen.
func (x *Execution) lastFor(after uint64) Event {
	event := x.log.events[0]
	event.Seq = after + 1
	return event
}

// finishedBefore puts the last event into the log.
func (x *Execution) finishedBefore(end *Finished) {
	x.log.events = append(x.log.events, Event{
		Seq: x.log.first + uint64(len(x.log.events)), Time: cmp.Or(x.ended, x.Created, time.Now()), Body: *end,
	})
}

// interrupted returns the end of a call that had not ended when the server did.
func (r *record) interrupted() *Finished {
	const again = " It is not run again: to do so, call with a new call id."
	switch {
	case r.Stage == stageWaits || r.Waited:
		return lostCall("lost_without_effects", "The call waited for the approval of a person when the server ended, and the question was cancelled with it: nobody can answer it any more. The call did not run."+again)
	case r.Reads:
		return lostCall("lost_without_effects", "The server ended while the call ran, and its result is lost. It only reads, and changed nothing."+again)
	}
	return lostCall("lost_effects_unknown", "The call may have run, and it may have had effects: the server ended meanwhile, and what the call did until then is unknown. Look before you do it again."+again)
}

func lostCall(code, message string) *Finished { return withFailure(Lost, code, message) }
