// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/workspace"
)

// apart runs a test in a process that has its mounts for itself, and reports
// whether this is that process.
func apart(t *testing.T) bool {
	t.Helper()
	const apart = "TOOLSERVER_TEST_MOUNT"
	if os.Getenv(apart) != "" {
		return true
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), apart+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := command.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("no process can have its mounts for itself here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Skipf("nothing was mounted:\n%s", out)
	}
	return false
}

// TestOverlay searches an overlay, in which nobody knows of mappings.
func TestOverlay(t *testing.T) {
	if !apart(t) {
		return
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // with what is mounted in it
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("overlay", at("merged"), "overlay", 0, "userxattr,lowerdir="+at("lower")+",upperdir="+at("upper")+",workdir="+at("work")); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(at("merged/f"), []byte("needle 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(at("merged"))
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	x := &tree{t: t, root: at("merged"), ws: ws}
	e := x.warmEngine(index.Config{})
	if err := x.mapFile(at("merged/f")); err != nil {
		t.Fatal(err)
	}
	for i := byte('1'); i < '9'; i++ {
		x.maps[0][7] = i
		if got := answer(t, e, question{pattern: search.Pattern{Text: "needle"}}); !slices.Equal(got, []string{"f\x001:needle " + string(i)}) {
			t.Errorf("%q, after %c was written", got, i)
		}
	}
}

// TestMount searches a directory from memory before something is mounted on it,
// directly after, and after that is gone. It does so in a process that has its
// mounts for itself.
func TestMount(t *testing.T) {
	if !apart(t) {
		return
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	x := newTree(t, 10)
	place := filepath.Join(x.root, "a place")
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Fatal(err)
	}
	x.write("a place/f", "needle below\n")
	e := x.warmEngine(index.Config{MaxText: 1})
	ask := func(want string) {
		t.Helper()
		if got := answer(t, e, question{pattern: search.Pattern{Text: "needle"}}); !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	warm := func() {
		t.Helper()
		for range 100 { // news of the last change may still come
			if err := e.Warm(t.Context()); err != nil {
				t.Fatal(err)
			}
			if isWarm(t, e) {
				return
			}
		}
		t.Error("it is not kept in memory")
	}
	for range 2 {
		warm()
		ask("a place/f\x001:needle below")
		if err := syscall.Mount("none", place, "tmpfs", 0, ""); err != nil {
			t.Skip(err)
		}
		if err := os.WriteFile(filepath.Join(place, "g"), []byte("needle above\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		ask("a place/g\x001:needle above")
		warm()
		ask("a place/g\x001:needle above")
		for again := 0; len(x.opened()) > 0; again++ { // it may be looked at just now
			if again == 1000 {
				t.Fatalf("%q keep what is mounted from being unmounted", x.opened())
			}
			time.Sleep(time.Millisecond)
		}
		if err := syscall.Unmount(place, syscall.MNT_DETACH); err != nil { // it may be read just now
			t.Fatal(err)
		}
		ask("a place/f\x001:needle below")
	}
}
