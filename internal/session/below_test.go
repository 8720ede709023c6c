// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// below makes a session below another.
func below(t *testing.T, store *session.Store, id string, parent *session.Session) *session.Session {
	t.Helper()
	return create(t, store, "alice", session.Request{ID: id, Below: &session.Below{Parent: parent, Agent: "agent", ExecutionID: "x"}})
}

// TestEndsWithParent: those below a session end before it, and its workspace stays until
// nothing uses any of them.
func TestEndsWithParent(t *testing.T) {
	store := newStore(t, session.Config{MaxDepth: 2})
	parent := create(t, store, "alice", session.Request{ID: "main"})
	first := below(t, store, "a", parent)
	second := below(t, store, "b", first)
	create(t, store, "alice", session.Request{ID: "other"})
	if !second.Enter() {
		t.Fatal("it is closed")
	}
	var ended []string
	for _, s := range store.End(parent, "was closed") {
		ended = append(ended, s.ID)
	}
	if want := []string{"b", "a", "main"}; !slices.Equal(ended, want) {
		t.Errorf("ended are %q, want %q", ended, want)
	}
	if left := store.List("alice"); len(left) != 1 || left[0].ID != "other" {
		t.Errorf("left are %v", left)
	}
	if _, err := os.Stat(parent.Workspace.Dir()); err != nil {
		t.Errorf("the workspace that is used is gone: %v", err)
	}
	second.Leave()
	if _, err := os.Stat(parent.Workspace.Dir()); !os.IsNotExist(err) {
		t.Errorf("the workspace that nobody uses: %v", err)
	}
}

// TestNothingIsLeftBelow: a session that is closed while agents begin leaves none behind.
func TestNothingIsLeftBelow(t *testing.T) {
	store := newStore(t, session.Config{})
	for range 50 {
		parent := create(t, store, "alice", session.Request{ID: "main"})
		var agents sync.WaitGroup
		for range 4 {
			agents.Go(func() {
				for {
					_, err := store.Create("alice", session.Request{Below: &session.Below{Parent: parent, Agent: "agent", ExecutionID: "x"}})
					if errors.Is(err, session.ErrNotFound) {
						return // it was closed
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for len(store.Children(parent)) == 0 {
		}
		store.End(parent, "was closed")
		agents.Wait()
		if left := store.List("alice"); len(left) != 0 {
			t.Fatalf("%d sessions are left", len(left))
		}
	}
}

// TestParentIsUsed: a session is not idle while one is below it, which is idle no longer
// than it may be.
func TestParentIsUsed(t *testing.T) {
	store := newStore(t, session.Config{})
	parent := create(t, store, "alice", session.Request{ID: "main", Settings: session.Settings{IdleTTL: time.Hour}})
	child := below(t, store, "a", parent)
	if child.Settings().IdleTTL != time.Hour {
		t.Errorf("the child is kept for %s", child.Settings().IdleTTL)
	}
	if before := time.Now(); parent.LastUsed().Before(before) {
		t.Error("the parent is not used")
	}
	changed := child.Changed()
	if _, err := store.Update("alice", "main", func(s *session.Settings) { s.Mode = tools.ModePlan }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("who waits for a change below is not told")
	}
	if child.Mode() != tools.ModePlan {
		t.Errorf("the child is in mode %s", child.Mode())
	}
	store.End(child, "was closed")
	if after := time.Now(); parent.LastUsed().After(after) {
		t.Error("the parent is used for ever")
	}
}
