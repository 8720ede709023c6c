// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestClosed: what is the server's own is closed in a workspace above it, and a
// workspace below it is not.
func TestClosed(t *testing.T) {
	top := t.TempDir()
	state := filepath.Join(top, "state", "server")
	own := filepath.Join(state, "own")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(own, "f"), filepath.Join(top, "state", "server-not")} {
		if err := os.WriteFile(name, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("state/server", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	config := workspace.Config{Closed: []string{filepath.Join(top, "link"), "", filepath.Join(top, "state", "later")}}
	ws, err := config.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	_, read := ws.OpenFile("state/server/own/f")
	_, list := ws.OpenDir("state/server")
	_, write := ws.WriteFile("state/server/new", nil, 0o600, workspace.Version{})
	_, later := ws.Mkdir("state/later", 0o700)
	_, stat := ws.Stat("state/server/own")
	for what, err := range map[string]error{
		"read": read, "list": list, "write": write, "later": later, "stat": stat,
		"remove": ws.Remove("state/server/own/f"), "remove all": ws.RemoveAll(t.Context(), "state"),
		"move": ws.Rename("state", "elsewhere", false), "move in": ws.Rename("state/server-not", "state/server/x", false),
		"batch": history.Begin(ws, nil, "", "").RemoveAll(t.Context(), "state"),
	} {
		if !errors.Is(err, workspace.ErrServers) || !errors.Is(err, workspace.ErrOutside) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ws.Glance("state/server", 10) != nil {
		t.Error("it can be glanced at")
	}
	closed := ws.Closed()
	for path, want := range map[string]bool{"state": false, "state/server-not": false, "state/server": true, "state/server/own/f": true} {
		if closed(path) != want {
			t.Errorf("%s is closed: %v", path, !want)
		}
	}
	if f, err := ws.OpenFile("state/server-not"); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}

	below, err := config.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	if f, err := below.OpenFile("f"); err != nil || below.Closed() != nil {
		t.Errorf("its own workspace: %v", err)
	} else {
		f.Close()
	}
}
