// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

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

// TestShared: what a server kept that has ended is read at another one, if it is small, by its
// owner alone and until its session ends.
func TestShared(t *testing.T) {
	entries := openEntries(t)
	open := func() *artifact.Store {
		t.Helper()
		store, err := artifact.OpenShared(artifact.Config{Dir: t.TempDir()}, entries)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		return store
	}
	session := artifact.SessionID{Owner: "alice", Session: "s 1"}
	first := open()
	create := func(data []byte) string {
		t.Helper()
		w, err := first.Create(session, "output", "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		return w.Close().ID
	}
	noise := make([]byte, 2<<20) // which does not become smaller
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	small, large := create([]byte("hello")), create(noise)
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
	store, err := artifact.OpenShared(artifact.Config{Dir: t.TempDir()}, slow)
	if err != nil {
		t.Fatal(err)
	}
	slow.happens = sync.OnceFunc(func() { store.End(session) })
	w, err := store.Create(session, "output", "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	id := w.Close().ID
	store.Close() // which stores what is offered
	other, err := artifact.OpenShared(artifact.Config{Dir: t.TempDir()}, entries)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, _, err := other.Read("alice", id, 0, 0); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("read after the session ended: %v", err)
	}
}
