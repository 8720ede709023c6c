// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const (
	nativeArch  = unix.AUDIT_ARCH_X86_64
	foreignFrom = 0x40000000 // the x32 numbers
)

func refusedHere() []uint32 {
	return []uint32{
		unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS_MODIFY_LDT,
		unix.SYS_CREATE_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_LOOKUP_DCOOKIE,
	}
}

func modesHere() []moded { return []moded{{unix.SYS_CHMOD, 1, noFlags}} }

func creatingHere() []moded {
	return []moded{{unix.SYS_OPEN, 2, 1}, {unix.SYS_CREAT, 1, noFlags}, {unix.SYS_MKNOD, 1, noFlags}}
}

func ownersHere() []owner { return []owner{{unix.SYS_CHOWN, 1}, {unix.SYS_LCHOWN, 1}} }

func oldTimes() []uint32 { return []uint32{unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT} }

func watching() []uint32 { return []uint32{unix.SYS_INOTIFY_INIT, unix.SYS_INOTIFY_INIT1} }
