// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What follows runs in processes that have the memory of a Go program and none
// of its threads: there is no scheduler, no collector and no stack to grow. So
// all of it is nosplit, stores no pointers, calls nothing but system calls, and
// never returns. What it writes is its own slot and nothing else.

// A slot is the memory of one guard and its command, beside the request.
type slot struct {
	alive   uint32 // not 0 while there is a guard; the kernel clears it
	flags   Flags
	path    uintptr
	args    uintptr
	env     uintptr
	stack   uintptr // the end of that of the command
	nlimits uintptr
	limits  [maxLimits]rlimit
	files   [maxFiles]int32
	scope   int32   // a ruleset that confines signals alone
	helper  uintptr // the process id that the guard must not reach

	// From here on it is the guard's.
	outgoing  rawReport
	incoming  [64]byte
	polled    [2]unix.PollFd
	pidfd     int32
	status    uint32
	finished  bool
	rusage    syscall.Rusage
	handler   [4]uint64 // a struct sigaction of the kernel: the default
	signals   uint64
	nap       unix.Timespec
	capHeader unix.CapUserHeader
	capData   [2]unix.CapUserData
	children  [4096]byte
}

type rlimit struct {
	resource uintptr
	unix.Rlimit
}

// rawReport is a [Report] as [DecodeReport] reads it.
type rawReport struct {
	kind, status, guard, command, step, errno, reaped, left uint32
	user, system, maxRSS, _                                 uint64
}

var childrenPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 't', 'h', 'r', 'e', 'a', 'd', '-', 's', 'e', 'l', 'f', '/', 'c', 'h', 'i', 'l', 'd', 'r', 'e', 'n', 0}

const (
	landlockCreateRuleset = unix.SYS_LANDLOCK_CREATE_RULESET
	landlockRestrictSelf  = unix.SYS_LANDLOCK_RESTRICT_SELF

	// signalScope is LANDLOCK_SCOPE_SIGNAL.
	signalScope = 1 << 1

	// passes is how often a guard tries to kill what is left before it says so:
	// for five seconds.
	passes = 2500

	maxLimits = 16

	guardFlags   = unix.CLONE_VM | unix.CLONE_CHILD_CLEARTID | uintptr(syscall.SIGCHLD)
	commandFlags = unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | uintptr(syscall.SIGCHLD)
)

// forkGuard makes the guard of a slot. No signal is handled between that and
// the guard's first steps: the handlers are Go's.
//
//go:norace
//go:nosplit
func forkGuard(s *slot, stack uintptr) (pid int) {
	all, old := ^uint64(0), uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid = cloneGuard(guardFlags, stack, uintptr(unsafe.Pointer(&s.alive)), s)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return pid
}

// guard starts the command, waits for its end or for a word of the server, and
// leaves nothing of it behind. All signals stay blocked.
//
//go:norace
//go:nosplit
func guard(s *slot) {
	control := uintptr(s.files[fileControl])
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&s.handler)), 0, 8, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)

	if s.flags&Scoped != 0 {
		_, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(s.scope), 0, 0)
		if errno == 0 {
			// Who cannot reach the helper may signal everybody it can reach.
			_, _, errno = syscall.RawSyscall(unix.SYS_KILL, s.helper, 0, 0)
		}
		if errno == syscall.ESRCH {
			exit() // the helper has gone, and nobody can tell any more
		}
		if errno != syscall.EPERM {
			report(s, control, Failed, StepScope, uintptr(errno))
			exit()
		}
	}

	s.pidfd = -1
	child := cloneCommand(commandFlags, s.stack, uintptr(unsafe.Pointer(&s.pidfd)), s)
	if child < 0 {
		report(s, control, Failed, StepFork, uintptr(-child))
		exit()
	}
	if s.pidfd < 0 { // Linux before 5.2
		report(s, control, Failed, StepFork, uintptr(syscall.ENOSYS))
		s.finished = true
		killAll(s, uintptr(child))
		exit()
	}
	// The files that are kept are the first two after the standard ones.
	syscall.RawSyscall(unix.SYS_DUP3, control, Socket, 0)
	control = Socket
	if s.pidfd != Socket+1 {
		syscall.RawSyscall(unix.SYS_DUP3, uintptr(s.pidfd), Socket+1, 0)
		s.pidfd = Socket + 1
	}
	closeRange(0, Socket-1)
	closeRange(Socket+2, 1<<31-1)

	attend(s, uintptr(child))
	killAll(s, uintptr(child))
	finish(s)
	exit()
}

// attend returns when the command has ended or is to end. Signals from the
// server go to its process group.
//
//go:norace
//go:nosplit
func attend(s *slot, child uintptr) {
	s.polled[0].Fd, s.polled[0].Events = s.pidfd, unix.POLLIN
	s.polled[1].Fd, s.polled[1].Events = Socket, unix.POLLIN
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.polled)), 2, 0, 0, 0, 0)
		if errno == syscall.EINTR {
			continue // it was stopped and goes on
		}
		if errno != 0 || s.polled[0].Revents != 0 {
			return
		}
		if s.polled[1].Revents == 0 {
			continue
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, Socket, uintptr(unsafe.Pointer(&s.incoming)), uintptr(len(s.incoming)))
		if errno != 0 || n == 0 {
			return
		}
		for i := uintptr(0); i < n && i < uintptr(len(s.incoming)); i++ {
			if s.incoming[i] == Tell {
				pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
				s.outgoing.guard, s.outgoing.command = uint32(pid), uint32(child)
				report(s, Socket, Running, 0, 0)
				continue
			}
			syscall.RawSyscall(unix.SYS_KILL, -child, uintptr(s.incoming[i]), 0)
		}
	}
}

// killAll kills everything below the guard and reaps it. A process that forks
// while it is killed cannot escape: either the fork fails, or the next pass
// finds its child. What takes long is reported as left, and killed all the same.
//
//go:norace
//go:nosplit
func killAll(s *slot, child uintptr) {
	for pass := 0; ; pass++ {
		reaped := s.outgoing.reaped
		for {
			pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s.incoming)), unix.WNOHANG|unix.WALL, 0, 0, 0)
			if errno == syscall.ECHILD {
				return // whoever is below the guard is a child of it, or has a parent that is
			}
			if pid == 0 || errno != 0 {
				break
			}
			if pid == child {
				s.status = uint32(s.incoming[0]) | uint32(s.incoming[1])<<8 | uint32(s.incoming[2])<<16 | uint32(s.incoming[3])<<24
			}
			s.outgoing.reaped++
		}
		if pass == passes {
			s.outgoing.left = 1
			finish(s)
		}
		if s.flags&Scoped != 0 {
			syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		} else {
			killChildren(s, child)
		}
		if reaped != s.outgoing.reaped {
			continue // there may be children of those
		}
		s.nap.Nsec = 100_000
		if pass > 20 {
			s.nap.Nsec = 2_000_000
		}
		syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&s.nap)), 0, 0)
	}
}

// finish reports the end of the command, once.
//
//go:norace
//go:nosplit
func finish(s *slot) {
	if s.finished {
		return
	}
	s.finished = true
	syscall.RawSyscall(unix.SYS_GETRUSAGE, ^uintptr(0), uintptr(unsafe.Pointer(&s.rusage)), 0)
	s.outgoing.status = s.status
	s.outgoing.user = uint64(s.rusage.Utime.Sec)*1e6 + uint64(s.rusage.Utime.Usec)
	s.outgoing.system = uint64(s.rusage.Stime.Sec)*1e6 + uint64(s.rusage.Stime.Usec)
	s.outgoing.maxRSS = uint64(s.rusage.Maxrss) << 10
	report(s, Socket, Ended, 0, 0)
}

// killChildren kills the children of the guard. Theirs become its own, and are
// found by the next pass.
//
//go:norace
//go:nosplit
func killChildren(s *slot, child uintptr) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&childrenPath)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 { // the kernel has no such file: the process group is what is known
		syscall.RawSyscall(unix.SYS_KILL, -child, uintptr(syscall.SIGKILL), 0)
		return
	}
	pid := uintptr(0)
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&s.children)), uintptr(len(s.children)))
		if errno != 0 || n == 0 {
			break
		}
		for i := uintptr(0); i < n && i < uintptr(len(s.children)); i++ {
			if c := s.children[i]; c >= '0' && c <= '9' {
				pid = pid*10 + uintptr(c-'0')
			} else if pid != 0 {
				syscall.RawSyscall(unix.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
				pid = 0
			}
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
}

// command becomes the command.
//
//go:norace
//go:nosplit
func command(s *slot) {
	step, errno := become(s)
	report(s, uintptr(s.files[fileControl]), Failed, step, uintptr(errno))
	exit()
}

// become restricts the process and executes the program. It returns what failed.
//
//go:norace
//go:nosplit
func become(s *slot) (Step, syscall.Errno) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	for i := uintptr(0); i < 3; i++ {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(s.files[fileStdin+i]), i, 0); errno != 0 {
			return StepFiles, errno
		}
	}
	if s.flags&Terminal != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); errno != 0 {
			return StepTerminal, errno
		}
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_FCHDIR, uintptr(s.files[fileDir]), 0, 0); errno != 0 {
		return StepDir, errno
	}
	for i := uintptr(0); i < s.nlimits && i < maxLimits; i++ {
		limit := &s.limits[i]
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, limit.resource, uintptr(unsafe.Pointer(&limit.Rlimit)), 0, 0, 0); errno != 0 {
			return StepLimits, errno
		}
	}
	ruleset := s.scope // a domain of its own keeps it from the guard, at least
	if s.flags&Restricted != 0 {
		ruleset = s.files[fileRuleset]
	}
	if s.flags&(Scoped|Restricted) != 0 {
		if _, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(ruleset), 0, 0); errno != 0 {
			return StepLandlock, errno
		}
	}
	if s.flags&DropCapabilities != 0 {
		if errno := dropCapabilities(s); errno != 0 {
			return StepPrivileges, errno
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, Socket, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	s.signals = 0
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.signals)), 0, 8, 0, 0)
	_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, s.path, s.args, s.env)
	return StepExec, errno
}

// dropCapabilities leaves of the capabilities only the one to go past file
// modes, which Landlock bounds.
//
//go:norace
//go:nosplit
func dropCapabilities(s *slot) syscall.Errno {
	s.capHeader.Version = unix.LINUX_CAPABILITY_VERSION_3
	header, data := uintptr(unsafe.Pointer(&s.capHeader)), uintptr(unsafe.Pointer(&s.capData))
	if _, _, errno := syscall.RawSyscall(unix.SYS_CAPGET, header, data, 0); errno != 0 {
		return errno
	}
	s.capData[0].Permitted &= 1 << unix.CAP_DAC_OVERRIDE
	s.capData[0].Effective = s.capData[0].Permitted
	s.capData[0].Inheritable = 0
	s.capData[1] = unix.CapUserData{}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	_, _, errno := syscall.RawSyscall(unix.SYS_CAPSET, header, data, 0)
	return errno
}

// closeRange closes files from first to last, on old kernels the first
// thousand of them.
//
//go:norace
//go:nosplit
func closeRange(first, last uintptr) {
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, first, last, 0); errno != 0 {
		for fd := first; fd <= last && fd < 1024; fd++ {
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
}

// report tells the server what outgoing says besides.
//
//go:norace
//go:nosplit
func report(s *slot, control uintptr, kind ReportKind, step Step, errno uintptr) {
	s.outgoing.kind, s.outgoing.step, s.outgoing.errno = uint32(kind), uint32(step), uint32(errno)
	syscall.RawSyscall6(unix.SYS_SENDTO, control, uintptr(unsafe.Pointer(&s.outgoing)), reportSize, unix.MSG_NOSIGNAL, 0, 0)
}

//go:norace
//go:nosplit
func exit() {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
