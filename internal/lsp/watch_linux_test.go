// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestWatchesAreFew: the trackers of all sessions watch no more than their share, give it back,
// and know of changes without it.
func TestWatchesAreFew(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if set := New(command.New(command.Config{}), nil, Config{}); err != nil || set.watches.Load() > most/8 || set.watches.Load() == 0 {
		t.Errorf("%d of %d watches, %v", set.watches.Load(), most, err)
	}

	var left atomic.Int64
	left.Store(8)
	open := func() (*tracker, *subscription, string) {
		dir := t.TempDir()
		for i := range 5 {
			if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		ws, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		of := newTracker(ws, &left)
		return of, of.subscribe(), dir
	}
	change := func(s *subscription, dir, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if paths, _ := s.pending(); !paths[name] {
			t.Errorf("%s is not known to have changed: %v", name, paths)
		}
	}
	first, one, dir := open()
	second, other, elsewhere := open()
	if first.watch == nil || second.watch != nil || left.Load() != 2 {
		t.Errorf("%d watches are left: the first has %v, the second %v", left.Load(), first.watch, second.watch)
	}
	change(one, dir, "1/a")
	change(other, elsewhere, "1/a")
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o755); err != nil {
		t.Fatal(err)
	}
	change(one, dir, "more/b")
	if left.Load() != 1 {
		t.Errorf("%d watches are left beside a new directory", left.Load())
	}
	if err := os.RemoveAll(filepath.Join(dir, "more")); err != nil {
		t.Fatal(err)
	}
	if one.pending(); left.Load() != 2 {
		t.Errorf("%d watches are left when it is gone", left.Load())
	}
	one.end()
	other.end()
	if left.Load() != 8 {
		t.Errorf("%d watches are left in the end", left.Load())
	}
}
