// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/state"
)

// fenced are replicas of which this one can no longer prove that it lives, once it is told so.
type fenced struct{ atomic.Bool }

var errFenced = errors.New("fenced")

func (f *fenced) Prove() error {
	if f.Load() {
		return errFenced
	}
	return nil
}

func (*fenced) Bury(context.Context, uint64) error { return errors.New("it lives") }
func (*fenced) Over(uint64) bool                   { return false }

// unheard are entries that are stored without an answer for the first attempts, as when a network
// loses what the engine says.
type unheard struct {
	state.KV
	lost  int
	meant func()
}

func (u *unheard) Update(ctx context.Context, key string, value []byte, last state.Revision, ttl time.Duration) (state.Revision, error) {
	revision, err := u.KV.Update(ctx, key, value, last, ttl)
	if u.lost--; u.lost >= 0 {
		u.meant()
		return 0, state.ErrUnavailable
	}
	return revision, err
}

// openShared opens the records of a run among replicas.
func openShared(t *testing.T, engine state.Engine, run uint64, replicas Replicas) *Records {
	t.Helper()
	r, err := OpenRecords(t.Context(), RecordsConfig{Engine: engine, Run: run, Retention: time.Hour, HistoryBytes: 1 << 20, Replicas: replicas, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func openEngine(t *testing.T) state.Engine {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return engine
}

// TestEndWithoutAnswer: an end that the engine may have stored, though it did not answer, is not
// told as lost: others would read it. Of executions of its own that it does not know, a server says
// nothing while others may have taken over what it had.
func TestEndWithoutAnswer(t *testing.T) {
	replicas := new(fenced)
	r := openShared(t, openEngine(t), 1, replicas)
	defer r.Close()
	x, _, end := anExecution(nil)
	if found, err := r.claim(x, stageRuns); found != nil || err != nil {
		t.Fatal(found, err)
	}
	r.claims = &unheard{KV: r.claims, lost: 1, meant: func() { replicas.Store(true) }}
	if got := r.ends(x, end, time.Now()); got != end {
		t.Errorf("the end that counts is %+v, and %+v is stored", got, end)
	}

	e := &Executor{ids: newIDs(newIDKey()), byNumber: make(map[uint64]*Execution), config: Config{Records: r}}
	owner := auth.Owner("acme\x00alice")
	if _, err := e.Find(owner, e.ids.of(1<<runShift+8, owner)); !errors.Is(err, errFenced) {
		t.Errorf("an execution that others may know of: %v", err)
	}
	replicas.Store(false)
	if _, err := e.Find(owner, e.ids.of(1<<runShift+8, owner)); !errors.Is(err, ErrNotFound) {
		t.Errorf("an execution that nobody knows of: %v", err)
	}
}

// lostLog takes nothing.
type lostLog struct {
	state.Log
	meant func()
}

func (l *lostLog) Append(context.Context, string, []byte) (uint64, error) {
	l.meant()
	return 0, state.ErrUnavailable
}

// TestLostIsToldAlike: a call that its own server tells as lost, since its end could not be stored
// in time, is told alike by others, also where that server wrote its claim last.
func TestLostIsToldAlike(t *testing.T) {
	engine, replicas := openEngine(t), new(fenced)
	r := openShared(t, engine, 1, replicas)
	x, _, end := anExecution(nil)
	if found, err := r.claim(x, stageRuns); found != nil || err != nil {
		t.Fatal(found, err)
	}
	<-r.loaded
	log, name, err := r.history.forTenant(t.Context(), x.Order.Session.Owner.Tenant())
	if err != nil {
		t.Fatal(err)
	}
	r.history.byName[name] = &lostLog{log, func() { replicas.Store(true) }}
	told := r.ends(x, end, time.Now())
	if told.Outcome != Lost {
		t.Fatalf("it ended with %+v", told)
	}
	x.outcome = told.Outcome
	r.enqueue(x)
	r.Close()
	other := openShared(t, engine, 2, new(over))
	defer other.Close()
	found, err := other.claimed(x.Order.Session, x.Order.CallID)
	if err != nil {
		t.Fatal(err)
	}
	e := &Executor{ids: newIDs(newIDKey())}
	if got := e.restore(found).log.events[0].Body; !reflect.DeepEqual(got, *told) {
		t.Errorf("others tell\n%+v\nand its server told\n%+v", got, told)
	}
}

// over are replicas of which all others are over.
type over struct{ fenced }

func (*over) Bury(context.Context, uint64) error { return nil }
func (*over) Over(uint64) bool                   { return true }

// TestLateClaim: what a server that is over had claimed is found, also where the engine stored it
// after others looked.
func TestLateClaim(t *testing.T) {
	engine := openEngine(t)
	r := openShared(t, engine, 2, new(over))
	defer r.Close()
	x, _, _ := anExecution(nil)
	if found, err := r.ofNumber(x.number); found != nil || err != nil {
		t.Fatal(found, err)
	}
	value, err := recordOf(x, stageRuns).encode()
	if err == nil {
		_, err = r.claims.Create(t.Context(), string(nameOf(x.Order.Session, x.Order.CallID)), value, time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	if found, err := r.ofNumber(x.number); found == nil || found.Stage != stageLost || err != nil {
		t.Errorf("a claim that came late: %+v, %v", found, err)
	}
}

// behind are entries of which lists are read from a server that has none.
type behind struct{ state.KV }

func (behind) Watch(_ context.Context, _ string, f func(state.Entry)) error {
	f(state.Entry{})
	return nil
}

// TestClaimsAreRead: that nothing is known of an execution is not told by a server of the engine
// that is behind.
func TestClaimsAreRead(t *testing.T) {
	r := openShared(t, openEngine(t), 2, new(over))
	defer r.Close()
	r.claims = behind{r.claims}
	x, _, _ := anExecution(nil)
	if found, err := r.ofNumber(x.number); found != nil || !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("%v, %v, want that it is to be asked again", found, err)
	}
	r.claims = cutOff{r.claims}
	if found, err := r.ofNumber(x.number); found != nil || !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("the list is cut off: %v, %v, want that it is to be asked again", found, err)
	}
}

// cutOff are entries of which no list is read to its end.
type cutOff struct{ state.KV }

func (cutOff) Watch(context.Context, string, func(state.Entry)) error { return state.ErrWatchCut }

// contended has an entry that is there when it is to be made, and gone when it is looked for.
type contended struct{ state.KV }

func (contended) Create(context.Context, string, []byte, time.Duration) (state.Revision, error) {
	return 0, state.ErrConflict
}

// TestClaimIsGivenUp: who finds a call id taken by an attempt that is just given up is to call again.
func TestClaimIsGivenUp(t *testing.T) {
	r := openShared(t, openEngine(t), 1, new(fenced))
	defer r.Close()
	r.claims = contended{r.claims}
	x, _, _ := anExecution(nil)
	if _, err := r.claim(x, stageRuns); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("%v, want that it is to be tried again", err)
	}
}

// TestLeavesNothing: what waits for other calls may have done what they did.
func TestLeavesNothing(t *testing.T) {
	for _, one := range []struct {
		started     bool
		safe, waits bool
		want        bool
	}{
		{false, false, false, true}, {true, false, false, false}, {true, true, false, true}, {true, true, true, false},
	} {
		x := &Execution{Order: Order{ConcurrencySafe: one.safe, Waits: one.waits}}
		if one.started {
			x.started = time.Now()
		}
		if got := x.leavesNothing(); got != one.want {
			t.Errorf("%+v: %v", one, got)
		}
	}
}

// TestBeginsNothingUnproven: a claimed call that waited for its turn does not begin where others may
// have counted it as lost.
func TestBeginsNothingUnproven(t *testing.T) {
	replicas := new(fenced)
	r := openShared(t, openEngine(t), 1, replicas)
	defer r.Close()
	x, _, _ := anExecution(nil)
	x.executor.config.Records = r
	if found, err := r.claim(x, stageRuns); found != nil || err != nil {
		t.Fatal(found, err)
	}
	if refusal := x.beginClaimed(); refusal != nil {
		t.Errorf("it was refused with %+v", refusal)
	}
	replicas.Store(true)
	if refusal := x.beginClaimed(); refusal == nil || !refusal.Failure.Retryable {
		t.Errorf("it was refused with %+v", refusal)
	}
}

// TestEndIsGivenUp: a call whose end cannot be stored is told as lost where the server is to stop.
func TestEndIsGivenUp(t *testing.T) {
	r := openShared(t, openEngine(t), 1, new(fenced))
	defer r.Close()
	x, _, end := anExecution(nil)
	if found, err := r.claim(x, stageRuns); found != nil || err != nil {
		t.Fatal(found, err)
	}
	r.claims = &unheard{KV: r.claims, lost: 1 << 30, meant: r.giveUp}
	if got := r.ends(x, end, time.Now()); got.Outcome != Lost {
		t.Errorf("it ended with %+v", got)
	}
}

// TestForgetsTheOldestRefused: of calls that were refused, and may be stored as begun all the same, the
// newest are known.
func TestForgetsTheOldestRefused(t *testing.T) {
	r := openShared(t, openEngine(t), 1, new(fenced))
	defer r.Close()
	for n := range uint64(maxNever + 2) {
		r.mark(n + 1)
		r.mark(n + 1)
	}
	if r.neverBegan(1) || r.neverBegan(2) || !r.neverBegan(3) || !r.neverBegan(maxNever+2) || len(r.never) != maxNever {
		t.Errorf("%d are known", len(r.never))
	}
}

// lateAnswer are entries of which one is stored, counted as lost by another server, and answered then.
type lateAnswer struct{ state.KV }

func (l lateAnswer) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (state.Revision, error) {
	revision, err := l.KV.Create(ctx, key, value, ttl)
	if err != nil {
		return 0, err
	}
	record, err := decodeRecord(value)
	if err != nil {
		return 0, err
	}
	record.Stage = stageLost
	if value, err = record.encode(); err != nil {
		return 0, err
	}
	if _, err = l.KV.Update(ctx, key, value, revision, ttl); err != nil {
		return 0, err
	}
	return 0, state.ErrConflict
}

// TestClaimWasCountedAsLost: who finds its own claim counted as lost does not run the call.
func TestClaimWasCountedAsLost(t *testing.T) {
	r := openShared(t, openEngine(t), 1, new(fenced))
	defer r.Close()
	r.claims = lateAnswer{r.claims}
	x, _, _ := anExecution(nil)
	if found, err := r.claim(x, stageRuns); found == nil || found.Stage != stageLost || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
}

// fullClaims are entries without room for another until one is deleted.
type fullClaims struct {
	state.KV
	full bool
}

func (f *fullClaims) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (state.Revision, error) {
	if f.full {
		return 0, state.ErrFull
	}
	return f.KV.Create(ctx, key, value, ttl)
}

func (f *fullClaims) Update(ctx context.Context, key string, value []byte, last state.Revision, ttl time.Duration) (state.Revision, error) {
	if f.full {
		return 0, state.ErrFull
	}
	return f.KV.Update(ctx, key, value, last, ttl)
}

func (f *fullClaims) Delete(ctx context.Context, key string, last state.Revision) error {
	f.full = false
	return f.KV.Delete(ctx, key, last)
}

// TestOldClaimsMakeRoom: where claims have no room, those of calls that ended go, also of servers that
// are over, and not those of calls that run.
func TestOldClaimsMakeRoom(t *testing.T) {
	engine := openEngine(t)
	ended, _, end := anExecution(nil)
	before := openShared(t, engine, 1, new(fenced))
	if found, err := before.claim(ended, stageRuns); found != nil || err != nil {
		t.Fatal(found, err)
	}
	before.ends(ended, end, time.Now())
	before.Close()

	r := openShared(t, engine, 2, new(over))
	defer r.Close()
	full := &fullClaims{KV: r.claims, full: true}
	r.claims = full
	x, _, _ := anExecution(nil)
	x.number, x.Order.CallID = 2<<runShift+1, "next"
	if found, err := r.claim(x, stageRuns); found != nil || err != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	if _, err := r.claims.Get(t.Context(), string(nameOf(ended.Order.Session, ended.Order.CallID))); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("the claim of a call that ended: %v", err)
	}
	full.full = true
	y, _, _ := anExecution(nil)
	y.number, y.Order.CallID = 2<<runShift+2, "another"
	if _, err := r.claim(y, stageRuns); !errors.Is(err, state.ErrFull) {
		t.Errorf("while only calls that run have claims: %v", err)
	}
}
