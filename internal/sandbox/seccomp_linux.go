// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// What a filter looks at, as offsets into struct seccomp_data. Of arguments it
// is the lower half: the kernel looks at no more where it matters here.
const (
	atNumber   = 0
	atArch     = 4
	atArgument = 16
)

// Instructions of classic BPF.
const (
	opLoad    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opAnySet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opAnd     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opReturn  = unix.BPF_RET | unix.BPF_K
)

const (
	retAllow    = unix.SECCOMP_RET_ALLOW
	retKill     = unix.SECCOMP_RET_KILL_PROCESS
	retNothing  = unix.SECCOMP_RET_ERRNO // success, and nothing is done
	retPerm     = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNoSys    = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retFamily   = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	retNoSupp   = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	retProtocol = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)

	// The helper is asked, which does it where it may be done. Where nobody can be
	// asked, the helper makes of the first that it is allowed, of the second that
	// it is refused.
	retAsk         = unix.SECCOMP_RET_USER_NOTIF
	retAskOrRefuse = unix.SECCOMP_RET_USER_NOTIF | uint32(unix.EPERM)
)

const (
	setID           = unix.S_ISUID | unix.S_ISGID
	tmpFile         = unix.O_TMPFILE &^ unix.O_DIRECTORY
	socketType      = 0xf        // the other bits are flags
	ioprioWhoUser   = 3          // IOPRIO_WHO_USER
	fsIocFSSetXAttr = 0x401c5820 // FS_IOC_FSSETXATTR
)

// newNamespaces are the flags of clone that make a namespace.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter is a seccomp program under construction. The number of the system call
// is loaded before each of its pieces.
type filter []helper.Instr

func (f *filter) add(code uint16, k uint32, jt, jf uint8) {
	*f = append(*f, helper.Instr{Code: code, K: k, JT: jt, JF: jf})
}

// refuse answers a system call with ret.
func (f *filter) refuse(number uint32, ret uint32) {
	f.add(opEqual, number, 0, 1)
	f.add(opReturn, ret, 0, 0)
}

// inspect answers a system call by what check says of it. The instructions of
// check may end the program; the number is loaded again behind them.
func (f *filter) inspect(number uint32, check func(f *filter)) { f.when(number, atNumber, check) }

// when has check if what is loaded, from the given offset, is value.
func (f *filter) when(value, offset uint32, check func(f *filter)) {
	var body filter
	check(&body)
	body.add(opLoad, offset, 0, 0)
	if len(body) > math.MaxUint8 {
		panic("the filter jumps too far")
	}
	f.add(opEqual, value, 0, uint8(len(body)))
	*f = append(*f, body...)
}

func (f *filter) loadArgument(n uint32) { f.add(opLoad, atArgument+8*n, 0, 0) }

// whenArgument has check if an argument, which is loaded, is value.
func (f *filter) whenArgument(n, value uint32, check func(f *filter)) {
	f.when(value, atArgument+8*n, check)
}

// refuseUnless ends the program with ret unless what is loaded is one of values.
func (f *filter) refuseUnless(ret uint32, values ...uint32) {
	for i, value := range values {
		f.add(opEqual, value, uint8(len(values)-i), 0)
	}
	f.add(opReturn, ret, 0, 0)
}

// refuseIf ends the program with ret if what is loaded is one of values.
func (f *filter) refuseIf(ret uint32, values ...uint32) {
	for _, value := range values {
		f.add(opEqual, value, 0, 1)
		f.add(opReturn, ret, 0, 0)
	}
}

// refuseBits ends the program with ret if what is loaded has one of bits.
func (f *filter) refuseBits(ret, bits uint32) {
	f.add(opAnySet, bits, 0, 1)
	f.add(opReturn, ret, 0, 0)
}

// commonFilter is what all commands of a helper have, whatever their network is. It
// allows what it does not know: Landlock is the wall, this closes the ways around
// it.
//
// socketFilter is set after it, for each command. Only the filter of the helper
// has somebody to ask, so it is this one that does where a command may have a
// loopback without a namespace; a refusal of the other comes before a question.
func commonFilter(landlock int, asksSockets bool) []helper.Instr {
	f := begin()
	f.common(landlock)
	if asksSockets {
		f.askSockets()
	}
	return f.end()
}

// socketFilter has the rules for the sockets of a level of network and nothing
// else. Namespaced means that whatever a socket reaches there is the session's:
// the file system has no sockets of others, and abstract names are kept apart by
// a network namespace or by Landlock.
func socketFilter(network Network, namespaced bool) []helper.Instr {
	f := begin()
	f.sockets(network, namespaced)
	return f.end()
}

func begin() (f filter) {
	f.add(opLoad, atArch, 0, 0)
	f.refuseUnless(retKill, nativeArch)
	f.add(opLoad, atNumber, 0, 0)
	return f
}

func (f *filter) end() []helper.Instr {
	f.add(opReturn, retAllow, 0, 0)
	return *f
}

// common has the rules that do not depend on the network.
func (f *filter) common(landlock int) {
	if foreignFrom != 0 {
		f.add(opAtLeast, foreignFrom, 0, 1)
		f.add(opReturn, retKill, 0, 0)
	}
	f.creations() // first, for there is no call that programs make more often
	for _, number := range refused() {
		f.refuse(number, retPerm)
	}
	f.metadata(landlock)
	// clone3 hides its flags in memory; everybody falls back to clone.
	f.refuse(unix.SYS_CLONE3, retNoSys)
	f.inspect(unix.SYS_CLONE, func(f *filter) {
		f.loadArgument(0)
		f.refuseBits(retPerm, newNamespaces)
	})
	f.inspect(unix.SYS_IOCTL, func(f *filter) {
		f.loadArgument(1)
		// A terminal must not be told what its user typed.
		f.refuseIf(retPerm, unix.TIOCSTI, unix.TIOCLINUX)
		f.refuseIf(retNoSupp, unix.FS_IOC_SETFLAGS, fsIocFSSetXAttr)
	})
	// Landlock does not keep these from other processes of the same user.
	for _, number := range ofAnyProcess() {
		f.inspect(number, func(f *filter) {
			f.loadArgument(0)
			f.refuseUnless(retPerm, 0)
		})
	}
	for _, c := range [...]struct{ number, ofUser uint32 }{{unix.SYS_SETPRIORITY, unix.PRIO_USER}, {unix.SYS_IOPRIO_SET, ioprioWhoUser}} {
		f.inspect(c.number, func(f *filter) {
			f.loadArgument(0)
			f.refuseIf(retPerm, c.ofUser)
			f.loadArgument(1)
			f.refuseUnless(retPerm, 0)
		})
	}
}

// creations refuses to make files that have the rights of their owner when they
// are executed: it would be a program of the server's user for everybody.
func (f *filter) creations() {
	for _, c := range creating() {
		f.inspect(c.number, func(f *filter) {
			if c.flags != noFlags { // without them there is no mode
				f.loadArgument(c.flags)
				f.add(opAnySet, unix.O_CREAT|tmpFile, 1, 0)
				f.add(opReturn, retAllow, 0, 0)
			}
			f.loadArgument(c.mode)
			f.refuseBits(retPerm, setID)
			f.add(opReturn, retAllow, 0, 0)
		})
	}
	f.refuse(unix.SYS_OPENAT2, retNoSys) // it hides its mode in memory
}

// metadata bounds changes of what is known about files, which Landlock lets a
// command do to any file of its user.
func (f *filter) metadata(landlock int) {
	for _, c := range modes() {
		f.inspect(c.number, func(f *filter) {
			f.loadArgument(c.mode)
			f.refuseBits(retAskOrRefuse, setID)
			f.add(opReturn, retAsk, 0, 0)
		})
	}
	f.refuse(unix.SYS_UTIMENSAT, retAsk)
	// A process of its session; guards, which have this filter too, signal groups.
	f.inspect(unix.SYS_KILL, func(f *filter) {
		f.loadArgument(0)
		f.add(opAtLeast, 1<<31, 2, 0)
		f.add(opEqual, 0, 1, 0)
		f.add(opReturn, retAsk, 0, 0)
	})
	for _, number := range attributes() {
		f.refuse(number, retNoSupp)
	}
	for _, number := range oldTimes() {
		f.refuse(number, retNoSys) // everybody uses utimensat
	}
	if landlock < landlockTruncate {
		f.refuse(unix.SYS_TRUNCATE, retPerm)
	}
	// Who owns a file stays the owner. What changes nothing succeeds, for the sake
	// of those who copy everything, and is not done: it would take set-user-ID bits
	// and capabilities from files outside.
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, c := range owners() {
		f.inspect(c.number, func(f *filter) {
			f.loadArgument(c.user)
			f.refuseUnless(retPerm, math.MaxUint32, uid)
			f.loadArgument(c.user + 1)
			f.refuseUnless(retPerm, math.MaxUint32, gid)
			f.add(opReturn, retNothing, 0, 0)
		})
	}
}
