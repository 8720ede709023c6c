// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func tenantStore(t *testing.T, root string, config session.Config) *session.Store {
	config.WorkspaceRoot, config.Caches = root, filepath.Join(root, "..", "caches")
	config.Default = session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk}
	config.MaxLevel = tools.WorkspaceWrite
	store := session.NewStore(config)
	t.Cleanup(store.Close)
	return store
}

// TestTenantDirectories: principals of the same name in several tenants work in
// directories of their own, whose names nobody guesses and that are found again.
func TestTenantDirectories(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	acme, beta := auth.NewOwner("acme", "alice"), auth.NewOwner("beta", "alice")
	dirs := make(map[string]string) // of a workspace, a cache or a private directory: whose it is
	workspaces := func(store *session.Store) map[auth.Owner]string {
		works := make(map[auth.Owner]string)
		for _, owner := range []auth.Owner{"alice", acme, beta} {
			for _, id := range []string{"", "work"} {
				s, err := store.Get(owner, id)
				if err != nil {
					if s, err = store.Create(owner, session.Request{ID: id}); err != nil {
						t.Fatal(err)
					}
				}
				private, err := s.Private()
				if err != nil {
					t.Fatal(err)
				}
				cache, err := s.Cache()
				if err != nil {
					t.Fatal(err)
				}
				for _, dir := range []string{s.Workspace.Dir(), private, cache} {
					if other, known := dirs[dir]; known && other != string(owner) {
						t.Errorf("%s is of %q and of %q", dir, owner, other)
					}
					dirs[dir] = string(owner)
					hidden := regexp.MustCompile(`/(root|caches)/tenant-[0-9a-f]{32}/`).MatchString(dir)
					if hidden != (owner != "alice") {
						t.Errorf("%q has %s", owner, dir)
					}
					for other := range dirs {
						if dirs[other] != string(owner) && quota.Overlap(dir, other) {
							t.Errorf("%s of %q and %s of %q overlap", dir, owner, other, dirs[other])
						}
					}
				}
				if id == "" {
					works[owner] = s.Workspace.Dir()
				}
			}
		}
		return works
	}
	first := tenantStore(t, root, session.Config{})
	before := workspaces(first)
	if want := filepath.Join(root, "default-alice"); before["alice"] != want {
		t.Errorf("alice of the default tenant works in %s, and did in %s", before["alice"], want)
	}
	first.Close()
	second := workspaces(tenantStore(t, root, session.Config{}))
	elsewhere := workspaces(tenantStore(t, filepath.Join(t.TempDir(), "root"), session.Config{}))
	for owner, dir := range before {
		if second[owner] != dir {
			t.Errorf("after a restart %q works in %s, not %s", owner, second[owner], dir)
		}
		if name := filepath.Base(filepath.Dir(dir)); owner != "alice" && name == filepath.Base(filepath.Dir(elsewhere[owner])) {
			t.Errorf("%q has %s on every server", owner, name)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "tenants.key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(root, "tenants.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := tenantStore(t, root, session.Config{})
	if _, err := broken.Get(acme, ""); err == nil || !strings.Contains(err.Error(), "tenants.key has 5 bytes and not 32") {
		t.Errorf("with a cut key: %v", err)
	}
	if _, err := broken.Get("alice", ""); err != nil {
		t.Errorf("the default tenant needs no key: %v", err)
	}
}

// TestTenantWorkspaces: a tenant chooses among its own directories, and cannot tell what
// is elsewhere.
func TestTenantWorkspaces(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"everybody", "acme/a", "beta", "root"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(top, name) }
	if err := os.Symlink(in("beta"), in("acme/link")); err != nil {
		t.Fatal(err)
	}
	store := tenantStore(t, in("root"), session.Config{
		AllowedWorkspaces: []string{in("everybody")},
		Tenants:           quota.Tenants{{Name: "acme", AllowedWorkspaces: []string{in("acme")}}, {Name: "beta", AllowedWorkspaces: []string{in("beta")}}, {Name: "*"}},
	})
	theirs, err := store.Create(auth.NewOwner("beta", "bob"), session.Request{})
	if err != nil {
		t.Fatal(err)
	}
	acme := auth.NewOwner("acme", "alice")
	for _, dir := range []string{"acme", "acme/a"} {
		if _, err := store.Create(acme, session.Request{Workspace: in(dir)}); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for owner, dirs := range map[auth.Owner][]string{
		acme:                           {in("everybody"), in("beta"), in("acme/link"), in("root"), top, theirs.Workspace.Dir(), filepath.Dir(theirs.Workspace.Dir())},
		auth.NewOwner("gamma", "carl"): {in("everybody"), in("beta"), in("acme")},
		"alice":                        {in("beta"), in("acme"), theirs.Workspace.Dir()},
	} {
		_, err := store.Create(owner, session.Request{Workspace: in("nothing")})
		nothing := strings.ReplaceAll(err.Error(), in("nothing"), "DIR")
		for _, dir := range dirs {
			_, err := store.Create(owner, session.Request{Workspace: dir})
			if !errors.Is(err, session.ErrForbidden) || strings.ReplaceAll(err.Error(), `"`+dir+`"`, `"DIR"`) != nothing {
				t.Errorf("%q, %s: %v, and for one that does not exist: %s", owner, dir, err, nothing)
			}
		}
	}
}

func TestTenantSessions(t *testing.T) {
	store := tenantStore(t, filepath.Join(t.TempDir(), "root"), session.Config{Tenants: quota.Tenants{{Name: "acme", MaxSessions: 2}}})
	alice, bob := auth.NewOwner("acme", "alice"), auth.NewOwner("acme", "bob")
	for owner, id := range map[auth.Owner]string{alice: "", bob: "b"} {
		if _, err := store.Create(owner, session.Request{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := store.Create(bob, session.Request{})
	over, ok := errors.AsType[*quota.Error](err)
	if !ok || over.Quota != "max_sessions" || over.Limit != "2" || !strings.Contains(err.Error(), "tenant acme has reached its quota max_sessions, which is 2: close sessions") {
		t.Errorf("the third: %v", err)
	}
	for _, owner := range []auth.Owner{"alice", auth.NewOwner("beta", "alice")} {
		for range 3 {
			if _, err := store.Create(owner, session.Request{}); err != nil {
				t.Errorf("%q: %v", owner, err)
			}
		}
	}
	if _, err := store.Remove(bob, "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(alice, session.Request{}); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
}

// TestStored: what is kept for each tenant is measured apart, now and then.
func TestStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tenantStore(t, filepath.Join(t.TempDir(), "root"), session.Config{})
		const block = 64 << 10
		write := func(owner auth.Owner) {
			t.Helper()
			s, err := store.Get(owner, "")
			if err != nil {
				t.Fatal(err)
			}
			cache, err := s.Cache()
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{s.Workspace.Dir(), cache} {
				if err := os.WriteFile(filepath.Join(dir, time.Now().Format("05.999999999")), make([]byte, block), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		blocks := func(tenant string) int64 {
			t.Helper()
			n, err := store.Stored(tenant)
			if err != nil {
				t.Fatal(err)
			}
			return n / block
		}
		write("alice")
		write(auth.NewOwner("acme", "alice"))
		write(auth.NewOwner("acme", "bob"))
		if a, d, b := blocks("acme"), blocks(""), blocks("beta"); a != 4 || d != 2 || b != 0 {
			t.Errorf("acme has %d, the default tenant %d, beta %d", a, d, b)
		}
		time.Sleep(time.Second)
		write(auth.NewOwner("acme", "bob"))
		if n := blocks("acme"); n != 4 {
			t.Errorf("soon after: %d", n)
		}
		time.Sleep(time.Minute)
		if n := blocks("acme"); n != 6 {
			t.Errorf("later: %d", n)
		}
	})
}
