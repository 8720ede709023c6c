// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
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

// newFilter returns the seccomp program for a level of network. It allows what
// it does not know: Landlock is the wall, this closes the ways around it.
func newFilter(network Network) []helper.Instr {
	var f filter
	f.add(opLoad, atArch, 0, 0)
	f.refuseUnless(retKill, nativeArch)
	f.add(opLoad, atNumber, 0, 0)
	if foreignFrom != 0 {
		f.add(opAtLeast, foreignFrom, 0, 1)
		f.add(opReturn, retKill, 0, 0)
	}
	for _, number := range refused {
		f.refuse(number, retPerm)
	}
	// clone3 hides its flags in memory; everybody falls back to clone.
	f.refuse(unix.SYS_CLONE3, retNoSys)
	f.inspect(unix.SYS_CLONE, func(f *filter) {
		f.loadArgument(0)
		f.add(opAnySet, newNamespaces, 0, 1)
		f.add(opReturn, retPerm, 0, 0)
	})
	// A terminal must not be told what its user typed.
	f.inspect(unix.SYS_IOCTL, func(f *filter) {
		f.loadArgument(1)
		f.refuseIf(retPerm, unix.TIOCSTI)
		f.refuseIf(retPerm, unix.TIOCLINUX)
	})
	// Landlock does not keep these from other processes of the same user.
	for _, number := range ofAnyProcess {
		f.inspect(number, func(f *filter) {
			f.loadArgument(0)
			f.refuseUnless(retPerm, 0)
		})
	}
	for _, number := range []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		f.inspect(number, func(f *filter) {
			f.loadArgument(1)
			f.refuseUnless(retPerm, 0)
		})
	}
	f.inspect(unix.SYS_SOCKETPAIR, func(f *filter) {
		f.loadArgument(0)
		f.refuseUnless(retFamily, unix.AF_UNIX)
	})
	f.inspect(unix.SYS_SOCKET, func(f *filter) { f.sockets(network) })
	f.add(opReturn, retAllow, 0, 0)
	return f
}

// sockets refuses those that a level of network does not have. There are no
// sockets of the file system at any level: Landlock does not yet see who
// connects to them, and one of them may be that of a container runtime.
func (f *filter) sockets(network Network) {
	f.loadArgument(0)
	switch network {
	case NetworkNone:
		f.add(opReturn, retPerm, 0, 0)
	case NetworkProxy:
		f.refuseUnless(retFamily, unix.AF_INET, unix.AF_INET6)
		f.loadArgument(1)
		f.add(opAnd, 0xf, 0, 0)
		f.refuseUnless(retPerm, unix.SOCK_STREAM)
		// Landlock knows TCP and not its relatives.
		f.loadArgument(2)
		f.refuseUnless(retPerm, 0, unix.IPPROTO_TCP)
	case NetworkOpen:
		f.refuseUnless(retFamily, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
		f.add(opEqual, unix.AF_NETLINK, 0, 3)
		f.loadArgument(2)
		f.refuseUnless(retPerm, unix.NETLINK_ROUTE)
	}
}
