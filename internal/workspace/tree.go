// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Dir is an open directory of a workspace, for those who go through whole
// trees. Nothing opened through it follows a link, so that nothing leaves the
// directory. Its methods are safe for concurrent use.
type Dir struct {
	fd   int
	uses atomic.Int32
}

// Stat is what the file system knows of a file or directory. Two that are equal
// are of the same thing, unchanged as far as clocks can tell.
type Stat struct {
	Kind         FileType
	Dev, Ino     uint64
	Links        uint64
	Size         int64
	MTime, CTime int64 // nanoseconds since 1970
}

// OpenDir opens a directory by a path that [Workspace.Resolve] returned. A link
// that has appeared in it since is [ErrMoved]. Close it after use.
func (w *Workspace) OpenDir(path string) (*Dir, error) {
	fd, err := w.openExactly(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, explain(path, err)
	}
	return newDir(fd), nil
}

// OpenPath opens a directory by a path that [Workspace.Resolve] returned, for
// those who work in it without reading it themselves.
func (w *Workspace) OpenPath(path string) (*os.File, error) {
	dir, err := w.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dir.fd), path), nil
}

func newDir(fd int) *Dir {
	d := &Dir{fd: fd}
	d.uses.Store(1)
	return d
}

// Hold keeps the directory open for one more Close.
func (d *Dir) Hold() { d.uses.Add(1) }

// Close ends one use of the directory; the last one closes it.
func (d *Dir) Close() {
	if d.uses.Add(-1) == 0 {
		unix.Close(d.fd)
	}
}

// OpenDir opens a directory in the directory.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return newDir(fd), nil
}

// Stat tells of the directory itself.
func (d *Dir) Stat() (Stat, error) {
	var s unix.Stat_t
	err := retry(func() error { return unix.Fstat(d.fd, &s) })
	return statOf(&s), err
}

// Lstat tells of a name in the directory, or of a path below it, the last part
// of which is not followed.
func (d *Dir) Lstat(name string) (Stat, error) {
	var s unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	return statOf(&s), err
}

// A Reader reads a file from its beginning to its end.
type Reader struct{ fd int }

// Open opens a regular file in the directory. It never blocks. Close it after
// use.
func (d *Dir) Open(name string) (Reader, Stat, error) {
	r, err := d.OpenListed(name)
	if err != nil {
		return Reader{}, Stat{}, err
	}
	s, err := r.Stat()
	if err == nil && s.Kind != Regular {
		err = ErrNotRegular
	}
	if err != nil {
		r.Close()
		return Reader{}, Stat{}, err
	}
	return r, s, nil
}

// OpenListed opens what List has just told to be a regular file, without asking
// again: where something else has taken its name since, that is opened. It never
// blocks, and neither does reading then. Close it after use.
func (d *Dir) OpenListed(name string) (Reader, error) {
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return Reader{fd}, err
}

// OpenBelow opens what was a regular file, by a path below the directory, and
// follows no link: where something else has taken its name since, that is opened.
// It never blocks. Close it after use.
func (d *Dir) OpenBelow(path string) (Reader, error) {
	fd, err := openBelow(d.fd, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	return Reader{fd}, err
}

// Stat tells of the file as it is now.
func (r Reader) Stat() (Stat, error) {
	var s unix.Stat_t
	err := retry(func() error { return unix.Fstat(r.fd, &s) })
	return statOf(&s), err
}

// Read reads up to len(p) bytes. At the end of the file it returns 0 and no
// error.
func (r Reader) Read(p []byte) (n int, err error) {
	err = retry(func() error {
		n, err = unix.Read(r.fd, p)
		return err
	})
	return max(n, 0), err
}

// ReadFirst reads up to len(p) bytes from the beginning of the file, wherever
// Read is. It is safe for concurrent use.
func (r Reader) ReadFirst(p []byte) (n int, err error) {
	err = retry(func() error {
		n, err = unix.Pread(r.fd, p, 0)
		return err
	})
	return max(n, 0), err
}

// Close closes the file.
func (r Reader) Close() { unix.Close(r.fd) }

// A Notice is something that happened in a directory, or to a file.
type Notice struct {
	Dir    int32  // the number of the directory or file
	Name   string // in the directory; empty for the directory or file itself
	Opened bool   // it was opened, and nothing else
	Came   bool   // the name is new, or stands for something else
	Went   bool   // the name is gone
	Move   uint32 // tells which coming belongs to a going, within one watch; 0 for none
	IsDir  bool   // what has changed is a directory
	Gone   bool   // the directory or file itself is gone, or the directory elsewhere
	Missed bool   // there were more changes than the kernel keeps: anything may have changed
}

func statOf(s *unix.Stat_t) Stat {
	return Stat{
		Kind: kindOfMode(uint32(s.Mode)), Dev: uint64(s.Dev), Ino: s.Ino, Links: uint64(s.Nlink), Size: s.Size, //nolint:unconvert // the types differ between systems
		MTime: unix.TimespecToNsec(s.Mtim), CTime: unix.TimespecToNsec(s.Ctim),
	}
}

func kindOfMode(mode uint32) FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return Regular
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Link
	}
	return Special
}
