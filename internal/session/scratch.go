// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// scratch is where one server makes the directories that go with their sessions.
// A lock that ends with the process tells other servers that it is in use; what
// a server that was killed left behind, the next one removes.
type scratch struct {
	dir  string
	lock *os.File
}

const lockSuffix = ".lock"

// openScratch makes a scratch directory below root, after it has removed those
// that nobody uses any more.
func openScratch(root string) (*scratch, error) {
	locks, err := filepath.Glob(filepath.Join(root, "scratch-*"+lockSuffix))
	if err != nil {
		return nil, err
	}
	for _, path := range locks {
		if lock, err := lockFile(path); err == nil {
			removeAll(strings.TrimSuffix(path, lockSuffix))
			os.Remove(path)
			lock.Close()
		}
	}
	file, err := os.CreateTemp(root, "scratch-*"+lockSuffix)
	if err != nil {
		return nil, err
	}
	file.Close()
	lock, err := lockFile(file.Name())
	if err != nil {
		return nil, err
	}
	s := &scratch{strings.TrimSuffix(file.Name(), lockSuffix), lock}
	return s, os.Mkdir(s.dir, 0o700)
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

// newDir makes a directory for a session.
func (s *scratch) newDir() (string, error) { return os.MkdirTemp(s.dir, "session-") }

// close gives the directory up. What is still used in it, the next server
// removes.
func (s *scratch) close() {
	if os.Remove(s.dir) == nil { // empty
		os.Remove(s.lock.Name())
	}
	s.lock.Close()
}

// removeAll removes a directory, also where what is in it was made read-only, as
// some programs do with their caches.
func removeAll(dir string) error {
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
