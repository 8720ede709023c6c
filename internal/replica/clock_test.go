// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

// TestClockJumps: a clock that is set back by a day changes nothing. One that is set forward looks
// as if the machine had slept: the replica changes nothing until it has renewed its lease, at once.
// Nobody buries it, and it buries nobody.
func TestClockJumps(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var buried atomic.Int32
	join := func(run uint64) *Replica {
		r, err := Join(t.Context(), Config{Engine: engine, Logger: zap.NewNop(), Run: run, Lease: 30 * time.Second, Buried: func() { buried.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Leave)
		return r
	}
	r, other := join(1), join(2)
	const day = 24 * time.Hour
	r.renewedAt.Add(int64(day)) // as a clock sees it that was set back after the renewal
	if err := r.Prove(); err != nil {
		t.Errorf("after a clock was set back: %v", err)
	}
	r.renewedAt.Add(int64(-2 * day))
	if r.Prove() == nil && time.Since(time.Unix(0, r.renewedAt.Load())) > day/2 { // unless it has renewed just then
		t.Error("a replica that may have slept for a day has its lease")
	}
	for r.Prove() != nil { // it renews by itself
		time.Sleep(10 * time.Millisecond)
	}
	for _, one := range []*Replica{r, other} {
		if len(one.Others()) != 1 || one.Prove() != nil {
			t.Errorf("replica %d has %d others", one.Run(), len(one.Others()))
		}
	}
	if buried.Load() != 0 {
		t.Error("a replica was buried")
	}
}
