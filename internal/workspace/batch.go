// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Batch is what one call changes. Each of its methods takes effect at once;
// Commit makes the whole known to be undone, Rollback takes it back. It is not
// safe for concurrent use. Who uses one holds a lock of the workspace.
type Batch struct {
	ws     *Workspace
	store  *Changes // nil where nothing is to be undone later
	record *Record
	modes  []Change // of directories that were put back, to be set at the end
	late   *late    // nil where every step is on the disk when it is done
}

// Begin returns an empty batch. store may be nil.
func (w *Workspace) Begin(store *Changes, id, tool string) *Batch {
	return &Batch{ws: w, store: store, record: &Record{ID: id, Tool: tool, Time: time.Now()}}
}

func (b *Batch) did(change Change) { b.record.Changes = append(b.record.Changes, change) }

// lost says that what was done cannot be undone, and why.
func (b *Batch) lost(why string) {
	if b.record.Lost == "" {
		b.record.Lost = why
	}
}

// stateOf returns the state of a file whose content is in memory.
func stateOf(file File) State {
	if !file.Exists() {
		return State{}
	}
	return State{
		Kind: Regular, Mode: file.Mode.Perm(), Size: int64(len(file.Data)), Hash: file.Hash(), content: &blob{data: file.Data},
	}
}

// Write gives a file its content, as [Workspace.WriteFile] does, and makes the
// directories that are missing. old is the file as it was read, or the zero
// File where there is none. It returns what the file is then.
func (b *Batch) Write(path string, data []byte, mode fs.FileMode, old File) (State, error) {
	if err := b.mkdirs(filepath.Dir(path)); err != nil {
		return State{}, err
	}
	if b.late != nil && !old.Exists() {
		return b.stage(path, data, mode)
	}
	hash := make(chan Hash, 1)
	go func() { hash <- HashOf(data) }() // while the disk is busy
	info, err := b.ws.WriteFile(path, data, mode, old.Version)
	after := State{Kind: Regular, Mode: info.Mode.Perm(), Size: info.Size, Hash: <-hash}
	if err != nil {
		return State{}, err
	}
	before := State{}
	if old.Exists() {
		before = State{Kind: Regular, Mode: old.Mode.Perm(), Size: int64(len(old.Data)), content: difference(old.Data, data)}
	}
	b.did(Change{Path: path, Before: before, After: after})
	return after, nil
}

func (b *Batch) mkdirs(path string) error {
	if b.late != nil && b.late.folders[path].path != "" {
		return nil // it is open
	}
	made, err := b.ws.mkdirs(path, b.late)
	b.made(made)
	return err
}

// Mkdir makes a directory and those above it that are missing.
func (b *Batch) Mkdir(path string) error {
	made, err := b.ws.mkdir(path, 0o777, b.late)
	b.made(made)
	return err
}

func (b *Batch) made(paths []string) {
	for _, path := range paths {
		b.did(Change{Path: path, After: State{Kind: Directory}})
	}
}

// Remove removes a file that was read.
func (b *Batch) Remove(path string, old File) error {
	now, err := b.ws.Stat(path)
	if err != nil {
		return err
	}
	if now.Version != old.Version {
		return fmt.Errorf("%s: %w", path, ErrChanged)
	}
	if err := b.ws.Remove(path); err != nil {
		return err
	}
	b.did(Change{Path: path, Before: stateOf(old)})
	return nil
}

// RemoveAll removes an entry, and all that is in it where it is a directory.
// What it removed is kept as far as there is room.
func (b *Batch) RemoveAll(ctx context.Context, path string) error {
	info, err := b.ws.Stat(path)
	if err != nil {
		return err
	}
	if !info.Exists() {
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	entries := []Entry{{path, info}}
	if info.Mode.IsDir() {
		_, err := b.ws.Walk(ctx, path, 1<<30, func(e Entry) error {
			entries = append(entries, e)
			return nil
		})
		if err != nil {
			return err
		}
	}
	changes := make([]Change, len(entries))
	for i, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if changes[i], err = b.kept(e); err != nil {
			return err
		}
	}
	slices.Reverse(changes) // what is in a directory goes before it
	if info.Mode.IsDir() {
		err = b.ws.RemoveAll(ctx, path)
	} else {
		err = b.ws.Remove(path)
	}
	for _, change := range changes {
		if err != nil { // some may be left
			if now, err := b.ws.Stat(change.Path); err != nil || now.Exists() {
				continue
			}
		}
		b.did(change)
	}
	return err
}

// kept returns the removal of an entry, with what it was.
func (b *Batch) kept(e Entry) (Change, error) {
	state := State{Kind: kindOfInfo(e.Info), Mode: e.Mode.Perm()}
	var err error
	switch state.Kind {
	case Link:
		state.Target, err = b.ws.Readlink(e.Path)
	case Special:
		b.lost(e.Path + " was a " + kindOf(e.Mode))
	case Regular:
		state.Size = e.Size
		err = b.keep(e.Path, &state)
	}
	return Change{Path: e.Path, Before: state}, err
}

// keep copies the content of a file to where it is kept.
func (b *Batch) keep(path string, state *State) error {
	if b.store == nil {
		b.lost("nothing is kept")
		return nil
	}
	if b.record.Lost != "" {
		return nil // in vain
	}
	blob, err := b.store.reserve(b.record, state.Size)
	if err != nil {
		b.lost(err.Error())
		return nil
	}
	file, err := b.ws.OpenFile(path)
	if errors.Is(err, fs.ErrPermission) {
		b.lost(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, io.NewOffsetWriter(blob.segment.file, blob.offset)), io.LimitReader(file, state.Size))
	if err != nil {
		b.lost(err.Error())
		return nil
	}
	if n != state.Size {
		return fmt.Errorf("%s: %w", path, ErrChanged)
	}
	state.Hash, state.content = Hash(sum.Sum(nil)), blob
	return nil
}

// Rename moves an entry, and makes the directories above its new place that
// are missing. A file that is in the way is replaced if replace says so.
func (b *Batch) Rename(from, to string, replace bool) error {
	info, err := b.ws.Stat(from)
	if err != nil {
		return err
	}
	if !info.Exists() {
		return fmt.Errorf("%s: %w", from, fs.ErrNotExist)
	}
	if _, inside := below(to, from); inside {
		return fmt.Errorf("%s cannot be moved to %s, which is itself or in it", from, to)
	}
	there, err := b.ws.Stat(to)
	if err != nil {
		return err
	}
	var replaced *Change
	if there.Exists() {
		if !replace {
			return fmt.Errorf("%s: %w", to, ErrExists)
		}
		if there.Mode.IsDir() {
			return fmt.Errorf("%s: %w but a directory, which is never replaced", to, ErrNotRegular)
		}
		if there.Version.dev == info.Version.dev && there.Version.ino == info.Version.ino {
			return fmt.Errorf("%s and %s are the same file: remove one of them", from, to)
		}
		change, err := b.kept(Entry{to, there})
		if err != nil {
			return err
		}
		replaced = &change
	}
	if err := b.mkdirs(filepath.Dir(to)); err != nil {
		return err
	}
	if err := b.ws.Rename(from, to, replace); err != nil {
		return err
	}
	if replaced != nil {
		b.did(*replaced)
	}
	for i, dir := range b.modes {
		if rest, ok := below(dir.Path, from); ok {
			b.modes[i].Path = filepath.Join(to, rest)
		}
	}
	moved := State{Kind: kindOfInfo(info), Mode: info.Mode.Perm(), Size: info.Size}
	if moved.Kind == Regular && info.Size <= maxHashed {
		file, err := b.ws.ReadFile(to, maxHashed)
		if err != nil {
			return err
		}
		moved.Hash = file.Hash()
	}
	b.did(Change{Path: to, MovedFrom: from, After: moved})
	return nil
}

// maxHashed is up to which size a file that is moved is read, to tell later
// whether it changed.
const maxHashed = 16 << 20

// below returns the rest of a path that is dir or in it.
func below(path, dir string) (string, bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, dir+"/")
}

// Commit ends the batch and returns what it did. Where nothing was done there
// is no record.
func (b *Batch) Commit() *Record {
	r := b.record
	if len(r.Changes) == 0 || b.store == nil {
		return r
	}
	for i := range r.Changes {
		content := r.Changes[i].Before.content
		if content == nil || content.segment != nil {
			continue
		}
		r.Changes[i].Before.content = nil
		if r.Lost != "" {
			continue
		}
		spilled, err := b.store.reserve(r, int64(len(content.data)))
		if err == nil {
			spilled.prefix, spilled.suffix = content.prefix, content.suffix
			_, err = spilled.segment.file.WriteAt(content.data, spilled.offset)
		}
		if err != nil {
			b.lost(err.Error())
			continue
		}
		r.Changes[i].Before.content = spilled
	}
	if r.Lost != "" {
		b.store.abandon(r)
		for i := range r.Changes {
			r.Changes[i].Before.content = nil
		}
	}
	b.store.add(r)
	return r
}

// Rollback takes back what the batch did, the last first. What it could not
// take back is in the error.
func (b *Batch) Rollback() error {
	var failed []error
	back := b.ws.Begin(nil, "", "")
	back.late = newLate()
	for _, change := range slices.Backward(b.record.Changes) {
		if err := back.revert(change); err != nil {
			failed = append(failed, err)
		}
	}
	failed = append(failed, back.finish(), back.settle())
	if b.store != nil {
		b.store.abandon(b.record)
	}
	return errors.Join(failed...)
}

// Undo takes back what records of store say, the last first: all of it or
// nothing. An entry that is not as a record left it is [ErrChanged]. Who calls
// it holds a lock of the whole workspace.
func (w *Workspace) Undo(ctx context.Context, store *Changes, records []*Record) error {
	b := w.Begin(nil, "", "")
	b.late = newLate()
	for _, r := range slices.Backward(records) {
		if r.Lost != "" {
			return fmt.Errorf("call %s of %s: %w: %s", r.ID, r.Tool, ErrNotKept, r.Lost)
		}
	}
	for _, r := range slices.Backward(records) {
		for _, change := range slices.Backward(r.Changes) {
			err := ctx.Err()
			if err != nil {
				err = context.Cause(ctx)
			} else {
				err = b.revert(change)
			}
			if err != nil {
				b.late.discard()
				return errors.Join(err, b.Rollback())
			}
		}
	}
	if err := errors.Join(b.finish(), b.settle()); err != nil {
		return errors.Join(err, b.Rollback())
	}
	store.remove(records)
	return nil
}

// settle gives directories their modes, the innermost first: one that may not
// be written could not be filled before.
func (b *Batch) settle() error {
	var failed []error
	for _, dir := range slices.Backward(b.modes) {
		failed = append(failed, b.ws.chmod(dir.Path, dir.Before.Mode))
	}
	return errors.Join(failed...)
}

// revert takes one change back, if the entry is as the change left it.
func (b *Batch) revert(change Change) error {
	if change.MovedFrom != "" || change.After.Kind != Absent || b.late.paths[change.Path] {
		if err := b.install(); err != nil { // it may be about what has no name yet
			return err
		}
	}
	if change.MovedFrom != "" {
		if err := b.unmoved(change); err != nil {
			return err
		}
		return b.Rename(change.Path, change.MovedFrom, false)
	}
	now, err := b.current(change.Path, change.After)
	if err != nil {
		return err
	}
	return b.restore(change.Path, now, change.Before)
}

// unmoved checks that what was moved is as it was then. What is in a directory
// may have changed.
func (b *Batch) unmoved(change Change) error {
	now, err := b.ws.Stat(change.Path)
	if err != nil {
		return err
	}
	same := kindOfInfo(now) == change.After.Kind && (change.After.Kind != Regular || now.Size == change.After.Size)
	if same && change.After.Hash != (Hash{}) {
		file, err := b.ws.ReadFile(change.Path, maxHashed)
		if err != nil {
			return err
		}
		same = file.Hash() == change.After.Hash
	}
	if !same {
		return fmt.Errorf("%s: %w since it was moved there from %s", change.Path, ErrChanged, change.MovedFrom)
	}
	return nil
}

// current returns the entry of now, which must be as a state tells. A regular
// file is read, so that it can be put back in its turn.
func (b *Batch) current(path string, want State) (File, error) {
	info, err := b.ws.Stat(path)
	if err != nil {
		return File{}, err
	}
	kind := kindOfInfo(info)
	changed := func(how string) error { return fmt.Errorf("%s: %w: %s", path, ErrChanged, how) }
	switch {
	case kind != want.Kind:
		return File{}, changed(fmt.Sprintf("it was a %s and is a %s", want.Kind, kind))
	case kind == Link:
		target, err := b.ws.Readlink(path)
		if err == nil && target != want.Target {
			err = changed("the link leads elsewhere")
		}
		return File{Info: info}, err
	case kind != Regular:
		return File{Info: info}, nil
	case info.Size != want.Size:
		return File{}, changed(fmt.Sprintf("it had %d bytes and has %d", want.Size, info.Size))
	case info.Mode.Perm() != want.Mode:
		return File{}, changed(fmt.Sprintf("its mode was %v and is %v", want.Mode, info.Mode.Perm()))
	}
	file, err := b.ws.ReadFile(path, want.Size)
	if err == nil && file.Hash() != want.Hash {
		err = changed("it has other content")
	}
	return file, err
}

// restore makes an entry what a state tells.
func (b *Batch) restore(path string, now File, want State) error {
	kind := kindOfInfo(now.Info)
	if kind != Absent && kind != want.Kind {
		was := State{Kind: kind, Mode: now.Mode.Perm()}
		switch kind {
		case Regular:
			was = stateOf(now)
		case Link:
			var err error
			if was.Target, err = b.ws.Readlink(path); err != nil {
				return err
			}
		}
		if err := b.ws.Remove(path); err != nil {
			if kind == Directory {
				err = fmt.Errorf("%w: there is something in it that was not there", err)
			}
			return err
		}
		b.did(Change{Path: path, Before: was})
		b.modes = slices.DeleteFunc(b.modes, func(dir Change) bool { return dir.Path == path })
		now = File{}
	}
	switch want.Kind {
	case Regular:
		data, err := want.from(now.Data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, err = b.Write(path, data, want.Mode, now)
		return err
	case Directory:
		b.modes = append(b.modes, Change{Path: path, Before: want})
		return b.Mkdir(path)
	case Link:
		if err := b.ws.symlink(want.Target, path, b.late); err != nil {
			return err
		}
		b.did(Change{Path: path, After: want})
	}
	return nil
}
