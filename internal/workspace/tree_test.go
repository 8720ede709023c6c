// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/workspace"
)

func TestOpenDir(t *testing.T) {
	f := newFixture(t)
	f.write("dir/sub/b")
	f.write("a")
	f.link("dir", "link")
	f.link(f.outside, "out")
	f.link("../..", "dir/up")
	for path, want := range map[string]error{
		".": nil, "dir": nil, "dir/sub": nil,
		"link": workspace.ErrMoved, "link/sub": workspace.ErrMoved, "out": workspace.ErrMoved, "dir/up": workspace.ErrMoved,
		"a": syscall.ENOTDIR, "a/b": syscall.ENOTDIR, "gone": fs.ErrNotExist, "..": workspace.ErrOutside, "/": workspace.ErrOutside, "dir/../..": workspace.ErrOutside,
	} {
		d, err := f.OpenDir(path)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			d.Close()
		}
	}
	d, err := f.OpenDir("dir")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"up", "..", "../link"} {
		if below, err := d.OpenDir(name); err == nil && name != ".." {
			below.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, _, err := d.Open("up"); err == nil {
		t.Error("a link was opened as a file")
	}
	if _, _, err := d.Open("sub"); !errors.Is(err, workspace.ErrNotRegular) {
		t.Errorf("a directory opened as a file: %v", err)
	}
}

func TestList(t *testing.T) {
	f := newFixture(t)
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("file-%03d-%s", i, strings.Repeat("x", i%100))
		f.write("dir/" + name)
		want = append(want, name)
	}
	if err := syscall.Mkfifo(filepath.Join(f.Dir(), "dir/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.link("x", "dir/link")
	f.write("dir/sub/x")
	d, err := f.OpenDir("dir")
	if err != nil {
		t.Fatal(err)
	}
	d.Hold()
	d.Close()
	defer d.Close()
	var files []string
	kinds := make(map[string]workspace.FileType)
	err = d.List(make([]byte, 1024), func(name []byte, kind workspace.FileType) bool {
		if kind == workspace.Regular {
			files = append(files, string(name))
		} else {
			kinds[string(name)] = kind
		}
		return true
	})
	slices.Sort(files)
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %d files", err, len(files))
	}
	if len(kinds) != 3 || kinds["pipe"] != workspace.Special || kinds["link"] != workspace.Link || kinds["sub"] != workspace.Directory {
		t.Errorf("%v", kinds)
	}
	r, s, err := d.Open(want[5])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := make([]byte, 100)
	n, err := r.Read(text)
	if err != nil || string(text[:n]) != "dir/"+want[5] || s.Size != int64(n) || s.Kind != workspace.Regular || s.Links != 1 {
		t.Errorf("%q, %v, %+v", text[:n], err, s)
	}
	for range 2 { // wherever Read is
		if n, err := r.ReadFirst(text[:4]); err != nil || string(text[:n]) != "dir/" {
			t.Errorf("first is %q, %v", text[:n], err)
		}
	}
	if n, err := r.Read(text); err != nil || n != 0 {
		t.Errorf("%d bytes after the end, %v", n, err)
	}
	if again, err := d.Lstat(want[5]); again != s || err != nil {
		t.Errorf("%+v, %v, want %+v", again, err, s)
	}
}

// TestWatch is told of a change as soon as whoever made it goes on.
func TestWatch(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no watch here")
	}
	f := newFixture(t)
	f.write("dir/a")
	d, err := f.OpenDir("dir")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	number, err := w.Add(d)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(f.Dir(), "dir", name) }
	for _, step := range []struct {
		what  string
		do    func() error
		name  string
		names bool
	}{
		{"write", func() error { return os.WriteFile(at("a"), []byte("x"), 0o644) }, "a", false},
		{"same size", func() error { return os.WriteFile(at("a"), []byte("y"), 0o644) }, "a", false},
		{"truncate", func() error { return os.Truncate(at("a"), 0) }, "a", false},
		{"mode", func() error { return os.Chmod(at("a"), 0o600) }, "a", false},
		{"create", func() error { return os.WriteFile(at("b"), nil, 0o644) }, "b", true},
		{"rename", func() error { return os.Rename(at("b"), at("c")) }, "c", true},
		{"directory", func() error { return os.Mkdir(at("d"), 0o755) }, "d", true},
		{"remove", func() error { return os.Remove(at("a")) }, "a", true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		found := false
		if err := w.Changes(func(c workspace.Notice) {
			found = found || c.Dir == number && c.Name == step.name && (c.Came || c.Went) == step.names && !c.Gone && !c.Missed
		}); err != nil {
			t.Fatal(err)
		}
		if !found {
			t.Errorf("%s: nothing is told of it", step.what)
		}
	}
	if err := w.Changes(func(c workspace.Notice) { t.Errorf("%+v", c) }); err != nil {
		t.Fatal(err)
	}
	gone := false
	d.Close() // as long as it is open it is not gone
	if err := os.RemoveAll(at("")); err != nil {
		t.Fatal(err)
	}
	if err := w.Changes(func(c workspace.Notice) { gone = gone || c.Gone }); err != nil || !gone {
		t.Errorf("the directory is gone: %t, %v", gone, err)
	}
}

// TestUnwritten knows whether somebody could write to a file.
func TestUnwritten(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is not known here")
	}
	f := newFixture(t)
	f.write("a")
	d, err := f.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, _, err := d.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Unwritten() {
		t.Skip("no leases on this file system")
	}
	writer, err := os.OpenFile(filepath.Join(f.Dir(), "a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unwritten() {
		t.Error("somebody has it open for writing")
	}
	again, err := d.OpenBelow("a")
	if err != nil {
		t.Fatal(err)
	}
	if again.CloseUnwritten() {
		t.Error("somebody has it open for writing, and it was closed as if nobody had")
	}
	writer.Close()
	if !r.Unwritten() {
		t.Error("nobody has it open for writing")
	}
	for range 2 { // the first leaves no lease behind
		if again, err = d.OpenBelow("a"); err != nil || !again.CloseUnwritten() {
			t.Errorf("nobody has it open for writing, and it was closed as if somebody had: %v", err)
		}
	}
}

// TestWatchFile is told what happens to a file by a name that is not watched.
func TestWatchFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no watch here")
	}
	f := newFixture(t)
	f.write("dir/a")
	d, err := f.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := d.OpenBelow("dir/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := workspace.NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	number, err := w.AddFile(r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.AddFile(r); again != number || err != nil {
		t.Errorf("%d, %v, want %d", again, err, number)
	}
	inside, outside := filepath.Join(f.Dir(), "dir/a"), filepath.Join(f.outside, "link")
	var writer *os.File
	for _, step := range []struct {
		what            string
		do              func() error
		opened, changed bool
	}{
		{"another name", func() error { return os.Link(inside, outside) }, false, true},
		{"opened to read", func() error {
			reader, err := os.Open(outside)
			return errors.Join(err, reader.Close())
		}, true, false},
		{"opened to write", func() (err error) {
			writer, err = os.OpenFile(outside, os.O_WRONLY, 0)
			return err
		}, true, false},
		{"written", func() error {
			_, err := writer.WriteString("x")
			return err
		}, false, true},
		{"closed", func() error { return writer.Close() }, false, true},
		{"cut", func() error { return os.Truncate(outside, 0) }, false, true},
		{"a name less", func() error { return os.Remove(outside) }, false, true},
		{"renamed", func() error { return os.Rename(inside, outside) }, false, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		opened, changed := false, false
		if err := w.Changes(func(c workspace.Notice) {
			if c.Dir != number || c.Name != "" || c.Missed {
				t.Errorf("%s: %+v", step.what, c)
			}
			opened, changed = opened || c.Opened, changed || !c.Opened
		}); err != nil {
			t.Fatal(err)
		}
		if opened != step.opened || changed != step.changed {
			t.Errorf("%s: opened %t, changed %t", step.what, opened, changed)
		}
	}
}
