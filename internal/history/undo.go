// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/toolserver/toolserver/internal/workspace"
)

// Rollback takes back what the batch did, the last first. What it could not
// take back is in the error.
func (b *Batch) Rollback() error {
	var failed []error
	more := 0
	back := Begin(b.ws, nil, "", "")
	back.final = true
	back.stages(nil)
	for _, change := range slices.Backward(b.record.Changes) {
		switch err := back.revert(change); {
		case err == nil:
		case len(failed) == maxFailed:
			more++
		default:
			failed = append(failed, err)
		}
	}
	if more > 0 {
		failed = append(failed, fmt.Errorf("and %d more could not be put back", more))
	}
	failed = append(failed, back.staging.Finish(), back.settle())
	if b.store != nil {
		b.store.abandon(b.record)
	}
	return errors.Join(failed...)
}

// maxFailed is how many entries are told that could not be put back.
const maxFailed = 10

// Undo takes back in a workspace what records of store say, the last first: all of it or
// nothing. An entry that is not as a record left it is [workspace.ErrChanged]. Who calls
// it holds a lock of the whole workspace.
func Undo(ctx context.Context, w *workspace.Workspace, store *Store, records []*Record) error {
	b := Begin(w, nil, "", "")
	b.stages(nil)
	b.scratch = New(Config{Dir: store.config.Dir, MaxBytes: math.MaxInt64})
	defer func() {
		b.scratch.abandon(b.record)
		b.scratch.Close()
	}()
	for _, r := range slices.Backward(records) {
		if r.Lost != "" {
			return fmt.Errorf("call %s of %s: %w: %s", r.ID, r.Tool, ErrNotKept, r.Lost)
		}
	}
	for _, r := range slices.Backward(records) {
		for _, change := range slices.Backward(r.Changes) {
			err := context.Cause(ctx)
			if err == nil {
				err = b.revert(change)
			}
			if err != nil {
				b.staging.Discard()
				return errors.Join(err, b.Rollback())
			}
		}
	}
	if err := errors.Join(b.staging.Finish(), b.settle()); err != nil {
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
		failed = append(failed, b.ws.Chmod(dir.Path, dir.Before.Mode))
	}
	return errors.Join(failed...)
}

// revert takes one change back, if the entry is as the change left it.
func (b *Batch) revert(change Change) error {
	if change.MovedFrom != "" || change.After.Kind != workspace.Absent || b.staging.Has(change.Path) {
		if err := b.staging.Install(); err != nil { // it may be about what has no name yet
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
	same := now.Type() == change.After.Kind && (change.After.Kind != workspace.Regular || now.Size == change.After.Size)
	if same && change.After.Hash != (workspace.Hash{}) {
		file, err := b.ws.ReadFile(change.Path, maxHashed)
		if err != nil {
			return err
		}
		same = file.Hash() == change.After.Hash
	}
	if same && change.After.Kind == workspace.Link {
		target, err := b.ws.Readlink(change.Path)
		if err != nil {
			return err
		}
		same = target == change.After.Target
	}
	if !same {
		return fmt.Errorf("%s: %w since it was moved there from %s", change.Path, workspace.ErrChanged, change.MovedFrom)
	}
	return nil
}

// current returns the entry of now, which must be as a state tells. A regular
// file is read, so that it can be put back in its turn.
func (b *Batch) current(path string, want State) (workspace.File, error) {
	info, err := b.ws.Stat(path)
	if err != nil {
		return workspace.File{}, err
	}
	kind := info.Type()
	changed := func(how string) error { return fmt.Errorf("%s: %w: %s", path, workspace.ErrChanged, how) }
	switch {
	case kind != want.Kind:
		return workspace.File{}, changed(fmt.Sprintf("it was a %s and is a %s", want.Kind, kind))
	case kind == workspace.Link:
		target, err := b.ws.Readlink(path)
		if err == nil && target != want.Target {
			err = changed("the link leads elsewhere")
		}
		return workspace.File{Info: info}, err
	case kind != workspace.Regular:
		return workspace.File{Info: info}, nil
	case info.Size != want.Size:
		return workspace.File{}, changed(fmt.Sprintf("it had %d bytes and has %d", want.Size, info.Size))
	case info.Mode.Perm() != want.Mode:
		return workspace.File{}, changed(fmt.Sprintf("its mode was %v and is %v", want.Mode, info.Mode.Perm()))
	}
	file, err := b.ws.ReadFile(path, want.Size)
	if err == nil && file.Hash() != want.Hash {
		err = changed("it has other content")
	}
	return file, err
}

// restore makes an entry what a state tells.
func (b *Batch) restore(path string, now workspace.File, want State) error {
	kind := now.Type()
	if kind != workspace.Absent && kind != want.Kind {
		was := State{Kind: kind, Mode: now.Mode.Perm()}
		switch kind {
		case workspace.Regular:
			was = stateOf(now)
		case workspace.Link:
			var err error
			if was.Target, err = b.ws.Readlink(path); err != nil {
				return err
			}
		}
		if err := b.ws.Remove(path); err != nil {
			if kind == workspace.Directory {
				err = fmt.Errorf("%w: there is something in it that was not there", err)
			}
			return err
		}
		b.did(Change{Path: path, Before: was})
		b.modes = slices.DeleteFunc(b.modes, func(dir Change) bool { return dir.Path == path })
		now = workspace.File{}
	}
	switch want.Kind {
	case workspace.Regular:
		data, err := want.from(now.Data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, err = b.Write(path, data, want.Mode, now)
		return err
	case workspace.Directory:
		b.modes = append(b.modes, Change{Path: path, Before: want})
		return b.Mkdir(path)
	case workspace.Link:
		if err := b.staging.Symlink(want.Target, path); err != nil {
			return err
		}
		b.did(Change{Path: path, After: want})
	}
	return nil
}

// maxHeld is how many bytes of contents an undo has in memory that it would put
// back if it failed.
const maxHeld = 16 << 20

// unload moves contents from memory to files, as far as that is possible.
func (b *Batch) unload() {
	b.held = 0
	for i := range b.record.Changes {
		content := &b.record.Changes[i].Before.content
		if *content == nil || (*content).segment != nil {
			continue
		}
		spilled, err := b.scratch.spill(b.record, *content)
		if err != nil {
			return
		}
		*content = spilled
	}
}
