// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const mountTable = "/proc/self/mountinfo"

// Mounts tells whether something was mounted below a workspace or unmounted
// there, of which a [Watch] tells nothing. Its methods are not safe for concurrent
// use.
type Mounts struct {
	table int // not an os.File: Go's poller would take the news away
	dir   string
	known string
}

// NewMounts returns what knows the mounts there are. Close it after use.
func (w *Workspace) NewMounts() (*Mounts, error) {
	fd, err := unix.Open(mountTable, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	m := &Mounts{table: fd, dir: w.dir}
	if _, err = m.touched(); err == nil { // from now on
		m.known, err = m.below()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends it.
func (m *Mounts) Close() { unix.Close(m.table) }

// Changed reports whether there are other mounts than when it was last called.
// Where that cannot be told, it says that there are.
func (m *Mounts) Changed() bool {
	touched, err := m.touched()
	if err == nil && !touched {
		return false
	}
	now, failed := m.below()
	changed := err != nil || failed != nil || now != m.known
	m.known = now
	return changed
}

// Any reports whether there were mounts in the workspace when it was last asked
// for changes.
func (m *Mounts) Any() bool { return m.known != "" }

// touched asks the kernel whether the table of mounts is another than when it
// was last asked. It takes one call.
func (m *Mounts) touched() (bool, error) {
	poll := []unix.PollFd{{Fd: int32(m.table), Events: unix.POLLPRI}}
	err := retry(func() error {
		_, err := unix.Poll(poll, 0)
		return err
	})
	return poll[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0, err
}

// below returns the numbers and places of the mounts that are in the workspace.
func (m *Mounts) below() (string, error) {
	table, err := os.ReadFile(mountTable)
	if err != nil {
		return "", err
	}
	var list strings.Builder
	for line := range bytes.Lines(table) {
		// Such as "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw".
		fields := strings.SplitN(string(line), " ", 6)
		if len(fields) < 6 {
			continue
		}
		place := fields[4]
		if text, err := strconv.Unquote(`"` + strings.ReplaceAll(place, `"`, `\"`) + `"`); err == nil {
			place = text // a space is \040
		}
		if strings.HasPrefix(place, strings.TrimSuffix(m.dir, "/")+"/") {
			list.WriteString(fields[0] + " " + place + "\n")
		}
	}
	return list.String(), nil
}
