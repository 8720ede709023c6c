// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

// TestHistoriesOfReplicas: replicas together have no more logs than there may be, and each reads
// what another has stored.
func TestHistoriesOfReplicas(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var all [2]*histories
	for i := range all {
		if all[i], err = openHistories(t.Context(), RecordsConfig{Engine: engine, Retention: time.Hour, HistoryBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2*maxHistories + 2 {
		text := fmt.Sprint("end ", n)
		at, err := all[n%2].append(t.Context(), fmt.Sprint("tenant ", n), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if common := n >= maxHistories; (at.Log == historyName) != common {
			t.Errorf("that of tenant %d is in %s", n, at.Log)
		}
		if got, err := all[1-n%2].read(t.Context(), at); err != nil || string(got) != text {
			t.Errorf("the other replica reads %q, %v", got, err)
		}
	}
	logs, err := all[0].all(t.Context())
	if err != nil || len(logs) != maxHistories+1 {
		t.Errorf("%d logs, %v", len(logs), err)
	}
}

// slow is an engine that takes its time to open a log.
type slow struct {
	state.Engine
	name          string
	begun, goesOn chan struct{}
}

func (s slow) Log(ctx context.Context, space state.Space) (state.Log, error) {
	if space.Name == s.name {
		close(s.begun)
		<-s.goesOn
	}
	return s.Engine.Log(ctx, space)
}

// TestSlowHistory: while the log of one tenant is opened, others are used.
func TestSlowHistory(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	late := slow{engine, nameFor("late"), make(chan struct{}), make(chan struct{})}
	h, err := openHistories(t.Context(), RecordsConfig{Engine: late, Retention: time.Hour, HistoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		_, err := h.append(t.Context(), "late", []byte("x"))
		opened <- err
	}()
	<-late.begun
	for _, tenant := range []string{"", "other"} { // it would wait for ever
		if _, err := h.append(t.Context(), tenant, []byte("x")); err != nil {
			t.Error(err)
		}
	}
	close(late.goesOn)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// TestPlacesAreBounded: of records of other runs no more is known than may be, the newest.
func TestPlacesAreBounded(t *testing.T) {
	r := &Records{config: RecordsConfig{Logger: zap.NewNop()}, byID: make(map[uint64]*place), byCall: make(map[callName]*place)}
	name := func(n uint64) callName { return callName(fmt.Sprint(n)) }
	const more = 1000
	for n := uint64(1); n <= maxPlaces+more; n++ {
		r.found(place{number: n, name: name(n)})
	}
	if len(r.byID) != maxPlaces || len(r.byCall) != maxPlaces || len(r.places) != maxPlaces {
		t.Errorf("%d by number, %d by call, %d in order", len(r.byID), len(r.byCall), len(r.places))
	}
	if r.byID[more] != nil || r.byCall[name(more)] != nil || r.byID[more+1] == nil {
		t.Error("others than the oldest were forgotten")
	}
	for range maxPlaces {
		r.found(place{number: maxPlaces + more, name: name(maxPlaces + more)})
	}
	if r.byID[more+1] == nil {
		t.Error("a claim that is found again and again pushes others out")
	}
}
