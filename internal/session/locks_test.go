// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestPrivateWhileUpdated: a session that gets its private directory while its settings
// change holds up neither.
func TestPrivateWhileUpdated(t *testing.T) {
	store := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk},
	})
	defer store.Close()
	for i := range 100 {
		id := fmt.Sprint("s", i)
		s, err := store.Create("alice", session.Request{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		dirs := make([]string, 4)
		for j := range dirs {
			group.Go(func() { dirs[j], _ = s.Private() })
			group.Go(func() {
				for range 20 {
					if _, err := store.Update("alice", id, func(*session.Settings) {}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		for _, dir := range dirs {
			if dir == "" || dir != dirs[0] {
				t.Fatalf("directories %q", dirs)
			}
		}
		if _, err := store.Remove("alice", id); err != nil {
			t.Fatal(err)
		}
	}
}
