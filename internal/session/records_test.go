// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestRestore: sessions are brought back with no more than the operator permits by now, and
// what those leave behind that are not is removed.
func TestRestore(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	root, chosen := t.TempDir(), t.TempDir()
	open := func(change func(*session.Config)) *session.Store {
		t.Helper()
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		records.Installation = "here"
		config := session.Config{
			WorkspaceRoot: root, AllowedWorkspaces: []string{chosen}, Records: records,
			Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
		}
		change(&config)
		store := session.NewStore(config)
		if err := store.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open(func(*session.Config) {})
	made, err := store.Create("alice", session.Request{ID: "s", Settings: session.Settings{Mode: tools.ModeAllow}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create("alice", session.Request{ID: "chosen", Workspace: chosen}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create("alice", session.Request{ID: "agent", Below: &session.Below{Parent: made, Agent: "a", ExecutionID: "x"}}); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(root, "sessions-here", "session-left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	store.Close()

	store = open(func(c *session.Config) { c.MaxMode, c.AllowedWorkspaces = tools.ModeAsk, nil })
	found, err := store.Get("alice", "s")
	if err != nil || found.Ref() != made.Ref() || found.Workspace.Dir() != made.Workspace.Dir() || found.Mode() != tools.ModeAsk {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, id := range []string{"chosen", "agent"} {
		if _, err := store.Get("alice", id); err == nil {
			t.Errorf("%s is there again", id)
		}
	}
	for {
		if _, err := os.Stat(left); os.IsNotExist(err) {
			break
		}
		time.Sleep(time.Millisecond) // the removal does not hold up the start
	}
	if _, err := store.Remove("alice", "s"); err != nil {
		t.Fatal(err)
	}
	store.Close()
	store = open(func(*session.Config) {})
	defer store.Close()
	if _, err := store.Get("alice", "s"); err == nil {
		t.Error("a session that was removed is there again")
	}
	if _, err := store.Get("alice", "chosen"); err != nil {
		t.Errorf("its workspace is allowed again: %v", err)
	}
}

// TestRestoreOfAnotherVersion: what cannot be read stays stored, and so does its workspace.
func TestRestoreOfAnotherVersion(t *testing.T) {
	for _, value := range []string{`{"v":2,"id":"s"}`, `{`} {
		engine, err := state.Open(t.Context(), state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		kv, err := engine.KV(t.Context(), state.Space{Name: "sessions"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "k", []byte(value), 0); err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		dir := filepath.Join(root, "sessions-here", "session-of-it")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		records.Installation = "here"
		store := session.NewStore(session.Config{WorkspaceRoot: root, Records: records})
		if err := store.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.Close() // waits for what is removed
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("with %s: %v", value, err)
		}
	}
}
