// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// place is the directory of one store. A lock that ends with the process tells
// other servers that it is in use.
type place struct {
	dir  string
	lock *os.File
}

const lockSuffix = ".lock"

// sweep removes what servers that are gone left behind in a directory.
func sweep(dir string) error {
	locks, err := filepath.Glob(filepath.Join(dir, "artifacts-*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, path := range locks {
		if lock, err := lockFile(path); err == nil {
			os.RemoveAll(strings.TrimSuffix(path, lockSuffix))
			os.Remove(path)
			lock.Close()
		}
	}
	return nil
}

// openPlace makes a new directory for a store.
func openPlace(dir string) (*place, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "artifacts-*"+lockSuffix)
	if err != nil {
		return nil, err
	}
	file.Close()
	lock, err := lockFile(file.Name())
	if err != nil {
		return nil, err
	}
	p := &place{strings.TrimSuffix(file.Name(), lockSuffix), lock}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// lockFile opens a file and locks it, unless another process has.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// close removes the directory, with what is in it.
func (p *place) close() {
	os.RemoveAll(p.dir)
	os.Remove(p.lock.Name())
	p.lock.Close()
}
