// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

// What keys of a namespace begin with.
const (
	entryKind  = "m"
	sourceKind = "k"
)

// A space is a namespace that is in use: what is stored of it, with the index of that.
type space struct {
	store  *Store
	prefix string
	ctx    context.Context
	stop   context.CancelFunc
	used   time.Time // guarded by the store
	idle   *time.Timer
	wake   chan struct{} // tells load that sources changed

	mu       sync.RWMutex
	entries  map[string]*kept // by their names
	removed  map[string]state.Revision
	bytes    int64 // of the text of entries
	byEntry  *index
	sources  map[string]*Source       // as they are stored, by name
	loaded   map[string]*loadedSource // as the index has them
	byPart   *index
	snapshot bool          // all that was there when the watch began was told
	changed  chan struct{} // closed when something was told or loaded
}

// kept is an entry in the index.
type kept struct {
	*item
	revision state.Revision
}

func newSpace(s *Store, prefix string) *space {
	sp := &space{
		store: s, prefix: prefix, wake: make(chan struct{}, 1), changed: make(chan struct{}),
		entries: make(map[string]*kept), removed: make(map[string]state.Revision), byEntry: newIndex(),
		sources: make(map[string]*Source), loaded: make(map[string]*loadedSource), byPart: newIndex(),
	}
	sp.ctx, sp.stop = context.WithCancel(s.ctx)
	sp.idle = time.AfterFunc(idleTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.spaces[prefix] == sp && time.Since(sp.used) >= idleTime {
			s.forget(sp)
		}
	})
	return sp
}

// follow keeps the space as the state is, until it is closed.
func (sp *space) follow() {
	for sp.ctx.Err() == nil {
		seen := make(map[string]bool) // in the snapshot
		complete := false
		err := sp.store.entries.Watch(sp.ctx, sp.prefix, func(e state.Entry) {
			switch {
			case e.Key == "":
				complete = true
				sp.keepOnly(seen)
				seen = nil
			default:
				if !complete {
					seen[e.Key] = true
				}
				sp.take(e)
			}
		})
		if sp.ctx.Err() != nil {
			return
		}
		sp.store.options.Logger.Warn("what is remembered is not followed, and will be again", zap.Error(err))
		select {
		case <-sp.ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// tell wakes those who wait for a change. The caller holds mu.
func (sp *space) tell() {
	close(sp.changed)
	sp.changed = make(chan struct{})
}

func (sp *space) key(kind, name string) string { return sp.prefix + state.Key(kind, name) }

// take brings the space up to date with an entry of the state.
func (sp *space) take(e state.Entry) {
	parts := state.Parts(e.Key[len(sp.prefix):])
	if len(parts) != 2 {
		return
	}
	kind, name := parts[0], parts[1]
	switch kind {
	case entryKind:
		sp.takeEntry(name, e)
	case sourceKind:
		sp.takeSource(name, e)
	}
}

func (sp *space) takeEntry(name string, e state.Entry) {
	var entry Entry
	var c counted
	if !e.Deleted {
		if err := decode(e.Value, &entry, &entry.Version, entryVersion); err != nil {
			sp.store.options.Logger.Error("a memory cannot be read", zap.Error(err))
			return
		}
		c = count(entry.Text, entry.Key, fmt.Sprint(entry.Tags))
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	old := sp.entries[name]
	if old != nil && e.Revision <= old.revision && !e.Deleted || !e.Deleted && e.Revision <= sp.removed[name] {
		return
	}
	if old != nil {
		sp.drop(name, old)
	}
	if e.Deleted {
		delete(sp.removed, name)
		return
	}
	it := &item{entry: &entry}
	if entry.Model == sp.store.options.Model && entry.Model != "" {
		it.vector = signed(entry.Vector)
	}
	entry.Vector = nil
	sp.entries[name] = &kept{it, e.Revision}
	sp.bytes += int64(len(entry.Text))
	sp.byEntry.add(it, c)
}

// drop takes an entry out of the index. The caller holds mu.
func (sp *space) drop(name string, old *kept) {
	sp.byEntry.remove(old.item)
	sp.bytes -= int64(len(old.entry.Text))
	delete(sp.entries, name)
}

// forgotten notes that an entry was deleted, before the watch tells it.
func (sp *space) forgotten(name string, revision state.Revision) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if old := sp.entries[name]; old != nil && old.revision <= revision {
		sp.removed[name] = revision
		sp.drop(name, old)
	}
}

func (sp *space) takeSource(name string, e state.Entry) {
	var source Source
	if !e.Deleted {
		if err := decode(e.Value, &source, &source.Version, sourceVersion); err != nil {
			sp.store.options.Logger.Error("a source of knowledge cannot be read", zap.Error(err))
			return
		}
	}
	source.revision = e.Revision
	sp.mu.Lock()
	defer sp.mu.Unlock()
	switch old := sp.sources[name]; {
	case old != nil && e.Revision <= old.revision && !e.Deleted:
		return
	case e.Deleted:
		delete(sp.sources, name)
	default:
		sp.sources[name] = &source
	}
	sp.tell()
	sp.awaken()
}

func (sp *space) awaken() {
	select {
	case sp.wake <- struct{}{}:
	default:
	}
}

// keepOnly forgets what the snapshot does not have: it was deleted while nobody watched.
func (sp *space) keepOnly(seen map[string]bool) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for name, old := range sp.entries {
		if !seen[sp.key(entryKind, name)] {
			sp.drop(name, old)
		}
	}
	for name := range sp.sources {
		if !seen[sp.key(sourceKind, name)] {
			delete(sp.sources, name)
		}
	}
	sp.snapshot = true
	sp.tell()
	sp.awaken()
}

// complete reports whether the index has all entries that are stored and, with parts, all
// documents. The caller holds mu.
func (sp *space) complete(parts bool) bool {
	if !sp.snapshot || !parts {
		return sp.snapshot
	}
	if len(sp.sources) != len(sp.loaded) {
		return false
	}
	for name, source := range sp.sources {
		if have := sp.loaded[name]; have == nil || have.revision < source.revision {
			return false
		}
	}
	return true
}

// wait waits until the index is complete, for a time.
func (sp *space) wait(ctx context.Context, parts bool, patience time.Duration) (complete bool, err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		sp.mu.RLock()
		complete, changed := sp.complete(parts), sp.changed
		sp.mu.RUnlock()
		if complete {
			return true, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return false, nil
		case <-sp.ctx.Done():
			return false, unavailable(errors.New("it was put away meanwhile"))
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// decode reads a record, unless a later version of the server wrote it.
func decode(data []byte, record any, version *int, known int) error {
	if err := json.Unmarshal(data, record); err != nil {
		return err
	}
	if *version > known {
		return fmt.Errorf("it was stored by a later version of this server, as version %d", *version)
	}
	return nil
}

func signed(data []byte) []int8 {
	if len(data) == 0 {
		return nil
	}
	list := make([]int8, len(data))
	for i, b := range data {
		list[i] = int8(b)
	}
	return list
}

func unsigned(list []int8) []byte {
	data := make([]byte, len(list))
	for i, n := range list {
		data[i] = byte(n)
	}
	return data
}
