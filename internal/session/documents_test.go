// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// note makes a document a text.
func note(t *testing.T, s *session.Session, name, text string) {
	t.Helper()
	value, _ := json.Marshal(text)
	if err := s.Documents().Change(name, func(json.RawMessage) (json.RawMessage, error) { return value, nil }); err != nil {
		t.Fatal(err)
	}
}

// noted returns the text of a document; empty where there is none.
func noted(t *testing.T, s *session.Session, name string) (text string) {
	t.Helper()
	value, err := s.Documents().Read(name)
	if err != nil {
		t.Fatal(err)
	}
	if value != nil {
		err = json.Unmarshal(value, &text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// files returns what is below a directory.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDocumentsLastAsTheWorkspace proves that documents are there as long as the workspace
// that was made for a session, and no longer.
func TestDocumentsLastAsTheWorkspace(t *testing.T) {
	root := t.TempDir()
	store := newStore(t, session.Config{WorkspaceRoot: root, KeepWorkspace: time.Hour})
	first := create(t, store, "alice", session.Request{ID: "a"})
	note(t, first, "plan", "of alice")
	note(t, create(t, store, "alice", session.Request{ID: "b"}), "plan", "of another session")
	if got := noted(t, get(t, store, "bob", ""), "plan"); got != "" {
		t.Errorf("bob has %q", got)
	}
	if _, err := store.Remove("alice", "a"); err != nil {
		t.Fatal(err)
	}
	restored := create(t, store, "alice", session.Request{ID: "a", Restore: true})
	if got := noted(t, restored, "plan"); got != "of alice" {
		t.Errorf("restored is %q", got)
	}
	note(t, restored, "todos", "more")
	if _, err := store.Remove("alice", "a"); err != nil {
		t.Fatal(err)
	}
	if fresh := create(t, store, "alice", session.Request{ID: "a"}); noted(t, fresh, "plan") != "" {
		t.Error("a new session has the documents of one before")
	}
	store.Close()
	for _, file := range files(t, root) {
		if strings.Contains(file, "documents") {
			t.Errorf("%s is left", file)
		}
	}
}

// TestDocumentsOfADefaultSession proves that they outlive the server, as its workspace does.
func TestDocumentsOfADefaultSession(t *testing.T) {
	config := session.Config{WorkspaceRoot: filepath.Join(t.TempDir(), "made", "on", "demand"), DefaultWorkspace: map[string]string{"alice": t.TempDir()}}
	for _, owner := range []auth.Owner{"alice", "Alice", auth.NewOwner("acme", "alice")} {
		store := newStore(t, config)
		s, err := store.Get(owner, "")
		if err != nil {
			t.Fatal(err)
		}
		note(t, s, "todos", "of "+owner.String())
		store.Close()
		if s, err = newStore(t, config).Get(owner, ""); err != nil {
			t.Fatal(err)
		}
		if got := noted(t, s, "todos"); got != "of "+owner.String() {
			t.Errorf("after a restart it is %q", got)
		}
	}
}

// TestDocumentsAreBounded proves that what is too much, what fails and what is damaged
// changes nothing.
func TestDocumentsAreBounded(t *testing.T) {
	root := t.TempDir()
	s := get(t, newStore(t, session.Config{WorkspaceRoot: root}), "alice", "")
	note(t, s, "todos", "first")
	fails := func(code string, change func(json.RawMessage) (json.RawMessage, error)) {
		t.Helper()
		err := s.Documents().Change("todos", change)
		if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
		if strings.Contains(fmt.Sprint(err), root) {
			t.Errorf("%v tells where", err)
		}
	}
	fails("documents_full", func(json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`), nil
	})
	fails("no", func(json.RawMessage) (json.RawMessage, error) { return nil, tools.Failf("no", "no") })
	if got := noted(t, s, "todos"); got != "first" {
		t.Errorf("it is %q", got)
	}
	for _, text := range []string{`{"version":1,"owner":"alice","session":"def`, `{"version":2,"owner":"alice","session":"default"}`} {
		for _, file := range files(t, root) {
			if strings.Contains(file, "documents") {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		fails("not_kept", func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`1`), nil })
	}
}

// TestDocumentsAtOnce proves that no change is lost.
func TestDocumentsAtOnce(t *testing.T) {
	s := create(t, newStore(t, session.Config{}), "alice", session.Request{ID: "a"})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			err := s.Documents().Change("n", func(old json.RawMessage) (json.RawMessage, error) {
				n := 0
				if old != nil {
					if err := json.Unmarshal(old, &n); err != nil {
						return nil, err
					}
				}
				return json.Marshal(n + 1)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n, err := s.Documents().Read("n"); string(n) != "20" || err != nil {
		t.Errorf("%s of 20: %v", n, err)
	}
}

// TestOptions proves that calls change what the operator exposes, and nothing to more.
func TestOptions(t *testing.T) {
	if err := session.DefaultExposed().Check(); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []session.Exposed{{Show: []string{"policy"}}, {Set: []string{"idle_ttl"}}} {
		if wrong.Check() == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
	every := session.Exposed{Set: []string{"active_tools", "answer", "call_order", "edit_errors", "level", "mode", "network", "persona"}}
	store := newStore(t, session.Config{
		MaxAnswer: 60_000, MaxMode: tools.ModeAllow, MaxLevel: tools.DangerFullAccess, MaxNetwork: tools.NetworkOpen, Exposed: every,
	})
	s := create(t, store, "alice", session.Request{ID: "a", Settings: session.Settings{
		Mode: tools.ModeAcceptEdits, Level: tools.WorkspaceWrite, Network: tools.NetworkLoopback,
	}})
	for _, test := range []struct{ name, value, says string }{
		{"answer", "2000 tokens", ""}, {"answer", "70000", "out of range"}, {"answer", "many", "does not say"},
		{"mode", "allow", "only lower"}, {"mode", "ask", ""}, {"mode", "accept_edits", "only lower"}, {"mode", "deny", "no call runs"}, {"mode", "fast", "no mode"},
		{"level", "danger_full_access", "only lower"}, {"level", "read_only", ""}, {"level", "workspace_write", "only lower"},
		{"network", "hosts", "only lower"}, {"network", "none", ""}, {"network", "loopback", "only lower"},
		{"persona", "claude-code", ""}, {"persona", "none", ""}, {"persona", "nobody", "want one of"},
		{"call_order", "safe", ""}, {"call_order", "any", "free or safe"},
		{"edit_errors", "3s", ""}, {"edit_errors", "off", ""}, {"edit_errors", "1h", "at most 30s"}, {"edit_errors", "-1s", "at most 30s"}, {"edit_errors", "soon", "such as 3s"},
		{"active_tools", "7", ""}, {"active_tools", "0", "at least 1"}, {"active_tools", "9999", "want 1 to"},
		{"idle_ttl", "1h", "no setting"}, {"nothing", "1", "no setting"},
	} {
		before := value(s, test.name)
		err := s.Options().Set(test.name, test.value)
		switch now := value(s, test.name); {
		case test.says == "" && (err != nil || now != test.value):
			t.Errorf("%s = %s: %v, it is %s", test.name, test.value, err, now)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || now != before):
			t.Errorf("%s = %s: %v, it is %s; want %q and %s", test.name, test.value, err, now, test.says, before)
		}
	}
	hidden := create(t, newStore(t, session.Config{Exposed: session.Exposed{Show: []string{"mode"}}}), "alice", session.Request{ID: "a"})
	if all := hidden.Options().All(); len(all) != 1 || all[0].Name != "mode" || all[0].Settable {
		t.Errorf("%v are exposed", all)
	}
	if err := hidden.Options().Set("mode", "plan"); err == nil {
		t.Error("what is only shown can be set")
	}
}

func value(s *session.Session, name string) string {
	for _, setting := range s.Options().All() {
		if setting.Name == name {
			return setting.Value
		}
	}
	return ""
}
