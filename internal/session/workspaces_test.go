// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

func TestScratchGoesWithTheLastUse(t *testing.T) {
	store := newStore(t, session.Config{})
	s := create(t, store, "alice", session.Request{ID: "work"})
	dir := s.Workspace.Dir()
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(deep, "f"), filepath.Join(dir, "f")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !s.Enter() {
			t.Fatal("it is closed")
		}
	}
	if removed, err := store.Remove("alice", "work"); removed != s || err != nil {
		t.Fatalf("%v, %v", removed, err)
	}
	if s.Enter() {
		t.Error("a closed session was entered")
	}
	if _, err := store.Get("alice", "work"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("it can be had: %v", err)
	}
	other := create(t, store, "alice", session.Request{ID: "work"}) // the id is free again
	s.Leave()
	if file, err := s.Workspace.OpenFile("f"); err != nil {
		t.Errorf("gone under its last user: %v", err)
	} else {
		file.Close()
	}
	s.Leave()
	if exists(dir) {
		t.Error("its workspace is left behind")
	}
	if !exists(outside) || !exists(other.Workspace.Dir()) {
		t.Error("more than its workspace was removed")
	}
	if _, err := s.Workspace.OpenFile("f"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its workspace is still open: %v", err)
	}
	if removed, err := store.Remove("bob", "work"); removed != nil || err != nil {
		t.Errorf("somebody else removed it: %v, %v", removed, err)
	}
	if get(t, store, "alice", "work") != other {
		t.Error("the wrong session was removed")
	}
}

// TestChosenWorkspaces has alice in allowed/project and lets others choose.
func TestChosenWorkspaces(t *testing.T) {
	top := t.TempDir()
	allowed := filepath.Join(top, "allowed")
	root := filepath.Join(allowed, "root") // an operator may well nest them
	outside := filepath.Join(top, "allowed-not")
	for _, dir := range []string{"project/sub", "project-2", "free/sub", "root"} {
		if err := os.MkdirAll(filepath.Join(allowed, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(allowed, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"allowed/out": outside, "allowed/up": "..", "allowed/to-project": "project", "allowed/to-free": "free",
		"allowed/loop": "loop", "allowed/to-root": "root", "to-allowed": "allowed",
	} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	config := session.Config{
		WorkspaceRoot:     root,
		AllowedWorkspaces: []string{filepath.Join(top, "gone"), filepath.Join(top, "to-allowed")},
	}
	for _, test := range []struct {
		who, dir string
		want     string // the workspace, below allowed
		err      error
	}{
		{"bob", allowed + "/free", "free", nil},
		{"bob", allowed + "/free/", "free", nil},
		{"bob", allowed + "/free/sub", "free/sub", nil},
		{"bob", allowed + "/project/../free", "free", nil},
		{"bob", allowed + "/to-free", "free", nil},
		{"bob", top + "/to-allowed/free", "free", nil},
		{"bob", allowed + "/project-2", "project-2", nil},
		{"alice", allowed + "/project", "project", nil},
		{"alice", allowed + "/project/sub", "project/sub", nil},
		{"alice", allowed + "/to-project", "project", nil},

		{"bob", "free", "", session.ErrInvalid},
		{"bob", "./free", "", session.ErrInvalid},
		{"bob", allowed + "/file", "", session.ErrInvalid},
		{"bob", allowed + "/gone", "", session.ErrForbidden},
		{"bob", allowed + "/loop", "", session.ErrForbidden},
		{"bob", allowed + "/free\x00", "", session.ErrForbidden},
		{"bob", outside, "", session.ErrForbidden},
		{"bob", outside + "/gone", "", session.ErrForbidden},
		{"bob", top, "", session.ErrForbidden},
		{"bob", "/", "", session.ErrForbidden},
		{"bob", allowed + "/..", "", session.ErrForbidden},
		{"bob", allowed + "/../allowed-not", "", session.ErrForbidden},
		{"bob", allowed + "/out", "", session.ErrForbidden},
		{"bob", allowed + "/up", "", session.ErrForbidden},
		{"bob", allowed + "/project", "", session.ErrForbidden},
		{"bob", allowed + "/to-project", "", session.ErrForbidden},
		{"bob", allowed + "/project/sub", "", session.ErrForbidden},
		{"bob", allowed, "", session.ErrForbidden},

		// Others have their own workspaces there, now or later.
		{"alice", allowed, "", session.ErrForbidden},
		{"alice", root, "", session.ErrForbidden},
		{"alice", allowed + "/to-root", "", session.ErrForbidden},
		{"alice", root + "/default-bob", "", session.ErrForbidden},
	} {
		t.Run(test.who+" "+strings.TrimPrefix(test.dir, top), func(t *testing.T) {
			if err := os.MkdirAll(filepath.Join(root, "default-bob"), 0o700); err != nil { // of a bob before a restart
				t.Fatal(err)
			}
			store := newStore(t, config)
			create(t, store, "alice", session.Request{Workspace: filepath.Join(allowed, "project")})
			s, err := store.Create(auth.Owner(test.who), session.Request{Workspace: test.dir})
			if !errors.Is(err, test.err) {
				t.Fatalf("%v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			if got, want := s.Workspace.Dir(), filepath.Join(allowed, test.want); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if _, err := store.Remove(auth.Owner(test.who), s.ID); err != nil || !exists(s.Workspace.Dir()) {
				t.Errorf("a workspace that was chosen went with its session: %v", err)
			}
		})
	}
}

// TestChosenWorkspaceBeforeTheRootIs chooses the place where workspaces of
// others are about to be made.
func TestChosenWorkspaceBeforeTheRootIs(t *testing.T) {
	top := t.TempDir()
	store := newStore(t, session.Config{WorkspaceRoot: filepath.Join(top, "a", "root"), AllowedWorkspaces: []string{top}})
	if _, err := store.Create("alice", session.Request{Workspace: top}); !errors.Is(err, session.ErrForbidden) {
		t.Errorf("alice works in %s, bob in %s: %v", top, get(t, store, "bob", "").Workspace.Dir(), err)
	}
}

func TestWorkspacesCannotBeChosen(t *testing.T) {
	store := newStore(t, session.Config{})
	if _, err := store.Create("alice", session.Request{Workspace: t.TempDir()}); !errors.Is(err, session.ErrForbidden) {
		t.Errorf("%v, want ErrForbidden", err)
	}
}

func TestAWorkspaceIsFreeAgain(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, session.Config{AllowedWorkspaces: []string{dir}})
	s := create(t, store, "alice", session.Request{Workspace: dir})
	if _, err := store.Remove("alice", s.ID); err != nil {
		t.Fatal(err)
	}
	create(t, store, "bob", session.Request{Workspace: dir})
}

// TestLeftovers proves that a server removes what a killed one left behind, and
// nothing that another one uses.
func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	dead := filepath.Join(root, "scratch-1")
	if err := os.MkdirAll(filepath.Join(dead, "session-1", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := newStore(t, session.Config{WorkspaceRoot: root})
	alive := create(t, first, "alice", session.Request{})
	if exists(dead) || exists(dead+".lock") {
		t.Error("what a killed server left is still there")
	}
	second := newStore(t, session.Config{WorkspaceRoot: root})
	create(t, second, "bob", session.Request{})
	if !exists(alive.Workspace.Dir()) {
		t.Error("the workspace of another server was removed")
	}
	second.Close()
	first.Close()
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("%v, %v left", left, err)
	}
}
