// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestFailedStart: a start that fails half-way closes what it opened.
func TestFailedStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	start := func(change func(*config.Config)) error {
		c := config.Default()
		c.Sandbox.Helper = sandboxtest.Helper()
		c.Listen, c.Log.Level = "127.0.0.1:0", 1 // warnings
		c.Admin.Address, c.Audit.File = "off", filepath.Join(dir, "audit")
		c.Sessions.Workspace, c.Sessions.WorkspaceRoot = dir, filepath.Join(dir, "workspaces")
		c.Artifacts.Dir = filepath.Join(dir, "artifacts")
		change(c)
		return Serve(c)
	}
	badPolicy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(badPolicy, []byte("rules: nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	adminTaken := func(c *config.Config) { c.Admin.Address = taken.Addr().String() }
	if err := start(adminTaken); err == nil { // what the first start of a process keeps
		t.Fatal("it started")
	}
	before, goroutines := openFiles(t), goleak.IgnoreCurrent()
	for says, change := range map[string]func(*config.Config){
		"admin port":  adminTaken,
		"directory":   func(c *config.Config) { c.Audit.File = dir },
		"want a list": func(c *config.Config) { c.Policy.File = badPolicy },
	} {
		if err := start(change); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if err := goleak.Find(goroutines); err != nil {
			t.Errorf("%s: %v", says, err)
		}
		after := openFiles(t)
		for deadline := time.Now().Add(10 * time.Second); len(after) > len(before) && time.Now().Before(deadline); after = openFiles(t) {
			time.Sleep(time.Millisecond) // the end of a pipe is closed by who reads it
		}
		if len(after) > len(before) {
			t.Errorf("%s: open before %v\nafter %v", says, before, after)
		}
	}
}

// openFiles returns what this process has open.
func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // not that of ReadDir
			list = append(list, name)
		}
	}
	return list
}
