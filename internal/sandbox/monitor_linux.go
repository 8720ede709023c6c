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
	processes map[*Process]*usage
	running   bool
}

// usage is what is known of the processes of a command.
type usage struct {
	at        time.Time // when it was measured; zero: never
	lastPID   int       // the youngest process of the machine then
	processes int
	threads   int
	memory    uint64 // bytes, with what processes share counted for each
	shared    bool   // memory was over the limit only because of that
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
	if p.limits.Memory == 0 && p.limits.Processes == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.processes == nil {
		m.processes = make(map[*Process]*usage)
	}
	m.processes[p] = &usage{}
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

// look looks at everything that could be over its limit, and comes back while
// something runs.
func (m *monitor) look() {
	now, last := time.Now(), lastPID()
	m.mu.Lock()
	due := make(map[*Process]*usage)
	for p, u := range m.processes {
		switch {
		case p.guard.Load() == 0:
			p.say(helper.Tell) // most commands end before they are asked
		case u.due(&p.limits, now, last):
			due[p] = u
		}
	}
	m.mu.Unlock()
	for p, u := range due {
		*u = measure(int(p.guard.Load()), &p.limits)
		u.at, u.lastPID = now, last
		switch {
		case p.limits.Memory > 0 && u.memory > p.limits.Memory && !u.shared:
			p.kill(OutOfMemory)
		case p.limits.Processes > 0 && u.tooMany(p.limits.Processes):
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

func (u *usage) tooMany(limit int) bool {
	return u.processes > limit || u.threads > threadsEach*limit
}

// due tells whether a command can be over a limit now.
func (u *usage) due(l *Limits, now time.Time, last int) bool {
	pause := memoryPause
	if free := l.Memory - u.memory; l.Memory > 0 && u.memory < l.Memory {
		pause = min(pause, time.Duration(free/(memoryRate/uint64(time.Second/time.Microsecond)))*time.Microsecond)
	}
	if now.Sub(u.at) >= pause {
		return true
	}
	// Everything that the machine has started since could be of this command.
	started := last - u.lastPID
	return l.Processes > 0 && (started < 0 || u.processes+started > l.Processes)
}

// lastPID returns the id of the youngest process.
func lastPID() int {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) == 0 {
		return 0
	}
	last, _ := strconv.Atoi(string(fields[len(fields)-1]))
	return last
}

// measure looks at the processes below a guard. It stops beyond a limit.
func measure(guard int, l *Limits) usage {
	var u usage
	var pids []int
	for todo := []int{guard}; len(todo) > 0; {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for field := range bytes.FieldsSeq(childrenOf(pid)) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				continue
			}
			todo, pids = append(todo, child), append(pids, child)
			status := statusOf(child)
			u.processes++
			u.threads += int(status.number("Threads:"))
			u.memory += status.kilobytes("RssAnon:") + status.kilobytes("RssShmem:") + status.kilobytes("VmSwap:")
		}
		if l.Processes > 0 && u.tooMany(l.Processes) {
			return u
		}
	}
	if l.Memory > 0 && u.memory > l.Memory {
		u.shared = proportional(pids) <= l.Memory
	}
	return u
}

// proportional returns the memory of processes, where what several of them
// share is counted once. That takes the kernel a while.
func proportional(pids []int) (sum uint64) {
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err != nil {
			status := statusOf(pid)
			sum += status.kilobytes("RssAnon:") + status.kilobytes("RssShmem:") + status.kilobytes("VmSwap:")
			continue
		}
		sum += table(text).kilobytes("Pss_Anon:") + table(text).kilobytes("Pss_Shmem:") + table(text).kilobytes("SwapPss:")
	}
	return sum
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

// table is a file of /proc with a name and a number in each line.
type table []byte

func statusOf(pid int) table {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return text
}

func (t table) number(name string) uint64 {
	_, rest, found := bytes.Cut(t, []byte("\n"+name))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseUint(string(bytes.TrimSuffix(bytes.TrimSpace(line), []byte(" kB"))), 10, 64)
	return n
}

func (t table) kilobytes(name string) uint64 { return t.number(name) << 10 }
