// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix is how the names of files begin that are written before they take
// the place of others.
const tempPrefix = ".toolserver-tmp-"

// IsTemporary reports whether a path is that of a file that is being written,
// and will have another name when it is complete.
func IsTemporary(path string) bool { return strings.HasPrefix(filepath.Base(path), tempPrefix) }

// ErrExists is wrapped by errors about entries that are in the way.
var ErrExists = fs.ErrExist

// KeepMode asks for the mode of the file that is replaced, or for that of any
// new file.
const KeepMode = fs.ModeIrregular

// Executable asks for that mode too, and that who may read the file may execute
// it.
const Executable = KeepMode | 0o111

// WriteFile gives a file its content, in one step: whoever looks sees the old
// content or the new, also after a crash, and where the disk is full it stays
// the old. The path is one that [Workspace.Resolve] returned; a link that has
// appeared in it since is not followed.
//
// old is the version the content was made from. Where the file has another by
// now, it is [ErrChanged]. A file that was replaced keeps its owner; of a hard
// link only this name is changed. Of mode only the permissions count.
func (w *Workspace) WriteFile(path string, data []byte, mode fs.FileMode, old Version) (Info, error) {
	w.touched(path, true)
	f, name, err := w.openParent(path)
	if err != nil {
		return Info{}, err
	}
	defer f.close()
	w.intents.add(f.path)
	for try := 0; ; try++ {
		info, err := f.replace(name, old, func(fd int, was Info) (Info, error) { return fill(fd, data, mode, was) })
		// A cleaner of another process can take a file that was not locked yet.
		if !errors.Is(err, errTempGone) || try == 10 {
			return info, err
		}
	}
}

var errTempGone = errors.New("the temporary file is gone")

// replace gives a file the content that fill writes to a temporary one.
func (f folder) replace(name string, old Version, fill func(fd int, was Info) (Info, error)) (Info, error) {
	path := filepath.Join(f.path, name)
	was, err := f.replaceable(name, old)
	if err != nil {
		return Info{}, err
	}
	temp, fd, err := f.temporary()
	if err != nil {
		return Info{}, explain(path, err)
	}
	info, err := fill(fd, was)
	if err == nil {
		err = retry(func() error { return unix.Fsync(fd) })
	}
	if err == nil {
		err = f.install(temp, name, was)
	}
	unix.Close(fd) // not before it has its name: the lock tells that it is in use
	if err != nil {
		_ = unix.Unlinkat(f.fd, temp, 0)
		if errors.Is(err, errTempGone) {
			return Info{}, err
		}
		return Info{}, explain(path, err)
	}
	if err := f.sync(); err != nil {
		return Info{}, explain(path, err)
	}
	// The rename changed the time of the last change of the entry.
	if now, err := f.lstat(name); err == nil && now.Version.ino == info.Version.ino {
		info = now
	}
	return info, nil
}

// temporary makes a file that is to take the place of another.
func (f folder) temporary() (name string, fd int, err error) {
	name = tempPrefix + strings.ToLower(rand.Text())
	fd, err = openat(f.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
	return name, fd, err
}

// replaceable tells of what is to be replaced: a regular file that may be
// written and is as it was, or nothing.
func (f folder) replaceable(name string, old Version) (Info, error) {
	path := filepath.Join(f.path, name)
	was, err := f.lstat(name)
	if err != nil {
		return was, err
	}
	switch {
	case was.Mode&fs.ModeSymlink != 0:
		return was, fmt.Errorf("%s: %w", path, ErrMoved)
	case was.Exists() && !was.Mode.IsRegular():
		return was, fmt.Errorf("%s: %w but a %s", path, ErrNotRegular, TypeName(was.Mode))
	case was.Exists() && !old.exists:
		return was, fmt.Errorf("%s: %w", path, ErrExists)
	case was.Version != old:
		return was, fmt.Errorf("%s: %w", path, ErrChanged)
	}
	if was.Exists() {
		// Taking the place of a file needs no right to write it: ask for it.
		err := retry(func() error { return unix.Faccessat(f.fd, name, unix.W_OK, unix.AT_EACCESS) })
		if err == nil && was.Mode&0o222 == 0 {
			err = unix.EACCES // root may, but whoever made it so did not want it
		}
		if err != nil {
			return was, explain(path, err)
		}
	}
	return was, nil
}

// fill writes a temporary file.
func fill(fd int, data []byte, mode fs.FileMode, was Info) (Info, error) {
	inUse(fd)
	if err := writeAll(fd, data); err != nil {
		return Info{}, err
	}
	return dress(fd, mode, was)
}

// inUse locks a temporary file, which tells that somebody writes it. Best effort:
// not every file system has locks.
func inUse(fd int) {
	_ = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// dress gives a temporary file the owner and the permissions that it will have.
func dress(fd int, mode fs.FileMode, was Info) (Info, error) {
	if was.Exists() && (was.uid != uint32(os.Geteuid()) || was.gid != uint32(os.Getegid())) {
		_ = unix.Fchown(fd, int(was.uid), int(was.gid)) // as far as we may
	}
	now, err := fstat(fd)
	if err != nil {
		return Info{}, err
	}
	if mode = wanted(mode, was, now); mode == now.Mode.Perm() {
		return now, nil
	}
	if err := unix.Fchmod(fd, uint32(mode)); err != nil {
		return Info{}, err
	}
	return fstat(fd)
}

func fstat(fd int) (Info, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(fd, &st) })
	return infoOf(&st), err
}

// wanted returns the permissions that mode asks for, of a file that was another
// or is new.
func wanted(mode fs.FileMode, was, now Info) fs.FileMode {
	kept := now.Mode.Perm()
	if was.Exists() {
		kept = was.Mode.Perm()
	}
	switch mode {
	case KeepMode:
		return kept
	case Executable:
		return kept | kept&0o444>>2
	}
	return mode.Perm()
}

// install gives a temporary file its name, if nothing has changed since was.
func (f folder) install(temp, name string, was Info) error {
	if !was.Exists() {
		err := renameNew(f.fd, temp, f.fd, name)
		if errors.Is(err, fs.ErrNotExist) {
			return errTempGone
		}
		return err
	}
	now, err := f.lstat(name)
	if err != nil {
		return err
	}
	if now.Version != was.Version {
		return ErrChanged
	}
	err = unix.Renameat(f.fd, temp, f.fd, name)
	if errors.Is(err, fs.ErrNotExist) {
		return errTempGone
	}
	return err
}

// Mkdir makes a directory, by a path that [Workspace.Resolve] returned, and
// those above it that are missing. It returns those it made, the outermost
// first. A directory that is there already is [ErrExists].
func (w *Workspace) Mkdir(path string, mode fs.FileMode) (made []string, err error) {
	return w.mkdir(path, mode, nil)
}

func (w *Workspace) mkdir(path string, mode fs.FileMode, s *Staging) (made []string, err error) {
	w.touched(path, true)
	if path == "." {
		return nil, fmt.Errorf("%s: %w", path, ErrExists)
	}
	made, err = w.mkdirs(filepath.Dir(path), s)
	if err != nil {
		return made, err
	}
	f, name, err := w.openParent(path)
	if err != nil {
		return made, err
	}
	defer f.close()
	if err := f.mkdir(name, mode, s); err != nil {
		return made, err
	}
	return append(made, path), nil
}

// Mkdirs makes the directories of a path that are missing, and returns them, the
// outermost first.
func (w *Workspace) Mkdirs(path string) (made []string, err error) { return w.mkdirs(path, nil) }

// mkdirs makes the directories of path that are missing.
func (w *Workspace) mkdirs(path string, s *Staging) (made []string, err error) {
	if path == "." {
		return nil, nil
	}
	f, err := w.openFolder(path)
	if err == nil {
		f.close()
		return nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if strings.Count(path, "/") >= maxDepth-1 { // or it could not be removed again
		return nil, fmt.Errorf("%.60s…: %w", path, ErrTooDeep)
	}
	if made, err = w.mkdirs(filepath.Dir(path), s); err != nil {
		return made, err
	}
	if f, err = w.openFolder(filepath.Dir(path)); err != nil {
		return made, err
	}
	defer f.close()
	w.touched(path, true)
	err = f.mkdir(filepath.Base(path), 0o777, s)
	if errors.Is(err, fs.ErrExist) { // made by somebody else just now; whatever it is, opening it will tell
		return made, nil
	}
	if err != nil {
		return made, err
	}
	return append(made, path), nil
}

func (f folder) mkdir(name string, mode fs.FileMode, s *Staging) error {
	err := retry(func() error { return unix.Mkdirat(f.fd, name, uint32(mode.Perm())) })
	if err == nil {
		err = s.sync(f)
	}
	if err != nil {
		return explain(filepath.Join(f.path, name), err)
	}
	return nil
}

// Remove removes a file, a link or an empty directory, by a path that
// [Workspace.ResolveEntry] returned.
func (w *Workspace) Remove(path string) error {
	w.touched(path, true)
	f, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	defer f.close()
	info, err := f.lstat(name)
	if err == nil && !info.Exists() {
		err = explain(path, unix.ENOENT)
	}
	if err != nil {
		return err
	}
	if err := f.unlink(name, info.Mode.IsDir()); err != nil {
		return err
	}
	return f.sync()
}

func (f folder) unlink(name string, dir bool) error {
	flags := 0
	if dir {
		flags = unix.AT_REMOVEDIR
	}
	if err := retry(func() error { return unix.Unlinkat(f.fd, name, flags) }); err != nil {
		return explain(filepath.Join(f.path, name), err)
	}
	return nil
}

// RemoveAll removes a directory and everything in it. It follows no link. Where
// it is told to stop, or cannot go on, part of the tree is left.
func (w *Workspace) RemoveAll(ctx context.Context, path string) error {
	if err := w.Whole(path); err != nil {
		return err
	}
	w.touched(path, true)
	f, name, err := w.openParent(path)
	if err != nil {
		return err
	}
	defer f.close()
	return errors.Join(f.removeAll(ctx, name, maxDepth), f.sync())
}

func (f folder) removeAll(ctx context.Context, name string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%s: %w", f.path, ErrTooDeep)
	}
	deeper, err := f.child(name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return f.unlink(name, false)
	}
	if err != nil {
		return explain(deeper.path, err)
	}
	defer deeper.close()
	for {
		names, more, err := deeper.names(10_000)
		if err != nil {
			return err
		}
		for _, entry := range names {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			info, err := deeper.lstat(entry)
			switch {
			case err != nil:
				return err
			case info.Mode.IsDir():
				err = deeper.removeAll(ctx, entry, depth-1)
			case info.Exists():
				err = deeper.unlink(entry, false)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if !more {
			return f.unlink(name, true)
		}
	}
}

// Rename moves an entry within the workspace, by paths that
// [Workspace.ResolveEntry] returned. Something that is there already is
// [ErrExists], unless it may be replaced.
func (w *Workspace) Rename(from, to string, replace bool) error {
	if err := w.Whole(from); err != nil {
		return err
	}
	w.touched(from, true)
	w.touched(to, true)
	source, sourceName, err := w.openParent(from)
	if err != nil {
		return err
	}
	defer source.close()
	target, targetName, err := w.openParent(to)
	if err != nil {
		return err
	}
	defer target.close()
	rename := renameNew
	if replace {
		rename = unix.Renameat
	}
	if err := retry(func() error { return rename(source.fd, sourceName, target.fd, targetName) }); err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("%s: %w", to, err)
		}
		return fmt.Errorf("%s to %s: %w", from, to, err)
	}
	return errors.Join(source.sync(), target.sync())
}

// Chmod gives a directory its permissions.
func (w *Workspace) Chmod(path string, mode fs.FileMode) error {
	w.touched(path, true)
	f, err := w.openFolder(path)
	if err != nil {
		return err
	}
	defer f.close()
	return retry(func() error { return unix.Fchmod(f.fd, uint32(mode.Perm())) })
}
