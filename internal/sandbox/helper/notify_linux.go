// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock does not keep a command from changing the mode and the times of files
// it cannot open. So the filter hands these calls to the helper, which does them
// for files below the roots of the command. It opens the file first and looks
// where it is then: what is checked is what is changed. What the filter hands over
// about sockets is in sockets_linux.go.

// notification is a struct seccomp_notif: a call that waits for an answer.
type notification struct {
	id     uint64
	thread uint32
	_      uint32
	number int32
	_      uint32
	_      uint64
	args   [6]uint64
}

// response is a struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// sockFprog is the kernel's struct of that name.
type sockFprog struct {
	len    uint16
	filter *byte
}

// restrict sets the filter that commands inherit. Where calls cannot be handed
// over, what would be is allowed, or refused with the error that comes with it.
func (h *helper) restrict(size int, filter []byte) syscall.Errno {
	if size == 0 || len(filter) != instrSize*size || h.listening {
		return syscall.EINVAL
	}
	program := sockFprog{len: uint16(size), filter: unsafe.SliceData(filter)}
	set := func(flags uintptr) (int, syscall.Errno) {
		fd, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
		return int(fd), errno
	}
	memory, err := unix.Open("/proc/self/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil && mayRead() {
		h.memory = memory
		listener, errno := set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
		if errno == syscall.EINVAL { // before Linux 5.19
			listener, errno = set(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
		}
		if errno == 0 {
			h.listening = true
			go h.listen(listener)
			return 0
		}
	}
	for i := range size {
		k := filter[instrSize*i+4:]
		ret := binary.LittleEndian.Uint32(k)
		if binary.LittleEndian.Uint16(filter[instrSize*i:]) != unix.BPF_RET|unix.BPF_K || ret&unix.SECCOMP_RET_ACTION_FULL != unix.SECCOMP_RET_USER_NOTIF {
			continue
		}
		instead := uint32(unix.SECCOMP_RET_ALLOW)
		if errno := ret & unix.SECCOMP_RET_DATA; errno != 0 {
			instead = unix.SECCOMP_RET_ERRNO | errno
		}
		binary.LittleEndian.PutUint32(k, instead)
	}
	_, errno := set(0)
	return errno
}

// mayRead tells whether the machine lets a process read the memory of its
// descendants, where the paths are.
func mayRead() bool {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err != nil || len(scope) == 0 || scope[0] <= '1'
}

func (h *helper) listen(listener int) {
	for {
		var n notification
		switch errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno {
		case 0:
			go h.answer(asked{listener, n}) // a file system may take its time
		case syscall.EINTR, syscall.ENOENT:
		default:
			return
		}
	}
}

func ioctl(fd int, number uint, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number), uintptr(arg))
	return errno
}

// asked is a call that waits for the helper to do it.
type asked struct {
	listener int
	notification
}

// waits reports whether the call still waits. If so, its thread has not been
// replaced: what was read of it is its own.
func (a *asked) waits() bool {
	return ioctl(a.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&a.id)) == 0
}

func (a *asked) respond(value int64, err error) {
	r := response{id: a.id, value: value}
	if err != nil {
		errno, ok := err.(syscall.Errno)
		if !ok {
			errno = syscall.EPERM
		}
		r.errno = -int32(errno)
	}
	ioctl(a.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// goOn has the kernel carry the call out. It is for calls whose arguments are
// numbers: memory may be another by the time the kernel looks.
func (a *asked) goOn() {
	r := response{id: a.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	ioctl(a.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

func (h *helper) answer(a asked) {
	switch a.number {
	case unix.SYS_KILL:
		h.signal(&a)
	case unix.SYS_SOCKET:
		if err := h.makeSocket(&a); err != nil {
			a.respond(0, err)
		}
	case unix.SYS_BIND:
		a.respond(0, h.bind(&a))
	case unix.SYS_CONNECT:
		a.respond(0, h.connect(&a))
	case unix.SYS_LISTEN:
		a.respond(0, h.listenOn(&a))
	default:
		a.respond(0, h.act(&a))
	}
}

// act does what a command asks for, if it may.
func (h *helper) act(a *asked) error {
	change, err := decode(a.notification)
	if err != nil {
		return err
	}
	roots := h.rootsOf(int(a.thread))
	file, err := change.open()
	if err != nil {
		return err
	}
	defer unix.Close(file)
	self := fdPath(file)
	path, err := os.Readlink(self)
	if err != nil || !below(change.inView(path), roots) {
		return syscall.EPERM
	}
	if !a.waits() {
		return syscall.ENOENT
	}
	if change.mode {
		mode, err := harmless(file, uint32(a.args[change.at]))
		if err != nil {
			return err
		}
		return unix.Fchmodat(unix.AT_FDCWD, self, mode, 0)
	}
	return change.setTimes(self)
}

// harmless takes the bits from a mode by which a program has the rights of who
// owns it. On a directory the group is for what is made there.
func harmless(file int, mode uint32) (uint32, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(file, &stat); err != nil {
		return 0, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		mode &^= unix.S_ISGID
	}
	return mode &^ unix.S_ISUID, nil
}

// fdPath is a name for an open file of the helper.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func below(path string, roots []string) bool {
	for _, root := range roots {
		if path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/") {
			return true
		}
	}
	return false
}

// thread is the directory in /proc of one that a call is from.
type thread string

func threadOf(n notification) thread {
	return thread("/proc/" + strconv.Itoa(int(n.thread)) + "/")
}

// place is a file as a thread names it.
type place struct {
	thread
	dir   int32
	path  string // "" is dir itself
	flags int
}

// change is a call as it was made: of the mode, or of the times.
type change struct {
	place
	mode  bool
	at    int // which argument has the mode or the address of the times
	times uint64
}

func decode(n notification) (c change, err error) {
	c = change{place: place{thread: threadOf(n), dir: int32(n.args[0])}, at: 2}
	path, flags := n.args[1], uint64(0)
	switch n.number {
	case unix.SYS_FCHMOD:
		c.mode, c.at = true, 1
		return c, nil
	case sysChmod:
		c.mode, c.at, c.dir, path = true, 1, unix.AT_FDCWD, n.args[0]
	case unix.SYS_FCHMODAT:
		c.mode = true
	case unix.SYS_FCHMODAT2:
		c.mode, flags = true, n.args[3]
	case unix.SYS_UTIMENSAT:
		flags, c.times = n.args[3], n.args[2]
		if path == 0 {
			return c, nil
		}
	default:
		return c, syscall.ENOSYS
	}
	c.flags = int(flags)
	if c.flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return c, syscall.EINVAL
	}
	var text [unix.PathMax]byte
	size, err := c.read(text[:], path)
	if err != nil {
		return c, err
	}
	end := bytes.IndexByte(text[:size], 0)
	if end < 0 {
		return c, syscall.ENAMETOOLONG
	}
	c.path = string(text[:end])
	if c.path == "" && c.flags&unix.AT_EMPTY_PATH == 0 {
		return c, syscall.ENOENT
	}
	return c, nil
}

// read reads memory of the thread.
func (t thread) read(p []byte, address uint64) (int, error) {
	memory, err := unix.Open(string(t)+"mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, syscall.EPERM
	}
	defer unix.Close(memory)
	n, err := unix.Pread(memory, p, int64(address))
	if err != nil || n == 0 {
		return 0, syscall.EFAULT
	}
	return n, nil
}

// open opens the file, and nothing of it.
func (c *place) open() (int, error) {
	flags := unix.O_PATH | unix.O_CLOEXEC
	dir := string(c.thread) + "cwd"
	if c.dir != unix.AT_FDCWD {
		dir = string(c.thread) + "fd/" + strconv.Itoa(int(c.dir))
	}
	if c.path == "" {
		file, err := unix.Open(dir, flags, 0)
		if err == unix.ENOENT {
			err = unix.EBADF
		}
		return file, err
	}
	if c.flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		flags |= unix.O_NOFOLLOW
	}
	for _, self := range [...]string{"/proc/self/", "/proc/thread-self/", "/dev/"} {
		if rest, ok := strings.CutPrefix(c.path, self+"fd/"); ok {
			// An open file of the thread; whatever else is below is nobody's to change.
			if _, err := strconv.ParseUint(rest, 10, 31); err != nil {
				return -1, unix.EPERM
			}
			return unix.Open(string(c.thread)+"fd/"+rest, flags&^unix.O_NOFOLLOW, 0)
		}
	}
	path := c.path
	if path[0] != '/' {
		base, err := os.Readlink(dir)
		if err != nil {
			return -1, unix.EBADF
		}
		path = c.inView(base) + "/" + path
	}
	root, err := unix.Open(string(c.thread)+"root", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unix.EPERM
	}
	defer unix.Close(root)
	file, err := unix.Openat2(root, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT})
	if err == unix.ENOSYS && c.root() == "/" {
		return unix.Open(path, flags, 0)
	}
	return file, err
}

// root returns the root of the thread: / or that of its view.
func (t thread) root() string {
	root, err := os.Readlink(string(t) + "root")
	if err != nil {
		return "/"
	}
	return root
}

// inView returns a path of the machine as the thread knows it; "" for one that is
// outside of its view.
func (t thread) inView(path string) string {
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(t.root(), "/")); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return ""
}

func (c *change) setTimes(file string) error {
	if c.times == 0 {
		return unix.UtimesNanoAt(unix.AT_FDCWD, file, nil, 0)
	}
	var b [32]byte
	if n, err := c.read(b[:], c.times); err != nil || n < len(b) {
		return syscall.EFAULT
	}
	le := binary.LittleEndian
	return unix.UtimesNanoAt(unix.AT_FDCWD, file, []unix.Timespec{
		{Sec: int64(le.Uint64(b[:])), Nsec: int64(le.Uint64(b[8:]))},
		{Sec: int64(le.Uint64(b[16:])), Nsec: int64(le.Uint64(b[24:]))},
	}, 0)
}

// rootsOf returns the roots of the command that a thread belongs to: that of
// the guard it descends from.
func (h *helper) rootsOf(thread int) []string {
	if g := h.guardAbove(thread); g != nil {
		return h.rootsIn(g)
	}
	return nil
}

func (h *helper) guardOf(pid int) *guarded {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.guards {
		if g.pid == pid && g.running() {
			return g
		}
	}
	return nil
}

// rootsIn returns the roots in the request of a guard. It may have another one by
// now, or none: then the thread has ended, which is looked at later. So memory is
// read as a file, where what is not there any more is an error.
func (h *helper) rootsIn(g *guarded) (roots []string) {
	table, n := atomic.LoadUintptr(&g.roots), atomic.LoadUintptr(&g.nroots)
	for i := range min(n, MaxRoots) {
		var address [8]byte
		var text [unix.PathMax]byte
		if _, err := unix.Pread(h.memory, address[:], int64(table+8*i)); err != nil {
			return nil
		}
		size, err := unix.Pread(h.memory, text[:], int64(binary.LittleEndian.Uint64(address[:])))
		if err != nil {
			return nil
		}
		if end := bytes.IndexByte(text[:size], 0); end > 0 {
			roots = append(roots, string(text[:end]))
		}
	}
	return roots
}

// MaxRoots is how many roots a command may have.
const MaxRoots = 256

// parentOf returns 0 for a process that is gone.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name may have anything in it; after it come the state and the parent.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
