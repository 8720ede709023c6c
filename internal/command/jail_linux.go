// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"

	"golang.org/x/sys/unix"
)

// openNoLinks opens a path that was resolved: no part of it may be a link by now.
func openNoLinks(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// A fileIdentity tells a file from all others there are, and from those that were: the number of
// an inode is given to the next file, often at once.
type fileIdentity struct {
	device, inode uint64
	born          int64 // 0 where the file system does not know
}

func identity(path string) (fileIdentity, error) {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &stat); err != nil {
		return fileIdentity{}, err
	}
	return fileIdentity{unix.Mkdev(stat.Dev_major, stat.Dev_minor), stat.Ino, stat.Btime.Sec*1e9 + int64(stat.Btime.Nsec)}, nil
}

// pristine reports whether a directory is as it was made: empty, for its owner alone, and
// without attributes that somebody set.
func pristine(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&0o7777 != 0o700 {
		return false
	}
	if n, err := unix.Flistxattr(fd, nil); n > 0 || err != nil && err != unix.ENOTSUP {
		return false
	}
	var entries [512]byte
	n, err := unix.Getdents(fd, entries[:])
	return err == nil && countNames(entries[:n]) == 0
}

func countNames(entries []byte) int {
	_, count, _ := unix.ParseDirent(entries, -1, nil)
	return count
}
