// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openExactly opens a path that [Workspace.Resolve] returned. It goes from
// directory to directory and follows no link: where one has appeared since, the
// path no longer leads to what was judged.
func (w *Workspace) openExactly(path string, flags int, mode uint32) (*os.File, error) {
	top, err := w.top.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = top.Control(func(dir uintptr) { fd, failed = descend(int(dir), path, flags, mode) })
	if err != nil {
		return nil, os.ErrClosed
	}
	if failed != nil {
		return nil, w.moved(path, failed)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// descend opens path below dir, which stays open.
func descend(dir int, path string, flags int, mode uint32) (int, error) {
	part, rest, deeper := strings.Cut(path, "/")
	if !deeper {
		return openat(dir, part, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	}
	next, err := openat(dir, part, searchOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(next)
	return descend(next, rest, flags, mode)
}

// moved tells a link that has appeared from a file that is in the way.
func (w *Workspace) moved(path string, err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		if now, _ := w.Resolve(path); now != path {
			return ErrMoved
		}
	}
	return err
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
