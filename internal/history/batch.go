// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history

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

	"github.com/toolserver/toolserver/internal/workspace"
)

// A Batch is what one call changes. Each of its methods takes effect at once;
// Commit makes the whole known to be undone, Rollback takes it back. It is not
// safe for concurrent use. Who uses one holds a lock of the workspace.
type Batch struct {
	ws     *workspace.Workspace
	store  *Store // nil where nothing is to be undone later
	record *Record
	modes  []Change // of directories that were put back, to be set at the end

	staging *workspace.Staging // nil where every step is on the disk when it is done
	pending map[string]Change  // files that have no name yet

	final   bool   // it is not taken back, whatever happens
	scratch *Store // where contents go that are too many to be held in memory; may be nil
	held    int    // bytes of those in memory
	dirs    int    // that were made
}

// Begin returns an empty batch of changes to a workspace. store may be nil.
func Begin(w *workspace.Workspace, store *Store, id, tool string) *Batch {
	return &Batch{ws: w, store: store, record: &Record{ID: id, Tool: tool, Time: time.Now()}}
}

// stages has new files wait for their names. refused is [workspace.Workspace.Stage]'s.
func (b *Batch) stages(refused func(path string, err error)) {
	b.pending = make(map[string]Change)
	b.staging = b.ws.Stage(func(path string) {
		b.did(b.pending[path])
		delete(b.pending, path)
	}, refused)
}

// staged notes a file that waits for its name.
func (b *Batch) staged(change Change) error {
	b.pending[change.Path] = change
	if b.staging.Full() {
		return b.staging.Install()
	}
	return nil
}

func (b *Batch) did(change Change) {
	if b.final {
		return
	}
	b.record.Changes = append(b.record.Changes, change)
	if content := change.Before.content; b.scratch != nil && content != nil {
		if b.held += len(content.data); b.held > maxHeld {
			b.unload()
		}
	}
}

// lost says that what was done cannot be undone, and why.
func (b *Batch) lost(why string) {
	if b.record.Lost == "" {
		b.record.Lost = why
	}
}

// stateOf returns the state of a file whose content is in memory.
func stateOf(file workspace.File) State {
	if !file.Exists() {
		return State{}
	}
	return State{
		Kind: workspace.Regular, Mode: file.Mode.Perm(), Size: int64(len(file.Data)), Hash: file.Hash(), content: &blob{data: file.Data},
	}
}

// Write gives a file its content, as [workspace.Workspace.WriteFile] does, and makes the
// directories that are missing. old is the file as it was read, or the zero
// File where there is none. It returns what the file is then.
func (b *Batch) Write(path string, data []byte, mode fs.FileMode, old workspace.File) (State, error) {
	if err := b.mkdirs(filepath.Dir(path)); err != nil {
		return State{}, err
	}
	if b.staging != nil && !old.Exists() {
		info, err := b.staging.Write(path, data, mode)
		if err != nil {
			return State{}, err
		}
		after := State{Kind: workspace.Regular, Mode: info.Mode.Perm(), Size: info.Size, Hash: workspace.HashOf(data)}
		return after, b.staged(Change{Path: path, After: after})
	}
	hash := make(chan workspace.Hash, 1)
	go func() { hash <- workspace.HashOf(data) }() // while the disk is busy
	info, err := b.ws.WriteFile(path, data, mode, old.Version)
	after := State{Kind: workspace.Regular, Mode: info.Mode.Perm(), Size: info.Size, Hash: <-hash}
	if err != nil {
		return State{}, err
	}
	before := State{}
	if old.Exists() {
		before = State{Kind: workspace.Regular, Mode: old.Mode.Perm(), Size: int64(len(old.Data)), content: difference(old.Data, data)}
	}
	b.did(Change{Path: path, Before: before, After: after})
	return after, nil
}

func (b *Batch) mkdirs(path string) error {
	mkdirs := b.ws.Mkdirs
	if b.staging != nil {
		mkdirs = b.staging.Mkdirs
	}
	made, err := mkdirs(path)
	b.made(made)
	return err
}

// Mkdir makes a directory and those above it that are missing.
func (b *Batch) Mkdir(path string) error {
	mkdir := b.ws.Mkdir
	if b.staging != nil {
		mkdir = b.staging.Mkdir
	}
	made, err := mkdir(path, 0o777)
	b.made(made)
	return err
}

func (b *Batch) made(paths []string) {
	b.dirs += len(paths)
	for _, path := range paths {
		b.did(Change{Path: path, After: State{Kind: workspace.Directory}})
	}
}

// Remove removes a file that was read.
func (b *Batch) Remove(path string, old workspace.File) error {
	now, err := b.ws.Stat(path)
	if err != nil {
		return err
	}
	if now.Version != old.Version {
		return fmt.Errorf("%s: %w", path, workspace.ErrChanged)
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
	if err := b.ws.Whole(path); err != nil {
		return err
	}
	info, err := b.ws.Stat(path)
	if err != nil {
		return err
	}
	if !info.Exists() {
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	var changes []Change
	keep := func(e workspace.Entry) error {
		change, err := b.kept(e)
		if err != nil {
			return err
		}
		if b.record.Lost != "" && len(changes) >= maxFirst {
			b.record.Omitted++
			b.record.top = path
			return nil
		}
		changes = append(changes, change)
		return nil
	}
	if err := keep(workspace.Entry{Path: path, Info: info}); err != nil {
		return err
	}
	if info.Mode.IsDir() {
		if _, err := b.ws.Walk(ctx, path, 1<<30, keep); err != nil {
			return err
		}
	}
	slices.Reverse(changes) // what is in a directory goes before it
	if info.Mode.IsDir() {
		err = b.ws.RemoveAll(ctx, path)
	} else {
		err = b.ws.Remove(path)
	}
	if err != nil { // some may be left
		changes = slices.DeleteFunc(changes, func(change Change) bool {
			now, err := b.ws.Stat(change.Path)
			return err != nil || now.Exists()
		})
	}
	b.record.Changes = append(b.record.Changes, changes...)
	return err
}

// kept returns the removal of an entry, with what it was.
func (b *Batch) kept(e workspace.Entry) (Change, error) {
	state := State{Kind: e.Type(), Mode: e.Mode.Perm()}
	var err error
	switch state.Kind {
	case workspace.Link:
		state.Target, err = b.ws.Readlink(e.Path)
	case workspace.Special:
		b.lost(e.Path + " was a " + workspace.TypeName(e.Mode))
	case workspace.Regular:
		state.Size = e.Size
		err = b.keep(e.Path, &state)
	}
	change := Change{Path: e.Path, Before: state}
	if err == nil && b.store != nil && b.record.Lost == "" {
		if full := b.store.note(b.record, change.weight()); full != nil {
			b.lost(full.Error())
		}
	}
	return change, err
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
		return fmt.Errorf("%s: %w", path, workspace.ErrChanged)
	}
	state.Hash, state.content = workspace.Hash(sum.Sum(nil)), blob
	return nil
}

// Rename moves an entry, and makes the directories above its new place that
// are missing. A file that is in the way is replaced if replace says so.
func (b *Batch) Rename(from, to string, replace bool) error {
	if err := b.ws.Whole(from); err != nil {
		return err
	}
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
			return fmt.Errorf("%s: %w", to, workspace.ErrExists)
		}
		if there.Mode.IsDir() {
			return fmt.Errorf("%s: %w but a directory, which is never replaced", to, workspace.ErrNotRegular)
		}
		if there.Version.SameFile(info.Version) {
			return fmt.Errorf("%s and %s are the same file: remove one of them", from, to)
		}
		change, err := b.kept(workspace.Entry{Path: to, Info: there})
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
	moved := State{Kind: info.Type(), Mode: info.Mode.Perm(), Size: info.Size}
	switch {
	case moved.Kind == workspace.Link:
		if moved.Target, err = b.ws.Readlink(to); err != nil {
			return err
		}
	case moved.Kind == workspace.Regular && info.Size <= maxHashed:
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
	if r.Lost == "" {
		if err := b.store.note(r, r.weight()-r.noted); err != nil {
			b.lost(err.Error())
		}
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
		spilled, err := b.store.spill(r, content)
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
