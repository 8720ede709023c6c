// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspace is the only way to files. A workspace is a directory that
// nothing reached through it can leave: not by "..", not by an absolute path,
// not by a symbolic link.
//
// Locks: of those who change files, trees comes before the paths, which are taken in the order of
// their names. The others here are held for moments, and no other with them.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

var (
	// ErrOutside is wrapped by errors about paths that leave the workspace.
	ErrOutside = errors.New("path is outside the workspace")

	// ErrNotRegular is wrapped by errors about what cannot be read as a file:
	// directories, pipes, sockets and devices.
	ErrNotRegular = errors.New("not a regular file")

	// ErrMoved is wrapped by errors about paths that lead elsewhere than when
	// they were judged.
	ErrMoved = errors.New("path leads elsewhere than when it was judged")
)

// A Workspace is an open directory. Its methods are safe for concurrent use.
type Workspace struct {
	dir  string
	root *os.Root
	top  *os.File // the same directory

	// control gives its function the descriptor of top, open until it returns.
	control func(func(dir uintptr)) error

	closed  []string // what in it is the server's own
	trace   func(path string, write bool)
	locks   locks
	intents *intents // nil where nobody remembers where was written

	ending sync.Mutex
	ended  bool
	atEnd  []func()
}

// Config says how a workspace is opened.
type Config struct {
	// State is a directory outside the workspace for notes about writes that are
	// under way: what a process that was killed left half done is removed when
	// the workspace is next opened with the same State. Empty: no notes.
	State string

	// Closed are paths of the server's own files and directories. Those
	// below the workspace are neither read nor written through it. One that ends in
	// ".*" stands for a file and those beside it that have its name, a dot and more.
	Closed []string

	// Trace, if set, is told of every path that is read or written, before it
	// is. It is for tests.
	Trace func(path string, write bool)
}

// Open opens the directory dir as a workspace. Close it after use.
func Open(dir string) (*Workspace, error) { return Config{}.Open(dir) }

// Open opens the directory dir as a workspace. Close it after use.
func (c Config) Open(dir string) (*Workspace, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	top, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	raw, err := top.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, top.Close(), root.Close())
	}
	w := &Workspace{dir: dir, root: root, top: top, control: raw.Control, trace: c.Trace}
	w.close(c.Closed)
	if c.State != "" {
		w.intents = openIntents(c.State, w)
	}
	return w, nil
}

// Dir returns the absolute path of the workspace, free of symbolic links.
func (w *Workspace) Dir() string { return w.dir }

// AtClose has a function called when the workspace is closed, before it is. It
// reports false, and nothing is called, where that has happened already.
func (w *Workspace) AtClose(do func()) bool {
	w.ending.Lock()
	defer w.ending.Unlock()
	if !w.ended {
		w.atEnd = append(w.atEnd, do)
	}
	return !w.ended
}

// Close releases the directory. Files opened before stay usable.
func (w *Workspace) Close() error {
	w.ending.Lock()
	atEnd := w.atEnd
	w.ended, w.atEnd = true, nil
	w.ending.Unlock()
	for _, do := range atEnd {
		do()
	}
	return errors.Join(w.intents.close(), w.top.Close(), w.root.Close())
}

func (w *Workspace) touched(path string, write bool) {
	if w.trace != nil {
		w.trace(path, write)
	}
}

// explain tells what stood in the way of opening a file.
func explain(path string, err error) error {
	if errors.Is(err, syscall.ENXIO) { // opened by nobody, so that its mode is not known
		return fmt.Errorf("%s: %w but a socket or device", path, ErrNotRegular)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// TypeName returns the word for what is no regular file.
func TypeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
