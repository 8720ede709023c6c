// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// grantsKV returns an engine that ends with the test, and entries of it.
func grantsKV(t *testing.T) (state.Engine, state.KV) {
	t.Helper()
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	kv, err := engine.KV(t.Context(), state.Space{Name: "grants"})
	if err != nil {
		t.Fatal(err)
	}
	return engine, kv
}

// TestGrantsOfASessionThatReturns: a session that could not be brought back once has its
// grants when it is.
func TestGrantsOfASessionThatReturns(t *testing.T) {
	engine, kv := grantsKV(t)
	root, chosen := t.TempDir(), t.TempDir()
	open := func() *fixture {
		records, err := session.OpenRecords(t.Context(), engine, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		records.Installation = "here"
		sessions := session.NewStore(session.Config{
			WorkspaceRoot: root, AllowedWorkspaces: []string{chosen}, Records: records, MaxLevel: tools.ReadOnly,
			Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk},
		})
		if err := sessions.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := &fixture{Store: approval.NewStore(approval.Config{Sessions: sessions, Records: kv}), asker: new(asker), t: t, sessions: sessions}
		f.SetAsker(f.asker)
		if err := f.Restore(t.Context(), zap.NewNop()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	var err error
	if f.session, err = f.sessions.Create("alice", session.Request{ID: "work", Workspace: chosen}); err != nil {
		t.Fatal(err)
	}
	ref := f.session.Ref()
	f.grant(approval.Answer{Kind: approval.DenyAlways, Tier: 2})
	f.sessions.Close()

	away := chosen + "-away"
	if err := os.Rename(chosen, away); err != nil {
		t.Fatal(err)
	}
	f = open()
	if _, err := f.sessions.Resolve(ref); err == nil {
		t.Error("a session without its workspace is there")
	}
	f.sessions.Close()
	if err := os.Rename(away, chosen); err != nil {
		t.Fatal(err)
	}
	f = open()
	if got := f.Grants(ref); len(got) != 1 || got[0].Action != policy.Deny {
		t.Errorf("grants %+v", got)
	}
	f.sessions.Close()
}

// TestGrantsOfTwoReplicas: a grant that was revoked where its session goes on does not come back when
// the replica that had the session before stores another.
func TestGrantsOfTwoReplicas(t *testing.T) {
	_, kv := grantsKV(t)
	former := newFixture(t, approval.Config{Records: kv})
	former.grant(approval.Answer{Kind: approval.AllowAlways, Tier: 1})
	ref := former.session.Ref()

	now := approval.NewStore(approval.Config{Sessions: former.sessions, Records: kv})
	if err := now.RestoreOf(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	revoked := now.Grants(ref)[0]
	if _, err := now.Revoke(bob, revoked.ID); err != nil {
		t.Fatal(err)
	}
	former.grant(approval.Answer{Kind: approval.DenyAlways, Tier: 2})
	for name, store := range map[string]*approval.Store{"former": former.Store, "stored": approval.NewStore(approval.Config{Sessions: former.sessions, Records: kv})} {
		if name == "stored" {
			if err := store.RestoreOf(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		if got := store.Grants(ref); len(got) != 1 || got[0].ID == revoked.ID {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// cutOff is a KV that cannot be written to at times.
type cutOff struct {
	state.KV
	now atomic.Bool
}

func (c *cutOff) Update(ctx context.Context, key string, value []byte, last state.Revision, ttl time.Duration) (state.Revision, error) {
	if c.now.Load() {
		return 0, state.ErrUnavailable
	}
	return c.KV.Update(ctx, key, value, last, ttl)
}

// TestRevokedWhileTheStateIsAway: a grant that was revoked, which could not be stored, is not there again
// when another replica has stored it meanwhile.
func TestRevokedWhileTheStateIsAway(t *testing.T) {
	_, kv := grantsKV(t)
	away := &cutOff{KV: kv}
	here := newFixture(t, approval.Config{Records: away})
	revoked := here.grant(approval.Answer{Kind: approval.AllowAlways, Tier: 1})
	ref := here.session.Ref()
	away.now.Store(true)
	if got, err := here.Revoke(bob, revoked.ID); err != nil || !got.Unstored {
		t.Fatal(got, err)
	}
	var stored []state.Entry
	err := state.Snapshot(t.Context(), kv, "", func(e state.Entry) { stored = append(stored, e) })
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	if _, err := kv.Put(t.Context(), stored[0].Key, stored[0].Value, 0); err != nil { // with the grant
		t.Fatal(err)
	}
	away.now.Store(false)
	added := here.grant(approval.Answer{Kind: approval.DenyAlways, Tier: 2})
	if got := here.Grants(ref); len(got) != 1 || got[0].ID != added.ID {
		t.Errorf("grants %+v", got)
	}
}
