// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/workspace"
	"github.com/toolserver/toolserver/internal/workspace/workspacetest"
)

// smallDisk mounts a file system of a size and a number of files.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	for _, test := range []struct{ name, options string }{
		{"bytes", "size=16m"},
		{"files", "size=16m,nr_inodes=8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := smallDisk(t, test.options)
			ws := open(t, dir)
			if err := put(ws, "file", "old"); err != nil {
				t.Fatal(err)
			}
			for i := 0; ; i++ { // until nothing fits any more
				err := os.WriteFile(filepath.Join(dir, fmt.Sprint("filler", i)), make([]byte, 1<<20), 0o644)
				if err != nil {
					break
				}
			}
			err := put(ws, "file", strings.Repeat("new", 1<<20))
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%v, want that the disk is full", err)
			}
			all := workspacetest.Tree(t, dir)
			if all["file"] != "-rw-r--r-- old" {
				t.Errorf("the file is %.60q", all["file"])
			}
			for path := range all {
				if workspace.IsTemporary(path) {
					t.Errorf("%s was left behind", path)
				}
			}
			if err := os.Remove(filepath.Join(dir, "filler0")); err != nil {
				t.Fatal(err)
			}
			if err := put(ws, "file", "new"); err != nil {
				t.Errorf("with room again: %v", err)
			}
		})
	}
}

// TestLease opens a file that somebody has a lease on. It is refused, and not
// waited for: who has it may keep it for long.
func TestLease(t *testing.T) {
	f := newFixture(t)
	f.write("dir/a")
	file, err := os.OpenFile(f.Dir()+"/dir/a", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip(err)
	}
	if _, err := f.OpenFile("dir/a"); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("with a lease: %v", err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	opened, err := f.OpenFile("dir/a")
	if err != nil {
		t.Fatal(err)
	}
	opened.Close()
}
