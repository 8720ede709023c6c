// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// guardOf returns the guard that runs a command now.
func (p *place) guardOf(t testing.TB) int {
	t.Helper()
	out, _ := p.run(t, "echo $PPID", sandbox.Limits{})
	guard, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestGuardAgain has one guard run one command after another: what the first did
// is not counted for the second. In the end it goes.
func TestGuardAgain(t *testing.T) {
	t.Parallel()
	for kernel, config := range kernels {
		t.Run(kernel, func(t *testing.T) {
			t.Parallel() // the guard goes after seconds
			p := newPlace(t, config, nil)
			guard := p.guardOf(t)
			_, first := p.run(t, `perl -e '$x = "x" x (64 << 20); 1 while (times)[0] < 0.7'`, sandbox.Limits{})
			if first.User < 500*time.Millisecond || first.MaxRSS < 64<<20 {
				t.Errorf("%+v", first)
			}
			group := sandbox.NewGroup(sandbox.GroupLimits{CPU: 500 * time.Millisecond}, nil)
			process, r, err := p.startIn(group, `echo $PPID; sleep 0.5; exit 4`, sandbox.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			waitFor(t, r, strconv.Itoa(guard)+"\n")
			second, err := process.Wait()
			if err != nil || second.Code != 4 || second.User+second.System > 200*time.Millisecond || second.MaxRSS > 32<<20 {
				t.Errorf("%+v, %v", second, err)
			}
			for syscall.Kill(guard, 0) == nil {
				time.Sleep(time.Millisecond)
			}
			if out, _ := p.run(t, "echo on", sandbox.Limits{}); out != "on\n" {
				t.Errorf("%q", out)
			}
		})
	}
}

// TestIdleGuardKilled takes away a guard that has nothing to do, before it is
// known: the next command is run all the same.
func TestIdleGuardKilled(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	for range 2 {
		guard := p.guardOf(t)
		if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for syscall.Kill(guard, 0) == nil {
			time.Sleep(time.Millisecond)
		}
		if out, _ := p.run(t, "echo on", sandbox.Limits{}); out != "on\n" {
			t.Errorf("%q", out)
		}
	}
}

// TestNoHelper has no helper, one that ends at once, and one that is lost together
// with the guard that had nothing to do.
func TestNoHelper(t *testing.T) {
	for _, path := range []string{"/nowhere", "/bin/false", "/bin/true"} {
		p := newPlace(t, sandbox.Config{Helper: path}, nil)
		if _, _, err := p.tryStart("true", sandbox.Limits{}); !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("%s: %v", path, err)
		}
	}
	path := filepath.Join(t.TempDir(), "toolserver-exec")
	program, err := os.ReadFile(helperPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	before := helpers(t)
	p := newPlace(t, sandbox.Config{Helper: path}, nil)
	guard := p.guardOf(t)
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for syscall.Kill(guard, 0) == nil {
		time.Sleep(time.Millisecond)
	}
	process, r := p.start(t, "true", sandbox.Limits{})
	defer r.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, pid := range helpers(t) {
		if !slices.Contains(before, pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Lost {
		t.Errorf("%+v, %v", end, err)
	}
}

// TestSizes runs commands with more and more to tell, around what one packet and
// what the kernel holds.
func TestSizes(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	dir, err := os.Open(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	sizes := []int{0, 100_000, 1_000_000, 1_900_000}
	for size := 23_000; size < 25_000; size += 61 {
		sizes = append(sizes, size)
	}
	const largest = 100_000 // of one argument
	for _, size := range sizes {
		args := []string{"bash", "-c", `n=0; for a; do n=$((n + ${#a})); done; [ $n = ` + strconv.Itoa(size) + ` ] && exit 9`, "bash"}
		for left := size; left > 0; left -= largest {
			args = append(args, strings.Repeat("x", min(left, largest)))
		}
		process, err := p.Start(sandbox.Command{Path: "/bin/bash", Args: args, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if end, err := process.Wait(); err != nil || end.Code != 9 {
			t.Errorf("%d bytes: %+v, %v", size, end, err)
		}
	}
	for range 3 { // and the guard goes on
		process, err := p.Start(sandbox.Command{Path: "/bin/bash", Args: []string{"bash", strings.Repeat("x", 2_500_000)}, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var failed *sandbox.StartError
		if end, err := process.Wait(); !errors.As(err, &failed) || failed.Errno != syscall.E2BIG {
			t.Errorf("too long: %+v, %v", end, err)
		}
	}
}

// TestOrphansAreReaped has a command that starts one process after another whose
// parent does not wait: those that have ended are not kept until it ends.
func TestOrphansAreReaped(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	process, r := p.start(t, `echo $PPID; for i in {1..200}; do (true &); done; echo done; sleep 300`, sandbox.Limits{})
	defer r.Close()
	lines := bufio.NewReader(r)
	guard, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	children := "/proc/" + strings.TrimSpace(guard) + "/task/" + strings.TrimSpace(guard) + "/children"
	for {
		text, err := os.ReadFile(children)
		if err != nil {
			t.Fatal(err)
		}
		if len(strings.Fields(string(text))) == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	process.Kill()
	if end, err := process.Wait(); err != nil || end.Reason != sandbox.Killed {
		t.Errorf("%+v, %v", end, err)
	}
}
