// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestCreateBeforeRelease: a session that is still in use when it is closed does not take the
// ownership of the next one with its id along when it is released.
func TestCreateBeforeRelease(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	one, err := replica.Join(t.Context(), replica.Config{Engine: engine, Logger: zap.NewNop(), Run: 1, Place: "here"})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Leave()
	store := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), Replicas: &session.Replicas{Owners: one, Place: "here"},
		Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
	})
	defer store.Close()
	create := func() *session.Session {
		t.Helper()
		made, err := store.Create("alice", session.Request{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	owned := func() bool {
		t.Helper()
		has, _, err := one.Owner(t.Context(), session.OwnerKey("alice", "s"), true)
		if err != nil {
			t.Fatal(err)
		}
		return has.Run == 1 && one.Mine(session.OwnerKey("alice", "s"))
	}
	first := create()
	if !first.Enter() {
		t.Fatal("it is closed")
	}
	if _, err := store.Remove("alice", "s"); err != nil {
		t.Fatal(err)
	}
	create()
	first.Leave() // which releases it
	if !owned() {
		t.Error("the end of the first session took the ownership of the second")
	}
	if _, err := store.Remove("alice", "s"); err != nil {
		t.Fatal(err)
	}
	if owned() {
		t.Error("what ended is still owned")
	}
}

// TestAdoptWhileClosing: a server that is being stopped takes nothing over, and does not fail
// over it.
func TestAdoptWhileClosing(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	root := t.TempDir()
	open := func(run uint64) (*session.Store, *replica.Replica) {
		t.Helper()
		one, err := replica.Join(t.Context(), replica.Config{Engine: engine, Logger: zap.NewNop(), Run: run, Place: "here"})
		if err != nil {
			t.Fatal(err)
		}
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return session.NewStore(session.Config{
			WorkspaceRoot: root, Records: records, Replicas: &session.Replicas{Owners: one, Place: "here"},
			Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
		}), one
	}
	first, leaves := open(1)
	second, stays := open(2)
	defer stays.Leave()
	if _, err := first.Create("alice", session.Request{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	first.Close()
	leaves.Leave()
	second.Close()
	if got, err := second.Adopt(t.Context(), "alice", "s", func(*session.Session) error { return nil }); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("%v, %v", got, err)
	}
}

// TestFormerOwner: a replica that has lost a session without knowing, because it was paused or
// cut off, changes nothing of what the one stores that has it.
func TestFormerOwner(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	root := t.TempDir()
	open := func(run uint64) (*session.Store, *replica.Replica) {
		t.Helper()
		one, err := replica.Join(t.Context(), replica.Config{Engine: engine, Logger: zap.NewNop(), Run: run, Place: "here"})
		if err != nil {
			t.Fatal(err)
		}
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return session.NewStore(session.Config{
			WorkspaceRoot: root, Records: records, Replicas: &session.Replicas{Owners: one, Place: "here"},
			Default: session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, MaxLevel: tools.WorkspaceWrite, MaxMode: tools.ModeAllow,
		}), one
	}
	adopt := func(store *session.Store) *session.Session {
		t.Helper()
		adopted, err := store.Adopt(t.Context(), "alice", "s", func(*session.Session) error { return nil })
		if err != nil || adopted == nil {
			t.Fatalf("%v, %v", adopted, err)
		}
		return adopted
	}
	set := func(store *session.Store, mode tools.Mode) error {
		_, err := store.Update("alice", "s", func(s *session.Settings) { s.Mode = mode })
		return err
	}
	first, paused := open(1)
	second, has := open(2)
	made, err := first.Create("alice", session.Request{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := set(first, tools.ModeAllow); err != nil {
		t.Fatal(err)
	}
	paused.Leave() // its store does not know
	adopt(second)
	for _, mode := range []tools.Mode{tools.ModeAsk, tools.ModeAllow} { // less, which is in force before it is stored, and more
		if err := set(first, mode); !errors.Is(err, session.ErrMoved) {
			t.Errorf("the former owner sets %v: %v", mode, err)
		}
	}
	first.Erase(made)
	if stored, err := second.Recorded(t.Context(), made.Ref()); !stored || err != nil {
		t.Errorf("the former owner has removed it: %v", err)
	}
	if !made.Suspended() {
		t.Error("the former owner would remove its files, grants and artifacts")
	}
	if err := set(second, tools.ModeDeny); err != nil {
		t.Errorf("the owner: %v", err)
	}
	has.Leave()
	third, last := open(3)
	defer last.Leave()
	defer third.Close()
	if mode := adopt(third).Mode(); mode != tools.ModeDeny {
		t.Errorf("the mode is %v", mode)
	}
	first.Close()
	second.Close()
	if err := set(third, tools.ModeAsk); err != nil {
		t.Errorf("after the former owners have ended: %v", err)
	}
}

// alone is a server that has everything, and sometimes cannot prove that it lives.
type alone struct {
	session.Owners
	fenced *atomic.Bool
}

func (a alone) Prove() error {
	if a.fenced.Load() {
		return replica.ErrFenced
	}
	return nil
}
func (alone) Claim(context.Context, string, bool) error   { return nil }
func (alone) Release(context.Context, string, bool) error { return nil }

// TestIdleWhileFenced: a server that cannot prove that it lives does not end a session that nobody used
// there: another may have it by now.
func TestIdleWhileFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fenced := new(atomic.Bool)
		store := newStore(t, session.Config{Replicas: &session.Replicas{Owners: alone{fenced: fenced}}})
		create(t, store, "alice", session.Request{ID: "work", Settings: session.Settings{IdleTTL: time.Minute}})
		for _, isFenced := range []bool{true, false} {
			fenced.Store(isFenced)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if there := ids(store, "alice") == "work"; there != isFenced {
				t.Errorf("fenced: %v, there: %v", isFenced, there)
			}
		}
	})
}

// lagging is an engine one of whose servers, from which lists are read at first, has nothing yet.
type lagging struct {
	state.Engine
	lists *atomic.Int32 // that are still empty
}

func (l lagging) KV(ctx context.Context, space state.Space) (state.KV, error) {
	kv, err := l.Engine.KV(ctx, space)
	return laggingKV{kv, l.lists}, err
}

type laggingKV struct {
	state.KV
	lists *atomic.Int32
}

func (l laggingKV) Watch(ctx context.Context, prefix string, f func(state.Entry)) error {
	if l.lists.Add(-1) < 0 {
		return l.KV.Watch(ctx, prefix, f)
	}
	f(state.Entry{})
	<-ctx.Done()
	return ctx.Err()
}

// TestAdoptWhileBehind: what a server of the engine lists that is behind is not taken for all there
// is: the session goes on, and is not forgotten.
func TestAdoptWhileBehind(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	root, lists := t.TempDir(), new(atomic.Int32)
	open := func(run uint64) (*session.Store, *replica.Replica) {
		t.Helper()
		one, err := replica.Join(t.Context(), replica.Config{Engine: engine, Logger: zap.NewNop(), Run: run, Place: "here"})
		if err != nil {
			t.Fatal(err)
		}
		records, err := session.OpenRecords(t.Context(), lagging{engine, lists}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return newStore(t, session.Config{WorkspaceRoot: root, Records: records, Replicas: &session.Replicas{Owners: one, Place: "here"}}), one
	}
	first, leaves := open(1)
	made := create(t, first, "alice", session.Request{ID: "s"})
	first.Close()
	leaves.Leave()
	second, stays := open(2)
	defer stays.Leave()
	lists.Store(2)
	adopted, err := second.Adopt(t.Context(), "alice", "s", func(*session.Session) error { return nil })
	if err != nil || adopted == nil || adopted.Ref() != made.Ref() {
		t.Errorf("%v, %v", adopted, err)
	}
}
