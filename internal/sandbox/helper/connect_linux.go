// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// address is one as a command gave it.
type address struct {
	family int

	ip     netip.Addr // with no IPv4 in IPv6
	mapped bool       // it was that
	port   uint16

	path   string // of AF_UNIX
	groups uint32 // of AF_NETLINK
}

// readAddress reads the address that is the second argument of a call, once.
func readAddress(a *asked) (to address, err error) {
	size := int(int32(a.args[2]))
	var b [unix.SizeofSockaddrAny]byte
	if size < 2 || size > len(b) {
		return to, syscall.EINVAL
	}
	if n, err := threadOf(a.notification).read(b[:size], a.args[1]); err != nil || n < size {
		return to, syscall.EFAULT
	}
	if !a.waits() {
		return to, syscall.ENOENT
	}
	to.family = int(binary.NativeEndian.Uint16(b[:]))
	switch to.family {
	case unix.AF_INET:
		if size < unix.SizeofSockaddrInet4 {
			return to, syscall.EINVAL
		}
		to.ip = netip.AddrFrom4([4]byte(b[4:8]))
		to.port = binary.BigEndian.Uint16(b[2:])
	case unix.AF_INET6:
		if size < unix.SizeofSockaddrInet6-4 { // the last word is younger than the rest
			return to, syscall.EINVAL
		}
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		to.ip, to.mapped = ip.Unmap(), ip.Is4In6()
		to.port = binary.BigEndian.Uint16(b[2:])
	case unix.AF_UNIX:
		path, _, _ := bytes.Cut(b[2:min(size, unix.SizeofSockaddrUnix)], []byte{0})
		if len(path) == 0 { // a name that is in no file system
			return to, syscall.EPERM
		}
		to.path = string(path)
	case unix.AF_NETLINK:
		if size < unix.SizeofSockaddrNetlink {
			return to, syscall.EINVAL
		}
		to.groups = binary.NativeEndian.Uint32(b[8:])
	case unix.AF_UNSPEC:
	default:
		return to, syscall.EAFNOSUPPORT
	}
	return to, nil
}

// sockaddr returns an address of TCP for the kernel.
func (to *address) sockaddr() unix.Sockaddr {
	if to.family == unix.AF_INET {
		return &unix.SockaddrInet4{Port: int(to.port), Addr: to.ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.port), Addr: to.ip.As16()}
}

// nameOf returns the address that a socket of TCP has itself.
func nameOf(fd int) (name address, err error) {
	sockaddr, err := unix.Getsockname(fd)
	switch s := sockaddr.(type) {
	case *unix.SockaddrInet4:
		return address{family: unix.AF_INET, ip: netip.AddrFrom4(s.Addr), port: uint16(s.Port)}, nil
	case *unix.SockaddrInet6:
		return address{family: unix.AF_INET6, ip: netip.AddrFrom16(s.Addr).Unmap(), port: uint16(s.Port)}, nil
	}
	if err == nil {
		err = syscall.EAFNOSUPPORT
	}
	return name, err
}

func disconnect(fd int) error {
	var nowhere unix.RawSockaddr
	_, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nowhere)), unsafe.Sizeof(nowhere))
	return errnoOrNil(errno)
}

// callerPause is how often it is looked whether somebody still waits for a
// connection.
const callerPause = 250 * time.Millisecond

// wait calls connect when it is its turn: where connects wait for who listens, not
// too many may do so at a time.
func (s *sockets) wait(a *asked, taken *socket, connect func() error) error {
	flags, err := unix.FcntlInt(uintptr(taken.fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_NONBLOCK == 0 {
		s.connects <- struct{}{}
		defer func() { <-s.connects }()
		if !a.waits() {
			return syscall.EINTR
		}
	}
	return connect()
}

// connectTCP connects, and gives up when nobody waits for it any more.
func (a *asked) connectTCP(fd int, to unix.Sockaddr) error {
	var mu sync.Mutex
	var timer *time.Timer
	done := false
	mu.Lock()
	timer = time.AfterFunc(callerPause, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case done:
		case a.waits():
			timer.Reset(callerPause)
		default:
			unix.Shutdown(fd, unix.SHUT_RDWR)
		}
	})
	mu.Unlock()
	defer func() {
		mu.Lock()
		done = true
		mu.Unlock()
		timer.Stop()
	}()
	return unix.Connect(fd, to)
}
