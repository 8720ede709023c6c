// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

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
