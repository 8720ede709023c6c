// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openExactly opens a path that [Workspace.Resolve] returned. It follows
// no link: where one has appeared since, the path no longer leads to what was
// judged.
func (w *Workspace) openExactly(path string, flags int) (fd int, err error) {
	if !filepath.IsLocal(path) {
		return -1, ErrOutside
	}
	if w.isClosed(path) {
		return -1, ErrServers
	}
	var failed error
	if w.control(func(dir uintptr) { fd, failed = openBelow(int(dir), path, flags) }) != nil {
		return -1, os.ErrClosed
	}
	if failed != nil {
		return -1, w.moved(path, failed)
	}
	return fd, nil
}

// descend goes from directory to directory to path below dir, which stays open. However deep the path is, it
// needs two descriptors.
func descend(dir int, path string, flags int) (int, error) {
	at := dir
	for {
		part, rest, deeper := strings.Cut(path, "/")
		how := flags
		if deeper {
			how = searchOnly | unix.O_DIRECTORY
		}
		next, err := openat(at, part, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != dir {
			unix.Close(at)
		}
		if err != nil || !deeper {
			return next, err
		}
		at, path = next, rest
	}
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

func openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags, mode)
		return err
	})
	return fd, err
}
