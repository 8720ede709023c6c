// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestCreateBeforeRelease: a session that is still in use when it is closed does not take the
// ownership of the next one with its id along when it is released.
func TestCreateBeforeRelease(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	one, err := replica.Join(t.Context(), replica.Config{Engine: engine, Logger: zap.NewNop(), Run: 1, Place: "here"})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Leave()
	store := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), Replicas: &session.Replicas{Owners: one, Place: "here"},
		Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
	})
	defer store.Close()
	create := func() *session.Session {
		t.Helper()
		made, err := store.Create("alice", session.Request{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	owned := func() bool {
		t.Helper()
		has, _, err := one.Owner(t.Context(), session.OwnerKey("alice", "s"), true)
		if err != nil {
			t.Fatal(err)
		}
		return has.Run == 1 && one.Mine(session.OwnerKey("alice", "s"))
	}
	first := create()
	if !first.Enter() {
		t.Fatal("it is closed")
	}
	if _, err := store.Remove("alice", "s"); err != nil {
		t.Fatal(err)
	}
	create()
	first.Leave() // which releases it
	if !owned() {
		t.Error("the end of the first session took the ownership of the second")
	}
	if _, err := store.Remove("alice", "s"); err != nil {
		t.Fatal(err)
	}
	if owned() {
		t.Error("what ended is still owned")
	}
}

// TestAdoptWhileClosing: a server that is being stopped takes nothing over, and does not fail
// over it.
func TestAdoptWhileClosing(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	root := t.TempDir()
	open := func(run uint64) (*session.Store, *replica.Replica) {
		t.Helper()
		one, err := replica.Join(t.Context(), replica.Config{Engine: engine, Logger: zap.NewNop(), Run: run, Place: "here"})
		if err != nil {
			t.Fatal(err)
		}
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return session.NewStore(session.Config{
			WorkspaceRoot: root, Records: records, Replicas: &session.Replicas{Owners: one, Place: "here"},
			Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
		}), one
	}
	first, leaves := open(1)
	second, stays := open(2)
	defer stays.Leave()
	if _, err := first.Create("alice", session.Request{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	first.Close()
	leaves.Leave()
	second.Close()
	if got, err := second.Adopt(t.Context(), "alice", "s", func(*session.Session) error { return nil }); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("%v, %v", got, err)
	}
}
