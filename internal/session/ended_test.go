// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

// TestBusyIsNotIdle: a session with an execution or a process is not idle, and may
// be closed all the same.
func TestBusyIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{Default: session.Settings{IdleTTL: time.Minute}})
		s := create(t, store, "alice", session.Request{ID: "work"})
		done := s.Busy()
		time.Sleep(time.Hour)
		if used := s.LastUsed(); !used.Equal(time.Now()) {
			t.Errorf("last used at %s", used)
		}
		if len(store.List("alice")) != 1 {
			t.Fatal("it was taken for idle")
		}
		done()
		done() // counts once
		time.Sleep(50 * time.Second)
		if len(store.List("alice")) != 1 {
			t.Fatal("it was taken for idle at once")
		}
		time.Sleep(20 * time.Second)
		if len(store.List("alice")) != 0 {
			t.Fatal("it is kept")
		}

		released := false
		s = create(t, store, "alice", session.Request{ID: "other"})
		s.AfterClose(func() { released = true })
		s.Busy()
		if _, err := store.Remove("alice", "other"); err != nil || !released {
			t.Errorf("released %v, %v", released, err)
		}
	})
}

// TestEnded: who asks for a session that ended is told when and why.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{})
		create(t, store, "alice", session.Request{ID: "idle", Settings: session.Settings{IdleTTL: time.Minute}})
		create(t, store, "alice", session.Request{ID: "closed"})
		time.Sleep(30 * time.Second)
		closed := time.Now()
		if _, err := store.Remove("alice", "closed"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for id, words := range map[string][]string{
			"idle":   {"not used for 1m0s", closed.Add(30 * time.Second).UTC().Format(time.RFC3339)},
			"closed": {"closed by alice", closed.UTC().Format(time.RFC3339)},
			"never":  {"create it"},
		} {
			_, err := store.Get("alice", id)
			for _, word := range words {
				if !errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %v does not say %s", id, err, word)
				}
			}
		}
		if _, err := store.Get("bob", "idle"); err == nil || strings.Contains(err.Error(), "ended") {
			t.Errorf("bob: %v", err)
		}
		if list := store.Ended("alice"); len(list) != 2 || list[0].ID != "closed" || list[1].ID != "idle" || !list[1].KeptUntil.IsZero() {
			t.Errorf("%+v", list)
		}
		time.Sleep(24 * time.Hour)
		if _, err := store.Get("alice", "idle"); err == nil || strings.Contains(err.Error(), "ended") {
			t.Errorf("after a day: %v", err)
		}
		if list := store.Ended("alice"); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

// TestEndedIsBounded: so many are known and no more.
func TestEndedIsBounded(t *testing.T) {
	store := newStore(t, session.Config{})
	for i := range 1100 {
		id := fmt.Sprint("s", i)
		create(t, store, "alice", session.Request{ID: id})
		if _, err := store.Remove("alice", id); err != nil {
			t.Fatal(err)
		}
	}
	if list := store.Ended("alice"); len(list) != 1000 || list[0].ID != "s100" {
		t.Errorf("%d, from %s", len(list), list[0].ID)
	}
}

// TestKeptForDays restores a workspace that is kept for longer than ended sessions
// are known.
func TestKeptForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{KeepWorkspace: 48 * time.Hour, MaxKept: 2})
		dir := create(t, store, "alice", session.Request{ID: "a"}).Workspace.Dir()
		if _, err := store.Remove("alice", "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Hour)
		if restored := create(t, store, "alice", session.Request{ID: "a", Restore: true}); restored.Workspace.Dir() != dir {
			t.Errorf("restored %s, want %s", restored.Workspace.Dir(), dir)
		}
	})
}

// TestKeptWorkspace: a workspace outlives its session for a while, and can be had
// back.
func TestKeptWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{KeepWorkspace: time.Hour, MaxKept: 2})
		exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
		end := func(id string) string {
			t.Helper()
			s := create(t, store, "alice", session.Request{ID: id})
			dir := s.Workspace.Dir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(id), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Remove("alice", id); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		dir := end("a")
		time.Sleep(30 * time.Minute)
		if list := store.Ended("alice"); len(list) != 1 || list[0].Workspace != dir || !list[0].KeptUntil.Equal(time.Now().Add(30*time.Minute)) {
			t.Fatalf("%+v", list)
		}
		if _, err := store.Get("alice", "a"); err == nil || !strings.Contains(err.Error(), "restore") {
			t.Errorf("%v", err)
		}
		if _, err := store.Create("bob", session.Request{ID: "a", Restore: true}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("bob: %v", err)
		}
		restored := create(t, store, "alice", session.Request{ID: "a", Restore: true})
		if text, err := os.ReadFile(filepath.Join(restored.Workspace.Dir(), "file")); err != nil || string(text) != "a" || restored.Workspace.Dir() != dir {
			t.Errorf("%q, %v", text, err)
		}
		time.Sleep(2 * time.Hour)
		if !exists(dir) {
			t.Fatal("it was removed below a session")
		}
		if _, err := store.Remove("alice", "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Second)
		if exists(dir) {
			t.Error("it is kept for ever")
		}
		if _, err := store.Create("alice", session.Request{ID: "a", Restore: true}); !errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), "1h0m0s") {
			t.Errorf("too late: %v", err)
		}

		// Only so many are kept.
		first, second, third := end("1"), end("2"), end("3")
		time.Sleep(time.Second)
		if exists(first) || !exists(second) || !exists(third) {
			t.Errorf("kept: %v %v %v", exists(first), exists(second), exists(third))
		}
		for _, bad := range []session.Request{{Restore: true}, {ID: "3", Workspace: "/", Restore: true}} {
			if _, err := store.Create("alice", bad); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		store.Close()
		if exists(second) || exists(third) {
			t.Error("they outlive the store")
		}
	})
}

// TestKeptByOwner: who ends many sessions drives out none of another's, neither what
// is known of them nor their workspaces.
func TestKeptByOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{KeepWorkspace: time.Hour, MaxKept: 4})
		exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
		end := func(owner, id string) string {
			t.Helper()
			dir := create(t, store, owner, session.Request{ID: id}).Workspace.Dir()
			if _, err := store.Remove(auth.Owner(owner), id); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		hers := []string{end("alice", "1"), end("alice", "2")}
		var his []string
		for i := range 1100 { // faster than any is removed
			his = append(his, end("bob", fmt.Sprint(i)))
		}
		time.Sleep(time.Second)
		for i, dir := range hers {
			if !exists(dir) {
				t.Errorf("alice's workspace %d is gone", i+1)
			}
		}
		if list := store.Ended("alice"); len(list) != 2 || list[0].KeptUntil.IsZero() || list[1].KeptUntil.IsZero() {
			t.Errorf("of alice's is known: %+v", list)
		}
		if list := store.Ended("bob"); len(list) != 1002 {
			t.Errorf("%d of bob's are known", len(list))
		}
		left := 0
		for i, dir := range his {
			if exists(dir) {
				if left++; i < len(his)-2 {
					t.Errorf("bob's workspace %d is kept", i)
				}
			}
		}
		if left != 2 {
			t.Errorf("%d of bob's workspaces are kept", left)
		}
		create(t, store, "alice", session.Request{ID: "1", Restore: true})
	})
}

// TestRestoreFails: a workspace that could not be opened can be restored later, and is
// removed when it would have been.
func TestRestoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{KeepWorkspace: time.Hour})
		dir := create(t, store, "alice", session.Request{ID: "work"}).Workspace.Dir()
		fail := func() {
			t.Helper()
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Create("alice", session.Request{ID: "work", Restore: true}); !errors.Is(err, session.ErrInvalid) {
				t.Fatalf("restored: %v", err)
			}
			if err := os.Rename(dir+".away", dir); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := store.Remove("alice", "work"); err != nil {
				t.Fatal(err)
			}
			fail()
			create(t, store, "alice", session.Request{ID: "work", Restore: true})
		}
		if _, err := store.Remove("alice", "work"); err != nil {
			t.Fatal(err)
		}
		fail()
		time.Sleep(time.Hour + time.Second)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is kept for ever: %v", err)
		}
	})
}
