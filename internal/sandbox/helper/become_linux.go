// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How a process becomes a command. As in guard_linux.go, there is no Go runtime.

// command becomes the command.
//
//go:norace
//go:nosplit
func command(s *slot) {
	step, errno := become(s)
	report(s, guardControl, Failed, step, uintptr(errno))
	exit()
}

// become restricts the process and executes the program. It returns what failed.
//
//go:norace
//go:nosplit
func become(s *slot) (Step, syscall.Errno) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	if s.wanted&Background != 0 {
		syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0)
	} else {
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
	for i := uintptr(0); i < 3; i++ {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(s.files[fileStdin+i]), i, 0); errno != 0 {
			return StepFiles, errno
		}
	}
	if s.wanted&Terminal != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); errno != 0 {
			return StepTerminal, errno
		}
	}
	if s.view != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_CHROOT, s.view, 0, 0); errno != 0 {
			return StepView, errno
		}
		// By its path: the directory that came with the request is that of the server,
		// and outside of the view.
		if _, _, errno := syscall.RawSyscall(unix.SYS_CHDIR, s.dir, 0, 0); errno != 0 {
			return StepDir, errno
		}
	} else if _, _, errno := syscall.RawSyscall(unix.SYS_FCHDIR, uintptr(s.files[fileDir]), 0, 0); errno != 0 {
		return StepDir, errno
	}
	for i := uintptr(0); i < s.nlimits && i < maxLimits; i++ {
		limit := &s.limits[i]
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, limit.resource, uintptr(unsafe.Pointer(&limit.Rlimit)), 0, 0, 0); errno != 0 {
			return StepLimits, errno
		}
	}
	ruleset := int32(guardScope) // a domain of its own keeps it from the guard, at least
	if s.wanted&Restricted != 0 {
		ruleset = s.files[fileRuleset]
	}
	if (s.flags&Scoped)|(s.wanted&Restricted) != 0 {
		if _, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(ruleset), 0, 0); errno != 0 {
			return StepLandlock, errno
		}
	}
	if s.wanted&DropCapabilities != 0 {
		if errno := dropCapabilities(s); errno != 0 {
			return StepPrivileges, errno
		}
	}
	if s.program[0] != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&s.program))); errno != 0 {
			return StepSeccomp, errno
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, guardRequests, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	s.signals = 0
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.signals)), 0, 8, 0, 0)
	_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, s.path, s.args, s.env)
	return StepExec, errno
}

// dropCapabilities leaves of the capabilities of root only the one to go past
// file modes, which Landlock bounds; others have theirs from a namespace, and keep
// none.
//
//go:norace
//go:nosplit
func dropCapabilities(s *slot) syscall.Errno {
	s.capHeader.Version = unix.LINUX_CAPABILITY_VERSION_3
	header, data := uintptr(unsafe.Pointer(&s.capHeader)), uintptr(unsafe.Pointer(&s.capData))
	if _, _, errno := syscall.RawSyscall(unix.SYS_CAPGET, header, data, 0); errno != 0 {
		return errno
	}
	if user, _, _ := syscall.RawSyscall(unix.SYS_GETEUID, 0, 0, 0); user == 0 {
		s.capData[0].Permitted &= 1 << unix.CAP_DAC_OVERRIDE
	} else {
		s.capData[0].Permitted = 0
	}
	s.capData[0].Effective = s.capData[0].Permitted
	s.capData[0].Inheritable = 0
	s.capData[1] = unix.CapUserData{}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	_, _, errno := syscall.RawSyscall(unix.SYS_CAPSET, header, data, 0)
	return errno
}
