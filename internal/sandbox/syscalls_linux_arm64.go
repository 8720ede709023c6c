// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const (
	nativeArch  = unix.AUDIT_ARCH_AARCH64
	foreignFrom = 0 // 32 bits are another architecture
)

func refusedHere() []uint32 {
	return []uint32{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_LOOKUP_DCOOKIE}
}

func modesHere() []moded { return nil }

func creatingHere() []moded { return nil }

func ownersHere() []owner { return nil }

func oldTimes() []uint32 { return nil }

func watching() []uint32 { return []uint32{unix.SYS_INOTIFY_INIT1} }
