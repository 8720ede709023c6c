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

	"github.com/toolserver/toolserver/internal/search"
)

// TestMount searches a directory from memory before something is mounted on it,
// directly after, and after that is gone. It does so in a process that has its
// mounts for itself.
func TestMount(t *testing.T) {
	const apart = "TOOLSERVER_TEST_MOUNT"
	if os.Getenv(apart) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestMount$", "-test.v")
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
		if !bytes.Contains(out, []byte("--- PASS: TestMount")) {
			t.Skipf("nothing was mounted:\n%s", out)
		}
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
	e := x.warmEngine(search.Config{})
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
		if err := syscall.Unmount(place, syscall.MNT_DETACH); err != nil { // it may be read just now
			t.Fatal(err)
		}
		ask("a place/f\x001:needle below")
	}
}
