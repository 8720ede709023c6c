// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/workspace"
)

// checkAfter looks at the files that were opened, after something was done when it
// was known which these are.
func (x *Index) checkAfter(something func()) {
	x.known.Lock()
	defer x.known.Unlock()
	o := &x.shared.writers
	o.mu.Lock()
	o.drain()
	o.mu.Unlock()
	list := x.tree.suspects(true, -1)
	something()
	x.tree.checkOpened(list)
}

// textOf returns the text of a file as a search would find it.
func textOf(t *testing.T, x *Index, name string) (text string) {
	t.Helper()
	ok, err := x.Search(t.Context(), true, func(m *Tree) bool {
		for _, f := range m.Order {
			if f.Path != name {
				continue
			}
			text = string(f.Text)
			if m.Unsure(f) {
				content, err := os.ReadFile(filepath.Join(x.ws.Dir(), name))
				if err != nil {
					t.Error(err)
				}
				text = string(content)
			}
		}
		return true
	})
	if err != nil || !ok {
		t.Fatalf("it is not in memory: %v", err)
	}
	return text
}

// TestLookedAtByAnotherName has a file in two workspaces of a pool. In one of
// them another takes its name just before it is looked at: of the first nothing
// is known then.
func TestLookedAtByAnotherName(t *testing.T) {
	pool := NewPool(Config{})
	var list [2]*Index
	at := func(i int, name string) string { return filepath.Join(list[i].ws.Dir(), name) }
	for i := range list {
		ws, err := workspace.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		list[i] = pool.Index(ws)
	}
	write := func(name string) error { return os.WriteFile(at(0, name), []byte("needle 0\n"), 0o644) }
	if err := errors.Join(write("f"), write("g"), os.Link(at(0, "f"), at(1, "h"))); err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if err := x.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if text := textOf(t, list[1], "h"); text != "needle 0\n" {
		t.Fatalf("%q", text)
	}
	file, err := os.OpenFile(at(1, "h"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, 9, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	list[0].checkAfter(func() {
		if err := errors.Join(os.Rename(at(0, "f"), at(1, ".f")), os.Rename(at(0, "g"), at(0, "f"))); err != nil {
			t.Error(err)
		}
	})
	for _, digit := range []byte("12") {
		mapped[7] = digit
		if text := textOf(t, list[1], "h"); text != "needle "+string(digit)+"\n" {
			t.Errorf("%c was written: %q", digit, text)
		}
	}
	if text := textOf(t, list[0], "f"); text != "needle 0\n" {
		t.Errorf("%q", text)
	}
}
