// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// cutOff are entries that cannot be written while a server is cut off from the state.
type cutOff struct {
	state.KV
	now    atomic.Bool
	stored func() // is called when something was written, if it is set
}

func (c *cutOff) Put(ctx context.Context, key string, value []byte, ttl time.Duration) (state.Revision, error) {
	if c.now.Load() {
		return 0, state.ErrUnavailable
	}
	if c.stored != nil {
		defer c.stored()
	}
	return c.KV.Put(ctx, key, value, ttl)
}

// stopsCutOff returns a list of stops, and its state, which can be cut off.
func stopsCutOff(t *testing.T) (*stopList, *cutOff) {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	entries, err := engine.KV(t.Context(), state.Space{Name: "stops"})
	if err != nil {
		t.Fatal(err)
	}
	away := &cutOff{KV: entries}
	list, err := openStops(t.Context(), "", away, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list, away
}

// TestLiftedStopStaysLifted: a stop that could not be stored, and was lifted meanwhile, here or at another
// replica, is not stored any more; where it just was, it is taken out again.
func TestLiftedStopStaysLifted(t *testing.T) {
	for name, lift := range map[string]func(here, there *stopList, of auth.Owner) error{
		"here": func(here, _ *stopList, of auth.Owner) error {
			_, _, err := here.lift(of)
			return errors.Join(err, here.storeInForce(of))
		},
		"there": func(here, there *stopList, of auth.Owner) error {
			_, _, err := there.lift(of)
			return errors.Join(err, here.shared.lifted(t.Context(), of, time.Now()), here.storeInForce(of))
		},
		"there, stored before it is told": func(here, there *stopList, of auth.Owner) error {
			return errors.Join(there.shared.remove(of), here.storeInForce(of), here.shared.lifted(t.Context(), of, time.Now()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			here, away := stopsCutOff(t)
			there, err := openStops(t.Context(), "", away.KV, nil)
			if err != nil {
				t.Fatal(err)
			}
			away.now.Store(true)
			one, _, err := here.put(stop{Principal: "alice", By: "bob", Since: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := here.keep(one); !errors.Is(err, state.ErrUnavailable) {
				t.Errorf("it is kept: %v", err)
			}
			away.now.Store(false)
			of := one.owner()
			if err := lift(here, there, of); err != nil {
				t.Fatal(err)
			}
			if left := here.list(); len(left) != 0 {
				t.Errorf("in force is %+v", left)
			}
			if _, err := away.KV.Get(t.Context(), stopKey(of)); !errors.Is(err, state.ErrNotFound) {
				t.Errorf("stored: %v", err)
			}
		})
	}
}

// TestNewerStopStays: a replica that learns late of a stop that another one has lifted keeps a newer
// stop of the same principal, stored or not.
func TestNewerStopStays(t *testing.T) {
	for name, stored := range map[string]bool{"stored": true, "not stored": false} {
		t.Run(name, func(t *testing.T) {
			here, away := stopsCutOff(t)
			asked := time.Now()
			away.now.Store(!stored)
			one, _, err := here.put(stop{Principal: "alice", By: "bob", Since: asked.Add(time.Millisecond)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := here.keep(one); (err == nil) != stored {
				t.Fatalf("kept: %v", err)
			}
			if err := here.shared.lifted(t.Context(), one.owner(), asked); err != nil {
				t.Fatal(err)
			}
			if left := here.list(); len(left) != 1 || !left[0].Since.Equal(one.Since) {
				t.Errorf("in force is %+v", left)
			}
			if _, err := away.KV.Get(t.Context(), stopKey(one.owner())); (err == nil) != stored {
				t.Errorf("stored: %v", err)
			}
		})
	}
}

// TestStopOverruledWhileStored: who stops itself, and is stopped by another before its own stop is
// noted as stored, stays stopped by the other.
func TestStopOverruledWhileStored(t *testing.T) {
	list, entries := stopsCutOff(t)
	own, _, err := list.put(stop{Principal: "alice", By: "alice", Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	others := stop{Principal: "alice", By: "bob", Since: time.Now()}
	entries.stored = func() {
		entries.stored = nil
		if _, _, err := list.put(others); err != nil {
			t.Error(err)
		}
	}
	if _, err := list.keep(own); err != nil {
		t.Fatal(err)
	}
	if now, err := list.keep(others); err != nil || now.By != "bob" || !now.InState {
		t.Errorf("in force is %+v, %v", now, err)
	}
	if one, there := list.shared.at(stopKey(own.owner())); !there || one.By != "bob" {
		t.Errorf("the state has %+v, %t", one, there)
	}
}

// TestStopDuringRetry: a stop that cannot be stored while others are tried again is stored as well.
func TestStopDuringRetry(t *testing.T) {
	list, entries := stopsCutOff(t)
	if _, _, err := list.put(stop{Principal: "alice", By: "bob", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	entries.stored = func() {
		entries.stored = func() { close(done) }
		if _, _, err := list.put(stop{Principal: "carol", By: "bob", Since: time.Now()}); err != nil {
			t.Error(err)
		}
		list.keepLater(t.Context())
	}
	list.keepLater(t.Context())
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("the second stop is not in the state")
	}
}

// TestRejudgeStopped: a call that waited when its caller was stopped does not begin.
func TestRejudgeStopped(t *testing.T) {
	list, _ := stopsCutOff(t)
	if _, _, err := list.put(stop{Principal: "alice", By: "bob", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, order := range []executor.Order{
		{Session: session.Ref{Owner: auth.NewOwner("", "alice")}},
		{Session: session.Ref{Owner: auth.NewOwner("", "runtime")}, OnBehalfOf: "alice"},
	} {
		now := steps{&Server{stops: list}}.Rejudge(&executor.Execution{Order: order}, nil)
		if now.Verdict.Action != policy.Deny || now.Verdict.Reason != "The caller was stopped by bob." {
			t.Errorf("%+v", now.Verdict)
		}
	}
}
