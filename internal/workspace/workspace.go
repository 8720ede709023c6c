// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspace is the only way to files. A workspace is a directory that
// nothing reached through it can leave: not by "..", not by an absolute path,
// not by a symbolic link.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

var (
	// ErrOutside is wrapped by errors about paths that leave the workspace.
	ErrOutside = errors.New("path is outside the workspace")

	// ErrNotRegular is wrapped by errors about what cannot be read as a file:
	// directories, pipes, sockets and devices.
	ErrNotRegular = errors.New("not a regular file")
)

// A Workspace is an open directory. Its methods are safe for concurrent use.
type Workspace struct {
	dir  string
	root *os.Root
}

// Open opens the directory dir as a workspace. Close it after use.
func Open(dir string) (*Workspace, error) {
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
	return &Workspace{dir: dir, root: root}, nil
}

// Dir returns the absolute path of the workspace, free of symbolic links.
func (w *Workspace) Dir() string { return w.dir }

// Close releases the directory. Files opened before stay usable.
func (w *Workspace) Close() error { return w.root.Close() }

// Rel returns name as a clean path relative to the workspace. It looks at the
// name only: what it leads to is judged when it is opened.
func (w *Workspace) Rel(name string) (string, error) {
	rel := filepath.Clean(name)
	if filepath.IsAbs(rel) {
		inside, err := filepath.Rel(w.dir, rel)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, ErrOutside)
		}
		rel = inside
	}
	if !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s: %w", name, ErrOutside)
	}
	return rel, nil
}

// OpenFile opens a regular file for reading. It never blocks: a pipe or a
// device is refused, not waited for.
func (w *Workspace) OpenFile(name string) (*os.File, error) {
	rel, err := w.Rel(name)
	if err != nil {
		return nil, err
	}
	f, err := w.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w but a %s", name, ErrNotRegular, kindOf(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// explain names the file as the caller did and turns an escape into
// [ErrOutside]. The os package does not export its error for escapes; it is the
// only one of os.Root that is neither a system error nor a closed root.
func explain(name string, err error) error {
	if errors.Is(err, syscall.ENXIO) { // opened by nobody, so that its mode is not known
		return fmt.Errorf("%s: %w but a socket or device", name, ErrNotRegular)
	}
	var path *fs.PathError
	if !errors.As(err, &path) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if errno := syscall.Errno(0); !errors.As(err, &errno) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("%s: %w", name, ErrOutside)
	}
	return fmt.Errorf("%s: %w", name, path.Err)
}

func kindOf(mode fs.FileMode) string {
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
