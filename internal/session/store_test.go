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

	"github.com/toolserver/toolserver/internal/auth"
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
	if config.MaxMode == 0 {
		config.MaxMode = tools.ModeAllow
	}
	store := session.NewStore(config)
	t.Cleanup(store.Close)
	return store
}

func get(t *testing.T, store *session.Store, owner, id string) *session.Session {
	t.Helper()
	s, err := store.Get(auth.Owner(owner), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, store *session.Store, owner string, request session.Request) *session.Session {
	t.Helper()
	s, err := store.Create(auth.Owner(owner), request)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ids lists the sessions of an owner without using them.
func ids(store *session.Store, owner string) string {
	var list []string
	for _, s := range store.List(auth.Owner(owner)) {
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
		if _, err := store.Get(auth.Owner(who.owner), who.id); !errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("%q", who.id)) {
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
	usual := tools.Budget{Characters: 30_000}
	config := session.Config{
		Default:    session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk, Network: tools.NetworkLoopback, IdleTTL: time.Hour, Answer: usual},
		MaxAnswer:  60_000,
		MaxLevel:   tools.WorkspaceWrite,
		MaxNetwork: tools.NetworkHosts,
		Modes:      []tools.Mode{tools.ModeAsk, tools.ModePlan},
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
			session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModePlan, Network: tools.NetworkHosts, IdleTTL: time.Second, Labels: map[string]string{"a": "", "é": "x"},
				Tools: tools.Selection{Include: []string{"@builtin"}, Exclude: []string{"re*"}}, Answer: tools.Budget{Tokens: 15_000}},
			session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModePlan, Network: tools.NetworkHosts, IdleTTL: time.Second, Labels: map[string]string{"a": "", "é": "x"},
				Tools: tools.Selection{Include: []string{"@builtin"}, Exclude: []string{"re*"}}, Answer: tools.Budget{Tokens: 15_000}}, nil},
		{"as many labels as there may be", session.Settings{Labels: many},
			session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk, Network: tools.NetworkLoopback, IdleTTL: time.Hour, Labels: many, Answer: usual}, nil},
		{"less network", session.Settings{Network: tools.NetworkNone},
			session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk, Network: tools.NetworkNone, IdleTTL: time.Hour, Answer: usual}, nil},
		{"more network than there may be", session.Settings{Network: tools.NetworkOpen}, session.Settings{}, session.ErrForbidden},
		{"above the ceiling", session.Settings{Level: tools.DangerFullAccess}, session.Settings{}, session.ErrForbidden},
		{"above everything", session.Settings{Level: 99}, session.Settings{}, session.ErrForbidden},
		{"a mode that is not offered", session.Settings{Mode: tools.ModeAllow}, session.Settings{}, session.ErrForbidden},
		{"a mode that is none", session.Settings{Mode: 99}, session.Settings{}, session.ErrForbidden},
		{"more of an answer than there may be", session.Settings{Answer: tools.Budget{Tokens: 15_001}}, session.Settings{}, session.ErrInvalid},
		{"less of an answer than is of use", session.Settings{Answer: tools.Budget{Characters: 999}}, session.Settings{}, session.ErrInvalid},
		{"an answer in two units", session.Settings{Answer: tools.Budget{Characters: 2000, Tokens: 2000}}, session.Settings{}, session.ErrInvalid},
		{"negative idle time", session.Settings{IdleTTL: -1}, session.Settings{}, session.ErrInvalid},
		{"a bad pattern", session.Settings{Tools: tools.Selection{Exclude: []string{"["}}}, session.Settings{}, session.ErrInvalid},
		{"too many labels", session.Settings{Labels: tooMany}, session.Settings{}, session.ErrInvalid},
		{"a label without a key", session.Settings{Labels: map[string]string{"": "x"}}, session.Settings{}, session.ErrInvalid},
		{"a long key", session.Settings{Labels: map[string]string{strings.Repeat("k", 257): ""}}, session.Settings{}, session.ErrInvalid},
		{"a long value", session.Settings{Labels: map[string]string{"k": strings.Repeat("v", 257)}}, session.Settings{}, session.ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Activation = session.DefaultActivation()
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
				s, err := store.Create(auth.Owner(owner), session.Request{ID: id})
				if errors.Is(err, session.ErrExists) {
					s, err = store.Get(auth.Owner(owner), id)
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
				store.List(auth.Owner(owner))
				_, _ = store.Update(auth.Owner(owner), id, func(s *session.Settings) { s.IdleTTL = time.Hour })
				if i%3 == 0 {
					if _, err := store.Remove(auth.Owner(owner), id); err != nil {
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
