// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

// ends stores the end of an execution before anybody sees it, and returns the end that
// counts. A call that was claimed waits until its end is stored. Where that fails, the goroutine of the records
// tries again while the call goes on, unless there are replicas: one of them could tell another end.
func (r *Records) ends(x *Execution, end *Finished, at time.Time) *Finished {
	if x.claim.Load() == 0 {
		return end // queued once the end is in the log
	}
	x.log.mu.Lock()
	record := recordOf(x, stageEnded)
	record.Started = x.started.Round(0)
	record.ended(x.log.events, end, at, x.log.first+uint64(len(x.log.events)), x.executor.config.Mask)
	x.log.mu.Unlock()
	record.Claimed = r.config.Replicas != nil
	text, err := record.encode()
	if err == nil && r.config.Replicas != nil {
		return r.settleEnd(x, record, text, end)
	}
	if err == nil {
		_, err = r.history.append(r.ctx, record.Session.Owner.Tenant(), framed(nil, record, text))
	}
	if err != nil {
		r.config.Logger.Error("the end of a call could not be recorded: after a restart it would be unknown", zap.String("execution", x.ID), zap.Error(err))
		return end // the goroutine tries it again
	}
	x.recorded = true
	return end
}

// enqueue has the goroutine store what is left to store of an execution that ended.
func (r *Records) enqueue(x *Execution) {
	last := x.claim.Load()
	if last == 0 && !r.reads.allow(x.Order.Session.Owner.Tenant(), time.Now()) {
		r.dropped.Add(1)
		return
	}
	one := queued{ends: x, bytes: int64(x.log.held())}
	if last != 0 {
		one.claim, one.last = recordOf(x, stageEnded), state.Revision(last)
		if x.settled {
			one.last = 0
		}
		one.claim.Effects, one.claim.Access = nil, nil
		one.claim.Started, one.claim.Ended, one.claim.Outcome = x.started.Round(0), x.ended.Round(0), x.outcome
		_, one.claim.LastSeq = x.log.bounds()
	}
	if last != 0 && r.config.Replicas != nil && !x.settled { // it was told as lost: others tell the same
		one.claim.Stage, one.claim.Outcome, one.ends = stageLost, 0, nil
	}
	if x.recorded || one.ends == nil {
		one.ends, one.bytes = nil, 0
	}
	if r.bytes.Add(one.bytes) <= maxQueuedBytes {
		select {
		case <-r.closing:
		case r.queue <- one:
			return
		default:
		}
	}
	r.bytes.Add(-one.bytes)
	r.dropped.Add(1)
}

// framed appends a record to those of a batch, with what finds it without decoding it.
func framed(batch []byte, r *record, text []byte) []byte {
	batch = fmt.Appendf(batch, "%x %s %d %x\n", r.Number, nameOf(r.Session, r.CallID), len(text), tagOf(r.Session.Owner))
	return append(batch, text...)
}

// write stores what is queued, until Close and for as long as it waits.
func (r *Records) write() {
	defer close(r.written)
	for {
		var first queued
		select {
		case first = <-r.queue:
		case <-r.closing:
			select {
			case first = <-r.queue:
			default:
				return
			}
		}
		r.gather()
		if !r.store(first) {
			return
		}
	}
}

// gather gives ends the time to become a batch.
func (r *Records) gather() {
	select {
	case <-time.After(batchTime):
	case <-r.closing:
	}
}

// store stores a batch of what is queued, and reports false where that ended.
func (r *Records) store(next queued) bool {
	batches := make(map[string][]byte) // by tenant
	total := 0
	var claims []queued
	for {
		if next.ends != nil {
			r.bytes.Add(-next.bytes)
			tenant, end := next.ends.Order.Session.Owner.Tenant(), r.endOf(next.ends)
			if len(batches[tenant])+len(end) > state.MaxValue {
				if !r.untilAppended(tenant, batches[tenant]) {
					return false
				}
				batches[tenant] = nil
			}
			batches[tenant] = append(batches[tenant], end...)
			total += len(end)
		}
		if next.claim != nil {
			claims = append(claims, next)
		}
		if total >= batchBytes {
			break
		}
		select {
		case next = <-r.queue:
			continue
		default:
		}
		break
	}
	for tenant, batch := range batches {
		if !r.untilAppended(tenant, batch) {
			return false
		}
	}
	return r.untilClaimed(claims)
}

// endOf returns the end of an execution as it stands in a batch; nil where it cannot.
func (r *Records) endOf(x *Execution) []byte {
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	events := x.log.events
	end, ok := events[len(events)-1].Body.(Finished)
	if !ok {
		return nil
	}
	record := recordOf(x, stageEnded)
	record.Started = x.started.Round(0)
	record.ended(events[:len(events)-1], &end, x.ended, events[len(events)-1].Seq, x.executor.config.Mask)
	text, err := record.encode()
	if err != nil {
		r.dropped.Add(1)
		r.config.Logger.Error("a call cannot be recorded", zap.String("execution", x.ID), zap.Error(err))
		return nil
	}
	return framed(nil, record, text)
}

// untilAppended stores a batch, and tries again while the engine is away. It reports false
// where the records were closed before.
func (r *Records) untilAppended(tenant string, batch []byte) bool {
	for len(batch) > 0 {
		_, err := r.history.append(r.ctx, tenant, batch)
		if errors.Is(err, state.ErrTooLarge) { // it is of one call, for others were not added
			r.dropped.Add(1)
			r.config.Logger.Error("a call cannot be recorded", zap.Int("bytes", len(batch)), zap.Error(err))
			break
		}
		if err == nil {
			break
		}
		if !r.pause() {
			return false
		}
	}
	return true
}

// untilClaimed is untilAppended for claims.
func (r *Records) untilClaimed(claims []queued) bool {
	for _, c := range claims {
		value, err := c.claim.encode()
		name := nameOf(c.claim.Session, c.claim.CallID)
		for err == nil && c.last != 0 {
			_, err = r.withRoom(func() (state.Revision, error) {
				return r.claims.Update(r.ctx, string(name), value, c.last, r.config.Retention)
			})
			if err == nil || errors.Is(err, state.ErrConflict) { // it is stored, or no longer there
				break
			}
			if !r.pause() {
				return false
			}
			err = nil
		}
		r.forgetOldest(c.claim.Session.Owner.Tenant(), name)
	}
	return true
}

// forgetOldest removes the oldest claims where there are too many.
func (r *Records) forgetOldest(tenant string, newest callName) {
	r.mu.Lock()
	oldest := r.ended.add(tenant, newest)
	r.mu.Unlock()
	if oldest != "" {
		r.claims.Delete(r.ctx, string(oldest), 0) // otherwise its time ends
	}
}

// pause waits before something is tried again. It reports false where it will not be.
func (r *Records) pause() bool {
	select {
	case <-time.After(retryTime):
		return true
	case <-r.ctx.Done():
		return false
	}
}
