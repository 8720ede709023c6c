// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openNoLinks opens a path that was resolved: no part of it may be a link by now.
func openNoLinks(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// identity tells a file from all others there are.
func identity(info os.FileInfo) [2]uint64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return [2]uint64{}
	}
	return [2]uint64{uint64(stat.Dev), stat.Ino}
}
