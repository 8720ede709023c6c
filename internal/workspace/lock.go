// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"slices"
	"sync"
)

// locks keep calls that change the same files apart: those that change single
// files exclude each other by path, those that change trees exclude all.
type locks struct {
	trees sync.RWMutex

	mu     sync.Mutex
	byPath map[string]*pathLock
}

type pathLock struct {
	sync.Mutex
	users int
}

// Lock keeps others that lock from changing these paths until unlock is called.
func (w *Workspace) Lock(paths ...string) (unlock func()) {
	w.locks.trees.RLock()
	paths = slices.Clone(paths)
	slices.Sort(paths) // everybody in the same order
	paths = slices.Compact(paths)
	held := make([]*pathLock, len(paths))
	for i, path := range paths {
		held[i] = w.locks.take(path)
	}
	return func() {
		for i, path := range paths {
			w.locks.drop(path, held[i])
		}
		w.locks.trees.RUnlock()
	}
}

// LockAll keeps everybody who locks from changing anything.
func (w *Workspace) LockAll() (unlock func()) {
	w.locks.trees.Lock()
	return w.locks.trees.Unlock
}

func (l *locks) take(path string) *pathLock {
	l.mu.Lock()
	lock := l.byPath[path]
	if lock == nil {
		if l.byPath == nil {
			l.byPath = make(map[string]*pathLock)
		}
		lock = new(pathLock)
		l.byPath[path] = lock
	}
	lock.users++
	l.mu.Unlock()
	lock.Lock()
	return lock
}

func (l *locks) drop(path string, lock *pathLock) {
	lock.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(l.byPath, path)
	}
}
