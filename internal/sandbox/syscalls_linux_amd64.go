// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const (
	nativeArch  = unix.AUDIT_ARCH_X86_64
	foreignFrom = 0x40000000 // the x32 numbers
)

var refusedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS_MODIFY_LDT,
	unix.SYS_CREATE_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_LOOKUP_DCOOKIE,
}
