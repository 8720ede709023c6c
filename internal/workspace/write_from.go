// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// WriteFrom gives a file the content that r has, as [Workspace.WriteFile] does, but need
// not have it in memory.
func (w *Workspace) WriteFrom(path string, r io.Reader, mode fs.FileMode, old Version) (Info, Hash, error) {
	w.touched(path, true)
	f, name, err := w.openParent(path)
	if err != nil {
		return Info{}, Hash{}, err
	}
	defer f.close()
	w.intents.add(f.path)
	info, hash, err := f.writeFrom(name, r, mode, old)
	if errors.Is(err, errTempGone) { // r is read
		err = fmt.Errorf("%s: %w", path, ErrChanged)
	}
	return info, hash, err
}

func (f folder) writeFrom(name string, r io.Reader, mode fs.FileMode, old Version) (Info, Hash, error) {
	path := filepath.Join(f.path, name)
	was, err := f.replaceable(name, old)
	if err != nil {
		return Info{}, Hash{}, err
	}
	temp, fd, err := f.temporary()
	if err != nil {
		return Info{}, Hash{}, explain(path, err)
	}
	info, hash, err := fillFrom(fd, r, mode, was)
	if err == nil {
		err = retry(func() error { return unix.Fsync(fd) })
	}
	if err == nil {
		err = f.install(temp, name, was)
	}
	unix.Close(fd)
	if err != nil {
		_ = unix.Unlinkat(f.fd, temp, 0)
		return Info{}, Hash{}, explain(path, err)
	}
	if err := f.sync(); err != nil {
		return Info{}, Hash{}, explain(path, err)
	}
	if now, err := f.lstat(name); err == nil && now.Version.ino == info.Version.ino {
		info = now
	}
	return info, hash, nil
}

// copies are buffers for contents on their way.
var copies = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// fillFrom is fill with what r has.
func fillFrom(fd int, r io.Reader, mode fs.FileMode, was Info) (Info, Hash, error) {
	inUse(fd)
	buffer := copies.Get().(*[64 << 10]byte)
	defer copies.Put(buffer)
	sum := sha256.New()
	for {
		n, err := r.Read(buffer[:])
		if n > 0 {
			sum.Write(buffer[:n])
			if err := writeAll(fd, buffer[:n]); err != nil {
				return Info{}, Hash{}, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return Info{}, Hash{}, err
		}
	}
	info, err := dress(fd, mode, was)
	return info, Hash(sum.Sum(nil)), err
}
