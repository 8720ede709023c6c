// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// writes are calls that change the files f and n.ipynb.
var writes = []struct{ tool, input string }{
	{"write_file", `{"path":"f","content":"` + strings.Repeat("new ", 200_000) + `"}`},
	{"edit_file", `{"path":"f","append":true,"new_string":"` + strings.Repeat("new ", 200_000) + `"}`},
	{"multi_edit", `{"path":"f","edits":[{"old_string":"old","new_string":"` + strings.Repeat("new ", 200_000) + `"}]}`},
	{"apply_patch", `{"patch":"*** Begin Patch\n*** Update File: f\n-old\n+` + strings.Repeat("new ", 200_000) + `\n*** End Patch"}`},
	{"notebook_edit", `{"path":"n.ipynb","edit_mode":"insert","new_source":"` + strings.Repeat("new ", 200_000) + `"}`},
	{"write_file", `{"path":"new/file","content":"` + strings.Repeat("new ", 200_000) + `"}`},
}

// TestForbidden denies permission as most people meet it.
func TestForbidden(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": "old\n", "n.ipynb": `{"cells":[],"nbformat":4}`})
	for _, name := range []string{"f", "n.ipynb"} {
		if err := os.Chmod(filepath.Join(env.Workspace.Dir(), name), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range writes[:5] { // a file that nobody may write is not even replaced by root
		if got := answer(t, env, w.tool, w.input); !strings.HasPrefix(got, "! permission_denied") {
			t.Errorf("%s: %.200s", w.tool, got)
		}
	}
}

// TestOddFiles meets files that no tool should choke on.
func TestOddFiles(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"line": strings.Repeat("x", 64<<20), "empty": ""})
	dir := env.Workspace.Dir()
	if err := os.WriteFile(dir+"/sparse", []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dir+"/sparse", 10<<30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	if err := syscall.Mkfifo(dir+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a/", 2500)
	for _, test := range []struct{ tool, input, want string }{
		{"edit_file", `{"path":"sparse","append":true,"new_string":"x"}`, "! file_too_large"},
		{"write_file", `{"path":"sparse","content":"x"}`, "! file_too_large"},
		{"apply_patch", `{"patch":"*** Begin Patch\n*** Delete File: sparse\n*** End Patch"}`, "! file_too_large"},
		{"read_file", `{"path":"sparse","limit":1}`, "! binary_file"},
		{"move_file", `{"from":"sparse","to":"sparse2"}`, "Moved"},
		{"delete_file", `{"path":"sparse2"}`, "Deleted sparse2 (10737418240 bytes).\n(this cannot be undone: "},
		{"read_file", `{"path":"line"}`, "1\t" + strings.Repeat("x", 2000) + ` … (the line goes on: read_file {"path":"line","offset":1,"column":2001,"limit":1})` + "\n"},
		{"edit_file", `{"path":"line","old_string":"y","new_string":"z"}`, "! edit_target_not_found"},
		{"edit_file", `{"path":"line","append":true,"new_string":"y"}`, "Changed line"},
		{"edit_file", `{"path":"pipe","append":true,"new_string":"y"}`, "! not_a_file"},
		{"write_file", `{"path":"pipe","content":"y"}`, "! not_a_file"},
		{"write_file", `{"path":"` + long[:4000] + `f","content":"x"}`, "! path_too_deep"},
		{"make_dir", `{"path":"` + long[:600] + `f"}`, "! path_too_deep"},
		{"write_file", `{"path":"` + long[:500] + `f","content":"x"}`, "Created"},
		{"delete_file", `{"path":"a","recursive":true}`, "Deleted the directory a"},
		{"write_file", `{"path":"` + strings.Repeat("n", 300) + `","content":"x"}`, "! name_too_long"},
		{"make_dir", `{"path":"` + strings.Repeat("n", 300) + `"}`, "! name_too_long"},
		{"delete_file", `{"path":"pipe"}`, "Deleted pipe"},
		{"edit_file", `{"path":"empty","old_string":"a","new_string":"b"}`, "! edit_target_not_found"},
		{"edit_file", `{"path":"empty","append":true,"new_string":"b"}`, "Changed empty"},
		{"notebook_edit", `{"path":"empty","cell_index":0,"new_source":"b"}`, "! not_a_notebook"},
	} {
		if got := answer(t, env, test.tool, test.input); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s %.60s: %.300s", test.tool, test.input, got)
		}
	}
	for _, name := range []string{"read_file", "write_file", "list_dir", "delete_file"} {
		input, _ := json.Marshal(map[string]string{"path": long + "f"})
		if _, err := tool(t, name).Decode(&env, input); err == nil {
			t.Errorf("%s takes a path of 5,000 characters", name)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 2 {
		t.Errorf("%v was left, %v", entries, err)
	}
}

// TestGrowingFile reads and edits a file that somebody else appends to.
func TestGrowingFile(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"log": "first\n"})
	path := filepath.Join(env.Workspace.Dir(), "log")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for range 100 { // 10 MB
			select {
			case <-stop:
				return
			default:
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			for range 100 {
				_, _ = f.WriteString(strings.Repeat("y\n", 500))
			}
			f.Close()
		}
	})
	for range 10 {
		if got := answer(t, env, "read_file", `{"path":"log","hash":true}`); !strings.HasPrefix(got, "1\tfirst\n") {
			t.Errorf("%.200s", got)
		}
		if got := answer(t, env, "read_file", `{"path":"log","offset":-1}`); strings.HasPrefix(got, "!") {
			t.Errorf("%.200s", got)
		}
		got := answer(t, env, "edit_file", `{"path":"log","old_string":"first\n","new_string":"first\n\n"}`)
		if !strings.HasPrefix(got, "Changed") && !strings.HasPrefix(got, "! stale_file") && !strings.HasPrefix(got, "! file_too_large") {
			t.Errorf("%.200s", got)
		}
	}
	close(stop)
	group.Wait()
}

// TestManyFiles lists and deletes a directory with many entries.
func TestManyFiles(t *testing.T) {
	many := soaktest.Times(3_000, 1_000_000)
	env := toolstest.Env(t, nil)
	dir := filepath.Join(env.Workspace.Dir(), "d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		f, err := os.Create(fmt.Sprintf("%s/%07d", dir, i))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	got := answer(t, env, "list_dir", `{"path":"d"}`)
	if strings.Count(got, "\n") != 1001 || !strings.HasSuffix(got, `go on with list_dir {"path":"d","offset":1000})`+"\n") {
		t.Errorf("%d lines, %.200q", strings.Count(got, "\n"), got[max(0, len(got)-200):])
	}
	if got := answer(t, env, "delete_file", `{"path":"d","recursive":true}`); !strings.HasPrefix(got, fmt.Sprintf("Deleted the directory d, with %d files", many)) {
		t.Errorf("%.200s", got)
	}
	if got := answer(t, env, "undo", `{}`); !strings.HasPrefix(got, "Took back") || !strings.HasSuffix(got, fmt.Sprintf(": deleted d, with %d below\n", many)) {
		t.Errorf("%.200s", got)
	}
	ctx := &fewChecks{Context: t.Context(), left: 100}
	if _, err := decode(t, env, "delete_file", `{"path":"d","recursive":true}`).Run(ctx, tools.Rights{}, new(toolstest.Recorder)); err == nil {
		t.Error("it was cancelled and went on")
	}
}
