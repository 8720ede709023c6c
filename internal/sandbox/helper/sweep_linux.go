// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// abandon kills the guard of a command, if it is still there, and then what was
// below it.
func (h *helper) abandon(id uint64) {
	h.mu.Lock()
	for _, g := range h.guards {
		if g.running() && g.id == id {
			unix.Kill(g.pid, unix.SIGKILL)
		}
	}
	h.mu.Unlock()
	h.sweep()
}

// sweep kills the children of the helper that are no guards: their guard has
// been killed. It looks again until there are none, for two seconds.
func (h *helper) sweep() {
	for pass := 0; pass < 1000 && h.killOrphans(); pass++ {
		time.Sleep(2 * time.Millisecond)
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
