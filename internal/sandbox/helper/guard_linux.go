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

// A slot is the memory of one guard and its commands, beside the requests.
type slot struct {
	alive uint32 // not 0 while there is a guard; the kernel clears it

	// What the helper says of it.
	flags    Flags
	scope    int32   // a ruleset that confines signals alone
	helper   uintptr // the process id that the guard must not reach
	noFilter uintptr // the error for which there is no seccomp filter
	own      [maxLimits]unix.Rlimit
	room     uintptr // for a request
	stack    uintptr // the end of that of the command

	// What a request says. From here on all is the guard's.
	id        uint64
	wanted    Flags
	path      uintptr
	args      uintptr
	env       uintptr
	roots     uintptr
	nroots    uintptr
	view      uintptr    // the root of its view; 0 without
	dir       uintptr    // the working directory in it
	program   [2]uintptr // a struct sock_fprog: the filter of this command
	nlimits   uintptr
	limits    [maxLimits]rlimit
	files     [maxFiles]int32
	elsewhere uintptr // where a request lies that does not fit the room
	size      uintptr // of that

	message   rawMessage
	part      [2]uintptr // a struct iovec
	rights    rawRights
	outgoing  rawReport
	incoming  [64]byte
	polled    [2]unix.PollFd
	status    uint32
	finished  bool
	rusage    syscall.Rusage
	before    [2]uint64 // microseconds that commands before this one used
	used      [2]uint64 // and this one, what of it has ended
	ended     bool      // the command itself has
	reported  bool      // the server was told what is left
	more      bool      // children may have ended that were not reaped yet
	death     [128]byte // a struct signalfd_siginfo
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

// rawMessage is a struct msghdr.
type rawMessage struct {
	_, _                        uintptr
	parts, nparts               uintptr
	rights, sizeOfRights, flags uintptr
}

// rawRights is what files come in: a struct cmsghdr and their numbers.
type rawRights struct {
	size        uintptr
	level, kind int32
	files       [maxFiles + 2]int32
}

// rawReport is a [Report] as [DecodeReport] reads it.
type rawReport struct {
	kind, status, guard, command, step, errno, reaped, left uint32
	user, system, maxRSS                                    uint64
	again, stopped                                          uint32
}

var childrenPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 't', 'h', 'r', 'e', 'a', 'd', '-', 's', 'e', 'l', 'f', '/', 'c', 'h', 'i', 'l', 'd', 'r', 'e', 'n', 0}

const (
	landlockCreateRuleset = unix.SYS_LANDLOCK_CREATE_RULESET
	landlockRestrictSelf  = unix.SYS_LANDLOCK_RESTRICT_SELF

	// signalScope is LANDLOCK_SCOPE_SIGNAL.
	signalScope = 1 << 1

	// patience is how long a guard waits for what it has killed to end before it
	// kills again, in nanoseconds, and passes how often it does before it says that
	// something is left: for five seconds.
	patience = 2_000_000
	passes   = 2500

	// atOnce is how many children are reaped before the guard looks for a word of the
	// server. A command can leave orphans faster than they are reaped.
	atOnce = 100

	maxLimits = 16
	maxFilter = 256

	guardFlags   = unix.CLONE_VM | unix.CLONE_CHILD_CLEARTID | uintptr(syscall.SIGCHLD)
	commandFlags = unix.CLONE_VM | unix.CLONE_VFORK | uintptr(syscall.SIGCHLD)
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

// The files of a guard, beside the standard ones. The first file of a request
// gets the first number that is free.
const (
	guardRequests = 3 + iota
	guardScope
	guardDeaths // readable when a child has ended
	guardControl
	guardRest
)

// guard runs one command after another: until it is dismissed, until one leaves
// something behind, or until the server or the helper is gone. All signals stay
// blocked.
//
//go:norace
//go:nosplit
func guard(s *slot) {
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&s.handler)), 0, 8, 0, 0)
	}
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0)
	step, errno := StepSeccomp, s.noFilter
	if s.flags&Scoped != 0 && errno == 0 {
		step, errno = StepScope, confine(s)
	}
	syscall.RawSyscall(unix.SYS_DUP3, 0, 2, 0) // not what the server says its errors to
	syscall.RawSyscall(unix.SYS_DUP3, Requests, guardRequests, 0)
	syscall.RawSyscall(unix.SYS_DUP3, 0, guardScope, 0)
	if s.scope >= 0 {
		syscall.RawSyscall(unix.SYS_DUP3, uintptr(s.scope), guardScope, 0)
	}
	syscall.RawSyscall(unix.SYS_DUP3, 0, guardDeaths, 0)
	if errno == 0 {
		step, errno = StepFork, openDeaths(s)
	}
	closeRange(guardControl, 1<<31-1)
	for take(s) {
		if errno == 0 {
			mind(s)
		} else {
			refuse(s, step, errno)
		}
		closeRange(guardControl, 1<<31-1)
		if s.outgoing.again == 0 {
			break
		}
	}
	exit()
}

// openDeaths opens the file that tells of children that end.
//
//go:norace
//go:nosplit
func openDeaths(s *slot) uintptr {
	s.signals = 1 << (syscall.SIGCHLD - 1)
	fd, _, errno := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&s.signals)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, fd, guardDeaths, 0)
	}
	return uintptr(errno)
}

// confine puts the guard into a domain of its own.
//
//go:norace
//go:nosplit
func confine(s *slot) uintptr {
	_, _, errno := syscall.RawSyscall(landlockRestrictSelf, uintptr(s.scope), 0, 0)
	if errno == 0 {
		// Who cannot reach the helper may signal everybody it can reach.
		_, _, errno = syscall.RawSyscall(unix.SYS_TGKILL, s.helper, s.helper, 0)
	}
	if errno == syscall.ESRCH {
		exit() // the helper has gone, and nobody can tell any more
	}
	if errno == syscall.EPERM {
		return 0
	}
	return uintptr(errno)
}

// mind starts the command, waits for its end or for a word of the server, and
// leaves nothing of it behind.
//
//go:norace
//go:nosplit
func mind(s *slot) {
	child := cloneCommand(commandFlags, s.stack, s)
	if child < 0 {
		refuse(s, StepFork, uintptr(-child))
		return
	}
	closeRange(guardRest, 1<<31-1)

	if !attend(s, uintptr(child)) {
		killAll(s, uintptr(child))
	}
	release(s)
	parent, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	finish(s, parent == s.helper)
}

// attend returns when the command has ended or is to end, true if nothing of it is
// left. Signals from the server go to its process group.
//
//go:norace
//go:nosplit
func attend(s *slot, child uintptr) (gone bool) {
	s.polled[0].Fd, s.polled[0].Events = guardDeaths, unix.POLLIN
	s.polled[1].Fd, s.polled[1].Events = guardControl, unix.POLLIN
	for {
		timeout := uintptr(0) // none
		if s.more {
			s.nap.Sec, s.nap.Nsec = 0, 0
			timeout = uintptr(unsafe.Pointer(&s.nap))
		}
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.polled)), 2, timeout, 0, 0, 0)
		if errno == syscall.EINTR {
			continue // it was stopped and goes on
		}
		if errno != 0 {
			return false
		}
		if s.more || s.polled[0].Revents != 0 {
			// The command has ended, or somebody whose parent is gone.
			syscall.RawSyscall(unix.SYS_READ, guardDeaths, uintptr(unsafe.Pointer(&s.death)), unsafe.Sizeof(s.death))
			if gone = reap(s, child); gone || s.ended && s.wanted&Mannered == 0 {
				return gone
			}
			if s.ended && !s.reported {
				s.reported = true
				report(s, guardControl, Leaving, 0, 0)
			}
		}
		if s.polled[1].Revents == 0 {
			continue
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, guardControl, uintptr(unsafe.Pointer(&s.incoming)), uintptr(len(s.incoming)))
		if errno != 0 || n == 0 {
			return false
		}
		for i := uintptr(0); i < n && i < uintptr(len(s.incoming)); i++ {
			if s.incoming[i] == Terminate {
				if !s.ended {
					s.outgoing.stopped = 1
				}
				terminateAll(s, child)
				continue
			}
			if s.incoming[i] == HangUp {
				signalAll(s, child, uintptr(syscall.SIGHUP))
				continue
			}
			if s.incoming[i] == Tell {
				pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
				s.outgoing.guard, s.outgoing.command = uint32(pid), uint32(child)
				s.outgoing.user, s.outgoing.system = s.before[0], s.before[1]
				report(s, guardControl, Running, 0, 0)
				continue
			}
			if !s.ended { // else another may have its id
				syscall.RawSyscall(unix.SYS_KILL, -child, uintptr(s.incoming[i]), 0)
			}
		}
	}
}

// reap takes note of children that have ended, of some where there are many. It
// returns true if there are none left: then nothing is, for whoever is below the
// guard is a child of it, or has a parent that is.
//
//go:norace
//go:nosplit
func reap(s *slot, child uintptr) (all bool) {
	s.more = false
	for range atOnce {
		var status uint32
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), unix.WNOHANG|unix.WALL, uintptr(unsafe.Pointer(&s.rusage)), 0, 0)
		if errno == syscall.ECHILD {
			return true
		}
		if pid == 0 || errno != 0 {
			return false
		}
		if pid == child {
			s.status, s.ended = status, true
		}
		s.outgoing.reaped++
		s.used[0] += uint64(s.rusage.Utime.Sec)*1e6 + uint64(s.rusage.Utime.Usec)
		s.used[1] += uint64(s.rusage.Stime.Sec)*1e6 + uint64(s.rusage.Stime.Usec)
		s.outgoing.maxRSS = max(s.outgoing.maxRSS, uint64(s.rusage.Maxrss)<<10)
	}
	s.more = true
	return false
}

// terminateAll asks everything below the guard to end, also what is stopped. On a
// terminal it hangs up as well: an interactive shell does not mind the other signal.
// That comes last, for readline knows one signal at a time and forgets the one before.
//
//go:norace
//go:nosplit
func terminateAll(s *slot, child uintptr) {
	signalAll(s, child, uintptr(syscall.SIGTERM))
	signalAll(s, child, uintptr(syscall.SIGCONT))
	if s.wanted&Terminal != 0 {
		signalAll(s, child, uintptr(syscall.SIGHUP))
	}
}

// signalAll signals everything below the guard, or what of it can be found.
//
//go:norace
//go:nosplit
func signalAll(s *slot, child, sig uintptr) {
	if s.flags&Scoped == 0 {
		signalChildren(s, child, sig)
		return
	}
	syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), sig, 0)
}

// killAll kills everything below the guard and reaps it. In a domain one signal
// reaches all at the same moment, and who has got it cannot fork any more.
// Otherwise only children can be found, and theirs are when they are gone. What
// takes long is reported as left, and killed all the same.
//
//go:norace
//go:nosplit
func killAll(s *slot, child uintptr) {
	for pass := 0; !reap(s, child); pass++ {
		if pass == passes {
			s.outgoing.left = 1
			finish(s, false)
		}
		if s.flags&Scoped == 0 {
			signalChildren(s, child, uintptr(syscall.SIGKILL))
			awaitDeath(s)
			continue
		}
		syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
		for s.more || awaitDeath(s) {
			if reap(s, child) {
				return
			}
		}
	}
}

// awaitDeath waits until a child has ended that was not reaped yet, but not for
// long. It may return true for one that was.
//
//go:norace
//go:nosplit
func awaitDeath(s *slot) bool {
	s.polled[0].Fd, s.polled[0].Events = guardDeaths, unix.POLLIN
	s.nap.Sec, s.nap.Nsec = 0, patience
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.polled)), 1, uintptr(unsafe.Pointer(&s.nap)), 0, 0, 0)
	syscall.RawSyscall(unix.SYS_READ, guardDeaths, uintptr(unsafe.Pointer(&s.death)), unsafe.Sizeof(s.death))
	return errno == 0 && n > 0
}

// finish reports the end of the command, once, and whether there will be another.
//
//go:norace
//go:nosplit
func finish(s *slot, again bool) {
	if s.finished {
		return
	}
	s.finished = true
	if again {
		s.outgoing.again = 1
	}
	s.outgoing.status = s.status
	s.outgoing.user, s.outgoing.system = s.used[0], s.used[1]
	s.before[0] += s.used[0]
	s.before[1] += s.used[1]
	report(s, guardControl, Ended, 0, 0)
}

// signalChildren signals the children of the guard. When they are gone, theirs
// become its own, and are found by the next pass.
//
//go:norace
//go:nosplit
func signalChildren(s *slot, child, sig uintptr) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&childrenPath)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 { // the kernel has no such file: the process group is what is known
		syscall.RawSyscall(unix.SYS_KILL, -child, sig, 0)
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
				syscall.RawSyscall(unix.SYS_TGKILL, pid, pid, sig) // kill of one process is handed over
				pid = 0
			}
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
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
