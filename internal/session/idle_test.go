// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

// TestIdle lets sessions be until they go. Each step is at a time after the
// session was made; "there" and "gone" look without using it.
func TestIdle(t *testing.T) {
	type step struct {
		at   time.Duration
		what string
	}
	const m = time.Minute
	update := func(ttl time.Duration) func(*session.Store) error {
		return func(store *session.Store) error {
			_, err := store.Update("alice", "work", func(s *session.Settings) { s.IdleTTL = ttl })
			return err
		}
	}
	actions := map[string]func(*session.Store) error{
		"use":    func(store *session.Store) error { _, err := store.Get("alice", "work"); return err },
		"ttl 1m": update(m), "ttl 1h": update(60 * m), "ttl 0": update(0),
	}
	for _, test := range []struct {
		name  string
		ttl   time.Duration
		steps []step
	}{
		{"unused", 10 * m, []step{{10*m - 1, "there"}, {10 * m, "gone"}}},
		{"kept for ever", 0, []step{{10_000_000 * m, "there"}}},
		{"moved by use", 10 * m, []step{{6 * m, "use"}, {10 * m, "there"}, {16*m - 1, "there"}, {16 * m, "gone"}}},
		{"moved by use often", 10 * m, []step{{9 * m, "use"}, {18 * m, "use"}, {27 * m, "use"}, {37*m - 1, "there"}, {37 * m, "gone"}}},
		{"not while in use", 10 * m, []step{{m, "enter"}, {1000 * m, "there"}, {1001 * m, "leave"}, {1011*m - 1, "there"}, {1011 * m, "gone"}}},
		{"not while one of two uses it", 10 * m, []step{{0, "enter"}, {m, "enter"}, {2 * m, "leave"}, {30 * m, "there"}, {31 * m, "leave"}, {41*m - 1, "there"}, {41 * m, "gone"}}},
		{"left just before", 10 * m, []step{{0, "enter"}, {10*m - 1, "leave"}, {20*m - 2, "there"}, {20*m - 1, "gone"}}},
		{"longer", 10 * m, []step{{5 * m, "ttl 1h"}, {65*m - 1, "there"}, {65 * m, "gone"}}},
		{"shorter", 10 * m, []step{{5 * m, "ttl 1m"}, {6*m - 1, "there"}, {6 * m, "gone"}}},
		{"shorter, and used", 10 * m, []step{{5 * m, "ttl 1m"}, {5*m + m/2, "use"}, {6 * m, "there"}, {6*m + m/2, "gone"}}},
		{"from now on for ever", 10 * m, []step{{5 * m, "ttl 0"}, {1000 * m, "there"}}},
		{"no more for ever", 0, []step{{5 * m, "ttl 1m"}, {6*m - 1, "there"}, {6 * m, "gone"}}},
		{"updated in use", 10 * m, []step{{m, "enter"}, {2 * m, "ttl 1m"}, {100 * m, "there"}, {100 * m, "leave"}, {101*m - 1, "there"}, {101 * m, "gone"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t, session.Config{})
				s := create(t, store, "alice", session.Request{ID: "work", Settings: session.Settings{IdleTTL: test.ttl}})
				for _, step := range test.steps {
					time.Sleep(time.Until(s.Created.Add(step.at)))
					synctest.Wait()
					switch step.what {
					case "enter":
						if !s.Enter() {
							t.Fatalf("%s: it is closed", step.at)
						}
					case "leave":
						s.Leave()
					case "there", "gone":
						if there := ids(store, "alice") == "work"; there != (step.what == "there") {
							t.Fatalf("%s: there: %t, want %s", step.at, there, step.what)
						}
						if there := exists(s.Workspace.Dir()); there != (step.what == "there") {
							t.Fatalf("%s: its workspace is there: %t, want %s", step.at, there, step.what)
						}
					default:
						if err := actions[step.what](store); err != nil {
							t.Fatalf("%s: %s: %v", step.at, step.what, err)
						}
					}
				}
			})
		})
	}
}

func TestIdleDefaultSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{Default: session.Settings{IdleTTL: time.Minute}})
		first := get(t, store, "alice", "")
		if err := os.WriteFile(filepath.Join(first.Workspace.Dir(), "f"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if first.Enter() || ids(store, "alice") != "" {
			t.Fatal("it is still there")
		}
		second := get(t, store, "alice", "")
		if second == first || second.Workspace.Dir() != first.Workspace.Dir() {
			t.Error("the next default session is not a new one in the same place")
		}
		if file, err := second.Workspace.OpenFile("f"); err != nil {
			t.Errorf("its files are gone: %v", err)
		} else {
			file.Close()
		}
	})
}

// TestUseAtTheLastMoment asks for sessions and updates them just when they
// would go: what was had can be used, and what was updated stays.
func TestUseAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{Default: session.Settings{IdleTTL: time.Minute}})
		var group sync.WaitGroup
		for i := range 200 {
			owner := fmt.Sprint("owner-", i)
			get(t, store, owner, "")
			group.Go(func() {
				time.Sleep(time.Minute)
				var s *session.Session
				var err error
				if i%2 == 0 {
					s, err = store.Get(auth.Owner(owner), "")
				} else {
					s, err = store.Update(auth.Owner(owner), "", func(s *session.Settings) { s.IdleTTL = time.Hour })
				}
				if err != nil {
					t.Error(err)
					return
				}
				if !s.Enter() {
					t.Errorf("%s got a session that is closed", owner)
					return
				}
				s.Leave()
				time.Sleep(time.Minute - 1)
				if list := store.List(auth.Owner(owner)); len(list) != 1 || list[0] != s {
					t.Errorf("the session of %s is gone", owner)
				}
			})
		}
		group.Wait()
	})
}

func TestLastUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{})
		s := create(t, store, "alice", session.Request{ID: "work"})
		want := func(age time.Duration) {
			t.Helper()
			if got := time.Since(s.LastUsed()); got != age {
				t.Errorf("last used %s ago, want %s", got, age)
			}
		}
		time.Sleep(time.Minute)
		want(time.Minute)
		store.List("alice") // looking is not using
		want(time.Minute)
		get(t, store, "alice", "work")
		want(0)
		s.Enter()
		time.Sleep(time.Minute)
		want(0)
		s.Leave()
		time.Sleep(time.Second)
		want(time.Second)
	})
}
