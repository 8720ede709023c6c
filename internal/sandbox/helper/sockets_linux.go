// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where a session has no network namespace, its loopback is that of the machine,
// and the filter hands socket, bind, connect and listen to the helper. It makes the
// socket, keeps a duplicate, and puts the socket into the process that asked. To
// bind, connect and listen it finds the duplicate by the number of the inode, reads
// the address once, judges it, and acts on the duplicate: whatever the process does
// meanwhile to its memory and its files, what was judged is what is done.
//
// A command connects to sockets that commands of this helper listen on and to the
// ports that its request names. While somebody has a socket that listens, the
// helper holds its port by another socket, so that nobody else gets the port while
// a connection to it is on its way. Whether somebody still has it is told by epoll,
// which forgets a socket that is closed everywhere.
//
// A duplicate is closed when the socket listens or is connected, which are the
// states in which its end means something to others.

// Port is what the roots of a request say about a port of 127.0.0.1 that the
// command may connect to, beside those of its session.
func Port(port uint16) string { return "tcp:" + strconv.Itoa(int(port)) }

// sockets are those that the helper made for commands.
type sockets struct {
	once      sync.Once
	connects  chan struct{} // one for each connect that may wait
	mu        sync.Mutex
	open      map[uint64]*socket // by inode: those of which there is a duplicate
	listening map[uint64]*listener
	ports     map[netip.AddrPort]*listener
	files     map[fileID]*listener
	watch     int // an epoll file, with what listens
	tended    bool
	scanned   time.Time     // when it was last looked for who has sockets
	pause     time.Duration // until it is looked again
	directory sync.Mutex    // the working directory of the helper
}

// What a helper holds at most; and how many connects wait, each with a thread.
const (
	maxSockets   = 512
	maxListeners = 256
	maxConnects  = 128
)

// socket is one that nobody has connected yet, and that does not listen.
type socket struct {
	inode      uint64
	fd         int // the duplicate
	family     int
	made       time.Time
	everywhere int    // the family of all whose addresses it was to be bound to; 0 is one address
	file       fileID // what it is bound to, of the file system
	busy       int    // calls that use the duplicate
	closing    bool   // when it is not busy
	connecting bool   // and nobody waits for it here
	to         *listener
}

// listener is a socket that listens.
type listener struct {
	inode      uint64
	at         netip.AddrPort // with no IPv4 in IPv6
	everywhere int
	hold       int // the socket that has the port, too; -1 for a file
	file       fileID
	connecting int // to it, which is why the port is still held
}

func (s *sockets) init() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.listening = make(map[uint64]*socket), make(map[uint64]*listener)
	s.ports, s.files = make(map[netip.AddrPort]*listener), make(map[fileID]*listener)
	s.connects = make(chan struct{}, maxConnects)
	s.watch, _ = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
}

// makeSocket makes a socket for a command. It has responded if there is no error.
func (h *helper) makeSocket(a *asked) error {
	s := &h.sockets
	s.once.Do(s.init)
	family, kind, protocol := int(int32(a.args[0])), int(int32(a.args[1])), int(int32(a.args[2]))
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	switch family {
	case unix.AF_INET, unix.AF_INET6, unix.AF_UNIX:
		if kind&^flags != unix.SOCK_STREAM || protocol != 0 && protocol != unix.IPPROTO_TCP {
			return syscall.EPERM
		}
	case unix.AF_NETLINK:
		if protocol != unix.NETLINK_ROUTE {
			return syscall.EPERM
		}
	default:
		return syscall.EAFNOSUPPORT
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return err
	}
	made := &socket{inode: stat.Ino, fd: fd, family: family, made: time.Now(), busy: 1}
	s.add(made)
	err = a.install(fd, kind&unix.SOCK_CLOEXEC)
	s.leave(made, err != nil)
	return err
}

// addFD is a struct seccomp_notif_addfd.
type addFD struct {
	id                             uint64
	flags, from, number, fileFlags uint32
}

// install puts a file into the process, whose call returns its number.
func (a *asked) install(fd, flags int) error {
	add := addFD{id: a.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, from: uint32(fd), fileFlags: uint32(flags)}
	errno := ioctl(a.listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add))
	if errno == 0 {
		return nil
	}
	if errno != syscall.EINVAL {
		return errno
	}
	add.flags = 0 // before Linux 5.14
	number, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(a.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&add)))
	if errno != 0 {
		return errno
	}
	a.respond(int64(number), nil)
	return nil
}

func (s *sockets) add(made *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSockets && time.Since(s.scanned) > tendPause {
		s.closeOrphans()
	}
	if len(s.open) >= maxSockets {
		s.closeOldest()
	}
	s.open[made.inode] = made
	s.pause = firstScan
	s.tend()
}

// take returns the socket of a call, and has nobody close it until leave. It is
// nil if there is no duplicate.
func (s *sockets) take(a *asked) (*socket, error) {
	inode, err := a.inode()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.open[inode]
	if found != nil {
		found.busy++
	}
	return found, nil
}

// leave ends what take began. A socket that is not needed any more is closed.
func (s *sockets) leave(taken *socket, unneeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken.busy--
	if unneeded || taken.closing {
		s.close(taken)
	}
}

// close closes a duplicate, or leaves that to who uses it. The sockets are locked.
func (s *sockets) close(c *socket) {
	delete(s.open, c.inode)
	if c.closing = c.busy > 0; c.closing {
		return
	}
	s.arrived(c)
	unix.Close(c.fd)
	c.fd = -1
}

// inode returns that of the socket that is the first argument of a call.
func (a *asked) inode() (uint64, error) {
	link, err := os.Readlink(string(threadOf(a.notification)) + "fd/" + strconv.Itoa(int(int32(a.args[0]))))
	if os.IsNotExist(err) {
		return 0, syscall.EBADF
	}
	if err != nil {
		return 0, syscall.EPERM
	}
	number, ok := strings.CutPrefix(link, "socket:[")
	if !ok {
		return 0, syscall.ENOTSOCK
	}
	return strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
}

// bind binds to a loopback address, where any is meant to all of them, or to a
// file.
func (h *helper) bind(a *asked) error {
	s := &h.sockets
	taken, err := s.take(a)
	if err != nil {
		return err
	}
	if taken == nil { // it is connected, or listens
		return syscall.EINVAL
	}
	done := false
	defer func() { s.leave(taken, done) }()
	to, err := readAddress(a)
	if err != nil {
		return err
	}
	switch to.family {
	case unix.AF_UNIX:
		return h.bindPath(a, taken, to.path)
	case unix.AF_NETLINK:
		err = unix.Bind(taken.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: to.groups})
		done = err == nil // there is nothing else to do with it
		return err
	case unix.AF_UNSPEC:
		return syscall.EAFNOSUPPORT
	}
	everywhere := 0
	if to.ip.IsUnspecified() {
		to.ip, everywhere = anyLoopback(taken.fd, to)
	}
	if !to.ip.IsLoopback() {
		return syscall.EADDRNOTAVAIL
	}
	if err = unix.Bind(taken.fd, to.sockaddr()); err == syscall.EADDRINUSE && s.closeUnused() {
		err = unix.Bind(taken.fd, to.sockaddr())
	}
	if err == nil {
		s.mu.Lock()
		taken.everywhere = everywhere
		s.mu.Unlock()
	}
	return err
}

// anyLoopback returns what is bound instead of all addresses, and of which family
// they are all.
func anyLoopback(fd int, to address) (netip.Addr, int) {
	if to.ip.Is4() {
		return loopback4, unix.AF_INET
	}
	if only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY); err != nil || only != 0 {
		return netip.IPv6Loopback(), 0
	}
	return loopback4, unix.AF_INET6
}

var loopback4 = netip.AddrFrom4(loopback)

// listenOn has a socket listen, and holds its port.
func (h *helper) listenOn(a *asked) error {
	s := &h.sockets
	inode, err := a.inode()
	if err != nil {
		return err
	}
	if !a.waits() {
		return syscall.ENOENT
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening[inode] != nil {
		return nil // processes that share a socket all do
	}
	taken := s.open[inode]
	if taken == nil {
		return syscall.EINVAL
	}
	if len(s.listening) >= maxListeners {
		if s.bury(); len(s.listening) >= maxListeners {
			return syscall.ENOBUFS
		}
	}
	l := &listener{inode: inode, hold: -1, file: taken.file}
	backlog := int(int32(a.args[1]))
	switch taken.family {
	case unix.AF_UNIX:
		err = unix.Listen(taken.fd, backlog)
	case unix.AF_INET, unix.AF_INET6:
		err = l.listenTCP(taken, backlog)
	default:
		err = syscall.EOPNOTSUPP
	}
	if err != nil {
		return err
	}
	event := unix.EpollEvent{Fd: int32(uint32(inode)), Pad: int32(inode >> 32)}
	if err := unix.EpollCtl(s.watch, unix.EPOLL_CTL_ADD, taken.fd, &event); err != nil {
		unix.Shutdown(taken.fd, unix.SHUT_RDWR) // nobody would know its end
		l.free()
		return err
	}
	s.listening[inode] = l
	if l.hold >= 0 {
		s.ports[l.at] = l
	} else if l.file != (fileID{}) {
		s.files[l.file] = l
	}
	s.close(taken)
	return nil
}

// listenTCP has a socket listen at a loopback address, and another one hold it.
// Both may have an address while neither listens and both say so.
func (l *listener) listenTCP(taken *socket, backlog int) error {
	name, err := nameOf(taken.fd)
	if err == nil && name.port == 0 {
		name.ip, taken.everywhere = anyLoopback(taken.fd, name)
		if err = unix.Bind(taken.fd, name.sockaddr()); err == nil {
			name, err = nameOf(taken.fd)
		}
	}
	if err != nil {
		return err
	}
	if !name.ip.IsLoopback() {
		return syscall.EACCES
	}
	l.at, l.everywhere = netip.AddrPortFrom(name.ip, name.port), taken.everywhere
	if l.hold, err = unix.Socket(taken.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	shared, _ := unix.GetsockoptInt(taken.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR)
	unix.SetsockoptInt(taken.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	unix.SetsockoptInt(l.hold, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err = unix.Bind(l.hold, name.sockaddr()); err == nil {
		err = unix.Listen(taken.fd, backlog)
	}
	unix.SetsockoptInt(l.hold, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
	unix.SetsockoptInt(taken.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, shared)
	if err != nil {
		l.free()
	}
	return err
}

func (l *listener) free() {
	if l.hold >= 0 {
		unix.Close(l.hold)
		l.hold = -1
	}
}

// connect connects to what the session listens on, and to ports of the request.
func (h *helper) connect(a *asked) error {
	s := &h.sockets
	taken, err := s.take(a)
	if err != nil {
		return err
	}
	if taken == nil { // it is, or was accepted, or is one of a pair
		return syscall.EISCONN
	}
	done := false
	defer func() { s.leave(taken, done) }()
	to, err := readAddress(a)
	if err != nil {
		return err
	}
	switch to.family {
	case unix.AF_UNIX:
		err = h.connectPath(a, taken, to.path)
		done = err == nil || err == syscall.EISCONN
		return err
	case unix.AF_UNSPEC:
		return disconnect(taken.fd)
	case unix.AF_NETLINK:
		return syscall.EPERM
	}
	l, err := h.reach(a, &to)
	if err != nil {
		return err
	}
	err = s.wait(a, taken, func() error { return a.connectTCP(taken.fd, to.sockaddr()) })
	if err == syscall.ENETUNREACH { // an IPv6 socket for that alone, where it is served by IPv4
		err = syscall.ECONNREFUSED
	}
	done = s.connected(taken, l, err)
	return err
}

// reach returns who listens at an address, or nil if it is a port of the request.
// It has the address at which that listens, and holds its port until it is told
// what came of connecting.
func (h *helper) reach(a *asked, to *address) (*listener, error) {
	if to.ip.IsUnspecified() { // as the kernel takes it
		if to.ip = loopback4; to.family == unix.AF_INET6 && !to.mapped {
			to.ip = netip.IPv6Loopback()
		}
	}
	if !to.ip.IsLoopback() {
		return nil, syscall.ENETUNREACH
	}
	if l := h.sockets.at(to); l != nil {
		return l, nil
	}
	if to.ip == loopback4 && slices.Contains(h.rootsOf(int(a.thread)), Port(to.port)) && a.waits() {
		return nil, nil
	}
	return nil, syscall.ECONNREFUSED
}

func (s *sockets) at(to *address) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ports[netip.AddrPortFrom(to.ip, to.port)]
	if l == nil {
		all := s.ports[netip.AddrPortFrom(loopback4, to.port)]
		if all != nil && (all.everywhere == unix.AF_INET6 || all.everywhere == unix.AF_INET && to.ip.Is4()) {
			l, to.ip = all, loopback4
		}
	}
	if l != nil {
		l.connecting++
	}
	return l
}

// connected takes note of what came of connecting. It returns true if the
// duplicate is not needed any more.
func (s *sockets) connected(c *socket, l *listener, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l != nil {
		l.connecting--
	}
	switch err {
	case nil, syscall.EISCONN:
		return true
	case syscall.EINPROGRESS, syscall.EINTR:
		switch stateOf(c.fd) {
		case unix.BPF_TCP_ESTABLISHED, unix.BPF_TCP_CLOSE_WAIT:
			return true
		case unix.BPF_TCP_SYN_SENT: // who listens has not enough room: tend looks at it
			s.arrived(c)
			if c.connecting, c.to = true, l; l != nil {
				l.connecting++
			}
		}
	}
	return false
}

// arrived ends what connected began with a socket that nobody waits for. The
// sockets are locked.
func (s *sockets) arrived(c *socket) {
	if c.to != nil {
		c.to.connecting--
	}
	c.connecting, c.to = false, nil
}

// stateOf returns the state of a connection.
func stateOf(fd int) uint8 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return unix.BPF_TCP_CLOSE
	}
	return info.State
}
