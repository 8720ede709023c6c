// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// maxUndone is how large a file may be, before and after, for a change of it to
// be undone: to undo one has both in memory.
const maxUndone = 64 << 20

// WriteFrom gives a file the content that r has, as [Batch.Write] does, but need
// not have it in memory. old tells of the file that is replaced.
func (b *Batch) WriteFrom(path string, r io.Reader, mode fs.FileMode, old Info) (State, Info, error) {
	if err := b.mkdirs(filepath.Dir(path)); err != nil {
		return State{}, Info{}, err
	}
	before, err := b.replaced(path, old)
	if err != nil {
		return State{}, Info{}, err
	}
	b.ws.touched(path, true)
	f, name, err := b.ws.openParent(path)
	if err != nil {
		return State{}, Info{}, err
	}
	defer f.close()
	b.ws.intents.add(f.path)
	info, hash, err := f.writeFrom(name, r, mode, old.Version)
	if errors.Is(err, errTempGone) { // r is read
		err = fmt.Errorf("%s: %w", path, ErrChanged)
	}
	if err != nil {
		return State{}, Info{}, err
	}
	after := b.wrote(path, before, info, hash)
	return after, info, nil
}

// replaced returns what a file is that is to be replaced, with its content as far
// as there is room for it.
func (b *Batch) replaced(path string, old Info) (State, error) {
	if !old.Exists() || !old.Mode.IsRegular() {
		return State{}, nil
	}
	if old.Size > maxUndone {
		b.lost(fmt.Sprintf("%s had more than %d bytes", path, maxUndone))
	}
	change, err := b.kept(Entry{path, old})
	return change.Before, err
}

// wrote notes a file that was written.
func (b *Batch) wrote(path string, before State, info Info, hash Hash) State {
	if info.Size > maxUndone {
		b.lost(fmt.Sprintf("%s has more than %d bytes", path, maxUndone))
	}
	after := State{Kind: Regular, Mode: info.Mode.Perm(), Size: info.Size, Hash: hash}
	b.did(Change{Path: path, Before: before, After: after})
	return after
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

// A Tree is a batch of very many files. They are written beside where they will
// be, some hundred of them, go to the disk at once and only then get their names,
// so that a crash leaves each of them whole or not at all. It takes the locks it
// needs by itself, and only while files get their names: who fills one may wait
// for more.
type Tree struct{ b *Batch }

// BeginTree returns an empty tree. A file that cannot get its name, because
// somebody else has changed what is there, is told to failed. End it with Commit.
func (w *Workspace) BeginTree(store *Changes, id, tool string, failed func(path string, size int64, err error)) *Tree {
	b := w.Begin(store, id, tool)
	b.late = newLate()
	b.failed = func(change Change, err error) { failed(change.Path, change.After.Size, err) }
	return &Tree{b}
}

// Stat tells of an entry, by the path of a directory that [Workspace.Resolve]
// returned and a name in it.
func (t *Tree) Stat(dir, name string) (Info, error) {
	path := filepath.Join(dir, name)
	if t.b.late.paths[path] { // it has no name yet
		if err := t.b.install(); err != nil {
			return Info{}, err
		}
	}
	f, err := t.b.folder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, err
	}
	return f.lstat(name)
}

// Write gives a file the content that r has. old tells of the file that is
// replaced, as Stat has just told.
func (t *Tree) Write(path string, r io.Reader, mode fs.FileMode, old Info) error {
	b := t.b
	b.ws.touched(path, true)
	if err := b.mkdirs(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := b.folder(filepath.Dir(path))
	if err != nil {
		return err
	}
	was := Info{} // a name that is taken meanwhile is not given a second time
	if old.Exists() {
		if was, err = f.replaceable(filepath.Base(path), old.Version); err != nil {
			return err
		}
	}
	before, err := b.replaced(path, was)
	if err != nil {
		return err
	}
	temp, fd, err := f.temporary()
	if err != nil {
		return explain(path, err)
	}
	info, hash, err := fillFrom(fd, r, mode, was)
	if err != nil {
		unix.Close(fd)
		_ = unix.Unlinkat(f.fd, temp, 0)
		return explain(path, err)
	}
	if info.Size > maxUndone {
		b.lost(fmt.Sprintf("%s has more than %d bytes", path, maxUndone))
	}
	after := State{Kind: Regular, Mode: info.Mode.Perm(), Size: info.Size, Hash: hash}
	s := stagedFile{folder: f, fd: fd, temp: temp, was: was, change: Change{Path: path, Before: before, After: after}}
	b.late.staged, b.late.paths[path] = append(b.late.staged, s), true
	if len(b.late.staged) == maxStaged {
		return b.install()
	}
	return nil
}

// Made returns how many directories were made.
func (t *Tree) Made() int { return t.b.dirs }

// Mkdir makes a directory and those above it that are missing. One that is there
// already is left as it is.
func (t *Tree) Mkdir(path string, mode fs.FileMode) error {
	if path == "." || t.b.late.folders[path].path != "" {
		return nil
	}
	paths, err := t.b.ws.mkdir(path, mode, t.b.late)
	t.b.made(paths)
	if errors.Is(err, ErrExists) {
		var f folder
		if f, err = t.b.ws.openFolder(path); err == nil {
			f.close()
		}
	}
	return err
}

// Symlink makes a link. Something that is there already is [ErrExists], unless it
// is a link that says the same.
func (t *Tree) Symlink(target, path string) error {
	if err := t.b.mkdirs(filepath.Dir(path)); err != nil {
		return err
	}
	err := t.b.ws.symlink(target, path, t.b.late)
	if errors.Is(err, ErrExists) {
		if is, _ := t.b.ws.Readlink(path); is == target {
			return nil
		}
	}
	if err == nil {
		t.b.did(Change{Path: path, After: State{Kind: Link, Mode: 0o777, Target: target}})
	}
	return err
}

// Commit gives the last files their names, makes sure that all of them last, and
// returns what was done. It comes last also where filling the tree failed: what
// was written before stays, and can be undone.
func (t *Tree) Commit() (*Record, error) {
	err := t.b.finish()
	if err != nil {
		t.b.late.discard()
	}
	return t.b.Commit(), err
}

// folder returns a directory that stays open until the files in it have their
// names.
func (b *Batch) folder(dir string) (folder, error) {
	f, open := b.late.folders[dir]
	if open {
		return f, nil
	}
	if len(b.late.folders) >= maxStaged {
		if err := b.installAll(); err != nil {
			return folder{}, err
		}
	}
	f, err := b.ws.openFolder(dir)
	if err != nil {
		return folder{}, err
	}
	b.late.folders[dir] = f
	b.ws.intents.add(dir)
	return f, nil
}

// installAll is install that closes the directories also where no file waits.
func (b *Batch) installAll() error {
	if len(b.late.staged) > 0 {
		return b.install()
	}
	b.late.discard()
	return nil
}

// Spool returns an empty file without a name, for what is not complete yet. It is
// gone when it is closed.
func (c *Changes) Spool() (*os.File, error) { return unnamed(c.config.Dir) }
