// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// Where several servers have their records in one engine, the claim of a call decides how the call
// ended. The server that runs the call writes the end; once that server is over for ever, another server
// writes that the call is lost. Both compare and set, so only one of them succeeds.

// settleTime is how long the end of a call waits before it is tried again to be stored.
const settleTime = 200 * time.Millisecond

func (r *Records) prove() error {
	if r.config.Replicas == nil {
		return nil
	}
	return r.config.Replicas.Prove()
}

// settleEnd stores the end of a call, first in the history and then in its claim, and returns
// the end that counts. Once this server can no longer prove that it lives, a call whose end is not
// in the history is lost. Where it is, the claim may tell of it already, though nobody answered:
// then the claim has to be read before anybody is told an end, until the server gives up because it
// is to stop.
func (r *Records) settleEnd(x *Execution, ended *record, text []byte, end *Finished) *Finished {
	name := string(nameOf(x.Order.Session, x.Order.CallID))
	batch := framed(nil, ended, text)
	brief := *ended
	brief.Effects, brief.Access, brief.Events, brief.End, brief.Claimed = nil, nil, nil, nil, false
	for {
		var err error
		if brief.Where == nil {
			if brief.Where, err = r.history.append(r.ctx, ended.Session.Owner.Tenant(), batch); err == nil {
				brief.Where.At, brief.Where.Size = len(batch)-len(text), len(text)
			}
		}
		if err == nil {
			var counts *Finished
			if counts, err = r.settleClaim(x, name, &brief, end); err == nil {
				x.recorded, x.settled = true, true
				return counts
			}
		}
		if r.settling.Err() != nil || brief.Where == nil && r.prove() != nil {
			r.config.Logger.Error("the end of a call could not be recorded in time, and it counts as lost", zap.String("execution", x.ID), zap.Error(err))
			x.recorded = brief.Where != nil // which does not count
			return recordOf(x, stageRuns).interrupted()
		}
		select {
		case <-time.After(settleTime):
		case <-r.settling.Done():
		}
	}
}

// settleClaim says in the claim of a call that it ended. It returns another end where others
// were told that.
func (r *Records) settleClaim(x *Execution, name string, ended *record, end *Finished) (*Finished, error) {
	value, err := ended.encode()
	if err != nil {
		return nil, err
	}
	last, err := r.withRoom(func() (state.Revision, error) {
		return r.claims.Update(r.ctx, name, value, state.Revision(x.claim.Load()), r.config.Retention)
	})
	if err == nil {
		x.claim.Store(uint64(last))
		return end, nil
	}
	if !errors.Is(err, state.ErrConflict) {
		return nil, err
	}
	entry, err := r.claims.Get(r.ctx, name)
	if errors.Is(err, state.ErrNotFound) { // its time was over
		return end, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := decodeRecord(entry.Value)
	switch {
	case err != nil:
		return nil, err
	case found.Number == x.number && found.Stage == stageEnded:
		return end, nil // an attempt before this one was heard
	case found.Number == x.number && found.Stage != stageLost:
		x.claim.Store(uint64(entry.Revision))
		return nil, state.ErrConflict
	}
	return found.interrupted(), nil
}

// current returns what a claim stands for now: with its end where it has one, and as lost
// where its server is over.
func (r *Records) current(entry state.Entry, found *record) (*record, error) {
	for r.config.Replicas != nil && found.Stage != stageEnded && found.Stage != stageLost && runOf(found.Number) != r.config.Run {
		if err := r.config.Replicas.Bury(r.ctx, runOf(found.Number)); err != nil {
			return nil, fmt.Errorf("the call was begun at another replica: %w", err)
		}
		lost := *found
		lost.Stage, lost.Ended, lost.Waited = stageLost, time.Now().Round(0), found.Stage == stageWaits
		value, err := lost.encode()
		if err != nil {
			return nil, err
		}
		if _, err = r.claims.Update(r.ctx, entry.Key, value, entry.Revision, r.config.Retention); err == nil {
			return &lost, nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return nil, err
		}
		if entry, err = r.claims.Get(r.ctx, entry.Key); err != nil {
			return nil, err
		}
		if found, err = decodeRecord(entry.Value); err != nil {
			return nil, err
		}
	}
	if found.Stage != stageEnded || found.Where == nil {
		return found, nil
	}
	text, err := r.history.read(r.ctx, found.Where)
	if err != nil {
		return nil, err
	}
	if text == nil { // the history has forgotten it
		return found, nil
	}
	return decodeRecord(text)
}

// counts returns what is known of a call whose end is in the history: that, unless its claim
// says that it was lost before.
func (r *Records) counts(name callName, ended *record) (*record, error) {
	entry, err := r.claims.Get(r.ctx, string(name))
	if errors.Is(err, state.ErrNotFound) {
		return ended, nil
	}
	if err != nil {
		return nil, err
	}
	claim, err := decodeRecord(entry.Value)
	if err != nil || claim.Number != ended.Number || claim.Stage == stageEnded {
		return ended, err
	}
	return r.current(entry, claim)
}

// lateTime is for how long a write of a server that is over may still come.
const lateTime = time.Minute

// scanKey is written before claims are read: a server of the engine that does not have it is behind,
// for lists are read from any of them.
const scanKey = "scan"

// catchUpTime is for how long a server of the engine that is behind is read again.
const catchUpTime = 2 * time.Second

// scanRun finds the claims of a run that is over: again for a while, and then once and for all.
func (r *Records) scanRun(run uint64) error {
	asked := time.Now()
	r.mu.Lock()
	first, known := r.scanned[run]
	if !known {
		first = asked
		r.scanned[run] = asked
	}
	r.mu.Unlock()
	if first.IsZero() {
		return nil
	}
	if err := r.scanning.do(r.scanUntilNow); err != nil {
		return err
	}
	if asked.Sub(first) > lateTime {
		r.mu.Lock()
		r.scanned[run] = time.Time{}
		r.mu.Unlock()
	}
	return nil
}

// scanUntilNow finds the claims of all runs that are over. Claims are many: several scans at a
// time would be more than the engine sends to one server.
func (r *Records) scanUntilNow() error {
	deadline := time.Now().Add(catchUpTime)
	now, err := r.claims.Put(r.ctx, scanKey, nil, lateTime)
	if err != nil {
		return err
	}
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		until, err := r.scanClaims(r.config.Replicas.Over)
		if err != nil || until >= now {
			return err
		}
		if time.Now().Add(pause).After(deadline) {
			return fmt.Errorf("%w: what is stored was read from a server of it that is behind", state.ErrUnavailable)
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return nil
		}
	}
}

// sharedScan is a scan that is done once for all who asked for it before it began.
type sharedScan struct {
	turn  sync.Mutex
	begun atomic.Uint64 // how often
	err   error         // of the last time
}

func (j *sharedScan) do(work func() error) error {
	asked := j.begun.Load()
	j.turn.Lock()
	defer j.turn.Unlock()
	if j.begun.Load() == asked {
		j.begun.Add(1)
		j.err = work()
	}
	return j.err
}

// claimed is ofCall by the claim itself: for who can wait for the engine.
func (r *Records) claimed(s session.Ref, callID string) (*record, error) {
	name := nameOf(s, callID)
	return r.fetch(func() *place { return &place{name: name} })
}

// CatchUp has the executor know what other servers recorded until now.
func (e *Executor) CatchUp() error {
	if e.config.Records == nil {
		return nil
	}
	return e.config.Records.catchUp()
}

// RunOf returns the run of the server that has an execution, or had it. It reports false
// for what is no id of one.
func (e *Executor) RunOf(id string) (uint64, bool) {
	number, _, ok := e.ids.number(id)
	return runOf(number), ok
}

// CancelClaimed cancels what may change something and has not ended.
func (e *Executor) CancelClaimed(reason string) {
	stopAll(e.unfinished(func(x *Execution) bool { return x.claim.Load() != 0 }), &Cancellation{Reason: reason, By: auth.Server})
}
