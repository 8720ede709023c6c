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

// enclose puts a process and all it starts into a control group that limits how
// many they are. It returns the group; empty where none can be made.
func enclose(pid, limit int) (group string) {
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
			if set(group, "pids.max", limit) == nil && set(group, "cgroup.procs", pid) == nil {
				return group
			}
			os.Remove(group)
		}
	}
	return ""
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

// leaveGroup removes a control group once all that was in it is gone.
func leaveGroup(group string) {
	for try := 0; group != "" && os.Remove(group) != nil && try < 50; try++ {
		time.Sleep(20 * time.Millisecond)
	}
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
