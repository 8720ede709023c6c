// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A kernelLimits is what the kernel lets this process and its user have.
type kernelLimits struct {
	watches   int // of inotify, for all processes of the user
	instances int // of inotify, for all processes of the user
	files     int // open at once, in this process
}

func limitsOfKernel() kernelLimits {
	l := kernelLimits{
		// A container may have limits of its own, in its user namespace.
		watches:   min(setting("fs/inotify/max_user_watches", 8192), setting("user/max_inotify_watches", 1<<30)),
		instances: min(setting("fs/inotify/max_user_instances", 128), setting("user/max_inotify_instances", 1<<30)),
		files:     1024,
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		l.files = int(min(files.Cur, 1<<30))
	}
	return l
}

// setting returns a number of /proc/sys, or what it usually is.
func setting(name string, usual int) int {
	text, err := os.ReadFile("/proc/sys/" + name)
	if n, wrong := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && wrong == nil {
		return n
	}
	return usual
}

// probed are files of procfs, which everybody has: to watch them takes watches and
// touches nothing else.
var probed = []string{
	"auxv", "cgroup", "cmdline", "comm", "environ", "exe", "fd", "fdinfo", "io", "limits", "maps", "mountinfo", "mounts", "net", "ns", "oom_score",
	"root", "schedstat", "smaps", "stat", "statm", "status", "task", "wchan",
}

// runsShort reports whether somebody else can have no more inotify watches or
// instances, or this process hardly any more files. The kernel tells nobody how
// many are in use, so a few are taken and given back at once.
func (l kernelLimits) runsShort() bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	if fd >= l.files-l.files/8 { // it is the lowest that is free
		return true
	}
	for _, name := range probed {
		_, err := unix.InotifyAddWatch(fd, "/proc/self/"+name, unix.IN_DELETE_SELF)
		if err == unix.ENOSPC || err == unix.ENOMEM {
			return true
		}
	}
	return false
}
