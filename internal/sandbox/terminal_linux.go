// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenTerminal opens a terminal for a command of the jail: ours reads what the
// command writes to it and writes what the command reads; theirs is for the
// command, which finds it in its view.
func (j *Jail) OpenTerminal(rows, columns uint16) (ours, theirs *os.File, err error) {
	view, _, err := j.enter()
	if err != nil {
		return nil, nil, err
	}
	dir, path := unix.AT_FDCWD, "/dev/ptmx"
	if view != nil {
		dir, path = int(view.root.Fd()), "dev/pts/ptmx"
		defer runtime.KeepAlive(view)
	}
	fd, err := unix.Openat(dir, path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	// By its number: /dev/pts may be that of another place.
	peer, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		ours.Close()
		return nil, nil, fmt.Errorf("opening the other end of a terminal: %w", errno)
	}
	theirs = os.NewFile(peer, "terminal")
	if err := ResizeTerminal(ours, rows, columns); err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// ResizeTerminal changes the size of a terminal, of which it has our end.
func ResizeTerminal(ours *os.File, rows, columns uint16) error {
	conn, err := ours.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err != nil {
		return err
	}
	return failed
}
