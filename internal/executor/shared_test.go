// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
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

// TestEndWithoutAnswer: an end that the engine may have stored, though it did not answer, is not
// told as lost: others would read it. Of executions of its own that it does not know, a server says
// nothing while others may have taken over what it had.
func TestEndWithoutAnswer(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	replicas := new(fenced)
	r, err := OpenRecords(t.Context(), RecordsConfig{Engine: engine, Run: 1, Retention: time.Hour, HistoryBytes: 1 << 20, Replicas: replicas, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
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
