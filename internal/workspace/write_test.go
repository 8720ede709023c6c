// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/workspace"
	"github.com/toolserver/toolserver/internal/workspace/workspacetest"
)

// put writes a file whatever it was.
func put(ws *workspace.Workspace, path, text string) error {
	info, err := ws.Stat(path)
	if err != nil {
		return err
	}
	_, err = ws.WriteFile(path, []byte(text), workspace.KeepMode, info.Version)
	return err
}

func TestWriteFile(t *testing.T) {
	f := newFixture(t)
	dir := f.Dir()
	if err := put(f.Workspace, "new", "text"); err != nil {
		t.Fatal(err)
	}
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	if info, err := os.Stat(dir + "/new"); err != nil || info.Mode().Perm() != 0o666&^os.FileMode(umask) {
		t.Errorf("a new file has mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(dir+"/new", 0o750); err != nil {
		t.Fatal(err)
	}
	if err := put(f.Workspace, "new", "other"); err != nil {
		t.Fatal(err)
	}
	if got := workspacetest.Tree(t, dir); got["new"] != "-rwxr-x--- other" || len(got) != 2 {
		t.Errorf("%v", got)
	}
	if err := put(f.Workspace, "no/such/folder", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its folder: %v", err)
	}
	if err := put(f.Workspace, "new/below", ""); err == nil {
		t.Error("below a file something was written")
	}
}

// TestWriteFileRefuses tries what must not be written, and finds everything as
// it was.
func TestWriteFileRefuses(t *testing.T) {
	f := newFixture(t)
	dir := f.Dir()
	f.write("file")
	f.write("sub/file")
	f.link(f.outside+"/f", "link")
	f.link(f.outside, "folder-link")
	f.link("file", "inner-link")
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/read-only", []byte("text"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(f.outside+"/f", dir+"/hard"); err != nil {
		t.Fatal(err)
	}
	stale, err := f.Stat("file")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", []byte("other text"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := workspacetest.Tree(t, filepath.Dir(dir))
	for _, test := range []struct {
		path string
		old  workspace.Version
		want error
	}{
		{"link", workspace.Version{}, workspace.ErrMoved},
		{"inner-link", workspace.Version{}, workspace.ErrMoved},
		{"folder-link/f", workspace.Version{}, workspace.ErrMoved},
		{"folder-link/new", workspace.Version{}, workspace.ErrMoved},
		{"pipe", workspace.Version{}, workspace.ErrNotRegular},
		{"sub", workspace.Version{}, workspace.ErrNotRegular},
		{"../ws-outside/f", workspace.Version{}, workspace.ErrOutside},
		{"..", workspace.Version{}, workspace.ErrOutside},
		{"/etc/x", workspace.Version{}, workspace.ErrOutside},
		{".", workspace.Version{}, nil},
		{"file", workspace.Version{}, workspace.ErrExists},
		{"file", stale.Version, workspace.ErrChanged},
		{"gone", stale.Version, workspace.ErrChanged},
		{strings.Repeat("x", 300), workspace.Version{}, syscall.ENAMETOOLONG},
		{strings.Repeat("a/", 2500) + "f", workspace.Version{}, fs.ErrNotExist},
		{"nul\x00byte", workspace.Version{}, syscall.EINVAL},
	} {
		_, err := f.WriteFile(test.path, []byte("written"), workspace.KeepMode, test.old)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%.40q: %v, want %v", test.path, err, test.want)
		}
	}
	if err := put(f.Workspace, "read-only", "written"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read-only: %v", err)
	}
	if err := workspacetest.Same(workspacetest.Tree(t, filepath.Dir(dir)), before); err != nil {
		t.Error(err)
	}

	// A hard link to a file outside becomes a file of its own.
	if err := put(f.Workspace, "hard", "inside"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(f.outside + "/f"); string(text) != canary {
		t.Errorf("the file outside has %q, %v", text, err)
	}
}

func TestSetuidIsNotKept(t *testing.T) {
	f := newFixture(t)
	f.write("file")
	if err := os.Chmod(f.Dir()+"/file", 0o755|fs.ModeSetuid|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if err := put(f.Workspace, "file", "other"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.Dir() + "/file"); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestEntries(t *testing.T) {
	f := newFixture(t)
	f.write("dir/a")
	f.write("dir/deep/b")
	f.link(f.outside, "dir/out")
	f.link("dir", "to-dir")
	for _, test := range []struct{ name, want string }{
		{"to-dir", "to-dir"}, {"to-dir/", "to-dir"}, {"./to-dir", "to-dir"}, {"to-dir/out", "dir/out"}, {"dir/out", "dir/out"},
		{"dir/out/f", f.outside + "/f"}, {"dir/..", "."}, {".", "."}, {"", "."}, {"..", filepath.Dir(f.Dir())},
		{f.Dir(), "."}, {f.Dir() + "/to-dir", "to-dir"}, {"../ws/to-dir", "to-dir"}, {"../ws-outside", f.outside}, {"/", "/"},
	} {
		got, inside := f.ResolveEntry(test.name)
		if got != test.want || inside == filepath.IsAbs(test.want) {
			t.Errorf("ResolveEntry(%q) = %q, %t, want %q", test.name, got, inside, test.want)
		}
	}
	if err := f.Remove("dir"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("a directory that is not empty: %v", err)
	}
	if err := f.RemoveAll(t.Context(), "dir"); err != nil {
		t.Error(err)
	}
	if err := f.Remove("to-dir"); err != nil {
		t.Error(err)
	}
	if err := f.RemoveAll(t.Context(), "."); err == nil {
		t.Error("the workspace itself was removed")
	}
	if _, err := os.Stat(f.outside + "/f"); err != nil {
		t.Errorf("what is outside: %v", err)
	}
	if made, err := f.Mkdir("x/y/z", 0o777); err != nil || strings.Join(made, " ") != "x x/y x/y/z" {
		t.Errorf("made %v, %v", made, err)
	}
	if _, err := f.Mkdir("x/y", 0o777); !errors.Is(err, workspace.ErrExists) {
		t.Errorf("a directory that is there: %v", err)
	}
	f.write("from")
	f.write("to")
	if err := f.Rename("from", "to", false); !errors.Is(err, workspace.ErrExists) {
		t.Errorf("something is in the way: %v", err)
	}
	if err := f.Rename("from", "to", true); err != nil {
		t.Error(err)
	}
	if err := f.Rename("to", "../ws-outside/to", true); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("out of the workspace: %v", err)
	}
	entries, more, err := f.ReadDir(".", 1)
	if err != nil || len(entries) != 1 || !more {
		t.Errorf("one of two entries: %v, %t, %v", entries, more, err)
	}
}

// TestSwaps writes, moves and removes while directories become links to the
// outside and back: nothing outside is changed.
func TestSwaps(t *testing.T) {
	f := newFixture(t)
	dir := f.Dir()
	f.write("real/file")
	f.link(f.outside, "evil")
	before := workspacetest.Tree(t, f.outside)
	stop := make(chan struct{})
	var swaps, done atomic.Int64
	var group, swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// The directory that calls use is real, then a link, then gone.
			_ = os.Rename(dir+"/real", dir+"/d")
			_ = os.Rename(dir+"/d", dir+"/real")
			_ = os.Rename(dir+"/evil", dir+"/d")
			_ = os.Rename(dir+"/d", dir+"/evil")
			swaps.Add(1)
		}
	})
	rounds, over := 300, func() bool { return false }
	if soaktest.Long() {
		rounds, over = 100_000, nearlyOver(t)
	}
	for range 4 {
		group.Go(func() {
			for i := range rounds {
				if over() {
					return
				}
				if err := put(f.Workspace, "d/f", "written"); err == nil {
					done.Add(1)
				}
				_ = f.Remove("d/f")
				_, _ = f.Mkdir("d/sub/sub", 0o777)
				_ = f.Rename("d/sub", fmt.Sprint("d/moved", i), true)
				_ = f.RemoveAll(context.Background(), fmt.Sprint("d/moved", i))
				_ = f.RemoveAll(context.Background(), "d")
				if i%16 == 0 {
					_ = os.MkdirAll(dir+"/real", 0o755)
				}
			}
		})
	}
	group.Wait()
	close(stop)
	swapper.Wait()
	if err := workspacetest.Same(workspacetest.Tree(t, f.outside), before); err != nil {
		t.Error(err)
	}
	t.Logf("%d swaps, %d writes came through", swaps.Load(), done.Load())
}

// nearlyOver returns what reports whether the test should come to its end: soon
// after its timeout it would have none.
func nearlyOver(t *testing.T) func() bool {
	deadline, ok := t.Deadline()
	return func() bool { return ok && time.Until(deadline) < 30*time.Second }
}

// TestManyWriters writes one file from many sides: exactly one wins of those
// that saw the same version.
func TestManyWriters(t *testing.T) {
	f := newFixture(t)
	f.write("file")
	info, err := f.Stat("file")
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			defer f.Lock("file")()
			if _, err := f.WriteFile("file", []byte(fmt.Sprint(i)), workspace.KeepMode, info.Version); err == nil {
				won.Add(1)
			} else if !errors.Is(err, workspace.ErrChanged) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d writers won", won.Load())
	}
}

// TestKilled is what a process that was killed leaves: files that are old or
// new, and after the next start nothing else.
func TestKilled(t *testing.T) {
	const files = 1000
	if dir := os.Getenv("TOOLSERVER_TEST_KILLED"); dir != "" {
		writeUntilKilled(t, dir, os.Getenv("TOOLSERVER_TEST_STATE"), files)
	}
	dir, state := t.TempDir(), t.TempDir()
	left := 0
	for round := range workspacetest.Killings() {
		workspacetest.KillAmid(t, "^TestKilled$", 200+rand.IntN(600), "TOOLSERVER_TEST_KILLED="+dir, "TOOLSERVER_TEST_STATE="+state)
		left += workspacetest.Temporaries(workspacetest.Tree(t, dir))
		ws, err := workspace.Config{State: state}.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		now := workspacetest.Tree(t, dir)
		if n := workspacetest.Temporaries(now); n != 0 {
			t.Errorf("round %d: %d temporary files were left behind", round, n)
		}
		for path, text := range now {
			if _, content, ok := strings.Cut(text, " "); ok && len(content) != 0 {
				if bytes.Count([]byte(content), []byte(content[:1])) != len(content) || len(content) != 10_000 {
					t.Errorf("round %d: %s has %d bytes of %.20q...", round, path, len(content), content)
				}
			}
		}
		ws.Close()
	}
	if entries, err := os.ReadDir(state); err != nil || len(entries) != 0 {
		t.Errorf("the notes are still there: %v, %v", entries, err)
	}
	t.Logf("%d temporary files were left and removed", left)
}

// writeUntilKilled writes the files over and over, each full of one letter.
func writeUntilKilled(t *testing.T, dir, state string, files int) {
	ws, err := workspace.Config{State: state}.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range files {
		group.Go(func() {
			path := fmt.Sprintf("%d/%d", i%10, i)
			for letter := 'a'; ; letter = 'a' + (letter-'a'+1)%26 {
				b := history.Begin(ws, nil, "", "")
				old, err := ws.ReadFile(path, 1<<20)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
					return
				}
				if _, err := b.Write(path, bytes.Repeat([]byte(string(letter)), 10_000), workspace.KeepMode, old); err != nil {
					t.Error(err)
					return
				}
				fmt.Println(path)
			}
		})
	}
	group.Wait()
}

// TestSweepLeavesWhatIsWritten opens a workspace over and over while another
// writes in it: no write is disturbed.
func TestSweepLeavesWhatIsWritten(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	ws, err := workspace.Config{State: state}.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 50 {
				if err := put(ws, fmt.Sprint("f", i), fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 50 {
				other, err := workspace.Config{State: state}.Open(dir)
				if err != nil {
					t.Error(err)
					return
				}
				other.Close()
			}
		})
	}
	group.Wait()
	ws.Close()
	if entries, err := os.ReadDir(state); err != nil || len(entries) != 0 {
		t.Errorf("notes are left: %v, %v", entries, err)
	}
}
