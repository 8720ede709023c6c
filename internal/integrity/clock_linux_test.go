// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/workspace"
)

// TestFileTime proves that what is written after a moment is not taken for older.
func TestFileTime(t *testing.T) {
	dir := t.TempDir()
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	root, err := ws.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for i := range 200 {
		name := fmt.Sprint(i) // some kernels have a finer time for what was looked at before
		before := fileTime()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		stat, err := root.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		if written := time.Unix(0, stat.CTime); written.Before(before) {
			t.Fatalf("written %v before", before.Sub(written))
		}
	}
}
