// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"context"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/state"
)

// openEntries returns what servers share.
func openEntries(t *testing.T) state.KV {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	entries, err := engine.KV(t.Context(), state.Space{Name: "artifacts"})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// openShared returns the store of a server, with room for copies.
func openShared(t *testing.T, entries state.KV, config artifact.Config, room int64) *artifact.Store {
	t.Helper()
	config.Dir = t.TempDir()
	store, err := artifact.OpenShared(config, artifact.SharedConfig{Entries: entries, Room: room, Tenant: strings.ToUpper, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// keepIn has a store keep an artifact, and returns its id.
func keepIn(t *testing.T, store *artifact.Store, of artifact.SessionID, data []byte) string {
	t.Helper()
	w, err := store.Create(of, "output", "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	return w.Close().ID
}

// noise returns bytes that do not become smaller.
func noise(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(mathrand.Uint32())
	}
	return data
}

// TestShared: what a server kept that has ended is read at another one, if it is small, by its
// owner alone and until its session ends.
func TestShared(t *testing.T) {
	entries := openEntries(t)
	open := func() *artifact.Store { return openShared(t, entries, artifact.Config{}, 1<<20) }
	session := artifact.SessionID{Owner: "alice", Session: "s 1"}
	first := open()
	small, large := keepIn(t, first, session, []byte("hello")), keepIn(t, first, session, noise(2<<20))
	first.Close() // which stores what is offered

	second := open()
	info, r, err := second.Read("alice", small, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); err != nil || string(data) != "ell" || info.Name != "output" || !info.Complete || info.Size != 5 {
		t.Errorf("%q, %+v, %v", data, info, err)
	}
	if _, _, err := second.Read("alice", small, 6, 0); !errors.Is(err, artifact.ErrBeyond) {
		t.Errorf("beyond its end: %v", err)
	}
	for owner, id := range map[string]string{"bob": small, "alice": large} {
		if _, _, err := second.Read(owner, id, 0, 0); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("%s reads %s: %v", owner, id, err)
		}
	}
	second.End(artifact.SessionID{Owner: "alice", Session: "s 2"})
	if _, _, err := second.Read("alice", small, 0, 0); err != nil {
		t.Errorf("another session has ended: %v", err)
	}
	second.End(session)
	second.Close() // which waits for that
	if _, _, err := open().Read("alice", small, 0, 0); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("its session has ended: %v", err)
	}
}

// duringPut has something happen before an entry is stored.
type duringPut struct {
	state.KV
	happens func()
}

func (d *duringPut) Put(ctx context.Context, key string, value []byte, ttl time.Duration) (state.Revision, error) {
	d.happens()
	return d.KV.Put(ctx, key, value, ttl)
}

// TestEndWhileShared: what is being stored when its session ends is not read any more.
func TestEndWhileShared(t *testing.T) {
	entries := openEntries(t)
	session := artifact.SessionID{Owner: "alice", Session: "s 1"}
	slow := &duringPut{KV: entries}
	store := openShared(t, slow, artifact.Config{}, 1<<20)
	slow.happens = sync.OnceFunc(func() { store.End(session) })
	id := keepIn(t, store, session, []byte("hello"))
	store.Close() // which stores what is offered
	other := openShared(t, entries, artifact.Config{}, 1<<20)
	if _, _, err := other.Read("alice", id, 0, 0); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("read after the session ended: %v", err)
	}
}

// TestSharedRoom: where the copies of one tenant take all room, its oldest go, and those of another
// stay.
func TestSharedRoom(t *testing.T) {
	entries := openEntries(t)
	few, many := artifact.SessionID{Owner: "alice", Session: "s 1"}, artifact.SessionID{Owner: "bob", Session: "s 1"}
	first := openShared(t, entries, artifact.Config{}, 1<<20)
	kept := []string{keepIn(t, first, few, noise(100<<10))}
	for range 20 {
		kept = append(kept, keepIn(t, first, many, noise(100<<10)))
	}
	first.Close()
	second := openShared(t, entries, artifact.Config{}, 1<<20)
	for i, of := range map[int]artifact.SessionID{0: few, 1: many, len(kept) - 1: many} {
		_, _, err := second.Read(of.Owner, kept[i], 0, 0)
		if there := err == nil; there != (i != 1) {
			t.Errorf("copy %d of %d: %v", i, len(kept), err)
		}
	}
	if n := first.Uncopied(); n != 0 {
		t.Errorf("%d were not copied", n)
	}
}

// TestEvictedCopy: what had to make room in its own session is not read at another server either.
func TestEvictedCopy(t *testing.T) {
	entries := openEntries(t)
	session := artifact.SessionID{Owner: "alice", Session: "s 1"}
	first := openShared(t, entries, artifact.Config{MaxSessionBytes: 8}, 1<<20)
	evicted := keepIn(t, first, session, []byte("hello"))
	second := openShared(t, entries, artifact.Config{}, 1<<20)
	for { // until it is stored
		if _, _, err := second.Read("alice", evicted, 0, 0); err == nil {
			break
		}
		runtime.Gosched()
	}
	stays := keepIn(t, first, session, []byte("hello"))
	first.Close()
	for id, want := range map[string]error{evicted: artifact.ErrNotFound, stays: nil} {
		if _, _, err := second.Read("alice", id, 0, 0); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// TestMoved: a session that goes on at another server finds there what it kept, and nobody else's.
func TestMoved(t *testing.T) {
	entries := openEntries(t)
	session, other := artifact.SessionID{Owner: "alice", Session: "s 1"}, artifact.SessionID{Owner: "alice", Session: "s 2"}
	first := openShared(t, entries, artifact.Config{}, 1<<20)
	ids := []string{keepIn(t, first, session, []byte("hello")), keepIn(t, first, session, []byte("world"))}
	foreign := keepIn(t, first, other, []byte("hello"))
	first.Close()
	second := openShared(t, entries, artifact.Config{}, 1<<20)
	if _, _, err := second.Find(session, ids[0]); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("a session that did not move: %v", err)
	}
	second.Moved(session)
	_, path, err := second.Find(session, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "hello" {
		t.Errorf("%q, %v", data, err)
	}
	if _, _, err := second.Find(session, foreign); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("another session's: %v", err)
	}
	if list, _ := second.List(session); len(list) != 2 || list[0].Size != 5 || !list[0].Complete {
		t.Errorf("%+v", list)
	}
	if n, bytes := second.Stats(); n != 2 || bytes != 10 {
		t.Errorf("%d artifacts, %d bytes", n, bytes)
	}
}
