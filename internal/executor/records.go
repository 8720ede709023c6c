// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// RecordsConfig says where executions are recorded.
type RecordsConfig struct {
	// Engine keeps the records. Required.
	Engine state.Engine

	// Run numbers the runs of the server, from 1. Key is the same in all of them: it
	// makes the ids of executions.
	Run uint64
	Key [16]byte

	// Retention is how long a call id and its result are known. HistoryBytes is how much
	// results and events may take together; older ones go first.
	Retention    time.Duration
	HistoryBytes int64

	// Replicas, if set, has the other servers that use the same engine. Runs are theirs,
	// too. Without it, all other runs are over.
	Replicas Replicas

	// Logger takes what goes wrong. Required.
	Logger *zap.Logger
}

// Replicas are the servers that have their records in one engine.
type Replicas interface {
	// Prove is nil while no other server can have taken what this one has. It asks nobody.
	Prove() error

	// Bury is nil where a run is over for ever.
	Bury(ctx context.Context, run uint64) error
}

// Records keep executions where a restart finds them.
//
// A call that may change something is claimed before it runs, and its end is stored before
// anybody sees it: a call id that was claimed is not run again for the retention, as long as
// it is of the last maxClaims that ended. Calls that only read cost nobody a wait: one
// goroutine stores their ends behind them, many at a time and in order.
// Where they come too fast, or too many wait to be stored, some are left out and counted.
//
// A claim is an entry by call id. The history is a log of ends, with results and events.
// Where both tell of a call, the history does.
type Records struct {
	config  RecordsConfig
	claims  state.KV
	history state.Log
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	reads   *rate.Limiter // of calls that only read
	queue   chan queued
	closing chan struct{} // closed when no more is queued
	written chan struct{} // closed when all is stored that was queued
	dropped atomic.Uint64
	bytes   atomic.Int64 // of the logs of what is queued

	loaded chan struct{} // closed when the places of earlier runs are known
	mu     sync.Mutex
	byID   map[uint64]*place   // executions of earlier runs, by their numbers
	byCall map[callName]*place // the same
	never  map[uint64]bool     // executions of this run that never began, and may be claimed all the same
	ended  []callName          // claims whose calls ended, the oldest first

	reading sync.Mutex      // held while the history is read
	next    uint64          // what of the history is to be read next
	scanned map[uint64]bool // runs that are over, and whose claims are all known
}

// A callName stands for a call id in its session, for all time. It is 32 characters long.
type callName string

func nameOf(s session.Ref, callID string) callName {
	text := make([]byte, 0, 256)
	for _, part := range [...]string{string(s.Owner), s.ID, callID} {
		text = append(strconv.AppendInt(text, int64(len(part)), 10), ' ')
		text = append(text, part...)
	}
	sum := sha256.Sum256(strconv.AppendInt(text, s.Epoch, 10))
	return callName(hex.EncodeToString(sum[:16]))
}

// A place is where the record of an execution of an earlier run is: in a record of the
// history, or else in a claim.
type place struct {
	name     callName
	number   uint64
	seq      uint64 // 0: there is a claim alone
	at, size int
}

// queued is what the goroutine is to store: the end of an execution, or what a claim is to
// be.
type queued struct {
	ends  *Execution
	bytes int64 // that its log holds
	claim *record
	last  state.Revision // of the claim; 0: it is up to date
}

const (
	// runShift makes numbers of executions of the number of a run and a counter.
	runShift = 40

	// readsPerSecond is how many calls that only read are recorded. Of more, which a server
	// can have while it does nothing else, the processor would notice the records: to make
	// such a call again does no harm.
	readsPerSecond = 1000

	// maxQueued is how many ends wait to be stored, and maxQueuedBytes how much their logs
	// hold.
	maxQueued      = 20_000
	maxQueuedBytes = 64 << 20

	// batchBytes is about how large a record of the history becomes, and batchTime how
	// long ends wait for others to be stored with.
	batchBytes = 256 << 10
	batchTime  = 20 * time.Millisecond

	// retryTime is after how long the goroutine tries again to store what it could not.
	retryTime = time.Second

	// maxClaims bounds the claims of calls that ended, and claimBytes what all take.
	maxClaims  = 100_000
	claimBytes = 512 << 20

	// maxNever bounds what is known of claims that were refused and may be there.
	maxNever = 10_000

	// loadTime is how long a call waits for what earlier runs recorded.
	loadTime = 10 * time.Second

	// flushTime is how long Close waits for what is not stored yet.
	flushTime = 5 * time.Second
)

// OpenRecords opens the records. Close them after the executor.
func OpenRecords(ctx context.Context, config RecordsConfig) (*Records, error) {
	r := &Records{
		config: config, reads: rate.NewLimiter(readsPerSecond, 2*readsPerSecond), queue: make(chan queued, maxQueued), closing: make(chan struct{}), written: make(chan struct{}), loaded: make(chan struct{}),
		byID: make(map[uint64]*place), byCall: make(map[callName]*place), never: make(map[uint64]bool), next: 1, scanned: make(map[uint64]bool),
	}
	var err error
	if r.claims, err = config.Engine.KV(ctx, state.Space{Name: "calls", MaxBytes: claimBytes}); err != nil {
		return nil, fmt.Errorf("records of calls: %w", err)
	}
	if r.history, err = config.Engine.Log(ctx, state.Space{Name: "history", MaxBytes: config.HistoryBytes, MaxAge: config.Retention}); err != nil {
		return nil, fmt.Errorf("history of calls: %w", err)
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go r.load()
	go r.write()
	return r, nil
}

// Close stores what was queued, and takes no more.
func (r *Records) Close() error {
	close(r.closing)
	select {
	case <-r.written:
	case <-time.After(flushTime):
		r.config.Logger.Warn("the last calls could not be recorded", zap.Int("calls", len(r.queue)))
	}
	r.cancel()
	<-r.written
	<-r.loaded
	return nil
}

// RecordStats are counts for metrics.
type RecordStats struct {
	Queued  int    // ends that wait to be stored
	Dropped uint64 // ends that were left out
}

// Stats returns the counts of now.
func (r *Records) Stats() RecordStats { return RecordStats{len(r.queue), r.dropped.Load()} }

// runOf returns the run that an execution is of.
func runOf(number uint64) uint64 { return number >> runShift }

// claim makes a call id that of x, before x begins: at most one execution ever has it.
// It returns the record of the execution that has it already, if there is one.
func (r *Records) claim(x *Execution, at stage) (*record, error) {
	if err := r.prove(); err != nil {
		return nil, err
	}
	name := nameOf(x.Order.Session, x.Order.CallID)
	value, err := recordOf(x, at).encode()
	if err != nil {
		return nil, err
	}
	last, err := r.claims.Create(r.ctx, string(name), value, r.config.Retention)
	if err == nil {
		x.claim.Store(uint64(last))
		return nil, nil
	}
	// What happened is unknown, also after a conflict: the first attempt may have been heard.
	entry, getErr := r.claims.Get(r.ctx, string(name))
	if getErr != nil {
		if !errors.Is(getErr, state.ErrNotFound) {
			r.mark(x.number)
		}
		return nil, err
	}
	found, decodeErr := decodeRecord(entry.Value)
	switch {
	case decodeErr != nil:
		return nil, fmt.Errorf("%w: call %.64q was made before, and what is stored of it cannot be read: %w", ErrConflict, x.Order.CallID, decodeErr)
	case found.Number == x.number:
		x.claim.Store(uint64(entry.Revision))
		return nil, nil
	case r.neverBegan(found.Number):
		if last, err = r.claims.Update(r.ctx, string(name), value, entry.Revision, r.config.Retention); err != nil {
			r.mark(x.number)
		}
		x.claim.Store(uint64(last))
		return nil, err
	}
	return r.current(entry, found)
}

// mark notes that an execution of this run does not begin, though a claim of it may be
// stored.
func (r *Records) mark(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.never) < maxNever {
		r.never[number] = true
	}
}

func (r *Records) neverBegan(number uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.never[number]
}

// unclaim gives a call id back that was claimed by x, which did not begin.
func (r *Records) unclaim(x *Execution) {
	r.mark(x.number)
	r.claims.Delete(r.ctx, string(nameOf(x.Order.Session, x.Order.CallID)), state.Revision(x.claim.Load())) // or somebody takes it over
}

// begins notes that a call which waited is about to run.
func (r *Records) begins(x *Execution) error {
	if err := r.prove(); err != nil {
		return err
	}
	value, err := recordOf(x, stageRuns).encode()
	if err != nil {
		return err
	}
	last, err := r.claims.Update(r.ctx, string(nameOf(x.Order.Session, x.Order.CallID)), value, state.Revision(x.claim.Load()), r.config.Retention)
	if err == nil {
		x.claim.Store(uint64(last))
	}
	return err
}

// ends stores the end of an execution that nobody has seen yet, and returns the end that
// counts. A call that was claimed waits for it; where it cannot be stored now, that is tried
// again behind it, unless there are replicas: one of them could tell another end.
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
		_, err = r.history.Append(r.ctx, "calls", framed(nil, record, text))
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
	if last == 0 && !r.reads.Allow() {
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
	if x.recorded {
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
	batch = fmt.Appendf(batch, "%x %s %d\n", r.Number, nameOf(r.Session, r.CallID), len(text))
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
	timer := time.NewTimer(batchTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.closing:
	}
}

// store stores a batch of what is queued, and reports false where that ended.
func (r *Records) store(next queued) bool {
	var batch []byte
	var claims []queued
	for {
		if next.ends != nil {
			r.bytes.Add(-next.bytes)
			end := r.endOf(next.ends)
			if len(batch)+len(end) > state.MaxValue {
				if !r.untilAppended(batch) {
					return false
				}
				batch = nil
			}
			batch = append(batch, end...)
		}
		if next.claim != nil {
			claims = append(claims, next)
		}
		if len(batch) >= batchBytes {
			break
		}
		select {
		case next = <-r.queue:
			continue
		default:
		}
		break
	}
	return r.untilAppended(batch) && r.untilClaimed(claims)
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
func (r *Records) untilAppended(batch []byte) bool {
	for len(batch) > 0 {
		_, err := r.history.Append(r.ctx, "calls", batch)
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
			_, err = r.claims.Update(r.ctx, string(name), value, c.last, r.config.Retention)
			if err == nil || errors.Is(err, state.ErrConflict) { // it is stored, or no longer there
				break
			}
			if !r.pause() {
				return false
			}
			err = nil
		}
		r.forgetOldest(name)
	}
	return true
}

// forgetOldest removes the oldest claims where there are too many.
func (r *Records) forgetOldest(newest callName) {
	r.mu.Lock()
	r.ended = append(r.ended, newest)
	var oldest callName
	if len(r.ended) > maxClaims {
		oldest, r.ended = r.ended[0], r.ended[1:]
	}
	r.mu.Unlock()
	if oldest != "" {
		r.claims.Delete(r.ctx, string(oldest), 0) // otherwise its time ends
	}
}

// pause waits before something is tried again. It reports false where it will not be.
func (r *Records) pause() bool {
	timer := time.NewTimer(retryTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// load finds the records of earlier runs. Where there are replicas, claims are read when
// they are asked for.
func (r *Records) load() {
	defer close(r.loaded)
	if r.config.Replicas == nil {
		if err := r.scanClaims(func(run uint64) bool { return run != r.config.Run }); err != nil {
			r.config.Logger.Error("calls of before the last restart are not known: those that changed something are still not run again", zap.Error(err))
		}
	}
	if err := r.catchUp(); err != nil && r.ctx.Err() == nil {
		r.config.Logger.Error("results of before the last restart are not known", zap.Error(err))
	}
}

// scanClaims finds the claims of some runs.
func (r *Records) scanClaims(of func(run uint64) bool) error {
	ctx, done := context.WithCancel(r.ctx)
	defer done()
	complete := false
	err := r.claims.Watch(ctx, "", func(e state.Entry) {
		if e.Key == "" {
			complete = true
			done()
			return
		}
		found, err := decodeRecord(e.Value)
		if (err == nil || errors.Is(err, errNewer)) && !e.Deleted && of(runOf(found.Number)) {
			r.found(place{name: callName(e.Key), number: found.Number})
			if err == nil && found.Stage == stageEnded && r.config.Replicas == nil {
				r.mu.Lock()
				r.ended = append(r.ended, callName(e.Key))
				r.mu.Unlock()
			}
		}
	})
	if complete || r.ctx.Err() != nil {
		return nil
	}
	return err
}

// catchUp reads what of the history was not read yet.
func (r *Records) catchUp() error {
	r.reading.Lock()
	defer r.reading.Unlock()
	for r.ctx.Err() == nil {
		records, err := r.history.Read(r.ctx, "", r.next, 64)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, record := range records {
			r.scan(record.Seq, record.Data)
			r.next = record.Seq + 1
		}
	}
	return nil
}

// scan finds the records in a record of the history.
func (r *Records) scan(seq uint64, batch []byte) {
	for at := 0; at < len(batch); {
		line, _, ok := bytes.Cut(batch[at:], []byte("\n"))
		p := place{seq: seq, at: at + len(line) + 1}
		if _, err := fmt.Sscanf(string(line), "%x %s %d", &p.number, &p.name, &p.size); !ok || err != nil || p.size < 0 || p.size > len(batch)-p.at {
			return
		}
		if runOf(p.number) != r.config.Run {
			r.found(p)
		}
		at = p.at + p.size
	}
}

func (r *Records) found(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byID[p.number]; known != nil && known.seq != 0 && p.seq == 0 {
		return // the history tells more
	}
	r.byID[p.number], r.byCall[p.name] = &p, &p
}

// ofCall returns what is stored of the call of an earlier run that has a call id in a
// session; nil where nothing is.
func (r *Records) ofCall(s session.Ref, callID string) (*record, error) {
	return r.fetch(func() *place {
		if len(r.byCall) == 0 {
			return nil
		}
		return r.byCall[nameOf(s, callID)]
	})
}

// ofNumber is ofCall for an execution, whose run is over.
func (r *Records) ofNumber(number uint64) (*record, error) {
	find := func() *place { return r.byID[number] }
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
	r.mu.Lock()
	p := find()
	r.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	if p.seq != 0 {
		records, err := r.history.Read(r.ctx, "", p.seq, 1)
		if err != nil {
			return nil, err
		}
		if len(records) == 1 && records[0].Seq == p.seq && p.at+p.size <= len(records[0].Data) {
			found, err := decodeRecord(records[0].Data[p.at : p.at+p.size])
			if err != nil || !found.Claimed {
				return found, err
			}
			return r.counts(p.name, found)
		}
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
		r.mu.Lock()
		delete(r.byID, p.number)
		delete(r.byCall, p.name)
		r.mu.Unlock()
		return nil, nil
	}
	return nil, err
}
