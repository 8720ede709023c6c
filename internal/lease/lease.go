// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease keeps directories that belong to one process. Beside each lies a
// file that the process has locked; the lock ends with the process, however that
// ends, and then the next one removes the directory.
package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A Dir is a directory of this process.
type Dir struct {
	path string
	lock *os.File
}

const lockSuffix = ".lock"

// attempts is how often New tries again where somebody sweeps at the same time.
const attempts = 10

// New makes a directory below root, whose name begins with kind.
func New(root, kind string) (*Dir, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		file, err := os.CreateTemp(root, kind+"-*"+lockSuffix)
		if err != nil {
			return nil, err
		}
		file.Close()
		lock, err := lockFile(file.Name())
		if err != nil && attempt < attempts {
			continue // a sweep was quicker, and removed it
		}
		if err != nil {
			return nil, err
		}
		d := &Dir{strings.TrimSuffix(file.Name(), lockSuffix), lock}
		if err := os.Mkdir(d.path, 0o700); err != nil {
			d.Remove()
			return nil, err
		}
		return d, nil
	}
}

// Sweep removes the directories of a kind below root whose process is gone.
func Sweep(root, kind string) error {
	locks, err := filepath.Glob(filepath.Join(root, kind+"-*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, path := range locks {
		if lock, err := lockFile(path); err == nil {
			(&Dir{strings.TrimSuffix(path, lockSuffix), lock}).Remove()
		}
	}
	return nil
}

// lockFile opens a file and locks it, unless another process has it or it is no
// longer there.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	mine, err := file.Stat()
	there, thereErr := os.Stat(path)
	if err = errors.Join(err, thereErr); err == nil && !os.SameFile(mine, there) {
		err = fs.ErrNotExist
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Path is where the directory is.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory with what is in it.
func (d *Dir) Remove() {
	RemoveAll(d.path)
	os.Remove(d.lock.Name())
	d.lock.Close()
}

// Release gives the directory up. It is removed if it is empty; what is still
// used in it, the next process removes.
func (d *Dir) Release() {
	if os.Remove(d.path) == nil {
		os.Remove(d.lock.Name())
	}
	d.lock.Close()
}

// RemoveAll removes a directory, also where what is in it was made read-only, as
// some programs do with their caches.
func RemoveAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
