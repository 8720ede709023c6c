// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestActivation: the tools that were used last are active, and those that are pinned.
func TestActivation(t *testing.T) {
	store := session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), Default: session.Settings{Mode: tools.ModeAsk, Level: tools.ReadOnly}, MaxLevel: tools.ReadOnly})
	defer store.Close()
	owner := auth.Principal{Name: "a"}.Owner()
	s, err := store.Get(owner, "")
	if err != nil {
		t.Fatal(err)
	}
	spec := func(name string) *tools.Spec { return &tools.Spec{Name: name} }
	for i := range 30 {
		s.Activate(spec(fmt.Sprint("tool_", i)))
		s.Activate(spec("tool_3"))
		s.Activate(spec("bash"))
	}
	active := s.Active()
	if len(active) != 20 || active[0] != "tool_3" || active[1] != "tool_29" || active[19] != "tool_11" {
		t.Errorf("active: %v", active)
	}
	is := s.IsActive()
	for name, want := range map[string]bool{"bash": true, "tool_search": true, "tool_3": true, "tool_29": true, "tool_10": false, "undo": false} {
		if is(spec(name)) != want {
			t.Errorf("%s is active: %v", name, !want)
		}
	}
	s, err = store.Create(owner, session.Request{ID: "b", Settings: session.Settings{Activation: session.Activation{Limit: 2, Pinned: []string{"github__*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "github__search"} {
		s.Activate(spec(name))
	}
	if got := s.Active(); !slices.Equal(got, []string{"c", "b"}) || !s.IsActive()(spec("github__x")) || s.IsActive()(spec("bash")) {
		t.Errorf("active: %v", got)
	}
	for _, wrong := range []session.Activation{{Limit: -1}, {Limit: 1001}, {Pinned: []string{"[a"}}} {
		if _, err := store.Create(owner, session.Request{ID: "c", Settings: session.Settings{Activation: wrong}}); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}

	store = session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly, Default: session.Settings{
		Mode: tools.ModeAsk, Level: tools.ReadOnly, Activation: session.Activation{Pinned: []string{"github__*"}},
	}})
	defer store.Close()
	for id, test := range map[string]struct {
		asks, want session.Activation
	}{
		"nothing": {session.Activation{}, session.Activation{Limit: 20, Pinned: []string{"github__*"}}},
		"limit":   {session.Activation{Limit: 3}, session.Activation{Limit: 3, Pinned: []string{"github__*"}}},
		"pinned":  {session.Activation{Pinned: []string{"bash"}}, session.Activation{Limit: 20, Pinned: []string{"bash"}}},
	} {
		s, err := store.Create(owner, session.Request{ID: id, Settings: session.Settings{Activation: test.asks}})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Settings().Activation; !reflect.DeepEqual(got, test.want) {
			t.Errorf("a session that asks for %s has %+v", id, got)
		}
	}
}
