// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// mounted returns an env in a file system of its own.
func mounted(t *testing.T, options string) tools.Env {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	changes := history.New(history.Config{Dir: t.TempDir()})
	t.Cleanup(func() {
		changes.Close()
		ws.Close()
	})
	return tools.Env{SessionID: "test", Workspace: ws, Changes: changes}
}

// TestFullDisk writes where nothing fits any more: each call says so, and every
// file is as it was.
func TestFullDisk(t *testing.T) {
	for _, options := range []string{"size=16m", "size=16m,nr_inodes=8"} {
		env := mounted(t, options)
		dir := env.Workspace.Dir()
		for name, text := range map[string]string{"f": "old\n", "n.ipynb": `{"cells":[],"nbformat":4,"nbformat_minor":5}`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; ; i++ {
			if err := os.WriteFile(fmt.Sprint(dir, "/filler", i), make([]byte, 1<<20), 0o644); err != nil {
				break
			}
		}
		before := content(t, dir)
		for _, w := range writes {
			if got := answer(t, env, w.tool, w.input); !strings.HasPrefix(got, "! disk_full") {
				t.Errorf("%s: %s: %.200s", options, w.tool, got)
			}
		}
		if after := content(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: the files have changed", options)
		}
		if err := os.Remove(dir + "/filler0"); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, env, "write_file", `{"path":"f","content":"new"}`); !strings.HasPrefix(got, "Changed f") {
			t.Errorf("%s: with room again: %s", options, got)
		}
	}
}

// TestReadOnlyDisk is how permission is denied to root as well.
func TestReadOnlyDisk(t *testing.T) {
	env := mounted(t, "size=1m")
	dir := env.Workspace.Dir()
	for name, text := range map[string]string{"f": "old\n", "n.ipynb": `{"cells":[],"nbformat":4}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("it cannot be made read-only: %v", err)
	}
	calls := append([]struct{ tool, input string }{
		{"delete_file", `{"path":"f"}`}, {"move_file", `{"from":"f","to":"g"}`}, {"make_dir", `{"path":"d"}`},
	}, writes...)
	before := content(t, dir)
	for _, w := range calls {
		if got := answer(t, env, w.tool, w.input); !strings.HasPrefix(got, "! permission_denied") {
			t.Errorf("%s: %.200s", w.tool, got)
		}
	}
	if after := content(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("the files have changed")
	}
}
