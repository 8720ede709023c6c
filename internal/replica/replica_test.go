// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package replica_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/state"
)

// lease is the shortest that the engine counts.
const lease = time.Second

// A cable is the way of one replica to the engine, which can be cut.
type cable struct {
	state.Engine
	cut atomic.Bool
}

func (c *cable) KV(ctx context.Context, space state.Space) (state.KV, error) {
	kv, err := c.Engine.KV(ctx, space)
	return cabled{kv, c}, err
}

type cabled struct {
	state.KV
	cable *cable
}

func (k cabled) Get(ctx context.Context, key string) (state.Entry, error) {
	if k.cable.cut.Load() {
		return state.Entry{}, state.ErrUnavailable
	}
	return k.KV.Get(ctx, key)
}

func (k cabled) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (state.Revision, error) {
	if k.cable.cut.Load() {
		return 0, state.ErrUnavailable
	}
	return k.KV.Create(ctx, key, value, ttl)
}

func (k cabled) Update(ctx context.Context, key string, value []byte, last state.Revision, ttl time.Duration) (state.Revision, error) {
	if k.cable.cut.Load() {
		return 0, state.ErrUnavailable
	}
	return k.KV.Update(ctx, key, value, last, ttl)
}

// one is a replica, what it was told, and its cable.
type one struct {
	*replica.Replica
	cable          *cable
	fenced, buried chan struct{}
}

func join(t *testing.T, engine state.Engine, run uint64, place string) *one {
	t.Helper()
	o := &one{cable: &cable{Engine: engine}, fenced: make(chan struct{}, 16), buried: make(chan struct{}, 16)}
	tell := func(c chan struct{}) func() {
		return func() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	var err error
	o.Replica, err = replica.Join(t.Context(), replica.Config{
		Engine: o.cable, Logger: zap.NewNop(), Run: run, Address: fmt.Sprint("address-", run), Place: place, Lease: lease, Fenced: tell(o.fenced), Buried: tell(o.buried),
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func open(t *testing.T) state.Engine {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return engine
}

// until waits for something that comes about by itself.
func (o *one) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		changed := o.Changed()
		if is() {
			return
		}
		select {
		case <-changed:
		case <-time.After(lease / 20):
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}

// TestLease: a replica lives as long as it renews its lease. One that cannot fences itself before
// another buries it, what it had is taken over then and not before, and when it is back it
// learns that it is dead, for ever.
func TestLease(t *testing.T) {
	t.Parallel()
	engine := open(t)
	cut, stays := join(t, engine, 1, "here"), join(t, engine, 2, "here")
	defer stays.Leave()
	defer cut.Leave()
	if err := cut.Claim(t.Context(), "thing", false); err != nil || !cut.Mine("thing") {
		t.Fatal(err)
	}
	if err := stays.Take(t.Context(), "thing", false); !errors.Is(err, replica.ErrTaken) {
		t.Errorf("what another has: %v", err)
	}
	if err := stays.Bury(t.Context(), 1); !errors.Is(err, replica.ErrLives) {
		t.Errorf("it buries who lives: %v", err)
	}
	if err := cut.Prove(); err != nil {
		t.Error(err)
	}

	cut.cable.cut.Store(true)
	stays.until(t, "nobody buries it", func() bool { return stays.Over(1) })
	if cut.Prove() == nil {
		t.Error("it was buried before it fenced itself")
	}
	<-cut.fenced
	if err := stays.Take(t.Context(), "thing", false); err != nil {
		t.Errorf("what it had: %v", err)
	}
	stays.Keep("thing")

	cut.cable.cut.Store(false)
	<-cut.buried
	if err := cut.Prove(); !errors.Is(err, replica.ErrFenced) {
		t.Errorf("it lives again: %v", err)
	}
	if err := cut.Claim(t.Context(), "other", false); !errors.Is(err, replica.ErrFenced) {
		t.Errorf("it takes something: %v", err)
	}
	if err := cut.Release(t.Context(), "thing", false); err != nil {
		t.Error(err)
	}
	if has, known, err := stays.Owner(t.Context(), "thing", true); err != nil || !known || has.Run != 2 {
		t.Errorf("it gave back what it does not have: %v, %v", has, err)
	}
	if m := stays.Members(); len(m) != 1 || m[0].Run != 2 {
		t.Errorf("members: %v", m)
	}
}

// TestFenceAndBack: a replica that was cut off for less than its lease goes on.
func TestFenceAndBack(t *testing.T) {
	t.Parallel()
	engine := open(t)
	alone := join(t, engine, 1, "here") // nobody buries it
	defer alone.Leave()
	alone.cable.cut.Store(true)
	<-alone.fenced
	if err := alone.Prove(); !errors.Is(err, replica.ErrFenced) {
		t.Errorf("%v", err)
	}
	if err := alone.Take(t.Context(), "thing", false); !errors.Is(err, replica.ErrFenced) {
		t.Errorf("it takes something: %v", err)
	}
	alone.cable.cut.Store(false)
	alone.until(t, "it does not come back", func() bool { return alone.Prove() == nil })
	select {
	case <-alone.buried:
		t.Error("it was declared dead")
	default:
	}
}

// TestOwnership has what becomes of a thing that one has, by how that one lets it go.
func TestOwnership(t *testing.T) {
	t.Parallel()
	engine := open(t)
	first, second, elsewhere := join(t, engine, 1, "here"), join(t, engine, 2, "here"), join(t, engine, 3, "there")
	defer elsewhere.Leave()
	defer second.Leave()
	for _, test := range []struct {
		key    string
		lets   func() error
		known  bool // whether it is still known that there is such a thing
		orphan bool // whether it falls to who shares its place
	}{
		{key: "ends", lets: func() error { return first.Release(t.Context(), "ends", false) }},
		{key: "goes on", lets: func() error { return first.Release(t.Context(), "goes on", true) }, known: true, orphan: true},
		{key: "stays", lets: func() error { return nil }, known: true},
	} {
		t.Run(test.key, func(t *testing.T) {
			if err := first.Claim(t.Context(), test.key, false); err != nil {
				t.Fatal(err)
			}
			if err := test.lets(); err != nil {
				t.Fatal(err)
			}
			if _, known, err := second.Owner(t.Context(), test.key, true); known != test.known || err != nil {
				t.Errorf("known: %v, %v", known, err)
			}
			second.until(t, "it falls to nobody", func() bool { return has(second, test.key) || has(first, test.key) || !test.orphan })
			if has(elsewhere, test.key) {
				t.Error("it falls to a replica of another place")
			}
		})
	}
	first.Leave() // what stayed is an orphan now
	second.until(t, "what it had falls to nobody", func() bool { return has(second, "stays") && has(second, "goes on") })
	if err := elsewhere.Forget(t.Context(), "stays"); err != nil {
		t.Error(err)
	}
	if _, known, err := second.Owner(t.Context(), "stays", true); known || err != nil {
		t.Errorf("what was forgotten is known: %v", err)
	}
}

func has(o *one, key string) bool {
	for _, orphan := range o.Orphans() {
		if orphan == key {
			return true
		}
	}
	return false
}
