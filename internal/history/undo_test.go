// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/workspace"
	"github.com/toolserver/toolserver/internal/workspace/workspacetest"
)

const (
	deletedFiles, changedFiles = 3000, 200
	oldText, newText           = "old", "newer"
)

// longText is the content of a file that was or will be changed, long enough to
// be seen cut.
func longText(word, path string) string { return strings.Repeat(word+" "+path+"\n", 300) }

// TestUndoKilled kills a process that puts thousands of files back: each is as
// it was before the undo or as it is after it, and after the next start there is
// nothing else.
func TestUndoKilled(t *testing.T) {
	if dir := os.Getenv("TOOLSERVER_TEST_KILLED"); dir != "" {
		undoUntilKilled(t, dir, os.Getenv("TOOLSERVER_TEST_STATE"))
		return
	}
	deleted, changed, left := 0, 0, 0
	for round := range workspacetest.Killings() {
		dir, state := t.TempDir(), t.TempDir()
		lines := 1 + rand.IntN(deletedFiles)
		workspacetest.KillAmid(t, "^TestUndoKilled$", lines, "TOOLSERVER_TEST_KILLED="+dir, "TOOLSERVER_TEST_STATE="+state)
		left += workspacetest.Temporaries(workspacetest.Tree(t, dir))
		ws, err := workspace.Config{State: filepath.Join(state, "writes")}.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		now := workspacetest.Tree(t, dir)
		if n := workspacetest.Temporaries(now); n != 0 {
			t.Errorf("round %d: %d temporary files were left behind", round, n)
		}
		for path, text := range now {
			mode, content, file := strings.Cut(text, " ")
			switch {
			case !file:
			case mode != "-rw-------":
				t.Errorf("round %d: %s has the mode %s", round, path, mode)
			case content == longText(oldText, path):
				if strings.HasPrefix(path, "deleted/") {
					deleted++
				} else {
					changed++
				}
			case content != longText(newText, path) || !strings.HasPrefix(path, "changed/"):
				t.Errorf("round %d: %s has %d bytes of %.20q...", round, path, len(content), content)
			}
		}
		for i := range changedFiles {
			if path := fmt.Sprint("changed/", i); now[path] == "" {
				t.Errorf("round %d: %s is gone", round, path)
			}
		}
		ws.Close()
		for _, kept := range []string{"writes", "kept"} {
			if entries, err := os.ReadDir(filepath.Join(state, kept)); err != nil || len(entries) != 0 {
				t.Errorf("round %d: in %s there are %v, %v", round, kept, entries, err)
			}
		}
	}
	t.Logf("%d files were there again and %d changed back; %d temporary files were left and removed", deleted, changed, left)
}

// undoUntilKilled deletes files and changes others, and takes all of it back
// over and over. It tells of every file that it is about to put back.
func undoUntilKilled(t *testing.T, dir, state string) {
	undoing := false
	tell := func(path string, write bool) {
		if undoing && write {
			fmt.Println(path)
		}
	}
	ws, err := workspace.Config{State: filepath.Join(state, "writes"), Trace: tell}.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"changed", "deleted"} {
		files := changedFiles
		if sub == "deleted" {
			files = deletedFiles
		}
		for i := range files {
			path := fmt.Sprintf("%s/%d", sub, i)
			if sub == "deleted" {
				path = fmt.Sprintf("%s/%d/%d", sub, i%30, i)
			}
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, path), []byte(longText(oldText, path)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	changes := history.New(history.Config{Dir: filepath.Join(state, "kept")})
	for {
		undoing = false
		b := history.Begin(ws, changes, "", "test")
		for i := range changedFiles {
			path := fmt.Sprint("changed/", i)
			old, err := ws.ReadFile(path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Write(path, []byte(longText(newText, path)), workspace.KeepMode, old); err != nil {
				t.Fatal(err)
			}
			if i == changedFiles/2 { // in the middle of an undo, then
				if err := b.RemoveAll(t.Context(), "deleted"); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.Commit()
		undoing = true
		if err := history.Undo(t.Context(), ws, changes, changes.Records()); err != nil {
			t.Fatal(err)
		}
	}
}
