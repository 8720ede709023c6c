// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

var _ tools.Session = (*session.Session)(nil)

func setMode(t *testing.T, store *session.Store, s *session.Session, mode tools.Mode) {
	t.Helper()
	if _, err := store.Update(s.Owner, s.ID, func(settings *session.Settings) { settings.Mode = mode }); err != nil {
		t.Fatal(err)
	}
}

// TestPlanEnd enters plan mode in every way there is: the mode before it is
// known where there was one.
func TestPlanEnd(t *testing.T) {
	store := newStore(t, session.Config{Default: session.Settings{Mode: tools.ModeAcceptEdits}})
	change := func(s *session.Session, to tools.Mode) {
		t.Helper()
		if err := s.ChangeMode(s.Mode(), to); err != nil {
			t.Fatal(err)
		}
	}
	s := create(t, store, "alice", session.Request{Settings: session.Settings{Mode: tools.ModeAllow}})
	check := func(mode, end tools.Mode) {
		t.Helper()
		if s.Mode() != mode || s.PlanEnd() != end {
			t.Errorf("in mode %s, after a plan %s: want %s and %s", s.Mode(), s.PlanEnd(), mode, end)
		}
	}
	check(tools.ModeAllow, tools.ModeAcceptEdits)
	change(s, tools.ModePlan)
	check(tools.ModePlan, tools.ModeAllow)
	change(s, tools.ModePlan) // again: it still began in allow
	setMode(t, store, s, tools.ModePlan)
	check(tools.ModePlan, tools.ModeAllow)
	change(s, s.PlanEnd())
	check(tools.ModeAllow, tools.ModeAllow)
	setMode(t, store, s, tools.ModeAsk)
	setMode(t, store, s, tools.ModePlan)
	check(tools.ModePlan, tools.ModeAsk)

	s = create(t, store, "alice", session.Request{Settings: session.Settings{Mode: tools.ModePlan}})
	check(tools.ModePlan, tools.ModeAcceptEdits)

	planner := newStore(t, session.Config{Default: session.Settings{Mode: tools.ModePlan}})
	s = get(t, planner, "alice", "")
	check(tools.ModePlan, tools.ModeAsk)
}

func TestChangeModeRefusals(t *testing.T) {
	store := newStore(t, session.Config{Modes: []tools.Mode{tools.ModeAsk, tools.ModePlan}})
	s := get(t, store, "alice", "")
	for _, test := range []struct {
		from, to  tools.Mode
		code      string
		says      string
		retryable bool
	}{
		{tools.ModePlan, tools.ModeAsk, "mode_changed", "it was plan and is ask", true},
		{tools.ModeAsk, tools.ModeAllow, "mode_not_permitted", "does not permit mode allow", false},
	} {
		failure, ok := errors.AsType[*tools.Failure](s.ChangeMode(test.from, test.to))
		if !ok || failure.Code != test.code || failure.Retryable != test.retryable || !strings.Contains(failure.Message, test.says) {
			t.Errorf("from %s to %s: %+v, want %s", test.from, test.to, failure, test.code)
		}
		if s.Mode() != tools.ModeAsk {
			t.Fatalf("the mode became %s", s.Mode())
		}
	}
}

// TestChangeModeBesideUpdate proves that of two that change one session neither
// undoes what the other did.
func TestChangeModeBesideUpdate(t *testing.T) {
	store := newStore(t, session.Config{})
	s := get(t, store, "alice", "")
	var won atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if s.ChangeMode(tools.ModeAsk, tools.ModePlan) == nil {
				won.Add(1)
			}
		})
		group.Go(func() {
			_, err := store.Update("alice", "", func(settings *session.Settings) {
				settings.Labels = map[string]string{"changed": "yes"}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d of 20 changed the mode from ask, want one", n)
	}
	if settings := s.Settings(); settings.Mode != tools.ModePlan || settings.Labels["changed"] != "yes" {
		t.Errorf("%+v lost a change", settings)
	}
}

// TestNetwork proves that a store that was told nothing about the network gives
// none, and one that was told of a default no more than that.
func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		byDefault, most, want, refused tools.Network
	}{
		{0, 0, tools.NetworkNone, tools.NetworkLoopback},
		{tools.NetworkLoopback, 0, tools.NetworkLoopback, tools.NetworkHosts},
		{0, tools.NetworkHosts, tools.NetworkNone, tools.NetworkOpen},
		{tools.NetworkLoopback, tools.NetworkHosts, tools.NetworkLoopback, tools.NetworkOpen},
	} {
		store := newStore(t, session.Config{Default: session.Settings{Network: test.byDefault}, MaxNetwork: test.most})
		if got := get(t, store, "alice", "").Settings().Network; got != test.want {
			t.Errorf("%s, at most %s: the default session has %s", test.byDefault, test.most, got)
		}
		_, err := store.Create("alice", session.Request{Settings: session.Settings{Network: test.refused}})
		if !errors.Is(err, session.ErrForbidden) || !strings.Contains(err.Error(), "network "+test.refused.String()+" is above") {
			t.Errorf("%s, at most %s: asked for %s: %v", test.byDefault, test.most, test.refused, err)
		}
	}
}

// TestAfterClose proves that what waits for the end of a session is told once,
// when nothing uses it any more, however it was closed.
func TestAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{})
		for name, end := range map[string]func(s *session.Session){
			"removed": func(s *session.Session) { store.Remove("alice", s.ID) },
			"idle":    func(*session.Session) { time.Sleep(2 * time.Minute) },
			"in use": func(s *session.Session) {
				s.Enter()
				store.Remove("alice", s.ID)
				if !s.AfterClose(func() {}) {
					t.Error("it is in use and counts as ended")
				}
				s.Leave()
			},
		} {
			s := create(t, store, "alice", session.Request{Settings: session.Settings{IdleTTL: time.Minute}})
			var calls atomic.Int32
			if !s.AfterClose(func() { calls.Add(1) }) || calls.Load() != 0 {
				t.Fatalf("%s: told before the end", name)
			}
			end(s)
			synctest.Wait()
			if calls.Load() != 1 {
				t.Errorf("%s: told %d times, want once", name, calls.Load())
			}
			if s.AfterClose(func() { calls.Add(1) }) {
				t.Errorf("%s: it is promised to be told of an end that was", name)
			}
		}
	})
}
