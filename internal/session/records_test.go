// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"encoding/json"
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

// reopening returns what opens a store on the same records again.
func reopening(t *testing.T) (state.KV, func(change func(*session.Config)) *session.Store) {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	kv, err := engine.KV(t.Context(), state.Space{Name: "sessions"})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	return kv, func(change func(*session.Config)) *session.Store {
		t.Helper()
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		records.Installation = "here"
		config := session.Config{WorkspaceRoot: root, Records: records, Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk}, MaxLevel: tools.ReadOnly, MaxMode: tools.ModeAllow}
		change(&config)
		store := session.NewStore(config)
		t.Cleanup(store.Close)
		if err := store.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		return store
	}
}

// TestIdleTimeGoesOn: a restart gives no session a new life.
func TestIdleTimeGoesOn(t *testing.T) {
	kv, open := reopening(t)
	store := open(func(*session.Config) {})
	for id, ttl := range map[string]time.Duration{"idle": time.Hour, "used": time.Hour, "short": time.Second} {
		if _, err := store.Create("alice", session.Request{ID: id, Settings: session.Settings{IdleTTL: ttl}}); err != nil {
			t.Fatal(err)
		}
	}
	store.Close()
	stored := make(map[string][]byte)
	if err := state.Snapshot(t.Context(), kv, "", func(e state.Entry) { stored[e.Key] = e.Value }); err != nil {
		t.Fatal(err)
	}
	long := map[string]time.Duration{"idle": 2 * time.Hour, "used": 40 * time.Minute, "short": time.Hour}
	for key, value := range stored {
		var record map[string]any
		if err := json.Unmarshal(value, &record); err != nil {
			t.Fatal(err)
		}
		record["used"] = time.Now().Add(-long[record["id"].(string)])
		text, err := json.Marshal(record)
		if err == nil {
			_, err = kv.Put(t.Context(), key, text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	store = open(func(*session.Config) {})
	used, err := store.Peek("alice", "used")
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Since(used.LastUsed()); got < 30*time.Minute || got > 45*time.Minute {
		t.Errorf("it was used %v ago, want about 40m, less what is not stored", got)
	}
	idle, err := store.Peek("alice", "idle")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Hour - time.Since(idle.LastUsed()); left < time.Minute || left > 2*time.Minute {
		t.Errorf("it ends in %v, want time for those who come back for it", left)
	}
	if short, err := store.Peek("alice", "short"); err == nil { // else it has ended already
		<-short.Closed()
	}
}

// TestStricterOfBoth: what a start of the server with other bounds leaves of a mode never
// permits more than was chosen, and what was chosen is there again when it is permitted.
func TestStricterOfBoth(t *testing.T) {
	_, open := reopening(t)
	store := open(func(*session.Config) {})
	for id, mode := range map[string]tools.Mode{"strict": tools.ModeDeny, "lax": tools.ModeAllow} {
		if _, err := store.Create("alice", session.Request{ID: id, Settings: session.Settings{Mode: mode}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		change      func(*session.Config)
		strict, lax tools.Mode
	}{
		{func(c *session.Config) { c.Default.Mode, c.Modes = tools.ModeAllow, []tools.Mode{tools.ModeAllow} }, tools.ModeDeny, tools.ModeAllow},
		{func(c *session.Config) { c.MaxMode = tools.ModeAsk }, tools.ModeDeny, tools.ModeAsk},
		{func(*session.Config) {}, tools.ModeDeny, tools.ModeAllow},
	} {
		store.Close() // which stores the sessions once more
		store = open(test.change)
		for id, want := range map[string]tools.Mode{"strict": test.strict, "lax": test.lax} {
			if found, err := store.Peek("alice", id); err != nil || found.Mode() != want {
				t.Errorf("%s: %v, %v, want %v", id, found.Mode(), err, want)
			}
		}
	}
}
