// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import "golang.org/x/sys/unix"

// int80 makes a system call as a 32-bit program does.
func int80(number uintptr) int

// foreign makes a system call by the numbers of another architecture, which a
// filter for this one does not know.
func foreign(kind string) error {
	const x32, getpid32 = 0x40000000, 20
	if kind == ProbeI386 {
		if int80(getpid32) > 0 {
			return nil
		}
		return unix.ENOSYS
	}
	_, _, errno := unix.RawSyscall(x32|unix.SYS_GETPID, 0, 0, 0)
	return errnoOrNil(errno)
}
