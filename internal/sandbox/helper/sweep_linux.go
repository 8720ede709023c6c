// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// abandon kills the guard of a command, if it is still there, and then what was
// below it.
func (h *helper) abandon(id uint64) {
	h.mu.Lock()
	guard := 0
	for _, g := range h.guards {
		if atomic.LoadUint64(&g.id) == id {
			guard = g.pid
			if g.running() {
				unix.Kill(guard, unix.SIGKILL)
			}
		}
	}
	h.mu.Unlock()
	// Its children come here before it is gone itself.
	for pass := 0; pass < sweeps && guard != 0 && unix.Kill(guard, 0) == nil; pass++ {
		time.Sleep(sweepPause)
	}
	h.sweep()
}

// How often, and how long after another, the helper looks for orphans at most.
const (
	sweeps     = 1000
	sweepPause = 2 * time.Millisecond
)

// sweep kills the children of the helper that are no guards: their guard has
// been killed. It looks again until there are none.
func (h *helper) sweep() {
	for pass := 0; pass < sweeps && h.killOrphans(); pass++ {
		time.Sleep(sweepPause)
	}
}

// killOrphans returns false if there are none.
func (h *helper) killOrphans() (found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const tasks = "/proc/self/task/"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return false
	}
	for _, thread := range threads {
		children, _ := os.ReadFile(tasks + thread.Name() + "/children")
		for field := range bytes.FieldsSeq(children) {
			pid, err := strconv.Atoi(string(field))
			if err != nil || slices.ContainsFunc(h.guards, func(g *guarded) bool { return g.running() && g.pid == pid }) {
				continue
			}
			found = true
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}
