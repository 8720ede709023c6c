// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workspace

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func openBelow(dir int, path string, flags int) (int, error) { return descend(dir, path, flags) }

// List calls yield for every name in the directory, in no order, until it
// returns false. The name is only good until yield returns. A directory is
// listed once after it was opened.
func (d *Dir) List(_ []byte, yield func(name []byte, kind FileType) bool) error {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	entries, err := f.ReadDir(-1)
	for _, entry := range entries {
		kind := Special
		switch entry.Type() {
		case 0:
			kind = Regular
		case fs.ModeDir:
			kind = Directory
		case fs.ModeSymlink:
			kind = Link
		}
		if !yield([]byte(entry.Name()), kind) {
			return nil
		}
	}
	return err
}

// Local reports whether the directory is on a file system where every change is
// made by this kernel. Here that is not known.
func (d *Dir) Local() bool { return false }

// Watchable reports whether changes are told. Here they are not.
func (d *Dir) Watchable() bool { return false }

// Unwritten reports whether nobody has the file open for writing. Where that
// cannot be told, it says false.
func (r Reader) Unwritten() bool { return false }

// CloseUnwritten closes the file, and reports what Unwritten would.
func (r Reader) CloseUnwritten() bool {
	r.Close()
	return false
}

// A Watch is told by the kernel what changes in directories, and what happens to
// files. Here it is not.
type Watch struct{}

// NewWatch fails.
func NewWatch() (*Watch, error) { return nil, errors.ErrUnsupported }

// Add is never called.
func (w *Watch) Add(*Dir) (int32, error) { return 0, errors.ErrUnsupported }

// AddFile is never called.
func (w *Watch) AddFile(Reader) (int32, error) { return 0, errors.ErrUnsupported }

// Remove is never called.
func (w *Watch) Remove(int32) {}

// Close is never called.
func (w *Watch) Close() {}

// Mounts would tell of mounts.
type Mounts struct{}

// NewMounts fails.
func (w *Workspace) NewMounts() (*Mounts, error) { return nil, errors.ErrUnsupported }

// Close is never called.
func (m *Mounts) Close() {}

// Any is never called.
func (m *Mounts) Any() bool { return true }

// Changed is never called.
func (m *Mounts) Changed() bool { return true }

// Changes is never called.
func (w *Watch) Changes(func(Notice)) error { return errors.ErrUnsupported }
