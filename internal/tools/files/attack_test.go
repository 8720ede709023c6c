// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

const canary = "CANARY-7f3a"

// arena is a workspace and, beside it, a directory that no call may touch.
func arena(t *testing.T) (env tools.Env, outside string) {
	t.Helper()
	env = toolstest.Env(t, map[string]string{
		"notes.txt": "notes\n", "keep.txt": "keep\n", "src/main.go": "package main\n",
		".git/config": "[core]\n", ".git/hooks/pre-commit.sample": "#!/bin/sh\n", "vendor/lib/.git/HEAD": "ref\n",
	})
	outside = t.TempDir()
	for name, text := range map[string]string{"secret": canary, "y": canary} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env.Restrictions = toolstest.Restrictions{Protects: func(path string) bool {
		return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool {
			return part == ".git" || part == ".husky" || part == "node_modules"
		})
	}}
	return env, outside
}

// TestAttacks tries to leave the workspace and to write what is protected. What
// is to be denied has an effect that says so, a path outside or a protected
// one; and whatever the policy would say, run all the same nothing outside is
// read or changed.
func TestAttacks(t *testing.T) {
	for _, test := range []struct {
		id, tool, input string
		setup           func(dir, outside string) error
		deny            bool   // an effect must tell
		want            string // what the answer begins with, run all the same
	}{
		{"P-060", "read_file", `{"path":"src/../../{OUT}/secret"}`, nil, true, "! outside_workspace"},
		{"P-061", "read_file", `{"path":"{ABS}/secret"}`, nil, true, "! outside_workspace"},
		{"P-062", "write_file", `{"path":"../{OUT}/x","content":"x"}`, nil, true, "! outside_workspace"},
		{"P-063", "read_file", `{"path":"l"}`, link("{ABS}/secret", "l"), true, "! outside_workspace"},
		{"P-064", "write_file", `{"path":"dangling","content":"x"}`, link("{ABS}/created", "dangling"), true, "! outside_workspace"},
		{"P-065", "edit_file", `{"path":"x/y","old_string":"CANARY","new_string":"P"}`, links("{ABS}", "src/r", "src/r", "x"), true, "! outside_workspace"},
		{"P-066", "list_dir", `{"path":"p"}`, link("/proc/1/cwd", "p"), true, "! outside_workspace"},
		{"P-066b", "read_file", `{"path":"p","mode":"directory"}`, link("/proc/1/cwd", "p"), true, "! outside_workspace"},
		{"P-068", "write_file", `{"path":"lnk/f","content":"x"}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"P-069", "write_file", `{"path":"hl","content":"x"}`, hard("{ABS}/secret", "hl"), false, "Changed hl"},
		{"P-069b", "edit_file", `{"path":"hl","append":true,"new_string":"x"}`, hard("{ABS}/secret", "hl"), false, "Changed hl"},
		{"P-069c", "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: hl\n-CANARY-7f3a\n+x\n*** End Patch"}`, hard("{ABS}/secret", "hl"), false, "Changed hl"},
		{"P-071", "read_file", `{"path":"/dev/stdin"}`, nil, true, "! outside_workspace"},
		{"P-077", "read_file", `{"path":"~/secret"}`, nil, false, "! file_not_found"},
		{"P-078", "read_file", `{"path":"file://{ABS}/secret"}`, nil, false, "! file_not_found"},
		{"P-082", "delete_file", `{"path":"src/.."}`, nil, false, "! is_workspace"},
		{"P-082b", "delete_file", `{"path":"src/..","recursive":true}`, nil, true, "! is_workspace"},
		{"P-083", "move_file", `{"from":"../{OUT}/secret","to":"here"}`, nil, true, "! outside_workspace"},
		{"P-083b", "move_file", `{"from":"notes.txt","to":"../{OUT}/here"}`, nil, true, "! outside_workspace"},
		{"P-083c", "move_file", `{"from":"notes.txt","to":"lnk/here"}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-1", "make_dir", `{"path":"lnk/dir"}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-2", "delete_file", `{"path":"lnk/secret"}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-3", "delete_file", `{"path":"lnk","recursive":true}`, link("{ABS}", "lnk"), false, "Deleted the link lnk"},
		{"out-4", "apply_patch", `{"patch":"*** Begin Patch\n*** Add File: lnk/x\n+x\n*** End Patch"}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-5", "apply_patch", `{"patch":"--- a/../{OUT}/y\n+++ b/../{OUT}/y\n@@ -1 +1 @@\n-CANARY-7f3a\n+x\n"}`, nil, true, "! outside_workspace"},
		{"out-6", "notebook_edit", `{"path":"lnk/n.ipynb","cell_index":0}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-7", "multi_edit", `{"path":"lnk/y","edits":[{"old_string":"CANARY","new_string":"x"}]}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-8", "watch_files", `{"path":"lnk","timeout_ms":1}`, link("{ABS}", "lnk"), true, "! outside_workspace"},
		{"out-9", "read_file", `{"operations":[{"path":"lnk/secret"},{"path":"notes.txt"}]}`, link("{ABS}", "lnk"), true, "== 1: lnk/secret ==\n! outside_workspace"},

		{"P-085", "write_file", `{"path":".git/hooks/pre-commit","content":"#!/bin/sh\nid"}`, nil, true, ""},
		{"P-086", "write_file", `{"path":".git/../.git/info/attributes","content":"* filter=x"}`, nil, true, ""},
		{"P-087", "write_file", `{"path":"g/hooks/pre-commit","content":"x"}`, link(".git", "g"), true, ""},
		{"P-088", "move_file", `{"from":"notes.txt","to":".git/hooks/post-checkout"}`, nil, true, ""},
		{"P-088b", "move_file", `{"from":"notes.txt","to":"g/post-checkout"}`, link(".git/hooks", "g"), true, ""},
		{"P-089", "delete_file", `{"path":"vendor","recursive":true}`, nil, true, "! protected"},
		{"P-089b", "move_file", `{"from":"vendor","to":"v2"}`, nil, true, ""},
		{"P-092", "write_file", `{"path":".git./config","content":"x"}`, nil, false, "Created"},
		{"P-093", "write_file", `{"path":".husky/pre-push","content":"x"}`, nil, true, ""},
		{"P-094", "write_file", `{"path":"sub/.git","content":"gitdir: ../.git/modules/evil"}`, nil, true, ""},
		{"P-095", "write_file", `{"path":"node_modules/left-pad/index.js","content":"x"}`, nil, true, ""},
		{"P-095b", "apply_patch", `{"patch":"*** Begin Patch\n*** Update File: notes.txt\n*** Move to: .git/hooks/pre-push\n-notes\n+id\n*** End Patch"}`, nil, true, ""},
		{"P-095c", "make_dir", `{"path":"x/.husky"}`, nil, true, ""},
		{"P-095d", "edit_file", `{"path":"g","append":true,"new_string":"x"}`, link(".git/config", "g"), true, ""},
		{"P-095e", "delete_file", `{"path":".git/config"}`, nil, true, ""},

		{"P-196", "read_file", `{"path":"../{OUT}/nope"}`, nil, true, "! outside_workspace"},
		{"P-202", "read_file", `{"path":"inlink"}`, link("notes.txt", "inlink"), false, "1\tnotes\n"},
		{"P-203", "write_file", `{"path":".gitignore","content":"x\n"}`, nil, false, "Created .gitignore"},
		{"P-204", "edit_file", `{"path":"u\u0308mlaut-\u65e5\u672c.txt","old_string":"a","new_string":"\u65e5"}`,
			func(dir, _ string) error {
				return os.WriteFile(dir+"/u\u0308mlaut-\u65e5\u672c.txt", []byte("a\r\nb"), 0o644)
			}, false, "Changed"},
	} {
		t.Run(test.id, func(t *testing.T) {
			env, outside := arena(t)
			in := strings.NewReplacer("{ABS}", outside, "../{OUT}", relative(t, env, outside), "{OUT}", filepath.Base(outside))
			if test.setup != nil {
				if err := test.setup(env.Workspace.Dir(), outside); err != nil {
					t.Fatal(err)
				}
			}
			before := content(t, outside)
			call := decode(t, env, test.tool, in.Replace(test.input))
			denied := slices.ContainsFunc(call.Effects(), func(e tools.Effect) bool {
				return filepath.IsAbs(e.Path) || e.Kind == tools.WritesPath && env.Protected(e.Path)
			})
			if denied != test.deny {
				t.Errorf("denied: %t, effects %+v", denied, call.Effects())
			}
			got := answer(t, env, test.tool, in.Replace(test.input))
			if test.want != "" && !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if strings.Contains(got, canary) && !strings.HasPrefix(test.id, "P-069") {
				t.Errorf("it shows what is outside: %q", got)
			}
			if after := content(t, outside); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("outside is %v, was %v", after, before)
			}
		})
	}
}

// relative returns the way from a workspace to a directory.
func relative(t *testing.T, env tools.Env, dir string) string {
	t.Helper()
	rel, err := filepath.Rel(env.Workspace.Dir(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

func link(target, name string) func(dir, outside string) error { return links(target, name) }

// links makes links: targets and names in turn.
func links(pairs ...string) func(dir, outside string) error {
	return func(dir, outside string) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := os.Symlink(strings.ReplaceAll(pairs[i], "{ABS}", outside), filepath.Join(dir, pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	}
}

func hard(target, name string) func(dir, outside string) error {
	return func(dir, outside string) error {
		return os.Link(strings.ReplaceAll(target, "{ABS}", outside), filepath.Join(dir, name))
	}
}

// TestSwaps runs every tool of the family while the directory it works in
// becomes a link to the outside and back: nothing outside is read or changed.
func TestSwaps(t *testing.T) {
	env, outside := arena(t)
	dir := env.Workspace.Dir()
	if err := os.MkdirAll(dir+"/real", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, dir+"/evil"); err != nil {
		t.Fatal(err)
	}
	before := content(t, outside)
	rounds, over := 8, func() bool { return false }
	if soaktest.Long() {
		deadline, ok := t.Deadline()
		rounds, over = 50_000, func() bool { return ok && time.Until(deadline) < 30*time.Second }
	}
	var stop atomic.Bool
	var swapper, group sync.WaitGroup
	swapper.Go(func() {
		for !stop.Load() {
			_ = os.Rename(dir+"/real", dir+"/d")
			_ = os.Rename(dir+"/d", dir+"/real")
			_ = os.Rename(dir+"/evil", dir+"/d")
			_ = os.Rename(dir+"/d", dir+"/evil")
		}
	})
	calls := []struct{ tool, input string }{
		{"write_file", `{"path":"d/secret","content":"inside"}`},
		{"write_file", `{"path":"d/new/file","content":"inside"}`},
		{"edit_file", `{"path":"d/secret","append":true,"new_string":"x"}`},
		{"multi_edit", `{"path":"d/secret","edits":[{"old_string":"i","new_string":"I","replace_all":true}]}`},
		{"apply_patch", `{"patch":"*** Begin Patch\n*** Add File: d/p\n+x\n*** Delete File: d/secret\n*** End Patch"}`},
		{"read_file", `{"path":"d/secret"}`},
		{"read_file", `{"path":"d"}`},
		{"read_file", `{"operations":[{"path":"d","mode":"directory"},{"path":"d/y"}]}`},
		{"list_dir", `{"path":"d","depth":3}`},
		{"delete_file", `{"path":"d/secret"}`},
		{"delete_file", `{"path":"d","recursive":true}`},
		{"move_file", `{"from":"d/y","to":"stolen","overwrite":true}`},
		{"move_file", `{"from":"keep.txt","to":"d/keep.txt","overwrite":true}`},
		{"make_dir", `{"path":"d/x/y"}`},
		{"notebook_edit", `{"path":"d/y","cell_index":0}`},
		{"undo", `{}`},
		{"list_changes", `{}`},
		{"watch_files", `{"path":"d","timeout_ms":25,"interval_ms":20}`},
	}
	var ran, came atomic.Int64
	for worker := range 4 {
		group.Go(func() {
			for i := range rounds * len(calls) {
				if over() {
					return
				}
				c := calls[(i+worker*5)%len(calls)]
				call, err := byName(c.tool).Decode(&env, json.RawMessage(c.input))
				if err != nil {
					t.Error(err)
					return
				}
				if previewer, ok := call.(tools.Previewer); ok && i%3 == 0 {
					if shown := previewer.Preview(t.Context()); strings.Contains(shown.Text, canary) {
						t.Errorf("%s shows what is outside: %s", c.tool, shown.Text)
					}
				}
				result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
				ran.Add(1)
				if err == nil {
					came.Add(1)
				}
				if strings.Contains(toolstest.Text(result)+string(result.Details), canary) {
					t.Errorf("%s shows what is outside: %s", c.tool, toolstest.Text(result))
				}
				if i%7 == 0 {
					_ = os.MkdirAll(dir+"/real", 0o755)
					_ = os.Symlink(outside, dir+"/evil")
				}
			}
		})
	}
	group.Wait()
	stop.Store(true)
	swapper.Wait()
	if after := content(t, outside); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("outside is %v, was %v", after, before)
	}
	t.Logf("%d calls, %d of them came through", ran.Load(), came.Load())
}
