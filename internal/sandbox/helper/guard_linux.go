// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What follows runs after a fork, on a copy of one thread of a Go program: there
// is no scheduler, no collector and no stack to grow. So all of it is nosplit,
// stores no pointers, calls nothing but system calls, and never returns.
//
// Its memory is these variables; each process has its own copy.
var (
	outgoing  rawReport
	incoming  [64]byte
	children  [1 << 16]byte
	polled    [2]unix.PollFd
	status    uint32
	rusage    syscall.Rusage
	handler   [4]uint64 // a struct sigaction of the kernel: the default
	signals   uint64
	nap       unix.Timespec
	limit     unix.Rlimit
	hadLimit  unix.Rlimit
	program   sockFprog
	capHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	capData   [2]unix.CapUserData

	childrenPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 't', 'h', 'r', 'e', 'a', 'd', '-', 's', 'e', 'l', 'f', '/', 'c', 'h', 'i', 'l', 'd', 'r', 'e', 'n', 0}
	oomPath      = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
	oomScore     = [...]byte{'5', '0', '0'} // commands go before the server does
)

// rawReport is a [Report] as [DecodeReport] reads it.
type rawReport struct {
	kind, status, guard, command, step, errno, reaped, left uint32
	user, system, maxRSS, _                                 uint64
}

type sockFprog struct {
	len    uint16
	filter uintptr
}

const (
	landlockCreateRuleset = unix.SYS_LANDLOCK_CREATE_RULESET
	landlockRestrictSelf  = unix.SYS_LANDLOCK_RESTRICT_SELF

	// signalScope is LANDLOCK_SCOPE_SIGNAL.
	signalScope = 1 << 1

	// passes is how often a guard tries to kill what is left: for five seconds.
	passes = 2500
)

// scopeRuleset returns a Landlock ruleset that confines signals and nothing
// else, or -1 where the kernel has none.
func scopeRuleset() int {
	attr := [3]uint64{0, 0, signalScope}
	fd, _, errno := syscall.Syscall(landlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return -1
	}
	unix.CloseOnExec(int(fd))
	return int(fd)
}

// forkGuard forks the guard for o. No signal is handled between the fork and
// the guard's first steps: the handlers are Go's.
//
//go:norace
//go:nosplit
func forkGuard(o *order) syscall.Errno {
	all, old := ^uint64(0), uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, errno := fork()
	if errno == 0 && pid == 0 {
		guard(o)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return errno
}

//go:norace
//go:nosplit
func fork() (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// guard starts the command, waits for its end or for a word of the server, and
// leaves nothing of it behind. All signals stay blocked.
//
//go:norace
//go:nosplit
func guard(o *order) {
	control := uintptr(o.files[fileControl])
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&handler)), 0, 8, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)

	scoped := false
	if o.flags&Scoped != 0 {
		_, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(o.scope), 0, 0)
		if errno == 0 {
			// Who cannot reach the helper may signal everybody it can reach.
			_, _, errno = syscall.RawSyscall(unix.SYS_KILL, uintptr(o.helper), 0, 0)
			scoped = errno == syscall.EPERM
		}
		if !scoped {
			report(control, Failed, StepScope, uintptr(errno))
			exit()
		}
	}

	child, errno := fork()
	if errno != 0 {
		report(control, Failed, StepFork, uintptr(errno))
		exit()
	}
	if child == 0 {
		command(o)
	}
	if control != Socket {
		syscall.RawSyscall(unix.SYS_DUP3, control, Socket, 0)
		control = Socket
	}
	closeRange(0, Socket-1)
	closeRange(Socket+1, 1<<31-1)

	pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	outgoing.guard, outgoing.command = uint32(pid), uint32(child)
	report(control, Started, 0, 0)

	pidfd, _, errno := syscall.RawSyscall(unix.SYS_PIDFD_OPEN, child, 0, 0)
	if errno == 0 {
		attend(control, pidfd, child)
	}
	killAll(child, scoped)

	syscall.RawSyscall(unix.SYS_GETRUSAGE, ^uintptr(0), uintptr(unsafe.Pointer(&rusage)), 0)
	outgoing.status = status
	outgoing.user = uint64(rusage.Utime.Sec)*1e6 + uint64(rusage.Utime.Usec)
	outgoing.system = uint64(rusage.Stime.Sec)*1e6 + uint64(rusage.Stime.Usec)
	outgoing.maxRSS = uint64(rusage.Maxrss) << 10
	report(control, Ended, 0, 0)
	exit()
}

// attend returns when the command has ended or is to end. Signals from the
// server go to its process group.
//
//go:norace
//go:nosplit
func attend(control, pidfd, child uintptr) {
	polled[0].Fd, polled[0].Events = int32(pidfd), unix.POLLIN
	polled[1].Fd, polled[1].Events = int32(control), unix.POLLIN
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 2, 0, 0, 0, 0)
		if errno != 0 || polled[0].Revents != 0 {
			return
		}
		if polled[1].Revents == 0 {
			continue
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, control, uintptr(unsafe.Pointer(&incoming)), uintptr(len(incoming)))
		if errno != 0 || n == 0 {
			return
		}
		for i := uintptr(0); i < n && i < uintptr(len(incoming)); i++ {
			if incoming[i] == Kill {
				return
			}
			sig := uintptr(incoming[i])
			if _, _, errno := syscall.RawSyscall(unix.SYS_KILL, -child, sig, 0); errno != 0 {
				syscall.RawSyscall(unix.SYS_KILL, child, sig, 0) // it has no group of its own yet
			}
		}
	}
}

// killAll kills everything below the guard and reaps it. A process that forks
// while it is killed cannot escape: either the fork fails, or the next pass
// finds its child.
//
//go:norace
//go:nosplit
func killAll(child uintptr, scoped bool) {
	outgoing.left = 1
	for pass := 0; pass < passes; pass++ {
		if scoped {
			syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		} else {
			killChildren()
		}
		for {
			var errno syscall.Errno
			pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&incoming)), unix.WNOHANG|unix.WALL, 0, 0, 0)
			if errno == syscall.ECHILD {
				outgoing.left = 0
				return
			}
			if pid == 0 || errno != 0 {
				break
			}
			if pid == child {
				status = uint32(incoming[0]) | uint32(incoming[1])<<8 | uint32(incoming[2])<<16 | uint32(incoming[3])<<24
			}
			outgoing.reaped++
		}
		nap.Nsec = 100_000
		if pass > 20 {
			nap.Nsec = 2_000_000
		}
		syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
	}
}

// killChildren kills the children of the guard. Theirs become its own, and are
// found by the next pass.
//
//go:norace
//go:nosplit
func killChildren() {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&childrenPath)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return
	}
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&children)), uintptr(len(children)))
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	if errno != 0 {
		return
	}
	pid := uintptr(0)
	for i := uintptr(0); i < n && i < uintptr(len(children)); i++ {
		if c := children[i]; c >= '0' && c <= '9' {
			pid = pid*10 + uintptr(c-'0')
		} else if pid != 0 {
			syscall.RawSyscall(unix.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
			pid = 0
		}
	}
}

// command becomes the command.
//
//go:norace
//go:nosplit
func command(o *order) {
	control := uintptr(o.files[fileControl])
	step, errno := become(o)
	report(control, Failed, step, uintptr(errno))
	exit()
}

// become restricts the process and executes the program. It returns what failed.
//
//go:norace
//go:nosplit
func become(o *order) (Step, syscall.Errno) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	for i := uintptr(0); i < 3; i++ {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(o.files[fileStdin+i]), i, 0); errno != 0 {
			return StepFiles, errno
		}
	}
	if o.flags&Terminal != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0); errno != 0 {
			return StepTerminal, errno
		}
	}
	if fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&oomPath)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0); errno == 0 {
		syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&oomScore)), uintptr(len(oomScore)))
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_FCHDIR, uintptr(o.files[fileDir]), 0, 0); errno != 0 {
		return StepDir, errno
	}
	for i := uintptr(0); i < o.nlimits; i++ {
		if errno := lower(o.limits + i*limitSize); errno != 0 {
			return StepLimits, errno
		}
	}
	if o.flags&Restricted != 0 {
		if _, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(o.files[fileRuleset]), 0, 0); errno != 0 {
			return StepLandlock, errno
		}
	}
	if o.flags&DropCapabilities != 0 {
		if errno := dropCapabilities(); errno != 0 {
			return StepPrivileges, errno
		}
	}
	if o.nfilter > 0 {
		program.len, program.filter = uint16(o.nfilter), o.filter
		if _, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
			return StepSeccomp, errno
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, Socket, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	signals = 0
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&signals)), 0, 8, 0, 0)
	_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, o.path, o.args, o.env)
	return StepExec, errno
}

// lower sets the limit at an address, as far as the limit of now allows.
//
//go:norace
//go:nosplit
func lower(at uintptr) syscall.Errno {
	resource, value := load(at), load(at+8)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(resource), 0, uintptr(unsafe.Pointer(&hadLimit)), 0, 0); errno != 0 {
		return errno
	}
	limit.Cur = min(value, hadLimit.Max)
	limit.Max = limit.Cur
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	return errno
}

// load reads a number of the request, which lies outside of the heap.
//
//go:norace
//go:nosplit
func load(at uintptr) uint64 { return **(**uint64)(unsafe.Pointer(&at)) }

// dropCapabilities leaves of the capabilities only the one to go past file
// modes, which Landlock bounds.
//
//go:norace
//go:nosplit
func dropCapabilities() syscall.Errno {
	header, data := uintptr(unsafe.Pointer(&capHeader)), uintptr(unsafe.Pointer(&capData))
	if _, _, errno := syscall.RawSyscall(unix.SYS_CAPGET, header, data, 0); errno != 0 {
		return errno
	}
	capData[0].Permitted &= 1 << unix.CAP_DAC_OVERRIDE
	capData[0].Effective = capData[0].Permitted
	capData[0].Inheritable = 0
	capData[1] = unix.CapUserData{}
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
func report(control uintptr, kind ReportKind, step Step, errno uintptr) {
	outgoing.kind, outgoing.step, outgoing.errno = uint32(kind), uint32(step), uint32(errno)
	syscall.RawSyscall6(unix.SYS_SENDTO, control, uintptr(unsafe.Pointer(&outgoing)), reportSize, unix.MSG_NOSIGNAL, 0, 0)
}

//go:norace
//go:nosplit
func exit() {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
