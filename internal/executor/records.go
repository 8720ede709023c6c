// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
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

	// Run numbers the runs of the server; each has a higher one than all before it. Key is
	// the same in all of them: it makes the ids of executions.
	Run uint64
	Key [16]byte

	// Retention is how long a call id and its result are known. HistoryBytes is how much
	// results and events of a tenant may take together; older ones go first.
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

	// Over reports whether a run is known to be over for ever. It asks nobody.
	Over(run uint64) bool
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
	history *histories
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	settling context.Context // ends with ctx, or when calls whose ends cannot be stored are told as lost
	giveUp   context.CancelFunc

	reads   fairRate // of calls that only read
	queue   chan queued
	closing chan struct{} // closed when no more is queued
	written chan struct{} // closed when all is stored that was queued
	dropped atomic.Uint64
	bytes   atomic.Int64 // of the logs of what is queued

	loaded chan struct{} // closed when the places of earlier runs are known
	places *recordPlaces // of executions of earlier runs
	mu     sync.Mutex
	never  map[uint64]bool // executions of this run that never began, though a claim of them may be stored
	marked []uint64        // those in never, the oldest first
	ended  endedClaims

	adopting sharedScan // of claims that servers which are over left behind
	adopted  time.Time  // when that was last; guarded by adopting

	reading  sharedScan           // of the history
	next     map[state.Log]uint64 // what of each log is to be read next
	scanning sharedScan           // of claims
	scanned  map[uint64]time.Time // runs that are over, by when their claims were asked for first; zero where all are known
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
	runShift = 32

	// readsPerSecond is how many calls that only read are recorded; where one tenant has that many,
	// others have their shares of as many again. Of more, which a server can have while it does
	// nothing else, the processor would notice the records: to make such a call again does no harm.
	readsPerSecond = 500

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

	// adoptTime is how long a server that needs room does not look again for claims of others.
	adoptTime = time.Minute

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
		config: config, reads: fairRate{limiter: rate.NewLimiter(readsPerSecond, 2*readsPerSecond)}, queue: make(chan queued, maxQueued), closing: make(chan struct{}), written: make(chan struct{}), loaded: make(chan struct{}),
		places: newPlaces(), never: make(map[uint64]bool), next: make(map[state.Log]uint64), scanned: make(map[uint64]time.Time),
		ended: endedClaims{byTenant: make(map[string][]callName)},
	}
	var err error
	if r.claims, err = config.Engine.KV(ctx, state.Space{Name: "calls", MaxBytes: claimBytes}); err != nil {
		return nil, fmt.Errorf("records of calls: %w", err)
	}
	if r.history, err = openHistories(ctx, config); err != nil {
		return nil, fmt.Errorf("history of calls: %w", err)
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.settling, r.giveUp = context.WithCancel(r.ctx)
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
func (r *Records) claim(x *Execution, at recordStage) (*record, error) {
	if err := r.prove(); err != nil {
		return nil, err
	}
	name := nameOf(x.Order.Session, x.Order.CallID)
	value, err := recordOf(x, at).encode()
	if err != nil {
		return nil, err
	}
	last, err := r.withRoom(func() (state.Revision, error) {
		return r.claims.Create(r.ctx, string(name), value, r.config.Retention)
	})
	if err == nil {
		x.claim.Store(uint64(last))
		return nil, r.proveClaim(x)
	}
	if errors.Is(err, state.ErrUnavailable) { // whoever calls has waited long enough
		r.mark(x.number)
		return nil, err
	}
	// What happened is unknown, also after a conflict: the first attempt may have been heard.
	entry, getErr := r.claims.Get(r.ctx, string(name))
	if getErr != nil {
		if !errors.Is(getErr, state.ErrNotFound) {
			r.mark(x.number)
		}
		return nil, undecided(err)
	}
	found, decodeErr := decodeRecord(entry.Value)
	switch {
	case decodeErr != nil:
		return nil, fmt.Errorf("%w: call %.64q was made before, and what is stored of it cannot be read: %w", ErrConflict, x.Order.CallID, decodeErr)
	case found.Number == x.number && found.Stage == stageLost: // others took this server for dead
		return found, nil
	case found.Number == x.number:
		x.claim.Store(uint64(entry.Revision))
	case r.neverBegan(found.Number):
		if last, err = r.claims.Update(r.ctx, string(name), value, entry.Revision, r.config.Retention); err != nil {
			r.mark(x.number)
			return nil, undecided(err)
		}
		x.claim.Store(uint64(last))
	default:
		return r.current(entry, found)
	}
	return nil, r.proveClaim(x)
}

// proveClaim gives a claim back that took too long: others may count the call as lost already.
func (r *Records) proveClaim(x *Execution) error {
	err := r.prove()
	if err != nil {
		r.unclaim(x)
	}
	return err
}

// undecided returns the error of a claim: after a conflict with one that is just being given up, the
// caller is to try again.
func undecided(err error) error {
	if errors.Is(err, state.ErrConflict) {
		return fmt.Errorf("%w: another attempt to make the call was just given up: call again with the same call id", state.ErrUnavailable)
	}
	return err
}

// mark notes that an execution of this run does not begin, though a claim of it may be
// stored.
func (r *Records) mark(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.never[number] {
		return
	}
	if len(r.marked) >= maxNever {
		delete(r.never, r.marked[0])
		r.marked = r.marked[1:]
	}
	r.never[number] = true
	r.marked = append(r.marked, number)
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
	value, err := recordOf(x, stageRuns).encode()
	if err != nil {
		return err
	}
	last, err := r.withRoom(func() (state.Revision, error) {
		return r.claims.Update(r.ctx, string(nameOf(x.Order.Session, x.Order.CallID)), value, state.Revision(x.claim.Load()), r.config.Retention)
	})
	if err != nil {
		return err
	}
	x.claim.Store(uint64(last))
	return r.prove() // it may have taken too long
}

// withRoom writes a claim. Where there is no room for it, claims of calls that ended are removed before
// their time, the oldest first.
func (r *Records) withRoom(write func() (state.Revision, error)) (state.Revision, error) {
	for {
		last, err := write()
		if !errors.Is(err, state.ErrFull) || !r.makeRoom() {
			return last, err
		}
	}
}

func (r *Records) makeRoom() bool {
	if r.config.Engine.Health(r.ctx) != nil {
		return false // the disk is full, and not the claims
	}
	oldest := r.oldestEnded()
	if oldest == "" && r.config.Replicas != nil && r.adopting.do(r.adopt) == nil {
		oldest = r.oldestEnded()
	}
	return oldest != "" && r.claims.Delete(r.ctx, string(oldest), 0) == nil
}

func (r *Records) oldestEnded() callName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended.oldest()
}

// adopt takes note of the claims that servers which are over left behind.
func (r *Records) adopt() error {
	if time.Since(r.adopted) < adoptTime {
		return nil
	}
	r.adopted = time.Now()
	return state.Snapshot(r.ctx, r.claims, "", func(e state.Entry) {
		found, err := decodeRecord(e.Value)
		if err == nil && found.Stage == stageEnded && r.config.Replicas.Over(runOf(found.Number)) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended.add(found.Session.Owner.Tenant(), callName(e.Key))
		}
	})
}
