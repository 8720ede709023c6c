// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How long after a socket was closed everywhere its port is free for others, and
// how long duplicates are kept of sockets that nobody has. The session itself does
// not wait: when it needs a port, it is looked at once.
const (
	tendPause = 250 * time.Millisecond
	firstScan = time.Second
	lastScan  = 16 * time.Second
)

// tend looks after the sockets for as long as there are any. The sockets are
// locked.
func (s *sockets) tend() {
	if s.tended {
		return
	}
	s.tended = true
	time.AfterFunc(tendPause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tended = false
		s.bury()
		for _, c := range s.open {
			if c.connecting && stateOf(c.fd) != unix.BPF_TCP_SYN_SENT {
				s.arrived(c)
				if stateOf(c.fd) != unix.BPF_TCP_CLOSE {
					s.close(c)
				}
			}
		}
		if len(s.open) > 0 && time.Since(s.scanned) > s.pause {
			s.closeOrphans()
			s.pause = min(2*s.pause, lastScan)
		}
		if len(s.open)+len(s.listening) > 0 {
			s.tend()
		}
	})
}

// bury forgets sockets that nobody listens on any more. The sockets are locked.
func (s *sockets) bury() (found bool) {
	if len(s.listening) == 0 {
		return false
	}
	held := s.held()
	for inode, l := range s.listening {
		if held == nil || held[inode] || l.connecting > 0 {
			continue
		}
		found = true
		delete(s.listening, inode)
		if l.hold >= 0 {
			delete(s.ports, l.at)
		} else if s.files[l.file] == l {
			delete(s.files, l.file)
		}
		l.free()
	}
	return found
}

// held returns the inodes of sockets that listen and that somebody has; nil if
// that cannot be told.
func (s *sockets) held() map[uint64]bool {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(s.watch))
	if err != nil {
		return nil
	}
	held := make(map[uint64]bool)
	for line := range bytes.Lines(text) {
		_, data, ok := bytes.Cut(line, []byte("data:"))
		if fields := bytes.Fields(data); ok && len(fields) > 0 {
			if inode, err := strconv.ParseUint(string(fields[0]), 16, 64); err == nil {
				held[inode] = true
			}
		}
	}
	return held
}

// closeUnused lets go of ports that nobody uses. It returns false if there were
// none.
func (s *sockets) closeUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	buried := s.bury()
	return s.closeOrphans() || buried
}

// closeOrphans closes the duplicates of sockets that no process of the session
// has. One that goes from process to process may be overlooked once. The sockets
// are locked.
func (s *sockets) closeOrphans() (found bool) {
	s.scanned = time.Now()
	var orphans []*socket
	first, ok := inUse()
	if !ok {
		return false
	}
	for inode, c := range s.open {
		if !first[inode] && c.busy == 0 {
			orphans = append(orphans, c)
		}
	}
	if len(orphans) == 0 {
		return false
	}
	second, ok := inUse()
	for _, c := range orphans {
		if ok && !second[c.inode] {
			s.close(c)
			found = true
		}
	}
	return found
}

// closeOldest makes room for another. The sockets are locked.
func (s *sockets) closeOldest() {
	var oldest *socket
	for _, c := range s.open {
		if c.busy == 0 && (oldest == nil || c.made.Before(oldest.made)) {
			oldest = c
		}
	}
	if oldest != nil {
		s.close(oldest)
	}
}

// inUse returns the inodes of sockets that processes below the helper have. It
// returns false if it cannot see them all.
func inUse() (inodes map[uint64]bool, ok bool) {
	inodes = make(map[uint64]bool)
	waiting, ok := childrenOf("self")
	for len(waiting) > 0 && ok {
		process := waiting[0]
		waiting = waiting[1:]
		var more []string
		if more, ok = childrenOf(process); !ok {
			return nil, false
		}
		waiting = append(waiting, more...)
		dir := "/proc/" + process + "/fd/"
		files, err := os.ReadDir(dir)
		if err != nil && !isGone(err) {
			return nil, false
		}
		for _, file := range files {
			link, _ := os.Readlink(dir + file.Name())
			if number, is := strings.CutPrefix(link, "socket:["); is {
				if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
					inodes[inode] = true
				}
			}
		}
	}
	return inodes, ok
}

// childrenOf returns the children of a process; none if it is gone.
func childrenOf(process string) (children []string, ok bool) {
	tasks := "/proc/" + process + "/task/"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil, isGone(err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(tasks + thread.Name() + "/children")
		if err != nil && !isGone(err) {
			return nil, false
		}
		children = append(children, strings.Fields(string(text))...)
	}
	return children, true
}

// isGone reports whether an error says that a process has ended.
func isGone(err error) bool { return os.IsNotExist(err) || errors.Is(err, unix.ESRCH) }
