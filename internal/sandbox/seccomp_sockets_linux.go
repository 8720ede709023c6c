// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

// sockets refuses those that a level of network does not have. Without namespaces
// there are no sockets of the file system but for the loopback, where the helper
// is asked: Landlock does not yet see who connects to them, and one of them may be
// that of a container runtime.
func (f *filter) sockets(network Network, namespaced bool) {
	// Who watches a directory outside learns the names in it. It is allowed where
	// there is nothing outside, and where there are servers that reload what has
	// changed.
	if network != NetworkOpen && !namespaced {
		for _, number := range watching() {
			f.refuse(number, retNoSys)
		}
	}
	if namespaced && (network == NetworkLoopback || network == NetworkOpen) {
		f.inspect(unix.SYS_SOCKET, func(f *filter) {
			f.families(unix.AF_INET, unix.AF_INET6, unix.AF_UNIX, unix.AF_NETLINK)
		})
		return
	}
	// A pair of datagram sockets would be one: each of them can send anywhere.
	f.inspect(unix.SYS_SOCKETPAIR, func(f *filter) {
		f.loadArgument(0)
		f.refuseUnless(retFamily, unix.AF_UNIX)
		f.loadArgument(1)
		f.add(opAnd, socketType, 0, 0)
		f.refuseUnless(retPerm, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	})
	f.inspect(unix.SYS_SOCKET, func(f *filter) {
		switch network {
		case NetworkOpen:
			f.families(unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
		case NetworkLoopback:
			f.families(unix.AF_INET, unix.AF_INET6, unix.AF_UNIX, unix.AF_NETLINK)
			for _, family := range [...]uint32{unix.AF_INET, unix.AF_INET6, unix.AF_UNIX} {
				f.whenArgument(0, family, (*filter).streams)
			}
		default:
			f.add(opReturn, retPerm, 0, 0)
		}
	})
	if network == NetworkLoopback {
		f.fastOpen()
		f.routes()
	}
}

// families refuses sockets of others, and those to the kernel that are not about
// addresses and routes. The family stays loaded.
func (f *filter) families(families ...uint32) {
	f.loadArgument(0)
	f.refuseUnless(retFamily, families...)
	f.whenArgument(0, unix.AF_NETLINK, func(f *filter) {
		f.loadArgument(2)
		f.refuseUnless(retPerm, unix.NETLINK_ROUTE)
	})
}

// streams refuses what is not TCP, or a stream of the file system. Who has not
// heard of MPTCP is asked for TCP next.
func (f *filter) streams() {
	f.loadArgument(1)
	f.add(opAnd, socketType, 0, 0)
	f.refuseUnless(retPerm, unix.SOCK_STREAM)
	f.loadArgument(2)
	f.refuseIf(retProtocol, unix.IPPROTO_MPTCP)
	f.refuseUnless(retPerm, 0, unix.IPPROTO_TCP)
}

// fastOpen refuses to connect by sending, which nobody sees who looks at connect.
func (f *filter) fastOpen() {
	for _, c := range [...]struct{ number, flags uint32 }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}} {
		f.inspect(c.number, func(f *filter) {
			f.loadArgument(c.flags)
			f.refuseBits(retPerm, unix.MSG_FASTOPEN)
		})
	}
}

// routes refuses options by which a connection to a loopback address goes
// elsewhere: by another device, by way of another host, later, or to somebody
// else who has the same port.
func (f *filter) routes() {
	const bindToIfindex = 62 // SO_BINDTOIFINDEX
	f.inspect(unix.SYS_SETSOCKOPT, func(f *filter) {
		f.loadArgument(1)
		f.whenArgument(1, unix.SOL_SOCKET, func(f *filter) {
			f.loadArgument(2)
			f.refuseIf(retNothing, unix.SO_REUSEPORT) // many set it who do not need it
			f.refuseIf(retPerm, unix.SO_BINDTODEVICE, bindToIfindex)
		})
		f.whenArgument(1, unix.IPPROTO_IP, func(f *filter) {
			f.loadArgument(2)
			f.refuseIf(retPerm, unix.IP_OPTIONS)
		})
		f.whenArgument(1, unix.IPPROTO_IPV6, func(f *filter) {
			f.loadArgument(2)
			f.refuseIf(retPerm, unix.IPV6_RTHDR, unix.IPV6_2292RTHDR, unix.IPV6_2292PKTOPTIONS)
		})
		f.whenArgument(1, unix.IPPROTO_TCP, func(f *filter) {
			f.loadArgument(2)
			f.refuseIf(retNoSupp, unix.TCP_FASTOPEN_CONNECT)
			f.refuseIf(retPerm, unix.TCP_REPAIR)
		})
	})
}

// askSockets has the helper make sockets and bind, connect and listen with them,
// as helper/sockets_linux.go tells.
func (f *filter) askSockets() {
	for _, number := range [...]uint32{unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_LISTEN} {
		f.refuse(number, retAskOrRefuse)
	}
}
