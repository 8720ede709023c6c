// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// newStore returns a store that is closed with the test. What config leaves out
// is set so that everything works.
func newStore(t *testing.T, config session.Config) *session.Store {
	t.Helper()
	if config.WorkspaceRoot == "" {
		config.WorkspaceRoot = t.TempDir()
	}
	if config.MaxLevel == 0 {
		config.MaxLevel = tools.WorkspaceWrite
	}
	if config.Default.Level == 0 {
		config.Default.Level = tools.ReadOnly
	}
	if config.Default.Mode == 0 {
		config.Default.Mode = tools.ModeAsk
	}
	store := session.NewStore(config)
	t.Cleanup(store.Close)
	return store
}

func get(t *testing.T, store *session.Store, owner, id string) *session.Session {
	t.Helper()
	s, err := store.Get(owner, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, store *session.Store, owner string, request session.Request) *session.Session {
	t.Helper()
	s, err := store.Create(owner, request)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ids lists the sessions of an owner without using them.
func ids(store *session.Store, owner string) string {
	var list []string
	for _, s := range store.List(owner) {
		list = append(list, s.ID)
	}
	return strings.Join(list, " ")
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func TestDefaultSession(t *testing.T) {
	root, given := t.TempDir(), t.TempDir()
	config := session.Config{WorkspaceRoot: filepath.Join(root, "made", "on", "demand"), DefaultWorkspace: map[string]string{"carol": given}}
	store := newStore(t, config)
	alice := get(t, store, "alice", "")
	if again := get(t, store, "alice", session.DefaultID); again != alice || get(t, store, "alice", "") != alice {
		t.Error("the default session of a principal is not one")
	}
	bob := get(t, store, "bob", "")
	if bob == alice || bob.Workspace.Dir() == alice.Workspace.Dir() || bob.Owner != "bob" || bob.ID != session.DefaultID {
		t.Errorf("bob has %s of %s in %s", bob.ID, bob.Owner, bob.Workspace.Dir())
	}
	if other := get(t, store, "Alice", ""); other.Workspace.Dir() == alice.Workspace.Dir() {
		t.Error("alice and Alice share a workspace")
	}
	if dir := get(t, store, "carol", "").Workspace.Dir(); dir != given {
		t.Errorf("carol works in %s, want %s", dir, given)
	}
	if info, err := os.Stat(alice.Workspace.Dir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v, want that nobody else may look", info, err)
	}
	if _, err := store.Remove("alice", ""); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("closing the default session: %v", err)
	}
	if _, err := store.Remove("alice", session.DefaultID); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("closing the default session by name: %v", err)
	}

	// After a restart the files are where they were.
	store.Close()
	if dir := get(t, newStore(t, config), "alice", "").Workspace.Dir(); dir != alice.Workspace.Dir() {
		t.Errorf("%s became %s", alice.Workspace.Dir(), dir)
	}
}

func TestDefaultSessionIsMadeOnce(t *testing.T) {
	store := newStore(t, session.Config{})
	got := make([]*session.Session, 16)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i], _ = store.Get("alice", "") })
	}
	group.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatal("there are two default sessions, or none")
		}
	}
	if got := ids(store, "alice"); got != "default" {
		t.Errorf("sessions %s", got)
	}
}

func TestGet(t *testing.T) {
	store := newStore(t, session.Config{})
	work := create(t, store, "alice", session.Request{ID: "work"})
	if get(t, store, "alice", "work") != work {
		t.Error("not the session that was made")
	}
	for _, who := range []struct{ owner, id string }{{"bob", "work"}, {"alice", "Work"}, {"alice", "work "}, {"", "work"}, {"alice", "../work"}} {
		if _, err := store.Get(who.owner, who.id); !errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("%q", who.id)) {
			t.Errorf("%v: %v, want ErrNotFound", who, err)
		}
	}
	if got := ids(store, "bob"); got != "" {
		t.Errorf("looking made %s", got)
	}
}

func TestIDs(t *testing.T) {
	store := newStore(t, session.Config{})
	for _, id := range []string{"a", "A", "7", "a.b_c-D9", strings.Repeat("x", 64)} {
		if s, err := store.Create("alice", session.Request{ID: id}); err != nil || s.ID != id {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := store.Create("alice", session.Request{ID: id}); !errors.Is(err, session.ErrExists) {
			t.Errorf("%q again: %v", id, err)
		}
		if _, err := store.Create("bob", session.Request{ID: id}); err != nil {
			t.Errorf("%q of somebody else: %v", id, err)
		}
	}
	for _, id := range []string{".", "..", "../x", "a/b", "-a", "_a", "a b", "a\n", "\na", "é", "a\x00", "a\xff", strings.Repeat("x", 65)} {
		if _, err := store.Create("alice", session.Request{ID: id}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", id, err)
		}
	}
	one, two := create(t, store, "alice", session.Request{}), create(t, store, "alice", session.Request{})
	if one.ID == two.ID || len(one.ID) != 16 || one.ID != strings.ToLower(one.ID) {
		t.Errorf("given ids: %q and %q", one.ID, two.ID)
	}
	if get(t, store, "alice", one.ID) != one {
		t.Error("the given id leads elsewhere")
	}
}

func TestSettings(t *testing.T) {
	config := session.Config{
		Default:  session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk, IdleTTL: time.Hour},
		MaxLevel: tools.WorkspaceWrite,
		Modes:    []tools.Mode{tools.ModeAsk, tools.ModePlan},
	}
	store := newStore(t, config)
	many := make(map[string]string)
	for i := range 32 {
		many[fmt.Sprint(i)] = strings.Repeat("v", 256)
	}
	tooMany := map[string]string{"one": "more"}
	for k, v := range many {
		tooMany[k] = v
	}
	for _, test := range []struct {
		name      string
		ask, want session.Settings
		err       error
	}{
		{"nothing", session.Settings{}, config.Default, nil},
		{"everything",
			session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModePlan, IdleTTL: time.Second, Labels: map[string]string{"a": "", "é": "x"},
				Tools: tools.Selection{Include: []string{"@builtin"}, Exclude: []string{"re*"}}},
			session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModePlan, IdleTTL: time.Second, Labels: map[string]string{"a": "", "é": "x"},
				Tools: tools.Selection{Include: []string{"@builtin"}, Exclude: []string{"re*"}}}, nil},
		{"as many labels as there may be", session.Settings{Labels: many},
			session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk, IdleTTL: time.Hour, Labels: many}, nil},
		{"above the ceiling", session.Settings{Level: tools.DangerFullAccess}, session.Settings{}, session.ErrForbidden},
		{"above everything", session.Settings{Level: 99}, session.Settings{}, session.ErrForbidden},
		{"a mode that is not offered", session.Settings{Mode: tools.ModeAllow}, session.Settings{}, session.ErrForbidden},
		{"a mode that is none", session.Settings{Mode: 99}, session.Settings{}, session.ErrForbidden},
		{"negative idle time", session.Settings{IdleTTL: -1}, session.Settings{}, session.ErrInvalid},
		{"a bad pattern", session.Settings{Tools: tools.Selection{Exclude: []string{"["}}}, session.Settings{}, session.ErrInvalid},
		{"too many labels", session.Settings{Labels: tooMany}, session.Settings{}, session.ErrInvalid},
		{"a label without a key", session.Settings{Labels: map[string]string{"": "x"}}, session.Settings{}, session.ErrInvalid},
		{"a long key", session.Settings{Labels: map[string]string{strings.Repeat("k", 257): ""}}, session.Settings{}, session.ErrInvalid},
		{"a long value", session.Settings{Labels: map[string]string{"k": strings.Repeat("v", 257)}}, session.Settings{}, session.ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := store.Create("alice", session.Request{Settings: test.ask})
			if !errors.Is(err, test.err) {
				t.Fatalf("%v, want %v", err, test.err)
			}
			if err == nil && !reflect.DeepEqual(*s.Settings(), test.want) {
				t.Errorf("settings %+v\nwant     %+v", *s.Settings(), test.want)
			}

			// Updating asks for the same.
			base := create(t, store, "alice", session.Request{})
			before := base.Settings()
			_, err = store.Update("alice", base.ID, func(s *session.Settings) { *s = test.ask })
			if !errors.Is(err, test.err) {
				t.Errorf("update: %v, want %v", err, test.err)
			}
			if err != nil && base.Settings() != before {
				t.Errorf("what was refused changed the session: %+v", *base.Settings())
			}
			if err == nil && !reflect.DeepEqual(*base.Settings(), test.want) {
				t.Errorf("updated settings %+v\nwant             %+v", *base.Settings(), test.want)
			}
		})
	}
	// What is refused leaves nothing behind.
	if list, err := os.ReadDir(filepath.Dir(create(t, store, "bob", session.Request{}).Workspace.Dir())); err != nil || len(list) != len(store.List("alice"))+1 {
		t.Errorf("%d workspaces for %d sessions, %v", len(list), len(store.List("alice"))+1, err)
	}
}

// TestSettingsAreCopied changes what was given and what came back.
func TestSettingsAreCopied(t *testing.T) {
	store := newStore(t, session.Config{})
	labels, include := map[string]string{"a": "1"}, []string{"read_file"}
	s := create(t, store, "alice", session.Request{ID: "work", Settings: session.Settings{Labels: labels, Tools: tools.Selection{Include: include}}})
	labels["a"], include[0] = "2", "other"
	first := s.Settings()
	if first.Labels["a"] != "1" || first.Tools.Include[0] != "read_file" {
		t.Errorf("settings %+v are the caller's", first)
	}
	if _, err := store.Update("alice", "work", func(s *session.Settings) {
		s.Labels["a"] = "3"
		s.Tools.Include[0] = "third"
		s.Mode = tools.ModePlan
	}); err != nil {
		t.Fatal(err)
	}
	if first.Labels["a"] != "1" || first.Tools.Include[0] != "read_file" || first.Mode != tools.ModeAsk {
		t.Errorf("settings %+v changed under a reader", first)
	}
	if now := s.Settings(); now.Labels["a"] != "3" || now.Tools.Include[0] != "third" || now.Mode != tools.ModePlan {
		t.Errorf("settings %+v were not updated", now)
	}
	if _, err := store.Update("bob", "work", func(*session.Settings) {}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("somebody else's session: %v", err)
	}
}

func TestFull(t *testing.T) {
	store := newStore(t, session.Config{MaxPerPrincipal: 2})
	one := create(t, store, "alice", session.Request{})
	create(t, store, "alice", session.Request{})
	if _, err := store.Create("alice", session.Request{}); !errors.Is(err, session.ErrFull) {
		t.Errorf("a third: %v", err)
	}
	create(t, store, "bob", session.Request{}) // has room of his own
	if _, err := store.Remove("alice", one.ID); err != nil {
		t.Fatal(err)
	}
	create(t, store, "alice", session.Request{})
}

func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{})
		for _, id := range []string{"c", "a", "b"} {
			create(t, store, "alice", session.Request{ID: id})
			time.Sleep(time.Second)
		}
		create(t, store, "alice", session.Request{ID: "y"})
		create(t, store, "alice", session.Request{ID: "x"}) // at the same time
		create(t, store, "bob", session.Request{ID: "z"})
		if got := ids(store, "alice"); got != "c a b x y" {
			t.Errorf("sessions %s, want the oldest first", got)
		}
		if got := ids(store, "nobody"); got != "" {
			t.Errorf("nobody has %s", got)
		}
	})
}

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
					s, err = store.Get(owner, "")
				} else {
					s, err = store.Update(owner, "", func(s *session.Settings) { s.IdleTTL = time.Hour })
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
				if list := store.List(owner); len(list) != 1 || list[0] != s {
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
			s, err := store.Create(test.who, session.Request{Workspace: test.dir})
			if !errors.Is(err, test.err) {
				t.Fatalf("%v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			if got, want := s.Workspace.Dir(), filepath.Join(allowed, test.want); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if _, err := store.Remove(test.who, s.ID); err != nil || !exists(s.Workspace.Dir()) {
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

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, session.Config{Default: session.Settings{IdleTTL: time.Minute}})
		idle := get(t, store, "alice", "")
		scratch := create(t, store, "alice", session.Request{})
		used := create(t, store, "bob", session.Request{})
		if !used.Enter() {
			t.Fatal("it is closed")
		}
		store.Close()
		store.Close()
		for _, s := range []*session.Session{idle, scratch, used} {
			if s.Enter() {
				t.Errorf("%s of %s is open", s.ID, s.Owner)
			}
		}
		if exists(scratch.Workspace.Dir()) || !exists(idle.Workspace.Dir()) || !exists(used.Workspace.Dir()) {
			t.Error("the wrong workspaces were removed")
		}
		if _, err := store.Get("alice", ""); err == nil || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("Get: %v", err)
		}
		if _, err := store.Create("alice", session.Request{}); err == nil {
			t.Error("a session was made after all were closed")
		}
		if _, err := store.Update("bob", used.ID, func(*session.Settings) {}); err == nil {
			t.Error("a closed session was updated")
		}
		if removed, err := store.Remove("bob", used.ID); removed != nil || err != nil {
			t.Errorf("Remove: %v, %v", removed, err)
		}
		if list := store.List("bob"); len(list) != 0 {
			t.Errorf("List: %v", list)
		}
		time.Sleep(time.Hour) // no timer fires into the closed store
		used.Leave()
		if exists(used.Workspace.Dir()) {
			t.Error("the workspace in use was left behind")
		}
	})
}

// TestAllAtOnce does everything at the same time, for the race detector, and
// leaves nothing behind.
func TestAllAtOnce(t *testing.T) {
	root := t.TempDir()
	store := newStore(t, session.Config{WorkspaceRoot: root})
	var group sync.WaitGroup
	for n := range 8 {
		owner, id := fmt.Sprint("owner-", n%2), fmt.Sprint("s", n%3)
		group.Go(func() {
			for i := range 60 {
				s, err := store.Create(owner, session.Request{ID: id})
				if errors.Is(err, session.ErrExists) {
					s, err = store.Get(owner, id)
				}
				if errors.Is(err, session.ErrNotFound) {
					continue // removed just now
				}
				if err != nil {
					t.Error(err)
					return
				}
				if s.Enter() {
					if !exists(s.Workspace.Dir()) {
						t.Error("a session without a workspace was entered")
					}
					s.Settings()
					s.LastUsed()
					s.Leave()
				}
				store.List(owner)
				_, _ = store.Update(owner, id, func(s *session.Settings) { s.IdleTTL = time.Hour })
				if i%3 == 0 {
					if _, err := store.Remove(owner, id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	store.Close()
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestPrivate has a directory of the session outside of its workspace, which
// goes with the session, also where something in it is read-only.
func TestPrivate(t *testing.T) {
	store := session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk}, MaxLevel: tools.ReadOnly, MaxPerPrincipal: 3})
	defer store.Close()
	s, err := store.Create("me", session.Request{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if home := s.Home(); home != "" {
		t.Errorf("the home is %s before it is needed", home)
	}
	dir, err := s.Private()
	if err != nil {
		t.Fatal(err)
	}
	if home := s.Home(); filepath.Dir(home) != dir {
		t.Errorf("the home is %s, want it in %s", home, dir)
	}
	if again, _ := s.Private(); again != dir || strings.HasPrefix(dir, s.Workspace.Dir()) {
		t.Errorf("%s, then %s; the workspace is %s", dir, again, s.Workspace.Dir())
	}
	if err := os.MkdirAll(filepath.Join(dir, "cache", "deep"), 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Remove("me", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s after the session: %v", dir, err)
	}
}
