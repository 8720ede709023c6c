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
	retAllow  = unix.SECCOMP_RET_ALLOW
	retKill   = unix.SECCOMP_RET_KILL_PROCESS
	retPerm   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retNoSys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retFamily = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	retNoSupp = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	retAsk    = unix.SECCOMP_RET_USER_NOTIF // the helper, which does it where it may be done
)

const (
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
func (f *filter) inspect(number uint32, check func(f *filter)) {
	var body filter
	check(&body)
	body.add(opLoad, atNumber, 0, 0)
	if len(body) > math.MaxUint8 {
		panic("the filter jumps too far")
	}
	f.add(opEqual, number, 0, uint8(len(body)))
	*f = append(*f, body...)
}

func (f *filter) loadArgument(n uint32) { f.add(opLoad, atArgument+8*n, 0, 0) }

// refuseUnless ends the program with ret unless what is loaded is one of values.
func (f *filter) refuseUnless(ret uint32, values ...uint32) {
	for i, value := range values {
		f.add(opEqual, value, uint8(len(values)-i), 0)
	}
	f.add(opReturn, ret, 0, 0)
}

// refuseIf ends the program with ret if what is loaded is value.
func (f *filter) refuseIf(ret, value uint32) {
	f.add(opEqual, value, 0, 1)
	f.add(opReturn, ret, 0, 0)
}

// newFilter returns the seccomp program for a level of network and a version of
// Landlock. It allows what it does not know: Landlock is the wall, this closes
// the ways around it.
func newFilter(network Network, landlock int) []helper.Instr {
	var f filter
	f.add(opLoad, atArch, 0, 0)
	f.refuseUnless(retKill, nativeArch)
	f.add(opLoad, atNumber, 0, 0)
	if foreignFrom != 0 {
		f.add(opAtLeast, foreignFrom, 0, 1)
		f.add(opReturn, retKill, 0, 0)
	}
	for _, number := range refused() {
		f.refuse(number, retPerm)
	}
	f.metadata(landlock)
	// clone3 hides its flags in memory; everybody falls back to clone.
	f.refuse(unix.SYS_CLONE3, retNoSys)
	f.inspect(unix.SYS_CLONE, func(f *filter) {
		f.loadArgument(0)
		f.add(opAnySet, newNamespaces, 0, 1)
		f.add(opReturn, retPerm, 0, 0)
	})
	f.inspect(unix.SYS_IOCTL, func(f *filter) {
		f.loadArgument(1)
		// A terminal must not be told what its user typed.
		f.refuseIf(retPerm, unix.TIOCSTI)
		f.refuseIf(retPerm, unix.TIOCLINUX)
		f.refuseIf(retNoSupp, unix.FS_IOC_SETFLAGS)
		f.refuseIf(retNoSupp, fsIocFSSetXAttr)
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
	// Who watches a directory outside learns the names in it. It is allowed where
	// there are servers that reload what has changed.
	if network != NetworkOpen {
		for _, number := range watching() {
			f.refuse(number, retNoSys)
		}
	}
	f.sockets(network)
	f.add(opReturn, retAllow, 0, 0)
	return f
}

// metadata bounds changes of what is known about files, which Landlock lets a
// command do to any file of its user.
func (f *filter) metadata(landlock int) {
	for _, number := range handedOver() {
		f.refuse(number, retAsk)
	}
	for _, number := range attributes() {
		f.refuse(number, retNoSupp)
	}
	for _, number := range oldTimes() {
		f.refuse(number, retNoSys) // everybody uses utimensat
	}
	if landlock < landlockTruncate {
		f.refuse(unix.SYS_TRUNCATE, retPerm)
	}
	// Who owns a file stays the owner. What changes nothing is allowed, for the
	// sake of those who copy everything.
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, c := range owners() {
		f.inspect(c.number, func(f *filter) {
			f.loadArgument(c.user)
			f.refuseUnless(retPerm, math.MaxUint32, uid)
			f.loadArgument(c.user + 1)
			f.refuseUnless(retPerm, math.MaxUint32, gid)
		})
	}
}

// sockets refuses those that a level of network does not have. There are no
// sockets of the file system at any level: Landlock does not yet see who
// connects to them, and one of them may be that of a container runtime.
func (f *filter) sockets(network Network) {
	// A pair of datagram sockets would be one: each of them can send anywhere.
	f.inspect(unix.SYS_SOCKETPAIR, func(f *filter) {
		f.loadArgument(0)
		f.refuseUnless(retFamily, unix.AF_UNIX)
		f.loadArgument(1)
		f.add(opAnd, socketType, 0, 0)
		f.refuseUnless(retPerm, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	})
	f.inspect(unix.SYS_SOCKET, func(f *filter) {
		f.loadArgument(0)
		switch network {
		case NetworkNone, NetworkLoopback:
			f.add(opReturn, retPerm, 0, 0)
		case NetworkOpen:
			f.refuseUnless(retFamily, unix.AF_INET, unix.AF_INET6, unix.AF_UNIX, unix.AF_NETLINK)
			f.add(opEqual, unix.AF_NETLINK, 0, 3)
			f.loadArgument(2)
			f.refuseUnless(retPerm, unix.NETLINK_ROUTE)
		}
	})
}
