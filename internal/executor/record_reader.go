// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// load finds the records of earlier runs. Where there are replicas, claims are read when
// they are asked for.
func (r *Records) load() {
	defer close(r.loaded)
	if r.config.Replicas == nil {
		if _, err := r.scanClaims(func(run uint64) bool { return run != r.config.Run }); err != nil {
			r.config.Logger.Error("calls of before the last restart are not known: those that changed something are still not run again", zap.Error(err))
		}
	}
	if err := r.catchUp(); err != nil && r.ctx.Err() == nil {
		r.config.Logger.Error("results of before the last restart are not known", zap.Error(err))
	}
}

// scanClaims finds the claims of some runs, and returns the revision of scanKey.
func (r *Records) scanClaims(of func(run uint64) bool) (until state.Revision, err error) {
	err = state.Snapshot(r.ctx, r.claims, "", func(e state.Entry) {
		if e.Key == scanKey {
			until = e.Revision
		}
		found, err := decodeRecord(e.Value)
		if (err == nil || errors.Is(err, errNewer)) && of(runOf(found.Number)) {
			r.places.add(place{name: callName(e.Key), number: found.Number, owner: tagOf(found.Session.Owner), history: nameFor(found.Session.Owner.Tenant())})
			if err == nil && found.Stage == stageEnded && r.config.Replicas == nil {
				r.mu.Lock()
				r.ended.add(found.Session.Owner.Tenant(), callName(e.Key)) // what is too much goes with the next
				r.mu.Unlock()
			}
		}
	})
	if r.ctx.Err() != nil {
		return 0, nil
	}
	return until, err
}

// catchUp reads what of the history was not read yet.
func (r *Records) catchUp() error {
	return r.reading.do(func() error {
		logs, err := r.history.all(r.ctx)
		for name, log := range logs {
			if readErr := r.readOn(name, log); readErr != nil {
				err = readErr
			}
		}
		return err
	})
}

// readOn reads what of a log was not read yet.
func (r *Records) readOn(name string, log state.Log) error {
	for r.ctx.Err() == nil {
		records, err := log.Read(r.ctx, "", max(1, r.next[log]), 64)
		if len(records) == 0 || err != nil {
			return err
		}
		for _, record := range records {
			r.scan(name, log, record.Seq, record.Data)
			r.next[log] = record.Seq + 1
		}
	}
	return nil
}

// scan finds the records in a record of the history.
func (r *Records) scan(name string, log state.Log, seq uint64, batch []byte) {
	for at := 0; at < len(batch); {
		line, _, ok := bytes.Cut(batch[at:], []byte("\n"))
		p := place{history: name, log: log, seq: seq, at: at + len(line) + 1}
		var owner []byte // servers of before do not tell it
		if n, _ := fmt.Sscanf(string(line), "%x %s %d %x", &p.number, &p.name, &p.size, &owner); !ok || n < 3 || p.size < 0 || p.size > len(batch)-p.at {
			return
		}
		copy(p.owner[:], owner)
		if runOf(p.number) != r.config.Run {
			r.places.add(p)
		}
		at = p.at + p.size
	}
}

// ofCall returns what is stored of the call of an earlier run that has a call id in a
// session; nil where nothing is.
func (r *Records) ofCall(s session.Ref, callID string) (*record, error) {
	return r.fetch(func() *place {
		return r.places.called(func() callName { return nameOf(s, callID) })
	})
}

// ofNumber is ofCall for an execution, whose run is over.
func (r *Records) ofNumber(number uint64) (*record, error) {
	find := func() *place { return r.places.numbered(number) }
	found, err := r.fetch(find)
	if found != nil || err != nil || r.config.Replicas == nil {
		return found, err
	}
	if err := r.catchUp(); err != nil {
		return nil, err
	}
	if found, err = r.fetch(find); found != nil || err != nil {
		return found, err
	}
	if err := r.scanRun(runOf(number)); err != nil {
		return nil, err
	}
	return r.fetch(find)
}

// awaitLoaded waits until the records of earlier runs are known, which takes a moment after
// the start, or seconds where the history is large.
func (r *Records) awaitLoaded() error {
	select {
	case <-r.loaded:
		return nil
	default:
	}
	timer := time.NewTimer(loadTime)
	defer timer.Stop()
	select {
	case <-r.loaded:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: the server was just started, and still reads what it recorded before: call again with the same call id", state.ErrUnavailable)
	case <-r.ctx.Done():
		return fmt.Errorf("%w: the server is shutting down", state.ErrUnavailable)
	}
}

func (r *Records) fetch(find func() *place) (*record, error) {
	if err := r.awaitLoaded(); err != nil {
		return nil, err
	}
	p := find()
	if p == nil {
		return nil, nil
	}
	return r.read(p, new(lastBatch))
}

// A lastBatch is the record of the history that was read last, in which the next may be too.
type lastBatch struct {
	log  state.Log
	seq  uint64
	data []byte
}

// read returns the record at a place; nil where it is gone.
func (r *Records) read(p *place, last *lastBatch) (*record, error) {
	if p.log != nil && (last.log != p.log || last.seq != p.seq) {
		records, err := p.log.Read(r.ctx, "", p.seq, 1)
		if err != nil {
			return nil, err
		}
		*last = lastBatch{log: p.log, seq: p.seq}
		if len(records) == 1 && records[0].Seq == p.seq {
			last.data = records[0].Data
		}
	}
	if p.log != nil && p.at+p.size <= len(last.data) {
		found, err := decodeRecord(last.data[p.at : p.at+p.size])
		if err != nil || !found.Claimed {
			return found, err
		}
		return r.counts(p.name, found)
	}
	entry, err := r.claims.Get(r.ctx, string(p.name))
	if err == nil {
		found, err := decodeRecord(entry.Value)
		if err != nil {
			return found, err
		}
		return r.current(entry, found)
	}
	if errors.Is(err, state.ErrNotFound) { // its time was over
		r.places.forget(p)
		return nil, nil
	}
	return nil, err
}

const (
	// maxScanned is how many records are read for a page, and maxPassed how many places are looked
	// at, so many at a time.
	maxScanned   = 2000
	maxPassed    = 20_000
	placesAtOnce = 500
)

// list calls f with the records of earlier runs that an owner covers, the newest before a
// number first, until f says that it has enough, and returns the number of the last one. more
// says that there may be others.
func (r *Records) list(owner auth.Owner, before uint64, f func(*record) (enough bool)) (last uint64, more bool, err error) {
	if err := r.awaitLoaded(); err != nil {
		return 0, false, err
	}
	tag, scanned, last := tagOf(owner), 0, before
	one := owner.Name() != auth.Everybody && owner.Tenant() != auth.AllTenants
	batch, over := new(lastBatch), make(map[uint64]bool)
	for passed := 0; passed < maxPassed; passed += placesAtOnce {
		some := r.places.below(last, placesAtOnce)
		for _, p := range some {
			if p.owner != tag && p.owner != (ownerTag{}) && one || !r.isOver(runOf(p.number), over) {
				last = p.number
				continue
			}
			if scanned++; scanned > maxScanned {
				return last, true, nil
			}
			last = p.number
			found, err := r.read(p, batch)
			switch {
			case errors.Is(err, errNewer):
				continue
			case err != nil:
				return last, false, err
			case found != nil && owner.Covers(found.Session.Owner) && f(found):
				return last, true, nil
			}
		}
		if len(some) < placesAtOnce {
			return last, false, nil
		}
	}
	return last, true, nil
}

// isOver reports whether nobody else has the executions of a run in memory, and lists them. What
// it found out is noted.
func (r *Records) isOver(run uint64, noted map[uint64]bool) bool {
	over, known := noted[run]
	if !known {
		over = r.config.Replicas == nil || r.config.Replicas.Over(run)
		noted[run] = over
	}
	return over
}
