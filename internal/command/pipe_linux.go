// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// outputPipe returns a pipe for a command to write to. Unlike with os.Pipe, its
// end never waits in Go and need not be made to.
func outputPipe() (read, write *os.File, err error) {
	var pair [2]int
	if err := unix.Pipe2(pair[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if _, err := unix.FcntlInt(uintptr(pair[1]), unix.F_SETFL, 0); err != nil { // of a command, writing waits
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "output"), os.NewFile(uintptr(pair[1]), "output"), nil
}

// widen gives a pipe more room. It reports false for what is no pipe, or where
// the system has no room.
func widen(pipe *os.File) bool {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = conn.Control(func(fd uintptr) { _, failed = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
	return err == nil && failed == nil
}
