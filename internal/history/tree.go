// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/toolserver/toolserver/internal/workspace"
)

// maxUndone is how large a file may be, before and after, for a change of it to
// be undone: to undo one has both in memory.
const maxUndone = 64 << 20

// WriteFrom gives a file the content that r has, as [Batch.Write] does, but need
// not have it in memory. old tells of the file that is replaced.
func (b *Batch) WriteFrom(path string, r io.Reader, mode fs.FileMode, old workspace.Info) (State, workspace.Info, error) {
	if err := b.mkdirs(filepath.Dir(path)); err != nil {
		return State{}, workspace.Info{}, err
	}
	before, err := b.replaced(path, old)
	if err != nil {
		return State{}, workspace.Info{}, err
	}
	info, hash, err := b.ws.WriteFrom(path, r, mode, old.Version)
	if err != nil {
		return State{}, workspace.Info{}, err
	}
	change := b.written(path, before, info, hash)
	b.did(change)
	return change.After, info, nil
}

// replaced returns what a file is that is to be replaced, with its content as far
// as there is room for it.
func (b *Batch) replaced(path string, old workspace.Info) (State, error) {
	if !old.Exists() || !old.Mode.IsRegular() {
		return State{}, nil
	}
	if old.Size > maxUndone {
		b.lost(fmt.Sprintf("%s had more than %d bytes", path, maxUndone))
	}
	change, err := b.kept(workspace.Entry{Path: path, Info: old})
	return change.Before, err
}

// written returns the change of a file that was written.
func (b *Batch) written(path string, before State, info workspace.Info, hash workspace.Hash) Change {
	if info.Size > maxUndone {
		b.lost(fmt.Sprintf("%s has more than %d bytes", path, maxUndone))
	}
	after := State{Kind: workspace.Regular, Mode: info.Mode.Perm(), Size: info.Size, Hash: hash}
	return Change{Path: path, Before: before, After: after}
}

// A Tree is a batch of very many files. They are written beside where they will
// be, some hundred of them, go to the disk at once and only then get their names,
// so that a crash leaves each of them whole or not at all. It takes the locks it
// needs by itself, and only while files get their names: who fills one may wait
// for more.
type Tree struct{ b *Batch }

// BeginTree returns an empty tree. A file that cannot get its name, because
// somebody else has changed what is there, is told to failed. End it with Commit.
func BeginTree(w *workspace.Workspace, store *Store, id, tool string, failed func(path string, size int64, err error)) *Tree {
	b := Begin(w, store, id, tool)
	b.stages(func(path string, err error) {
		failed(path, b.pending[path].After.Size, err)
		delete(b.pending, path)
	})
	return &Tree{b}
}

// Stat tells of an entry, by the path of a directory that [workspace.Workspace.Resolve]
// returned and a name in it.
func (t *Tree) Stat(dir, name string) (workspace.Info, error) { return t.b.staging.Stat(dir, name) }

// Write gives a file the content that r has. old tells of the file that is
// replaced, as Stat has just told.
func (t *Tree) Write(path string, r io.Reader, mode fs.FileMode, old workspace.Info) error {
	b := t.b
	if err := b.mkdirs(filepath.Dir(path)); err != nil {
		return err
	}
	before, err := b.replaced(path, old)
	if err != nil {
		return err
	}
	info, hash, err := b.staging.WriteFrom(path, r, mode, old)
	if err != nil {
		return err
	}
	return b.staged(b.written(path, before, info, hash))
}

// Made returns how many directories were made.
func (t *Tree) Made() int { return t.b.dirs }

// Mkdir makes a directory and those above it that are missing. One that is there
// already is left as it is.
func (t *Tree) Mkdir(path string, mode fs.FileMode) error {
	if path == "." {
		return nil
	}
	paths, err := t.b.staging.Mkdir(path, mode)
	t.b.made(paths)
	if !errors.Is(err, workspace.ErrExists) {
		return err
	}
	there, err := t.b.ws.Stat(path)
	if err == nil && !there.Mode.IsDir() {
		err = fmt.Errorf("%s: %w", path, syscall.ENOTDIR)
	}
	return err
}

// Symlink makes a link. Something that is there already is [workspace.ErrExists], unless it
// is a link that says the same.
func (t *Tree) Symlink(target, path string) error {
	if err := t.b.mkdirs(filepath.Dir(path)); err != nil {
		return err
	}
	err := t.b.staging.Symlink(target, path)
	if errors.Is(err, workspace.ErrExists) {
		if is, _ := t.b.ws.Readlink(path); is == target {
			return nil
		}
	}
	if err == nil {
		t.b.did(Change{Path: path, After: State{Kind: workspace.Link, Mode: 0o777, Target: target}})
	}
	return err
}

// Commit gives the last files their names, makes sure that all of them last, and
// returns what was done. It comes last also where filling the tree failed: what
// was written before stays, and can be undone.
func (t *Tree) Commit() (*Record, error) {
	err := t.b.staging.Finish()
	if err != nil {
		t.b.staging.Discard()
	}
	return t.b.Commit(), err
}

// Spool returns an empty file without a name, for what is not complete yet. It is
// gone when it is closed.
func (s *Store) Spool() (*os.File, error) { return unnamed(s.config.Dir) }
