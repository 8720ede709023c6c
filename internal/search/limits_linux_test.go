// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
)

// TestKernelShare keeps a workspace in memory in a user namespace that has few
// inotify watches and descriptors: at most an eighth of them is taken, and none any
// more when others run out.
func TestKernelShare(t *testing.T) {
	const inside = "TOOLSERVER_TEST_SHARE"
	if os.Getenv(inside) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestKernelShare$", "-test.v")
		child.Env = append(os.Environ(), inside+"=1", "GORACE=atexit_sleep_ms=0")
		child.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := child.CombinedOutput()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
			t.Skip("there are no user namespaces here:", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		} else if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	const limit, files = 800, 300
	for name, value := range map[string]int{"watches": limit, "instances": 32} {
		if err := os.WriteFile("/proc/sys/user/max_inotify_"+name, []byte(strconv.Itoa(value)), 0); err != nil {
			t.Skip(err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	x, others := newTree(t, 18), t.TempDir()
	for i := range files {
		x.write(fmt.Sprint("f", i), "needle\n")
	}
	for i := range limit {
		if err := writeFile(filepath.Join(others, fmt.Sprint(i)), ""); err != nil {
			t.Fatal(err)
		}
	}
	takenUntil := func(full func() error, free func(), part int) {
		t.Helper()
		e := x.warmEngine(index.Config{MaxText: 1, IdleAfter: time.Hour, KernelShare: part})
		part = max(part, 8) // which is the default
		find := func() {
			t.Helper()
			if got := answer(t, e, question{pattern: search.Pattern{Text: "needle"}}); len(got) != files {
				t.Errorf("%d lines, want %d", len(got), files)
			}
		}
		find()
		if n := watches(t); n > limit/part || n < limit/part/2 || !isWarm(t, e) {
			t.Errorf("%d of %d watches are taken, from memory: %t", n, limit, isWarm(t, e))
		}
		if n := len(x.opened()); n > limit/part || n < limit/part/2 {
			t.Errorf("%d of %d descriptors are taken", n, limit)
		}
		if err := full(); err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if text, _, _ := e.Memory(); text == 0 {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal("nothing is given back")
			}
		}
		if n := len(x.opened()); n > 0 {
			t.Errorf("%d files are still open", n)
		}
		free()
		if n := watches(t); n > 0 {
			t.Errorf("%d watches are still there", n)
		}
		if err := e.Warm(t.Context()); err != nil || isWarm(t, e) {
			t.Errorf("they are taken again at once: %v", err)
		}
		find()
	}

	other := -1
	watchAll := func() (err error) {
		if other, err = unix.InotifyInit(); err != nil {
			return err
		}
		for i := range limit {
			if _, err := unix.InotifyAddWatch(other, filepath.Join(others, fmt.Sprint(i)), unix.IN_MODIFY); err != nil {
				if err == unix.ENOSPC {
					return nil
				}
				return err
			}
		}
		return errors.New("there were more watches than there should be")
	}
	takenUntil(watchAll, func() { unix.Close(other) }, 0)
	takenUntil(watchAll, func() { unix.Close(other) }, 20)

	var opened []int
	takenUntil(func() error {
		for {
			fd, err := unix.Dup(2)
			if err != nil {
				return nil
			}
			opened = append(opened, fd)
		}
	}, func() {
		for _, fd := range opened {
			unix.Close(fd)
		}
	}, 0)
}

// watches counts the inotify watches of this process.
func watches(t *testing.T) (n int) {
	t.Helper()
	const table = "/proc/self/fdinfo"
	entries, err := os.ReadDir(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(table, e.Name())) // of the table itself there is none any more
		n += strings.Count(string(text), "inotify wd:")
	}
	return n
}
