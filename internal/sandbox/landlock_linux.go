// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights that only directories have, and those that files have too.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	// Devices are not made: a file system may well honour them.
	writeRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE

	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	scopes = 1<<0 | 1<<1 // abstract sockets, signals
)

// Versions of Landlock that brought what is used.
const (
	landlockRefer    = 2
	landlockTruncate = 3
	landlockNetwork  = 4
	landlockIoctl    = 5
	landlockScopes   = 6
)

// landlockVersion returns the version the kernel has; 0 where it has none.
func landlockVersion() int {
	v, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// handledFS are the rights on files a version knows. What is known is denied
// unless a rule allows it.
func handledFS(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= landlockRefer {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= landlockTruncate {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= landlockIoctl {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// newRuleset returns the Landlock ruleset of a profile. Of a view that was made
// everything can be read.
func newRuleset(p *Profile, v *view, version int) (*os.File, error) {
	attr := [3]uint64{handledFS(version), 0, 0}
	size := uintptr(8)
	if version >= landlockNetwork {
		size = 16
		if p.Network == NetworkNone {
			attr[1] = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if version >= landlockScopes {
		size, attr[2] = 24, scopes
	}
	fd, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("making a Landlock ruleset: %w", errno)
	}
	unix.CloseOnExec(int(fd))
	ruleset := os.NewFile(fd, "landlock ruleset")
	r := rules{ruleset: int(fd), handled: attr[0]}
	if err := r.allowAll(p, v); err != nil {
		ruleset.Close()
		return nil, err
	}
	return ruleset, nil
}

// allowAll allows what a profile does.
func (r rules) allowAll(p *Profile, v *view) error {
	for _, path := range p.Write {
		fd, err := openWritable(path)
		if err == nil {
			err = r.allowFile(fd, path, writeRights)
			unix.Close(fd)
		}
		if err != nil {
			return err
		}
	}
	read := slices.Concat(p.View.Read, p.View.Write, facts[:])
	if v != nil {
		root := int(v.root.Fd())
		if err := r.allow(root, ".", readRights); err != nil {
			return err
		}
		if p.View.Temp == "" || slices.Contains(p.Write, p.View.Temp) {
			if err := r.allow(root, "dev/shm", writeRights); err != nil {
				return err
			}
		}
		if err := r.allow(root, "dev/pts", deviceRights|readRights); err != nil {
			return err
		}
		read = nil
	}
	for _, path := range read {
		if err := r.allow(unix.AT_FDCWD, path, readRights); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	for _, path := range devices {
		if err := r.allow(unix.AT_FDCWD, path, deviceRights); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// realPaths returns where files and directories are, with no link in it.
func realPaths(dirs []string) ([]string, error) {
	paths := make([]string, len(dirs))
	for i, dir := range dirs {
		fd, err := openWritable(dir)
		if err != nil {
			return nil, err
		}
		paths[i], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// openWritable opens what is to be written: no part of its path may be a link, but
// it may be named by its number.
func openWritable(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if strings.HasPrefix(path, "/proc/self/fd/") {
		how.Resolve = 0
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err == unix.ENOSYS { // gVisor, and kernels before 5.6
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

type rules struct {
	ruleset int
	handled uint64
}

// allow gives rights on a file or on a directory and all below it, by a path from dir.
func (r rules) allow(dir int, path string, rights uint64) error {
	fd, err := unix.Openat(dir, path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return r.allowFile(fd, path, rights)
}

func (r rules) allowFile(fd int, path string, rights uint64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	_, _, errno := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allowing %s: %w", path, errno)
	}
	return nil
}
