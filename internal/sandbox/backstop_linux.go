// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The monitor sees a command that starts too many processes when it looks. One
// that does nothing else can take the machine before that: every process it has
// wants a share of the time. So the kernel gets a number that all commands
// together stay under: as a limit of their user, which does not hold for root,
// and as a control group, which needs root or its leave.

// maxTogether is how many processes all commands may have: half of what the
// machine can have.
var maxTogether = sync.OnceValue(func() int {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 1 << 14
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 1 << 14
	}
	return n / 2
})

// A helperGroup is a control group that limits how many processes all helpers of a
// sandbox and what they start are.
type helperGroup struct {
	limit int

	mu    sync.Mutex
	tried bool
	group string // empty where none can be made
}

// enclose puts a process, and all it will start, into the group.
func (f *helperGroup) enclose(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.group != "" && set(f.group, "cgroup.procs", pid) == nil || f.tried && f.group == "" {
		return
	}
	f.tried = true
	for _, parent := range pidsGroups() {
		left, _ := filepath.Glob(filepath.Join(parent, "toolserver-*"))
		for _, group := range left {
			os.Remove(group) // of a server that was killed; one in use stays
		}
		group := filepath.Join(parent, fmt.Sprintf("toolserver-%d", pid))
		for range 3 { // another server may take it for one that was left
			if os.Mkdir(group, 0o755) != nil {
				break
			}
			if set(group, "pids.max", f.limit) == nil && set(group, "cgroup.procs", pid) == nil {
				f.group = group
				return
			}
			os.Remove(group)
		}
	}
	f.group = ""
}

// leave removes the group once all that was in it is gone.
func (f *helperGroup) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for try := 0; f.group != "" && os.Remove(f.group) != nil && try < 50; try++ {
		time.Sleep(20 * time.Millisecond)
	}
	f.group = ""
}

// set writes to a file that a control group has. What looks like a group and is
// a plain directory has none.
func set(group, name string, value int) error {
	file, err := os.OpenFile(filepath.Join(group, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.Itoa(value))
	return errors.Join(err, file.Close())
}

// pidsGroups returns the control groups of this process that may have ones below
// that count processes, in both versions.
func pidsGroups() []string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var groups []string
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[1] == "pids":
			groups = append(groups, filepath.Join("/sys/fs/cgroup/pids", fields[2]))
		case fields[1] == "":
			groups = append(groups, filepath.Join("/sys/fs/cgroup", fields[2]))
		}
	}
	return groups
}
