// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// spaceOf returns what the file system of a path has, and its device.
func spaceOf(path string) (device uint64, s space, err error) {
	var stat unix.Stat_t
	if _, err := ignoringEINTR(func() (int, error) { return 0, unix.Stat(path, &stat) }); err != nil {
		return 0, s, err
	}
	var system unix.Statfs_t
	if _, err := ignoringEINTR(func() (int, error) { return 0, unix.Statfs(path, &system) }); err != nil {
		return 0, s, err
	}
	size := uint64(system.Bsize)
	return stat.Dev, space{files: system.Files, freeFiles: system.Ffree, bytes: system.Blocks * size, freeBytes: system.Bavail * size}, nil
}

const (
	// maxCountDepth is how deep directories are counted; each level has one open.
	maxCountDepth = 512
	// entrySize is what an entry takes of a directory, about. It stands in for
	// a count where a directory was made that cannot be listed.
	entrySize = 32
)

// count counts what lies below a directory and was made since a time. It follows
// no link, whatever changes meanwhile.
func (c *counter) count(path string, since time.Time) {
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer dir.Close()
	c.list(dir, since.UnixNano(), 1)
}

func (c *counter) list(dir *os.File, since int64, depth int) {
	for {
		entries, err := dir.ReadDir(1024)
		for _, entry := range entries {
			c.entry(dir, entry, since, depth)
		}
		if err != nil {
			return // io.EOF, or it is gone
		}
	}
}

func (c *counter) entry(dir *os.File, entry os.DirEntry, since int64, depth int) {
	var s unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_CTIME | unix.STATX_BTIME | unix.STATX_SIZE | unix.STATX_BLOCKS
	if err := unix.Statx(int(dir.Fd()), entry.Name(), unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, mask, &s); err != nil {
		return
	}
	changed := nanoseconds(s.Ctime)
	born := changed // nobody can set it back, and it is never before the birth
	if s.Mask&unix.STATX_BTIME != 0 {
		born = nanoseconds(s.Btime)
	}
	isDir := s.Mode&unix.S_IFMT == unix.S_IFDIR
	names := int64(1)
	if !isDir {
		names = max(1, int64(s.Nlink))
	}
	switch {
	case born < since:
	case names == 1:
		c.whole.Add(1)
	default:
		c.parts.Add(partsOfFile / names)
	}
	if changed >= since {
		c.bytes.Add(int64(s.Blocks) * 512 / names)
	}
	if !isDir || depth == maxCountDepth {
		return
	}
	fd, err := unix.Openat(int(dir.Fd()), entry.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) && changed >= since {
		c.whole.Add(int64(s.Size) / entrySize)
	}
	if err != nil {
		return
	}
	child := os.NewFile(uintptr(fd), entry.Name())
	defer child.Close()
	c.list(child, since, depth+1)
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
