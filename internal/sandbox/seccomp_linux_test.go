// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// answer returns what a seccomp program says of a system call.
func answer(t *testing.T, program []helper.Instr, number uint32, args ...uint32) uint32 {
	t.Helper()
	var loaded uint32
	for at := 0; at < len(program); at++ {
		i := program[at]
		jump := func(yes bool) {
			if yes {
				at += int(i.JT)
			} else {
				at += int(i.JF)
			}
		}
		switch i.Code {
		case opLoad:
			switch {
			case i.K == atNumber:
				loaded = number
			case i.K == atArch:
				loaded = nativeArch
			case int(i.K-atArgument)/8 < len(args):
				loaded = args[(i.K-atArgument)/8]
			default:
				loaded = 0
			}
		case opAnd:
			loaded &= i.K
		case opEqual:
			jump(loaded == i.K)
		case opAtLeast:
			jump(loaded >= i.K)
		case opAnySet:
			jump(loaded&i.K != 0)
		case opReturn:
			return i.K
		default:
			t.Fatalf("unknown instruction %x", i.Code)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

// together is what the kernel makes of two answers: refusals come before questions.
func together(a, b uint32) uint32 {
	rank := func(ret uint32) int32 { return int32(ret & unix.SECCOMP_RET_ACTION_FULL) }
	if rank(b) < rank(a) {
		return b
	}
	return a
}

// TestSocketFilters asks the filters of all levels of network, in one program and
// in two.
func TestSocketFilters(t *testing.T) {
	const stream, dgram, raw, route = unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.NETLINK_ROUTE
	type answers [4]uint32 // none, open, loopback, loopback with namespaces
	for name, test := range map[string]struct {
		number uint32
		args   []uint32
		want   answers
	}{
		"tcp":          {unix.SYS_SOCKET, []uint32{unix.AF_INET, stream | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, answers{retPerm, retAllow, retAskOrRefuse, retAllow}},
		"tcp6":         {unix.SYS_SOCKET, []uint32{unix.AF_INET6, stream, unix.IPPROTO_TCP}, answers{retPerm, retAllow, retAskOrRefuse, retAllow}},
		"udp":          {unix.SYS_SOCKET, []uint32{unix.AF_INET, dgram, 0}, answers{retPerm, retAllow, retPerm, retAllow}},
		"mptcp":        {unix.SYS_SOCKET, []uint32{unix.AF_INET, stream, unix.IPPROTO_MPTCP}, answers{retPerm, retAllow, retProtocol, retAllow}},
		"sctp":         {unix.SYS_SOCKET, []uint32{unix.AF_INET6, stream, unix.IPPROTO_SCTP}, answers{retPerm, retAllow, retPerm, retAllow}},
		"file":         {unix.SYS_SOCKET, []uint32{unix.AF_UNIX, stream, 0}, answers{retPerm, retFamily, retAskOrRefuse, retAllow}},
		"file dgram":   {unix.SYS_SOCKET, []uint32{unix.AF_UNIX, dgram, 0}, answers{retPerm, retFamily, retPerm, retAllow}},
		"route":        {unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, raw, route}, answers{retPerm, retAllow, retAskOrRefuse, retAllow}},
		"diagnosis":    {unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, raw, unix.NETLINK_SOCK_DIAG}, answers{retPerm, retPerm, retPerm, retPerm}},
		"packets":      {unix.SYS_SOCKET, []uint32{unix.AF_PACKET, raw, 0}, answers{retPerm, retFamily, retFamily, retFamily}},
		"pair":         {unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, stream, 0}, answers{retAllow, retAllow, retAllow, retAllow}},
		"pair dgram":   {unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, dgram, 0}, answers{retPerm, retPerm, retPerm, retAllow}},
		"bind":         {unix.SYS_BIND, nil, answers{retAllow, retAllow, retAskOrRefuse, retAllow}},
		"connect":      {unix.SYS_CONNECT, nil, answers{retAllow, retAllow, retAskOrRefuse, retAllow}},
		"listen":       {unix.SYS_LISTEN, nil, answers{retAllow, retAllow, retAskOrRefuse, retAllow}},
		"accept":       {unix.SYS_ACCEPT4, nil, answers{}},
		"send":         {unix.SYS_SENDTO, []uint32{0, 0, 0, unix.MSG_NOSIGNAL}, answers{}},
		"fast open":    {unix.SYS_SENDTO, []uint32{0, 0, 0, unix.MSG_FASTOPEN}, answers{retAllow, retAllow, retPerm, retAllow}},
		"fast open 2":  {unix.SYS_SENDMSG, []uint32{0, 0, unix.MSG_FASTOPEN}, answers{retAllow, retAllow, retPerm, retAllow}},
		"fast open 3":  {unix.SYS_SENDMMSG, []uint32{0, 0, 0, unix.MSG_FASTOPEN}, answers{retAllow, retAllow, retPerm, retAllow}},
		"port":         {unix.SYS_SETSOCKOPT, []uint32{0, unix.SOL_SOCKET, unix.SO_REUSEPORT}, answers{retAllow, retAllow, retNothing, retAllow}},
		"reuse":        {unix.SYS_SETSOCKOPT, []uint32{0, unix.SOL_SOCKET, unix.SO_REUSEADDR}, answers{}},
		"device":       {unix.SYS_SETSOCKOPT, []uint32{0, unix.SOL_SOCKET, unix.SO_BINDTODEVICE}, answers{retAllow, retAllow, retPerm, retAllow}},
		"source route": {unix.SYS_SETSOCKOPT, []uint32{0, unix.IPPROTO_IP, unix.IP_OPTIONS}, answers{retAllow, retAllow, retPerm, retAllow}},
		"type":         {unix.SYS_SETSOCKOPT, []uint32{0, unix.IPPROTO_IP, unix.IP_TOS}, answers{}},
		"routing":      {unix.SYS_SETSOCKOPT, []uint32{0, unix.IPPROTO_IPV6, unix.IPV6_RTHDR}, answers{retAllow, retAllow, retPerm, retAllow}},
		"no delay":     {unix.SYS_SETSOCKOPT, []uint32{0, unix.IPPROTO_TCP, unix.TCP_NODELAY}, answers{}},
		"later":        {unix.SYS_SETSOCKOPT, []uint32{0, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT}, answers{retAllow, retAllow, retNoSupp, retAllow}},
		"watch":        {unix.SYS_INOTIFY_INIT1, nil, answers{retNoSys, retAllow, retNoSys, retAllow}},
		"times":        {unix.SYS_UTIMENSAT, nil, answers{retAsk, retAsk, retAsk, retAsk}},
		"mount":        {unix.SYS_MOUNT, nil, answers{retPerm, retPerm, retPerm, retPerm}},
		"read":         {unix.SYS_READ, nil, answers{}},
	} {
		for i, want := range test.want {
			if test.want == (answers{}) {
				want = retAllow
			}
			network, namespaced := [...]Network{NetworkNone, NetworkOpen, NetworkLoopback, NetworkLoopback}[i], i == len(test.want)-1
			asks := network == NetworkLoopback && !namespaced
			got := together(
				answer(t, commonFilter(landlockScopes, asks), test.number, test.args...),
				answer(t, socketFilter(network, namespaced), test.number, test.args...))
			if got != want {
				t.Errorf("%s: network %d, namespaced %t, in two filters: %x, want %x", name, network, namespaced, got, want)
			}
		}
		// Without a network nothing is asked, even where others of the helper do.
		if got := together(
			answer(t, commonFilter(landlockScopes, true), unix.SYS_SOCKET, unix.AF_INET, stream, 0),
			answer(t, socketFilter(NetworkNone, false), unix.SYS_SOCKET, unix.AF_INET, stream, 0)); got != retPerm {
			t.Errorf("no network, where others have a loopback: %x", got)
		}
	}
}

// TestModeFilter asks about all calls that give a file a mode.
func TestModeFilter(t *testing.T) {
	program := commonFilter(landlockScopes, false)
	ask := func(c moded, mode, flags uint32) uint32 {
		var args [6]uint32
		args[c.mode] = mode
		if c.flags != noFlags {
			args[c.flags] = flags
		}
		return answer(t, program, c.number, args[:]...)
	}
	for _, c := range creating() {
		for _, flags := range []uint32{unix.O_CREAT, unix.O_TMPFILE} {
			for mode, want := range map[uint32]uint32{0o755: retAllow, unix.S_IFREG | 0o1777: retAllow, 0o4755: retPerm, unix.S_IFREG | 0o2755: retPerm} {
				if got := ask(c, mode, flags|unix.O_RDWR); got != want {
					t.Errorf("call %d, mode %o: %x, want %x", c.number, mode, got, want)
				}
			}
		}
		if got := ask(c, 0o6777, unix.O_RDWR|unix.O_DIRECTORY); c.flags != noFlags && got != retAllow {
			t.Errorf("call %d without a mode: %x", c.number, got)
		}
	}
	for _, c := range modes() {
		if plain, set := ask(c, 0o755, 0), ask(c, 0o4755, 0); plain != retAsk || set != retAskOrRefuse {
			t.Errorf("call %d: %x, %x", c.number, plain, set)
		}
	}
}
