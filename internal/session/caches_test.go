// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// cached returns a store that keeps caches of at most 1000 bytes.
func cached(t *testing.T) (*session.Store, string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "caches")
	store := session.NewStore(session.Config{
		WorkspaceRoot: filepath.Join(dir, "workspaces"), Caches: root, MaxCacheBytes: 1000,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite,
	})
	t.Cleanup(store.Close)
	return store, root
}

// use makes a session and returns it with its cache.
func use(t *testing.T, store *session.Store, owner, id string) (*session.Session, string) {
	t.Helper()
	s, err := store.Create(auth.Owner(owner), session.Request{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := s.Cache()
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func put(t *testing.T, path string, size int, age time.Duration) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o444); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chtimes(path, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestCacheOutlivesSessions(t *testing.T) {
	store, root := cached(t)
	_, dir := use(t, store, "alice", "one")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, other := use(t, store, "bob", "one"); other == dir || filepath.Dir(other) != filepath.Dir(dir) || strings.Contains(other, "bob") {
		t.Errorf("bob has %s, alice %s", other, dir)
	}
	put(t, filepath.Join(dir, "go-mod/x@v1/x.go"), 10, 0)
	if _, err := store.Remove("alice", "one"); err != nil {
		t.Fatal(err)
	}
	if _, again := use(t, store, "alice", "two"); again != dir || !there(filepath.Join(dir, "go-mod/x@v1/x.go")) {
		t.Errorf("%s, want what %s had", again, dir)
	}
	if rel, err := filepath.Rel(root, dir); err != nil || strings.Contains(rel, "/") {
		t.Errorf("%s is not in %s", dir, root)
	}
}

func TestNoCache(t *testing.T) {
	store := session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk}, MaxLevel: tools.ReadOnly})
	defer store.Close()
	if _, dir := use(t, store, "alice", "one"); dir != "" {
		t.Errorf("%q", dir)
	}
}

// TestCacheIsPruned closes sessions whose cache is too large: parts that were not
// written for long go as a whole, once nobody uses the cache.
func TestCacheIsPruned(t *testing.T) {
	store, _ := cached(t)
	_, dir := use(t, store, "alice", "one")
	use(t, store, "alice", "two")
	put(t, filepath.Join(dir, "go-mod/x@v1/x.go"), 600, 3*time.Hour)
	put(t, filepath.Join(dir, "npm/a/b"), 600, 2*time.Hour)
	put(t, filepath.Join(dir, "pip/a/b"), 300, time.Hour)
	if err := os.Chmod(filepath.Join(dir, "go-mod/x@v1"), 0o555); err != nil {
		t.Fatal(err)
	}
	end := func(id string, age time.Duration) {
		t.Helper()
		if err := os.Chtimes(dir+".lock", time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Remove("alice", id); err != nil {
			t.Fatal(err)
		}
	}
	end("one", 2*time.Hour)
	if !there(filepath.Join(dir, "go-mod")) {
		t.Fatal("it was pruned while another session uses it")
	}
	end("two", time.Minute)
	if !there(filepath.Join(dir, "go-mod")) {
		t.Fatal("it was pruned although that was done lately")
	}
	use(t, store, "alice", "three")
	end("three", 2*time.Hour)
	if there(filepath.Join(dir, "go-mod")) || !there(filepath.Join(dir, "npm/a/b")) || !there(filepath.Join(dir, "pip/a/b")) {
		t.Error("the oldest part, and only that, was to go")
	}
}

// TestCacheIsDisarmed has a command leave what would run in later sessions, and
// links that lead elsewhere.
func TestCacheIsDisarmed(t *testing.T) {
	store, _ := cached(t)
	_, dir := use(t, store, "alice", "one")
	put(t, filepath.Join(dir, "cargo/config.toml"), 1, 0)
	put(t, filepath.Join(dir, "cargo/bin/cargo-x"), 1, 0)
	put(t, filepath.Join(dir, "cargo/registry/x"), 1, 0)
	outside := t.TempDir()
	put(t, filepath.Join(outside, "init.d/x"), 1, 0)
	if err := os.Symlink(outside, filepath.Join(dir, "gradle")); err != nil {
		t.Fatal(err)
	}
	use(t, store, "alice", "two")
	if there(filepath.Join(dir, "cargo/config.toml")) || there(filepath.Join(dir, "cargo/bin")) || !there(filepath.Join(dir, "cargo/registry/x")) {
		t.Error("what runs later is still there, or what does not is gone")
	}
	if !there(filepath.Join(outside, "init.d/x")) {
		t.Error("a link led outside")
	}
}
