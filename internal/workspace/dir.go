// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is an open directory of the workspace. What is done in it follows no
// link: names are entries of the directory and nothing else.
type folder struct {
	fd   int
	path string
}

func (f folder) close() { unix.Close(f.fd) }

// openFolder opens a directory by a path that Resolve returned. One that may be
// searched but not read can still be used for what is in it.
func (w *Workspace) openFolder(path string) (folder, error) {
	fd, err := w.openExactly(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrPermission) {
		fd, err = w.openExactly(path, searchOnly|unix.O_DIRECTORY)
	}
	if err != nil {
		return folder{}, explain(path, err)
	}
	return folder{fd, path}, nil
}

// openParent opens the directory an entry is in, and returns its name there.
func (w *Workspace) openParent(path string) (folder, string, error) {
	if path == "." {
		return folder{}, "", errors.New("this is the workspace itself")
	}
	if !filepath.IsLocal(path) {
		return folder{}, "", fmt.Errorf("%s: %w", path, ErrOutside)
	}
	if w.isClosed(path) {
		return folder{}, "", fmt.Errorf("%s: %w", path, ErrServers)
	}
	f, err := w.openFolder(filepath.Dir(path))
	return f, filepath.Base(path), err
}

// child opens a directory of f for reading.
func (f folder) child(name string) (folder, error) {
	fd, err := openat(f.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return folder{fd, filepath.Join(f.path, name)}, err
}

// lstat tells of an entry. One that is not there has an Info that says so.
func (f folder) lstat(name string) (Info, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, explain(filepath.Join(f.path, name), err)
	}
	return infoOf(&st), nil
}

// names returns the names of at most limit entries, sorted, and whether there
// are more.
func (f folder) names(limit int) (names []string, more bool, err error) {
	fd, err := openat(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, explain(f.path, err)
	}
	dir := os.NewFile(uintptr(fd), f.path)
	defer dir.Close()
	for {
		some, err := dir.Readdirnames(min(1024, limit+1-len(names)))
		names = append(names, some...)
		if len(names) > limit {
			names, more = names[:limit], true
			err = io.EOF
		}
		if err == io.EOF {
			slices.Sort(names)
			return names, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// sync writes the entries of the directory to the disk, where it can.
func (f folder) sync() error {
	err := retry(func() error { return unix.Fsync(f.fd) })
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EINVAL) {
		return nil // a directory that may not be read, or a file system that has nothing to write
	}
	return err
}

// Stat tells of an entry by a path that [Workspace.Resolve] or
// [Workspace.ResolveEntry] returned. It follows no link. What is not there is
// no error: its Info says so.
func (w *Workspace) Stat(path string) (Info, error) {
	w.touched(path, false)
	if path == "." {
		return w.statTop()
	}
	f, name, err := w.openParent(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, err
	}
	defer f.close()
	return f.lstat(name)
}

// statTop tells of the workspace itself.
func (w *Workspace) statTop() (Info, error) {
	var st unix.Stat_t
	var err error
	if w.control(func(dir uintptr) { err = retry(func() error { return unix.Fstat(int(dir), &st) }) }) != nil {
		err = os.ErrClosed
	}
	if err != nil {
		return Info{}, explain(".", err)
	}
	return infoOf(&st), nil
}

// Readlink returns what a link says.
func (w *Workspace) Readlink(path string) (string, error) {
	w.touched(path, false)
	f, name, err := w.openParent(path)
	if err != nil {
		return "", err
	}
	defer f.close()
	return f.readlink(name)
}

func (f folder) readlink(name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(f.fd, name, buf)
		if err != nil {
			return "", explain(filepath.Join(f.path, name), err)
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// An Entry is something in a directory.
type Entry struct {
	Path string // relative to the workspace
	Info
}

// ReadDir returns at most limit entries of a directory, sorted by name, and
// whether there are more. It follows no link.
func (w *Workspace) ReadDir(path string, limit int) (entries []Entry, more bool, err error) {
	w.touched(path, false)
	f, err := w.openFolder(path)
	if err != nil {
		return nil, false, err
	}
	defer f.close()
	return f.entries(limit)
}

func (f folder) entries(limit int) (entries []Entry, more bool, err error) {
	names, more, err := f.names(limit)
	if err != nil {
		return nil, false, err
	}
	entries = make([]Entry, 0, len(names))
	for _, name := range names {
		info, err := f.lstat(name)
		if err != nil {
			return nil, false, err
		}
		if info.Exists() {
			entries = append(entries, Entry{filepath.Join(f.path, name), info})
		}
	}
	return entries, more, nil
}

// maxDepth is how deep trees are walked: each level keeps a descriptor open.
const maxDepth = 256

// ErrTooDeep is wrapped by errors about trees that are deeper than that, and
// about directories that would make them so.
var ErrTooDeep = fmt.Errorf("more than %d directories in one another", maxDepth)

// SkipDir is returned by the visitor of [Workspace.Walk] to leave a directory
// out.
var SkipDir = fs.SkipDir

// Walk visits what is below a directory, each directory before what is in it,
// in the order of names, and no more than limit entries of one directory: it
// reports whether those were all. It follows no link.
func (w *Workspace) Walk(ctx context.Context, path string, limit int, visit func(Entry) error) (all bool, err error) {
	w.touched(path, false)
	f, err := w.openFolder(path)
	if err != nil {
		return false, err
	}
	defer f.close()
	all = true
	err = f.walk(ctx, limit, maxDepth, &all, visit)
	return all, err
}

func (f folder) walk(ctx context.Context, limit, depth int, all *bool, visit func(Entry) error) error {
	if depth == 0 {
		return fmt.Errorf("%s: %w", f.path, ErrTooDeep)
	}
	names, more, err := f.names(limit)
	if err != nil {
		return err
	}
	*all = *all && !more
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := f.lstat(name)
		if err != nil {
			return err
		}
		if !info.Exists() {
			continue
		}
		err = visit(Entry{filepath.Join(f.path, name), info})
		if err == SkipDir || err == nil && !info.Mode.IsDir() {
			continue
		}
		if err != nil {
			return err
		}
		deeper, err := f.child(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue // gone, or something else by now
		}
		if err != nil {
			return explain(deeper.path, err)
		}
		err = deeper.walk(ctx, limit, depth-1, all, visit)
		deeper.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// ResolveEntry is Resolve for what is to be removed or moved: a link that the
// name ends with is meant itself, not what it leads to.
func (w *Workspace) ResolveEntry(name string) (path string, inside bool) {
	trimmed := strings.TrimRight(name, "/")
	base := trimmed[strings.LastIndexByte(trimmed, '/')+1:]
	if trimmed == "" || base == "." || base == ".." {
		return w.Resolve(name)
	}
	parent := strings.TrimSuffix(trimmed, base)
	if parent == "" {
		parent = "."
	}
	at, inside := w.Resolve(parent)
	path = filepath.Join(at, base)
	if !inside { // from above into the workspace, or outside
		path = w.relative(path)
	}
	return path, !filepath.IsAbs(path)
}
