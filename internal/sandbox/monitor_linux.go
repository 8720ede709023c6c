// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// monitor kills what uses more memory, processes or CPU time than it may. The
// kernel counts them for a user, or a container, or a process: not for a command
// or a group.
type monitor struct {
	mu        sync.Mutex
	processes map[*Process]usage
	running   bool
}

const (
	// interval is how long a command may be over its limit before it is seen.
	interval = 50 * time.Millisecond
	// What uses less memory than it may is looked at as soon as it could use
	// more, which is at this many bytes a second, and at least this often.
	memoryRate  = 4 << 30
	memoryPause = time.Second
	// threadsEach is how many threads a process may have on average.
	threadsEach = 16
)

func (m *monitor) add(p *Process) {
	limited := p.limits.Memory > 0 || p.limits.Processes > 0
	for g := range p.group.all() {
		limited = limited || g.limits != GroupLimits{}
	}
	if !limited {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.processes == nil {
		m.processes = make(map[*Process]usage)
	}
	m.processes[p] = usage{}
	if !m.running {
		m.running = true
		time.AfterFunc(interval, m.sample)
	}
}

// remove forgets a command that has ended, and counts the CPU time it has used. It
// returns the most processes that it was seen to have at a time.
func (m *monitor) remove(p *Process, cpu time.Duration) (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cpu, most = max(cpu, m.processes[p].cpu()), m.processes[p].most
	delete(m.processes, p)
	for g := range p.group.all() {
		g.ended += cpu
		if g.limits.CPU > 0 && g.ended >= g.limits.CPU {
			g.spent.Store(true)
		}
	}
	return most
}

// sample looks at everything that could be over its limit, and comes back while
// something runs.
func (m *monitor) sample() {
	now, last := time.Now(), lastPID()
	m.mu.Lock()
	known := maps.Clone(m.processes)
	sums := sumsOf(known)
	m.mu.Unlock()
	measured := make(map[*Process]usage)
	for p, u := range known {
		switch {
		case p.guard.Load() == 0:
			p.say(helper.Tell) // most commands end before they are asked
		case u.due(p, sums, now, last):
			u.measure(p)
			u.at, u.lastPID = now, last
			if !p.spoken() { // else the guard may have another command by now
				measured[p] = u
			}
		}
	}
	m.mu.Lock()
	for p, u := range measured {
		if _, runs := m.processes[p]; runs {
			m.processes[p] = u
		}
	}
	known = maps.Clone(m.processes)
	sums = sumsOf(known)
	m.mu.Unlock()
	// What was measured is noted by now: what is killed may be gone at once.
	for p, u := range measured {
		switch {
		case p.limits.Memory > 0 && u.memory > p.limits.Memory && !u.shared:
			p.kill(OutOfMemory, nil)
		case p.limits.Processes > 0 && tooMany(u.processes, u.threads, p.limits.Processes):
			p.kill(TooManyProcesses, nil)
		}
	}
	if len(measured) > 0 {
		for g, sum := range sums {
			g.enforce(sum, known)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = len(m.processes) > 0
	if m.running {
		time.AfterFunc(interval, m.sample)
	}
}

// sum is what the commands of a group use together.
type sum struct {
	memory             uint64
	processes, threads int
	lastPID            int           // the least of them
	cpu                time.Duration // with that of commands that have ended
}

// sumsOf adds up what commands use, for each group. What is being killed uses
// CPU time only. The monitor is locked, so that none ends meanwhile.
func sumsOf(all map[*Process]usage) map[*Group]sum {
	sums := make(map[*Group]sum)
	for p, u := range all {
		for g := range p.group.all() {
			s, known := sums[g]
			if !known {
				s = sum{cpu: g.ended, lastPID: u.lastPID}
			}
			s.cpu += u.cpu()
			if p.cause.Load() == nil {
				s.memory += u.memory
				s.processes += u.processes
				s.threads += u.threads
				s.lastPID = min(s.lastPID, u.lastPID)
			}
			sums[g] = s
		}
	}
	return sums
}

// due tells whether a command, or a group that it is in, can be over a limit now.
func (u *usage) due(p *Process, sums map[*Group]sum, now time.Time, last int) bool {
	since := now.Sub(u.at)
	if since >= memoryWait(u.memory, p.limits.Memory) || couldBeMore(u.processes, last-u.lastPID, p.limits.Processes) {
		return true
	}
	for g := range p.group.all() {
		s := sums[g]
		if since >= memoryWait(s.memory, g.limits.Memory) || couldBeMore(s.processes, last-s.lastPID, g.limits.Processes) {
			return true
		}
		if g.limits.CPU > 0 && since >= (g.limits.CPU-s.cpu)/time.Duration(runtime.NumCPU()) {
			return true
		}
	}
	return false
}

// memoryWait returns how long it takes at least to use more than the limit.
func memoryWait(used, limit uint64) time.Duration {
	if limit == 0 || used >= limit {
		return memoryPause
	}
	return min(memoryPause, time.Duration((limit-used)/(memoryRate/uint64(time.Second/time.Microsecond)))*time.Microsecond)
}

// couldBeMore tells whether there can be more processes than the limit, for
// everything that the machine has started since could be one of them.
func couldBeMore(processes, started, limit int) bool {
	return limit > 0 && (started < 0 || processes+started > limit)
}

func tooMany(processes, threads, limit int) bool {
	return processes > limit || threads > threadsEach*limit
}

// enforce ends commands of a group that uses more than it may.
func (g *Group) enforce(s sum, all map[*Process]usage) {
	if g.limits.CPU > 0 && s.cpu >= g.limits.CPU {
		g.spent.Store(true)
	}
	if g.limits.Memory > 0 && s.memory > g.limits.Memory {
		g.trim(OutOfMemory, all, g.limits.Memory, func(u usage) uint64 { return proportional(u.pids) })
	}
	if limit := g.limits.Processes; limit > 0 && tooMany(s.processes, s.threads, limit) {
		g.trim(TooManyProcesses, all, uint64(limit), func(u usage) uint64 {
			return uint64(max(u.processes, u.threads/threadsEach))
		})
	}
	if !g.Spent() {
		return
	}
	for p := range all {
		if p.in(g) {
			p.kill(OutOfTime, g)
		}
	}
}

// trim ends the commands of a group that have the most, until what is left has no
// more than the limit.
func (g *Group) trim(reason Reason, all map[*Process]usage, limit uint64, has func(usage) uint64) {
	amounts := make(map[*Process]uint64)
	var total uint64
	for p, u := range all {
		if p.in(g) && p.cause.Load() == nil {
			amounts[p] = has(u)
			total += amounts[p]
		}
	}
	for total > limit && len(amounts) > 0 {
		var most *Process
		for p, amount := range amounts {
			if most == nil || amount > amounts[most] {
				most = p
			}
		}
		most.kill(reason, g)
		total -= amounts[most]
		delete(amounts, most)
	}
}

func (p *Process) in(group *Group) bool {
	for g := range p.group.all() {
		if g == group {
			return true
		}
	}
	return false
}
