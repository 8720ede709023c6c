// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/lease"
)

// TestMain is, with an argument, a process that takes a directory and dies.
func TestMain(m *testing.M) {
	if root := os.Getenv("LEASE_ROOT"); root != "" {
		d, err := lease.New(root, "kind")
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(d.Path(), "left"), nil, 0o600); err != nil {
			panic(err)
		}
		if err := os.Chmod(d.Path(), 0o500); err != nil { // as caches do
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestSweep(t *testing.T) {
	root := t.TempDir()
	mine, err := lease.New(root, "kind")
	if err != nil {
		t.Fatal(err)
	}
	other, err := lease.New(root, "other")
	if err != nil {
		t.Fatal(err)
	}
	dying := exec.Command(os.Args[0])
	dying.Env = append(os.Environ(), "LEASE_ROOT="+root)
	if out, err := dying.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := entries(t, root); n != 6 {
		t.Fatalf("%d entries, want two for each", n)
	}
	if err := lease.Sweep(root, "kind"); err != nil {
		t.Fatal(err)
	}
	if n := entries(t, root); n != 4 {
		t.Errorf("%d entries, want those of this process", n)
	}
	for _, d := range []*lease.Dir{mine, other} {
		if info, err := os.Stat(d.Path()); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
	}
	mine.Remove()
	other.Release()
	if n := entries(t, root); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func TestReleaseLeavesWhatIsUsed(t *testing.T) {
	root := t.TempDir()
	d, err := lease.New(root, "kind")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), "used"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Release()
	if n := entries(t, d.Path()); n != 1 {
		t.Error("it was removed")
	}
	if err := lease.Sweep(root, "kind"); err != nil {
		t.Fatal(err)
	}
	if n := entries(t, root); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestRace has some make directories while others sweep.
func TestRace(t *testing.T) {
	root := t.TempDir()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				d, err := lease.New(root, "kind")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(d.Path()); err != nil {
					t.Error(err)
				}
				d.Remove()
			}
		})
		group.Go(func() {
			for range 50 {
				if err := lease.Sweep(root, "kind"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := entries(t, root); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}
