// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockets of the file system. One is bound by a thread that Landlock lets make
// sockets below the roots of the command and nowhere else. The thread binds by the path that the
// command gave, since getpeername(2) returns that path to other processes.

// fileID tells files apart that are there at the same time.
type fileID struct{ device, inode uint64 }

func fileOf(fd int) (id fileID, mode uint32, err error) {
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	return fileID{uint64(stat.Dev), stat.Ino}, stat.Mode, err
}

// bindPath binds a socket to a file that it makes.
func (h *helper) bindPath(a *asked, taken *socket, path string) error {
	if taken.family != unix.AF_UNIX {
		return syscall.EINVAL
	}
	from := threadOf(a.notification)
	cwd, err := unix.Open(string(from)+"cwd", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return syscall.EPERM
	}
	defer unix.Close(cwd)
	roots := h.rootsOf(int(a.thread))
	if err := unix.Fchmod(taken.fd, 0o777&^umaskOf(from)); err != nil { // as which the file is made
		return err
	}
	if !a.waits() {
		return syscall.ENOENT
	}
	begin := time.Now()
	bound := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends, and the restriction with it
		err := makeSocketsBelow(roots)
		if err == nil {
			err = h.sockets.bindIn(cwd, taken.fd, path)
		}
		bound <- err
	}()
	if err := <-bound; err != nil {
		return err
	}
	file, err := boundFile(place{thread: from, dir: unix.AT_FDCWD, path: path, flags: unix.AT_SYMLINK_NOFOLLOW}, roots, begin)
	if err != nil {
		return nil // somebody has moved it, and nobody will find it
	}
	h.sockets.mu.Lock()
	defer h.sockets.mu.Unlock()
	taken.file = file
	return nil
}

// makeSocketsBelow restricts the thread.
func makeSocketsBelow(roots []string) error {
	attr := [1]uint64{unix.LANDLOCK_ACCESS_FS_MAKE_SOCK}
	ruleset, _, errno := syscall.Syscall(landlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return syscall.EPERM
	}
	defer unix.Close(int(ruleset))
	for _, root := range roots {
		if root[0] != '/' {
			continue
		}
		dir, err := unix.Open(root, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_MAKE_SOCK, Parent_fd: int32(dir)}
		if real, err := os.Readlink(fdPath(dir)); err == nil && real == root {
			_, _, errno = syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		}
		unix.Close(dir)
		if errno != 0 {
			return errno
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno = syscall.Syscall(landlockRestrictSelf, ruleset, 0, 0)
	return errnoOrNil(errno)
}

// bindIn binds a socket to a path from a directory. All threads of the helper have
// one, so they take turns.
func (s *sockets) bindIn(dir, fd int, path string) error {
	s.directory.Lock()
	defer s.directory.Unlock()
	if err := unix.Fchdir(dir); err != nil {
		return err
	}
	defer unix.Chdir("/")
	raw := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	copy((*[len(raw.Path)]byte)(unsafe.Pointer(&raw.Path))[:], path)
	_, _, errno := syscall.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&raw)), unsafe.Sizeof(raw))
	return errnoOrNil(errno)
}

// boundFile returns the file that a socket was bound to after begin. Another that
// was put in its place is older, or is one that somebody listens on, which can be
// tried: the one that is looked for does not listen yet.
func boundFile(at place, roots []string, begin time.Time) (id fileID, err error) {
	file, err := at.open()
	if err != nil {
		return id, err
	}
	defer unix.Close(file)
	path, err := os.Readlink(fdPath(file))
	if err != nil || !below(path, roots) {
		return id, syscall.EACCES
	}
	id, mode, err := fileOf(file)
	if err != nil || mode&unix.S_IFMT != unix.S_IFSOCK {
		return id, syscall.ENOTSOCK
	}
	const skew = time.Second // of the clock of a file system
	var stat unix.Statx_t
	if err := unix.Statx(file, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &stat); err == nil && stat.Mask&unix.STATX_BTIME != 0 &&
		time.Unix(stat.Btime.Sec, int64(stat.Btime.Nsec)).Before(begin.Add(-skew)) {
		return id, syscall.EACCES
	}
	try, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return id, err
	}
	defer unix.Close(try)
	if err := unix.Connect(try, &unix.SockaddrUnix{Name: fdPath(file)}); err != unix.ECONNREFUSED {
		return id, syscall.EACCES
	}
	return id, nil
}

// connectPath connects to a socket of the session. The helper holds the file open meanwhile: as long as
// a process has the socket that was bound to the file, the path leads to no other socket.
func (h *helper) connectPath(a *asked, taken *socket, path string) error {
	if taken.family != unix.AF_UNIX {
		return syscall.EAFNOSUPPORT
	}
	at := place{thread: threadOf(a.notification), dir: unix.AT_FDCWD, path: path}
	file, err := at.open()
	if err != nil {
		return err
	}
	defer unix.Close(file)
	real, err := os.Readlink(fdPath(file))
	if err != nil || !below(real, h.rootsOf(int(a.thread))) {
		return syscall.EACCES
	}
	id, _, err := fileOf(file)
	if err != nil {
		return err
	}
	s := &h.sockets
	s.mu.Lock()
	l := s.files[id]
	ours := l != nil && s.held()[l.inode]
	s.mu.Unlock()
	if !ours {
		return syscall.ECONNREFUSED
	}
	if !a.waits() {
		return syscall.ENOENT
	}
	return s.wait(a, taken, func() error { return a.connectFile(taken.fd, &unix.SockaddrUnix{Name: fdPath(file)}) })
}

// connectFile connects, and gives up when nobody waits for it any more: it waits
// only for a while at a time.
func (a *asked) connectFile(fd int, to unix.Sockaddr) error {
	own, err := unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	flags, errFlags := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || errFlags != nil || flags&unix.O_NONBLOCK != 0 {
		return unix.Connect(fd, to)
	}
	defer unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, own)
	begin, patience := time.Now(), time.Duration(own.Nano())
	for {
		slice := callerPause
		if patience > 0 {
			slice = max(min(slice, patience-time.Since(begin)), time.Millisecond)
		}
		timeout := unix.NsecToTimeval(int64(slice))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
			return err
		}
		err := unix.Connect(fd, to)
		if err != unix.EAGAIN || patience > 0 && time.Since(begin) >= patience {
			return err
		}
		if !a.waits() {
			return syscall.EINTR
		}
	}
}

// umaskOf returns the bits that files of a thread do not get.
func umaskOf(t thread) uint32 {
	const none = 0o077 // rather too many than too few
	status, err := os.ReadFile(string(t) + "status")
	if err != nil {
		return none
	}
	_, rest, ok := bytes.Cut(status, []byte("\nUmask:\t"))
	text, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(text), 8, 32)
	if !ok || err != nil {
		return none
	}
	return uint32(mask)
}
