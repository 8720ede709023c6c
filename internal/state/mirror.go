// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Mirror is what a bucket has below a prefix, decoded and in memory, as one watch tells it
// and as its owner wrote it. It may be behind: what must hold is decided by a write. Its
// methods are safe for concurrent use.
type Mirror[T any] struct {
	kv      KV
	prefix  string
	decode  func(value []byte) (T, error)
	changed func(key string, value T, there bool)

	mu      sync.RWMutex
	entries map[string]mirrored[T]
	ready   chan struct{} // closed when the first snapshot is there
}

type mirrored[T any] struct {
	value    T
	revision Revision
}

// NewMirror returns a mirror that follows the bucket until ctx is done. What cannot be decoded
// is left out. changed may be nil; it is told what became of an entry, without a lock.
func NewMirror[T any](ctx context.Context, kv KV, prefix string, decode func([]byte) (T, error), changed func(key string, value T, there bool)) *Mirror[T] {
	m := &Mirror[T]{kv: kv, prefix: prefix, decode: decode, changed: changed, entries: make(map[string]mirrored[T]), ready: make(chan struct{})}
	go m.follow(ctx)
	return m
}

func (m *Mirror[T]) follow(ctx context.Context) {
	for first := true; ctx.Err() == nil; {
		seen := make(map[string]bool)
		m.kv.Watch(ctx, m.prefix, func(e Entry) {
			switch {
			case e.Key == "":
				m.forget(seen)
				seen = nil
				if first {
					first = false
					close(m.ready)
				}
			case e.Deleted:
				m.drop(e.Key, e.Revision)
			default:
				if seen != nil {
					seen[e.Key] = true
				}
				if value, err := m.decode(e.Value); err == nil {
					m.Note(e.Key, value, e.Revision)
				}
			}
		})
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // the engine may be gone for a while
		}
	}
}

// forget drops what a new snapshot does not have.
func (m *Mirror[T]) forget(seen map[string]bool) {
	m.mu.RLock()
	var gone []string
	for key := range m.entries {
		if !seen[key] {
			gone = append(gone, key)
		}
	}
	m.mu.RUnlock()
	for _, key := range gone {
		if _, err := m.kv.Get(context.Background(), key); errors.Is(err, ErrNotFound) { // it may be newer than the snapshot
			m.drop(key, ^Revision(0))
		}
	}
}

func (m *Mirror[T]) drop(key string, at Revision) {
	m.mu.Lock()
	old, there := m.entries[key]
	if there = there && old.revision <= at; there {
		delete(m.entries, key)
	}
	m.mu.Unlock()
	if there && m.changed != nil {
		m.changed(key, old.value, false)
	}
}

// Note takes what the owner of the mirror wrote itself, or read.
func (m *Mirror[T]) Note(key string, value T, revision Revision) {
	m.mu.Lock()
	old := m.entries[key]
	newer := revision > old.revision
	if newer {
		m.entries[key] = mirrored[T]{value, revision}
	}
	m.mu.Unlock()
	if newer && m.changed != nil {
		m.changed(key, value, true)
	}
}

// Forget takes that the owner of the mirror deleted an entry.
func (m *Mirror[T]) Forget(key string) { m.drop(key, ^Revision(0)) }

// Ready waits for the first snapshot.
func (m *Mirror[T]) Ready(ctx context.Context) error {
	select {
	case <-m.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns an entry.
func (m *Mirror[T]) Get(key string) (value T, revision Revision, there bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, there := m.entries[key]
	return e.value, e.revision, there
}

// Keys returns the keys below a prefix, sorted.
func (m *Mirror[T]) Keys(prefix string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var keys []string
	for key := range maps.Keys(m.entries) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Names returns the last parts of the keys below a prefix.
func (m *Mirror[T]) Names(prefix string) []string {
	names := m.Keys(prefix)
	for i, key := range names {
		names[i] = LastPart(key)
	}
	return names
}
