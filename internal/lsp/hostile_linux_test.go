// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// newFake returns a kit whose files are in a language that a fake server knows.
func newFake(t *testing.T, config lsp.Config, mode string, env ...string) *fakeKit {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	token := rand.Text()
	config.Servers = []lsp.Server{{Name: "fake", Command: []string{self, fakeServer, mode, token}, Languages: map[string][]string{"fake": {".fake"}}, Env: env}}
	k := &fakeKit{newKit(t, config, map[string]string{"a.fake": "The cat\nsat.\n", "b.fake": "B\n", "secret.fake": "hidden\n"}), token}
	t.Cleanup(func() {
		k.set.Halt(k.env.Session, "")
		if left := k.processes(); len(left) > 0 {
			t.Errorf("processes that are left: %v", left)
		}
	})
	return k
}

// fakeKit is a kit whose servers can be told from others by one of their arguments.
type fakeKit struct {
	*kit
	token string
}

// processes returns the servers that run.
func (k *fakeKit) processes() (pids []int) {
	k.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range entries {
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		words := bytes.Split(line, []byte{0})
		if pid, err := strconv.Atoi(e.Name()); err == nil && len(words) > 3 && string(words[1]) == fakeServer && string(words[3]) == k.token {
			pids = append(pids, pid)
		}
	}
	return pids
}

var cat = lsp.Target{Path: "a.fake", Line: 1, Symbol: "cat"}

// TestFake: a server that does what it should, and is asked by many at once.
func TestFake(t *testing.T) {
	k := newFake(t, lsp.Config{}, "fine")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			found, err := k.asker.Find(t.Context(), lsp.Definition, cat)
			if err != nil || len(found.List) != 1 || found.List[0].String() != "a.fake:1:5" || found.List[0].Text != "The cat" {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
	all.Wait()
	if n := len(k.processes()); n != 1 {
		t.Errorf("%d servers run", n)
	}
	_, err := k.asker.Find(t.Context(), lsp.References, cat)
	if code, text := failure(t, err); code != "language_server_refused" || !strings.Contains(text, "I would rather not") {
		t.Errorf("%s: %s", code, text)
	}
	_, err = k.asker.Completions(t.Context(), cat)
	if code, _ := failure(t, err); code != "not_supported" {
		t.Error(err)
	}
}

// TestHostileServers: what a server does wrong is bounded, and explained.
func TestHostileServers(t *testing.T) {
	for mode, want := range map[string]struct {
		code  string
		parts []string
	}{
		"dies":             {"language_server_ended", []string{"fake was started 3 times", "ended with exit status 3", "there is no licence"}},
		"dies-when-asked":  {"language_server_ended", []string{"fake was started 3 times", "ended with exit status 4"}},
		"garbage":          {"language_server_ended", []string{"is no message of the protocol", "Welcome"}},
		"huge":             {"language_server_ended", []string{"1999999999 bytes"}},
		"silent":           {"language_server_ended", []string{"did not answer within"}},
		"counts-strangely": {"language_server_ended", []string{"utf-7"}},
		"hangs":            {"no_answer", []string{"fake did not answer within 1.5s and was ended"}},
		"wrong-ids":        {"no_answer", []string{"did not answer"}},
		"floods":           {"language_server_ended", []string{"more messages than anybody could want"}},
		"asks":             {"language_server_ended", []string{"the last time it was ended"}},
		"eats":             {"language_server_ended", []string{"more than the 256 MiB of memory it may"}},
		"answers-nonsense": {"wrong_answer", []string{"fake answered what is no answer"}},
	} {
		t.Run(mode, func(t *testing.T) {
			config := lsp.Config{Timeout: 1500 * time.Millisecond, Memory: 256 << 20}
			if mode == "floods" || mode == "asks" || mode == "eats" {
				config.Timeout = time.Minute
			}
			k := newFake(t, config, mode)
			_, err := k.asker.Find(t.Context(), lsp.Definition, cat)
			code, text := failure(t, err)
			if code != want.code {
				t.Errorf("%s: %s", code, text)
			}
			has(t, text, want.parts...)
			if code == "language_server_ended" { // it is not tried again at once
				before := time.Now()
				if _, again := k.asker.Find(t.Context(), lsp.Definition, cat); again == nil || again.Error() != text {
					t.Errorf("the next question: %v, after %s", again, time.Since(before))
				}
				if left := k.processes(); len(left) > 0 {
					t.Errorf("it runs again: %v", left)
				}
			}
		})
	}
}

// TestServerIsKilled: one that dies between two questions, or while one waits, is started
// again; the question is answered.
func TestServerIsKilled(t *testing.T) {
	k := newFake(t, lsp.Config{}, "fine")
	for range 5 { // each answer begins anew to count
		equal(t, "definition", k.find(lsp.Definition, cat), []string{"a.fake:1:5"})
		running := k.processes()
		if len(running) != 1 {
			t.Fatalf("%d servers run", len(running))
		}
		for _, pid := range running {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	equal(t, "definition", k.find(lsp.Definition, cat), []string{"a.fake:1:5"})
}

// TestServerIsIdle: a server that nobody asks is ended, and started again.
func TestServerIsIdle(t *testing.T) {
	k := newFake(t, lsp.Config{Idle: 50 * time.Millisecond}, "fine")
	k.find(lsp.Definition, cat)
	for deadline := time.Now().Add(time.Minute); k.set.Running(k.env.Session) > 0 || len(k.processes()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it still runs")
		}
	}
	k.find(lsp.Definition, cat)
}

// TestIndexing: an answer of a server that is still busy says so.
func TestIndexing(t *testing.T) {
	k := newFake(t, lsp.Config{Timeout: 2 * time.Second}, "indexes")
	var messages []string
	found, err := k.set.For(k.env, func(p tools.Progress) { messages = append(messages, p.Message) }).Find(t.Context(), lsp.Definition, cat)
	if err != nil || found.Indexing != "Indexing (7 %)" || len(found.List) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	has(t, strings.Join(messages, "\n"), "fake: Indexing (7 %)")
}

// TestTrouble: what a server says that it cannot do is told, and nobody waits for it.
func TestTrouble(t *testing.T) {
	k := newFake(t, lsp.Config{}, "cannot-load")
	found, err := k.asker.Find(t.Context(), lsp.Definition, cat)
	if err != nil || found.Indexing != "" || found.Trouble != "Error loading workspace: there are no modules\nand no licence" {
		t.Errorf("%+v, %v", found, err)
	}
	_, err = k.asker.Find(t.Context(), lsp.References, cat)
	if _, text := failure(t, err); !strings.HasSuffix(text, "I would rather not. It says: Error loading workspace: there are no modules") {
		t.Error(text)
	}
}

// TestConfinement: a server reads what the session may read, and writes and reaches nothing.
func TestConfinement(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	k := newFake(t, lsp.Config{}, "escapes", "FAKE_DIAL="+listener.Addr().String())
	k.env.Restrictions = toolstest.Restrictions{Denied: denials{"secret.fake", "later.fake"}}
	k.asker = k.set.For(k.env, nil)
	hover, err := k.asker.Hover(t.Context(), cat)
	if err != nil {
		t.Fatal(err)
	}
	if hover.Text != "wrote its own" {
		t.Errorf("it could do:\n%s", hover.Text)
	}
	// Nor what is made while it runs, also in the place of what was covered.
	k.write("later.fake", "hidden\n")
	if hover, err = k.asker.Hover(t.Context(), cat); err != nil || hover.Text != "wrote its own" {
		t.Errorf("it could do:\n%+v, %v", hover, err)
	}
	if err := os.Remove(filepath.Join(k.dir, "later.fake")); err != nil {
		t.Fatal(err)
	}
	k.write("later.fake", "hidden again\n")
	if hover, err = k.asker.Hover(t.Context(), cat); err != nil || hover.Text != "wrote its own" {
		t.Errorf("it could do, when a file took the place of one:\n%+v, %v", hover, err)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "planted")); err == nil {
		t.Error("the workspace has what it wrote")
	}
}

type denials [2]string

func (d denials) Denies(path string) bool { return path == d[0] || path == d[1] }

// TestPlaces: places outside of files and of the workspace.
func TestPlaces(t *testing.T) {
	k := newFake(t, lsp.Config{}, "points-outside")
	found, err := k.asker.Find(t.Context(), lsp.Definition, cat)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, l := range found.List {
		all = append(all, fmt.Sprintf("%s %q", l, l.Text))
	}
	equal(t, "places", all, []string{`/etc/shadow:4000000001:4000000001 ""`, `a.fake:3:1 ""`, `untitled:x:1:1 ""`})
}

// TestWrongEdits: an edit that cannot be done is refused as a whole.
func TestWrongEdits(t *testing.T) {
	for mode, want := range map[string]string{
		"outside": "/etc/passwd, which is outside of the workspace", "up": "outside of the workspace", "overlaps": "overlap", "backwards": "ends before it begins",
		"no-file": "none.fake, which is not there", "link": "link.fake, which is a link", "in-the-way": "move a.fake to b.fake",
	} {
		t.Run(mode, func(t *testing.T) {
			k := newFake(t, lsp.Config{}, mode)
			if err := os.Symlink("a.fake", filepath.Join(k.dir, "link.fake")); err != nil {
				t.Fatal(err)
			}
			before := k.everything()
			_, err := k.asker.Rename(t.Context(), cat, "dog")
			code, text := failure(t, err)
			if code != "wrong_edit" {
				t.Errorf("%s: %s", code, text)
			}
			has(t, text, want, "Nothing was changed")
			if !maps.Equal(k.everything(), before) {
				t.Error("something was changed")
			}
		})
	}
	k := newFake(t, lsp.Config{}, "moves")
	edit, err := k.asker.Rename(t.Context(), cat, "dog")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "paths", edit.Paths(), []string{"a.fake", "b.fake", "d.fake", "new/c.fake"})
	if _, err := edit.Apply(k.env, "code"); err != nil {
		t.Fatal(err)
	}
	if got := k.read("new/c.fake"); got != "The é\nsat.\n" || k.read("d.fake") != "" {
		t.Errorf("it wrote %q", got)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "b.fake")); err == nil {
		t.Error("b.fake is still there")
	}
}

// TestChangesAreLost: where the kernel told of more changes than it keeps, no edit is made of
// a text that may be an old one.
func TestChangesAreLost(t *testing.T) {
	k := newFake(t, lsp.Config{}, "waits")
	gate := filepath.Join(k.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o644); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(kept)))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := k.asker.Rename(t.Context(), cat, "dog")
		failed <- err
	}()
	open, err := os.OpenFile(gate, os.O_WRONLY, 0) // once the server reads it
	if err != nil {
		t.Fatal(err)
	}
	for i := range most + 1 {
		k.write([]string{"one", "other"}[i%2], "") // what repeats itself is told once
	}
	k.write("b.fake", "Changed\n")
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if code, text := failure(t, <-failed); code != "stale_file" {
		t.Errorf("%s: %s", code, text)
	}
}

// TestSlotsAreDropped: what was kept for calls with other rules goes with their servers.
func TestSlotsAreDropped(t *testing.T) {
	k := newFake(t, lsp.Config{}, "fine")
	for i := range 8 {
		k.env.Restrictions = toolstest.Restrictions{Denied: denials{"secret.fake", strconv.Itoa(i)}}
		k.asker = k.set.For(k.env, nil)
		k.find(lsp.Definition, cat)
	}
	if running, slots := k.set.Running(k.env.Session), k.set.Slots(k.env.Session); running != 4 || slots > running+1 {
		t.Errorf("%d servers run in %d slots", running, slots)
	}
}

// TestServersAreBounded: calls with other rules that come at once have no more servers than
// may be, or are told to ask again.
func TestServersAreBounded(t *testing.T) {
	k := newFake(t, lsp.Config{}, "fine")
	var all sync.WaitGroup
	for i := range 12 {
		env := k.env
		env.Restrictions = toolstest.Restrictions{Denied: denials{"secret.fake", strconv.Itoa(i)}}
		all.Go(func() {
			_, err := k.set.For(env, nil).Find(t.Context(), lsp.Definition, cat)
			if n := k.set.Running(env.Session); n > 4 {
				t.Errorf("%d servers run", n)
			}
			if err == nil {
				return
			}
			if code, text := failure(t, err); code != "too_many_servers" && code != "language_server_ended" {
				t.Errorf("%s: %s", code, text)
			}
		})
	}
	all.Wait()
}

// TestDeniedOutside: what a rule keeps from calls is not told of, also outside of the workspace.
func TestDeniedOutside(t *testing.T) {
	k := newFake(t, lsp.Config{}, "points-outside")
	k.env.Restrictions = toolstest.Restrictions{Denied: denials{"/etc/shadow", "-"}}
	found, err := k.set.For(k.env, nil).Find(t.Context(), lsp.Definition, cat)
	if err != nil || slices.ContainsFunc(found.List, func(l lsp.Location) bool { return l.Path == "/etc/shadow" }) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestBadFiles: what cannot be asked about.
func TestBadFiles(t *testing.T) {
	k := newFake(t, lsp.Config{}, "fine")
	k.write("binary.fake", "\xff\xfe\x00")
	k.write("large.fake", strings.Repeat("x", 9<<20))
	k.write("long.fake", strings.Repeat("🙂", 1<<20)+" cat")
	for path, want := range map[string]string{"binary.fake": "not_text", "large.fake": "too_large", "none.fake": "file_not_found", "../up.fake": "outside", "a.unknown": "no_language_server"} {
		_, err := k.asker.Find(t.Context(), lsp.Definition, lsp.Target{Path: path, Line: 1, Column: 1})
		if code, text := failure(t, err); code != want {
			t.Errorf("%s: %s: %s", path, code, text)
		}
	}
	equal(t, "in a long line", k.find(lsp.Definition, lsp.Target{Path: "long.fake", Line: 1, Symbol: "cat"}), []string{"a.fake:1:5"})
}
