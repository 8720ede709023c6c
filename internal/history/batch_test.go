// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/workspace"
	"github.com/toolserver/toolserver/internal/workspace/workspacetest"
)

// undoFixture is a workspace with a directory beside it.
type fixture struct {
	*workspace.Workspace
	t       *testing.T
	outside string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ws, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return &fixture{Workspace: ws, t: t, outside: t.TempDir()}
}

// write makes a file of the workspace whose text is its name.
func (f *fixture) write(name string) {
	f.t.Helper()
	path := filepath.Join(f.Dir(), name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) link(target, name string) {
	f.t.Helper()
	if err := os.Symlink(target, filepath.Join(f.Dir(), name)); err != nil {
		f.t.Fatal(err)
	}
}

// write changes a file in a batch, whatever it was.
func write(b *history.Batch, ws *workspace.Workspace, path, text string) error {
	old, err := ws.ReadFile(path, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = b.Write(path, []byte(text), workspace.KeepMode, old)
	return err
}

func newChanges(t *testing.T, config history.Config) *history.Store {
	config.Dir = t.TempDir()
	changes := history.New(config)
	t.Cleanup(changes.Close)
	return changes
}

// anyChange does something to the workspace, or fails.
func anyChange(r *rand.Rand, t *testing.T, b *history.Batch, f *fixture) {
	name := func() string {
		parts := make([]string, 1+r.IntN(3))
		for i := range parts {
			parts[i] = string(rune('a' + r.IntN(3)))
		}
		return filepath.Join(parts...)
	}
	switch r.IntN(6) {
	case 0, 1, 2:
		_ = write(b, f.Workspace, name(), fmt.Sprint(r.IntN(1000)))
	case 3:
		_ = b.RemoveAll(t.Context(), name())
	case 4:
		_ = b.Rename(name(), name(), r.IntN(2) == 0)
	case 5:
		_ = b.Mkdir(name())
	}
}

// TestUndoRestoresExactly changes a workspace at random, goes back to any
// point of it, and finds what was there: names, modes and contents.
func TestUndoRestoresExactly(t *testing.T) {
	for seed := range soaktest.Times(15, 2000) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		f := newFixture(t)
		f.write("a/b/first")
		f.write("b/second")
		f.link(f.outside, "a/out")
		if err := os.Chmod(f.Dir()+"/b/second", 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(f.Dir()+"/a/b", 0o500); err != nil {
			t.Fatal(err)
		}
		changes := newChanges(t, history.Config{})
		states := []map[string]string{workspacetest.Tree(t, f.Dir())}
		for len(states) < 15 {
			b := history.Begin(f.Workspace, changes, "", "test")
			for range 1 + r.IntN(4) {
				anyChange(r, t, b, f)
			}
			if r.IntN(4) == 0 {
				if err := b.Rollback(); err != nil {
					t.Fatalf("seed %d: rollback: %v", seed, err)
				}
				if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), states[len(states)-1]); err != nil {
					t.Fatalf("seed %d: after a rollback:\n%v", seed, err)
				}
				continue
			}
			if len(b.Commit().Changes) > 0 {
				states = append(states, workspacetest.Tree(t, f.Dir()))
			}
		}
		for len(states) > 1 {
			back := r.IntN(min(4, len(states)-1)) + 1
			records := changes.Records()
			if len(records) != len(states)-1 {
				t.Fatalf("seed %d: %d records for %d states", seed, len(records), len(states))
			}
			if err := history.Undo(t.Context(), f.Workspace, changes, records[len(records)-back:]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			states = states[:len(states)-back]
			if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), states[len(states)-1]); err != nil {
				t.Fatalf("seed %d: after undoing %d calls:\n%v", seed, back, err)
			}
		}
	}
}

// TestUndoRefuses changes something behind the back of the records: undoing
// names it and changes nothing.
func TestUndoRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(dir string) error
		want   string
	}{
		{"content", func(dir string) error { return os.WriteFile(dir+"/one", []byte("ONE"), 0o644) }, "one: file changed meanwhile: it has other content"},
		{"size", func(dir string) error { return os.WriteFile(dir+"/one", []byte("longer"), 0o644) }, "bytes"},
		{"mode", func(dir string) error { return os.Chmod(dir+"/one", 0o755) }, "mode"},
		{"gone", func(dir string) error { return os.Remove(dir + "/one") }, "is a nothing"},
		{"link", func(dir string) error { return errors.Join(os.Remove(dir+"/one"), os.Symlink("two", dir+"/one")) }, "is a link"},
		{"back again", func(dir string) error { return os.WriteFile(dir+"/old", nil, 0o644) }, "old: "},
		{"something in a new directory", func(dir string) error { return os.WriteFile(dir+"/made/x", nil, 0o644) }, "made: directory not empty"},
		{"moved link", func(dir string) error {
			return errors.Join(os.Remove(dir+"/led"), os.Symlink("other", dir+"/led"))
		}, "led: file changed"},
		{"moved file", func(dir string) error { return os.WriteFile(dir+"/moved", []byte("other"), 0o644) }, "moved: file changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("old")
			f.write("from")
			f.link("old", "link")
			changes := newChanges(t, history.Config{})
			b := history.Begin(f.Workspace, changes, "call-1", "test")
			for _, err := range []error{
				write(b, f.Workspace, "one", "one"), write(b, f.Workspace, "two", "two"),
				b.RemoveAll(t.Context(), "old"), b.Mkdir("made"), b.Rename("from", "moved", false), b.Rename("link", "led", false),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			b.Commit()
			if err := test.change(f.Dir()); err != nil {
				t.Fatal(err)
			}
			before := workspacetest.Tree(t, f.Dir())
			err := history.Undo(t.Context(), f.Workspace, changes, changes.Records())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), before); err != nil {
				t.Error(err)
			}
			if len(changes.Records()) != 1 {
				t.Error("the record is gone")
			}
		})
	}
}

// TestChangesAreBounded keeps the newest of what was replaced, in files that
// nobody sees.
func TestChangesAreBounded(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	changes := history.New(history.Config{Dir: dir, MaxBytes: 100_000, MaxRecords: 20})
	for i := range 100 {
		b := history.Begin(f.Workspace, changes, "", "test")
		if err := write(b, f.Workspace, "file", strings.Repeat(string(rune('a'+i%26)), 10_000)); err != nil {
			t.Fatal(err)
		}
		if r := b.Commit(); r.Lost != "" {
			t.Fatal(r.Lost)
		}
	}
	records := changes.Records()
	if len(records) < 5 || len(records) > 10 {
		t.Errorf("%d records of 10,000 bytes are kept", len(records))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files with names: %v, %v", entries, err)
	}
	if err := history.Undo(t.Context(), f.Workspace, changes, records); err != nil {
		t.Error(err)
	}

	// What is larger than everything that may be kept is changed all the same.
	if err := os.WriteFile(f.Dir()+"/file", make([]byte, 200_000), 0o644); err != nil {
		t.Fatal(err)
	}
	b := history.Begin(f.Workspace, changes, "big", "test")
	if err := b.RemoveAll(t.Context(), "file"); err != nil {
		t.Fatal(err)
	}
	if r := b.Commit(); r.Lost == "" {
		t.Error("it claims to keep what is larger than it may keep")
	}
	records = changes.Records()
	if err := history.Undo(t.Context(), f.Workspace, changes, records[len(records)-1:]); !errors.Is(err, history.ErrNotKept) {
		t.Errorf("%v", err)
	}
	for range 30 {
		b := history.Begin(f.Workspace, changes, "", "test")
		if err := errors.Join(b.Mkdir("d"), b.RemoveAll(t.Context(), "d")); err != nil {
			t.Fatal(err)
		}
		b.Commit()
	}
	if n := len(changes.Records()); n != 20 {
		t.Errorf("%d records, want 20", n)
	}
	changes.Close()
	if n := len(changes.Records()); n != 0 {
		t.Errorf("after the end there are %d records", n)
	}
}

// TestUndoOfMany takes back the removal of more files than are put back at once:
// all of them, or, where a name was taken meanwhile, none.
func TestUndoOfMany(t *testing.T) {
	const many = 700
	f := newFixture(t)
	for i := range many {
		f.write(fmt.Sprintf("d/%d/%03d", i%7, i))
	}
	f.link("0", "d/link")
	before := workspacetest.Tree(t, f.Dir())
	changes := newChanges(t, history.Config{})
	b := history.Begin(f.Workspace, changes, "gone", "delete")
	if err := b.RemoveAll(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	b.Commit()
	f.write("d/3/500")
	err := history.Undo(t.Context(), f.Workspace, changes, changes.Records())
	if !errors.Is(err, workspace.ErrChanged) && !errors.Is(err, workspace.ErrExists) {
		t.Errorf("with a name that was taken: %v", err)
	}
	if left := workspacetest.Tree(t, f.Dir()); len(left) != 4 { // with the directories on the way
		t.Errorf("%d entries are left of what was put back: %.300v", len(left), left)
	}
	if err := os.RemoveAll(f.Dir() + "/d"); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := history.Undo(stopped, f.Workspace, changes, changes.Records()); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is told to stop: %v", err)
	}
	if err := history.Undo(t.Context(), f.Workspace, changes, changes.Records()); err != nil {
		t.Fatal(err)
	}
	if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), before); err != nil {
		t.Error(err)
	}
}

// TestNamesAreCounted deletes directories of files without content: what their
// names take is bounded as contents are.
func TestNamesAreCounted(t *testing.T) {
	f := newFixture(t)
	changes := newChanges(t, history.Config{MaxBytes: 100_000})
	fill := func(files int) {
		t.Helper()
		if err := os.Mkdir(f.Dir()+"/d", 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range files {
			if err := os.WriteFile(fmt.Sprintf("%s/d/%d", f.Dir(), i), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func() *history.Record {
		t.Helper()
		b := history.Begin(f.Workspace, changes, "", "test")
		if err := b.RemoveAll(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		return b.Commit()
	}
	const some = 50
	for range 20 {
		fill(some)
		if r := remove(); r.Lost != "" || len(r.Changes) != some+1 || r.Omitted != 0 {
			t.Fatalf("of %d files: %d changes, %d omitted, lost: %s", some, len(r.Changes), r.Omitted, r.Lost)
		}
	}
	records := changes.Records()
	if len(records) == 0 || len(records) > 100_000/some/200 {
		t.Errorf("%d records of %d names each are kept", len(records), some)
	}
	for _, many := range []int{1_000, 25_000} {
		fill(many)
		if changes.Holds(many+1, 0) {
			t.Errorf("it claims to hold %d names", many)
		}
		r := remove()
		if r.Lost == "" || len(r.Changes) > 100 || len(r.Changes)+r.Omitted != many+1 || r.Changes[len(r.Changes)-1].Path != "d" {
			t.Errorf("of %d files: %d changes, %d omitted, lost: %q", many, len(r.Changes), r.Omitted, r.Lost)
		}
		if err := history.Undo(t.Context(), f.Workspace, changes, []*history.Record{r}); !errors.Is(err, history.ErrNotKept) {
			t.Errorf("undo of %d files: %v", many, err)
		}
	}
	fill(some)
	before := workspacetest.Tree(t, f.Dir())
	r := remove()
	if err := history.Undo(t.Context(), f.Workspace, changes, []*history.Record{r}); err != nil {
		t.Fatal(err)
	}
	if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), before); err != nil {
		t.Error(err)
	}
}

// TestUndoOfLarge takes back calls that wrote more than an undo has in memory,
// and finds at the last that it must not: everything is as it was.
func TestUndoOfLarge(t *testing.T) {
	f := newFixture(t)
	f.write("first")
	empty := workspacetest.Tree(t, f.Dir())
	changes := newChanges(t, history.Config{})
	b := history.Begin(f.Workspace, changes, "", "test")
	if err := write(b, f.Workspace, "first", "other"); err != nil {
		t.Fatal(err)
	}
	b.Commit()
	for i := range 5 {
		b := history.Begin(f.Workspace, changes, "", "test")
		text := strings.Repeat(string(rune('a'+i)), 9<<20)
		if err := write(b, f.Workspace, fmt.Sprint("d/", i), text); err != nil {
			t.Fatal(err)
		}
		b.Commit()
	}
	if err := os.WriteFile(f.Dir()+"/first", []byte("mine!"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := workspacetest.Tree(t, f.Dir())
	if err := history.Undo(t.Context(), f.Workspace, changes, changes.Records()); !errors.Is(err, workspace.ErrChanged) {
		t.Errorf("%v", err)
	}
	if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), before); err != nil {
		t.Error("it is not as it was")
	}
	if err := os.WriteFile(f.Dir()+"/first", []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := history.Undo(t.Context(), f.Workspace, changes, changes.Records()); err != nil {
		t.Error(err)
	}
	if err := workspacetest.Same(workspacetest.Tree(t, f.Dir()), empty); err != nil {
		t.Error(err)
	}
}
