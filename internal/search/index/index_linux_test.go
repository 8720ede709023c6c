// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/workspace"
)

// TestRenewed changes most of a workspace: it is read again, so that there is an
// index of what is new.
func TestRenewed(t *testing.T) {
	dir := t.TempDir()
	write := func(word string) {
		t.Helper()
		for i := range 12 {
			text := strings.Repeat(fmt.Sprintf("%s number %d\n", word, i), 40_000)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("first")
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	synctest.Test(t, func(t *testing.T) {
		x := New(ws, Config{})
		defer x.Close()
		if err := x.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		// found returns how many files may have a word, and how many are in no index.
		found := func(word string) (files, loose int) {
			t.Helper()
			ok, err := x.Search(t.Context(), true, func(m *Tree) bool {
				files = len(m.Candidates([][]string{{word}}, func(*File) bool { return true }))
				loose = len(m.loose)
				return true
			})
			if err != nil || !ok {
				t.Fatalf("it is not in memory: %v", err)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			return files, loose
		}
		if files, loose := found("first"); files != 12 || loose != 0 {
			t.Errorf("%d files, %d of them in no index", files, loose)
		}
		write("second")
		if files, loose := found("second"); files != 12 || loose != 12 {
			t.Errorf("after the change: %d files, %d of them in no index", files, loose)
		}
		if files, loose := found("second"); files != 12 || loose != 0 {
			t.Errorf("later: %d files, %d of them in no index", files, loose)
		}
		if files, _ := found("first"); files != 0 {
			t.Errorf("what is gone may be in %d files", files)
		}
	})
}
