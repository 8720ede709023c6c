// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"
)

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

// usage is what is known of the processes of a command.
type usage struct {
	at        time.Time // when it was measured; zero: never
	lastPID   int       // the youngest process of the machine then
	pids      []int
	processes int
	most      int // processes at a time, so far
	threads   int
	memory    uint64 // bytes, with what processes share counted for each
	shared    bool   // memory was over the limit only because of that

	// CPU time: as parents are told it, and as it was seen. A process whose parent
	// does not want to know is only seen, a short one is only told.
	reported, seen time.Duration
	times          map[int]time.Duration // of those that run, by pid
}

func (u usage) cpu() time.Duration { return max(u.reported, u.seen) }

// measure looks at the processes of a command. It stops beyond a limit.
func (u *usage) measure(p *Process) {
	l, guard := &p.limits, int(p.guard.Load())
	timed := false
	for g := range p.group.all() {
		timed = timed || g.limits.CPU > 0
	}
	*u = usage{reported: u.reported, seen: u.seen, times: u.times, most: u.most}
	defer func() { u.most = max(u.most, u.processes) }()
	var reported time.Duration
	times := make(map[int]time.Duration)
	if timed {
		_, reported = timesOf(guard)
		reported = max(0, reported-p.before)
	}
	for todo := []int{guard}; len(todo) > 0; {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for field := range bytes.FieldsSeq(childrenOf(pid)) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				continue
			}
			todo, u.pids = append(todo, child), append(u.pids, child)
			status := statusOf(child)
			u.processes++
			u.threads += int(status.number("Threads:"))
			u.memory += status.kilobytes("RssAnon:") + status.kilobytes("RssShmem:") + status.kilobytes("VmSwap:")
			if timed {
				own, waitedFor := timesOf(child)
				reported += own + waitedFor
				times[child] = own
				if own >= u.times[child] {
					own -= u.times[child]
				} // else it is another one with that id
				u.seen += own
			}
			if l.Processes > 0 && tooMany(u.processes, u.threads, l.Processes) {
				return // whoever has many more would take long to count
			}
		}
	}
	u.reported, u.times = max(u.reported, reported), times
	if l.Memory > 0 && u.memory > l.Memory {
		u.shared = proportional(u.pids) <= l.Memory
	}
}

// timesOf returns the CPU time that a process has used, and that of children
// which have ended and were waited for.
func timesOf(pid int) (own, waitedFor time.Duration) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	// The name of the program, in parentheses, may have any character.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0, 0
	}
	var times [4]time.Duration
	for i := range times {
		ticks, _ := strconv.ParseInt(string(fields[11+i]), 10, 64)
		times[i] = time.Duration(ticks) * tick
	}
	return times[0] + times[1], times[2] + times[3]
}

// tick is the unit of time in /proc, on all architectures that Go knows.
const tick = 10 * time.Millisecond

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

// Of what a command leaves running, this many command lines are told, and so many
// processes looked at.
const (
	maxCommandLines = 5
	maxLeftover     = 100
)

// leftBelow returns what is below a guard.
func leftBelow(guard int) []Leftover {
	var list []Leftover
	for todo, seen := []int{guard}, 0; len(todo) > 0 && seen < maxLeftover; seen++ {
		pid := todo[0]
		todo = todo[1:]
		for field := range bytes.FieldsSeq(childrenOf(pid)) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				continue
			}
			todo = append(todo, child)
			line, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
			told := string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
			if i := slices.IndexFunc(list, func(l Leftover) bool { return l.Line == told }); i >= 0 {
				list[i].Count++
			} else if told != "" && len(list) < maxCommandLines {
				list = append(list, Leftover{told, 1})
			}
		}
	}
	return list
}
