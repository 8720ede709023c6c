// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/toolserver/toolserver/internal/auth"
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

// TestPlacesAreBounded: of records of other runs no more is known than may be; the tenant that has
// the most loses those that were found first.
func TestPlacesAreBounded(t *testing.T) {
	p := newPlaces()
	name := func(n uint64) callName { return callName(fmt.Sprint(n)) }
	add := func(n uint64, history string) { p.add(place{number: n, name: name(n), history: history}) }
	const few, more = 10, 1000
	for n := uint64(1); n <= few; n++ {
		add(n, "few")
	}
	for n := uint64(few + 1); n <= maxPlaces+more; n++ {
		add(n, "many")
	}
	if p.byNumber.Len() != maxPlaces || len(p.byCall) != maxPlaces || p.total != maxPlaces {
		t.Errorf("%d by number, %d by call, %d in order", p.byNumber.Len(), len(p.byCall), p.total)
	}
	for n, known := range map[uint64]bool{1: true, few: true, few + 1: false, few + more: false, few + more + 1: true, maxPlaces + more: true} {
		if (p.numbered(n) != nil) != known || (p.called(func() callName { return name(n) }) != nil) != known {
			t.Errorf("whether %d is known is %v", n, !known)
		}
	}
	for range maxPlaces {
		add(maxPlaces+more, "many")
	}
	if p.numbered(few+more+1) == nil {
		t.Error("a claim that is found again and again pushes others out")
	}
	var numbers []uint64
	for _, one := range p.below(maxPlaces, 3) {
		numbers = append(numbers, one.number)
	}
	if !slices.Equal(numbers, []uint64{maxPlaces - 1, maxPlaces - 2, maxPlaces - 3}) {
		t.Errorf("below %d are %d", maxPlaces, numbers)
	}
}

// TestListLooksAtSomePlaces: a page of somebody who has few records among many is found by several
// lists, none of which looks at all.
func TestListLooksAtSomePlaces(t *testing.T) {
	r := &Records{places: newPlaces(), loaded: make(chan struct{})}
	close(r.loaded)
	owner := auth.NewOwner("", "me")
	for n := uint64(1); n <= 2*maxPassed; n++ {
		r.places.add(place{number: n, name: callName(fmt.Sprint(n)), owner: tagOf("others")})
	}
	last, more, err := r.list(owner, math.MaxUint64, nil)
	if last != maxPassed+1 || !more || err != nil {
		t.Fatalf("the first ends at %d, %v, %v", last, more, err)
	}
	if last, more, err = r.list(owner, last, nil); last != 1 || err != nil {
		t.Fatalf("the second ends at %d, %v, %v", last, more, err)
	}
	if last, more, err = r.list(owner, last, nil); more || err != nil {
		t.Errorf("the last ends at %d, %v, %v", last, more, err)
	}
}

// TestFairRate: a tenant whose calls are too many leaves the others their shares, and all together
// have no more than twice the rate.
func TestFairRate(t *testing.T) {
	f := fairRate{limiter: rate.NewLimiter(100, 100)}
	now := time.Unix(1000, 0)
	for range 2 {
		counts := make(map[string]int)
		for _, tenant := range []string{"many", "few"} {
			for range map[string]int{"many": 1000, "few": 20}[tenant] {
				if f.allow(tenant, now) {
					counts[tenant]++
				}
			}
		}
		if counts["few"] != 20 || counts["many"] != 100 {
			t.Errorf("recorded were %v", counts)
		}
		now = now.Add(time.Second)
	}
}
