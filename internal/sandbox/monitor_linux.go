// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// monitor kills what uses more memory or processes than it may. The kernel
// counts both for a user, or a container, not for a command.
type monitor struct {
	mu        sync.Mutex
	processes map[*Process]struct{}
	running   bool
	page      uint64
}

// interval is how long a command may be over its limit before it is seen.
const interval = 50 * time.Millisecond

func (m *monitor) add(p *Process) {
	if p.limits.Memory == 0 && p.limits.Processes == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.processes == nil {
		m.processes = make(map[*Process]struct{})
		m.page = uint64(os.Getpagesize())
	}
	m.processes[p] = struct{}{}
	if !m.running {
		m.running = true
		time.AfterFunc(interval, m.look)
	}
}

func (m *monitor) remove(p *Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.processes, p)
}

// look looks at everything that runs, and comes back while something does.
func (m *monitor) look() {
	m.mu.Lock()
	var running []*Process
	for p := range m.processes {
		if p.guard.Load() == 0 {
			p.say(helper.Tell) // most commands end before they are asked
			continue
		}
		running = append(running, p)
	}
	m.mu.Unlock()
	for _, p := range running {
		count, memory := m.measure(p)
		switch {
		case p.limits.Memory > 0 && memory > p.limits.Memory:
			p.kill(OutOfMemory)
		case p.limits.Processes > 0 && count > p.limits.Processes:
			p.kill(TooManyProcesses)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = len(m.processes) > 0
	if m.running {
		time.AfterFunc(interval, m.look)
	}
}

// measure counts the processes of p and the memory they do not share. It stops
// counting beyond the limit.
func (m *monitor) measure(p *Process) (count int, memory uint64) {
	todo := []int{int(p.guard.Load())}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for field := range bytes.FieldsSeq(childrenOf(pid)) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				continue
			}
			todo = append(todo, child)
			count++
			memory += m.private("/proc/" + string(field) + "/statm")
		}
		if p.limits.Processes > 0 && count > p.limits.Processes {
			return count, memory
		}
	}
	return count, memory
}

// childrenOf returns the ids of the processes that any thread of one started.
func childrenOf(pid int) []byte {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []byte
	for _, thread := range threads {
		children, err := os.ReadFile(dir + thread.Name() + "/children")
		if err == nil {
			all = append(append(all, children...), ' ')
		}
	}
	return all
}

// private returns the memory that a process has for itself.
func (m *monitor) private(statm string) uint64 {
	text, err := os.ReadFile(statm)
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	shared, _ := strconv.ParseUint(string(fields[2]), 10, 64)
	return (resident - min(shared, resident)) * m.page
}
