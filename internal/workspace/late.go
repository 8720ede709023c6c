// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// late is for batches of very many files, which would wait for the disk twice for
// each. New files are written beside where they will be, some hundred of them; all
// go to the disk at once, and only then get their names, so that a crash leaves
// each of them whole or not at all. That directories have those names is made
// sure of at the end.
type late struct {
	folders map[string]folder // open
	staged  []stagedFile
	paths   map[string]bool // of those
	dirs    map[string]bool // with entries that may not be on the disk
}

// stagedFile is a file that has no name yet.
type stagedFile struct {
	folder folder
	fd     int // open, since its lock tells that it is in use
	temp   string
	was    Info // what it replaces
	change Change
}

// maxStaged bounds how many files wait for their names: each is open, and so is
// its directory.
const maxStaged = 256

// fewFiles is up to how many are sent to the disk one by one. Beyond, all that
// the file system has to write is, which may be more.
const fewFiles = 16

func newLate() *late {
	return &late{folders: make(map[string]folder), paths: make(map[string]bool), dirs: make(map[string]bool)}
}

// sync sends the entries of a directory to the disk: at the end, or now where
// nobody waits for one.
func (l *late) sync(f folder) error {
	if l == nil {
		return f.sync()
	}
	l.dirs[f.path] = true
	return nil
}

// stage writes a new file.
func (b *Batch) stage(path string, data []byte, mode fs.FileMode) (State, error) {
	b.ws.touched(path, true)
	l, dir := b.late, filepath.Dir(path)
	f, open := l.folders[dir]
	if !open {
		var err error
		if f, err = b.ws.openFolder(dir); err != nil {
			return State{}, err
		}
		l.folders[dir] = f
		b.ws.intents.add(dir)
	}
	s, err := f.stage(filepath.Base(path), data, mode)
	if err != nil {
		return State{}, err
	}
	s.change.Path, s.change.After.Hash = path, HashOf(data)
	l.staged, l.paths[path] = append(l.staged, s), true
	if len(l.staged) == maxStaged {
		err = b.install()
	}
	return s.change.After, err
}

func (f folder) stage(name string, data []byte, mode fs.FileMode) (stagedFile, error) {
	path := filepath.Join(f.path, name)
	if _, err := f.replaceable(name, Version{}); err != nil {
		return stagedFile{}, err
	}
	temp, fd, err := f.temporary()
	if err != nil {
		return stagedFile{}, explain(path, err)
	}
	info, err := fill(fd, data, mode, Info{})
	if err != nil {
		unix.Close(fd)
		_ = unix.Unlinkat(f.fd, temp, 0)
		return stagedFile{}, explain(path, err)
	}
	after := State{Kind: Regular, Mode: info.Mode.Perm(), Size: info.Size}
	return stagedFile{folder: f, fd: fd, temp: temp, change: Change{After: after}}, nil
}

// install gives files their names, once all of them are on the disk. Those it
// cannot give one are gone.
func (b *Batch) install() error {
	l := b.late
	if l == nil || len(l.staged) == 0 {
		return nil
	}
	defer l.discard()
	if err := l.flush(); err != nil {
		return err
	}
	if b.failed != nil {
		defer b.ws.Lock(slices.Collect(maps.Keys(l.paths))...)()
	}
	var failed []error
	for _, s := range l.staged {
		if err := s.folder.install(s.temp, filepath.Base(s.change.Path), s.was); err != nil {
			err = explain(s.change.Path, err)
			if b.failed != nil {
				b.failed(s.change, err)
				continue
			}
			failed = append(failed, err)
			continue
		}
		b.did(s.change)
		l.dirs[s.folder.path] = true
	}
	return errors.Join(failed...)
}

// discard removes what has no name yet.
func (l *late) discard() {
	for _, s := range l.staged {
		_ = unix.Unlinkat(s.folder.fd, s.temp, 0) // of those that have one it fails
		unix.Close(s.fd)
	}
	for _, f := range l.folders {
		f.close()
	}
	l.staged = l.staged[:0]
	clear(l.paths)
	clear(l.folders)
}

// flush sends the content of all files to the disk.
func (l *late) flush() error {
	if len(l.staged) > fewFiles && syncAll(l.staged[0].fd) == nil {
		// All are on the file system of the first, but for those below a mount.
		return l.flushElsewhere()
	}
	return l.each(func(stagedFile) bool { return true })
}

func (l *late) flushElsewhere() error {
	home, err := deviceOf(l.staged[0].fd)
	if err != nil {
		return err
	}
	return l.each(func(s stagedFile) bool {
		device, err := deviceOf(s.folder.fd)
		return err != nil || device != home
	})
}

func deviceOf(fd int) (uint64, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(fd, &st) })
	return uint64(st.Dev), err //nolint:unconvert // the type differs between systems
}

// each sends files to the disk one by one.
func (l *late) each(which func(stagedFile) bool) error {
	for _, s := range l.staged {
		if !which(s) {
			continue
		}
		if err := retry(func() error { return unix.Fsync(s.fd) }); err != nil {
			return explain(s.change.Path, err)
		}
	}
	return nil
}

// finish gives the last files their names, and makes sure that all names last.
func (b *Batch) finish() error {
	if err := b.install(); err != nil {
		return err
	}
	home, all := b.ws.syncAll(len(b.late.dirs))
	var failed []error
	for dir := range b.late.dirs {
		f, err := b.ws.openFolder(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue // a later step has removed or moved it
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if device, err := deviceOf(f.fd); !all || err != nil || device != home {
			failed = append(failed, f.sync())
		}
		f.close()
	}
	clear(b.late.dirs)
	return errors.Join(failed...)
}

// syncAll writes all that the file system of the workspace has to write, where
// so many directories wait for it that this is worth it, and tells which it is.
func (w *Workspace) syncAll(waiting int) (device uint64, done bool) {
	if waiting <= fewFiles {
		return 0, false
	}
	_ = w.control(func(dir uintptr) {
		var err error
		device, err = deviceOf(int(dir))
		done = err == nil && syncAll(int(dir)) == nil
	})
	return device, done
}
