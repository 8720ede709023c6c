// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestRefsNameOneSession: a reference leads to its session until that is closed and no
// longer used, and never to a later session with the same id. The clock stands still.
func TestRefsNameOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewStore(session.Config{
			WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly,
			Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk},
		})
		defer store.Close()
		seen := make(map[session.Ref]bool)
		for range 3 {
			s, err := store.Create("alice", session.Request{ID: "work"})
			if err != nil {
				t.Fatal(err)
			}
			for old := range seen {
				if found, err := store.Resolve(old); !errors.Is(err, session.ErrNotFound) {
					t.Errorf("%+v leads to %v, %v", old, found, err)
				}
			}
			if seen[s.Ref()] {
				t.Errorf("%+v names two sessions", s.Ref())
			}
			seen[s.Ref()] = true
			if !s.Enter() {
				t.Fatal("a new session is closed")
			}
			if _, err := store.Remove("alice", "work"); err != nil {
				t.Fatal(err)
			}
			if found, err := store.Resolve(s.Ref()); found != s || err != nil {
				t.Errorf("while it is used, %+v leads to %v, %v", s.Ref(), found, err)
			}
			s.Leave()
			if found, err := store.Resolve(s.Ref()); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("after its end, %+v leads to %v, %v", s.Ref(), found, err)
			}
		}
		if _, err := store.Resolve(session.Ref{Owner: "alice", ID: "work"}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("without an epoch: %v", err)
		}
	})
}
