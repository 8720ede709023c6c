// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// decode decodes a call of a tool of the family.
func decode(t *testing.T, env tools.Env, name, input string) tools.Call {
	t.Helper()
	call, err := tool(t, name).Decode(&env, json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// TestPreviewIsWhatRuns previews every way to change files: nothing is changed,
// and the diff is the one of the result.
func TestPreviewIsWhatRuns(t *testing.T) {
	for _, test := range []struct{ name, input string }{
		{"write_file", `{"path":"new","content":"text\n"}`},
		{"write_file", `{"path":"f","content":"text\n"}`},
		{"edit_file", `{"path":"f","old_string":"two","new_string":"2"}`},
		{"edit_file", `{"path":"f","append":true,"new_string":"four"}`},
		{"multi_edit", `{"path":"f","edits":[{"old_string":"one","new_string":"1"},{"old_string":"three","new_string":"3"}]}`},
		{"delete_file", `{"path":"f"}`},
		{"move_file", `{"from":"f","to":"g"}`},
		{"apply_patch", `{"patch":"*** Begin Patch\n*** Add File: new\n+x\n*** Update File: f\n*** Move to: g\n-two\n+2\n*** End Patch"}`},
	} {
		env := toolstest.Env(t, map[string]string{"f": "one\ntwo\nthree\n"})
		before := content(t, env.Workspace.Dir())
		call := decode(t, env, test.name, test.input)
		preview := call.(tools.Previewer).Preview(t.Context())
		if preview.Kind != tools.PreviewDiff {
			t.Errorf("%s: preview %+v", test.name, preview)
		}
		if after := content(t, env.Workspace.Dir()); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: the preview changed %v", test.name, after)
		}
		result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
		if err != nil {
			t.Fatal(err)
		}
		var details struct{ Diff string }
		if err := json.Unmarshal(result.Details, &details); err != nil || details.Diff != preview.Text {
			t.Errorf("%s: the diff is\n%s\nand was shown as\n%s (%v)", test.name, details.Diff, preview.Text, err)
		}
	}
}

// TestApprovedAsShown changes a file between the preview and the call: what
// nobody has seen does not run.
func TestApprovedAsShown(t *testing.T) {
	for _, test := range []struct{ name, input string }{
		{"write_file", `{"path":"f","content":"text\n"}`},
		{"write_file", `{"path":"new","content":"text\n"}`},
		{"edit_file", `{"path":"f","old_string":"two","new_string":"2"}`},
		{"delete_file", `{"path":"f"}`},
		{"move_file", `{"from":"f","to":"other"}`},
		{"apply_patch", `{"patch":"*** Begin Patch\n*** Update File: f\n-two\n+2\n*** End Patch"}`},
	} {
		env := toolstest.Env(t, map[string]string{"f": "one\ntwo\n"})
		call := decode(t, env, test.name, test.input)
		call.(tools.Previewer).Preview(t.Context())
		for _, name := range []string{"f", "new"} {
			if err := os.WriteFile(filepath.Join(env.Workspace.Dir(), name), []byte("two\nand more\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
		if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "stale_file" {
			t.Errorf("%s: %v", test.input, err)
		}
	}
}

// TestEditsSideBySide edits one file from many sides: no edit is lost.
func TestEditsSideBySide(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": strings.Repeat("-\n", 32)})
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			if got := answer(t, env, "edit_file", fmt.Sprintf(`{"path":"f","insert_line":0,"new_string":"%d"}`, i)); !strings.HasPrefix(got, "Changed") {
				t.Error(got)
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(filepath.Join(env.Workspace.Dir(), "f"))
	if err != nil || strings.Count(string(text), "\n") != 64 {
		t.Errorf("%q, %v", text, err)
	}
	if n := len(env.Changes.Records()); n != 32 {
		t.Errorf("%d records", n)
	}
}

// BenchmarkEdit edits a file of 1 MiB, and in turn does no more than read one
// and write it in one step. "times" is what the first costs of the second.
func BenchmarkEdit(b *testing.B) {
	dir := b.TempDir()
	text := []byte(strings.Repeat("a line of a file that is edited, over and over\n", 1<<20/48))
	copy(text[len(text)/2:], "[number 0]")
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ws.Close()
	changes := history.New(history.Config{Dir: b.TempDir()})
	defer changes.Close()
	env := tools.Env{Workspace: ws, Changes: changes}
	edit := byName("edit_file")
	var edited, written time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		input := fmt.Sprintf(`{"path":"f","old_string":"[number %d]","new_string":"[number %d]"}`, i%2, 1-i%2)
		call, err := edit.Decode(&env, json.RawMessage(input))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := call.Run(b.Context(), tools.Rights{}, new(toolstest.Recorder)); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		edited += between.Sub(begin)
		data, err := os.ReadFile(filepath.Join(dir, "g"))
		if err != nil {
			b.Fatal(err)
		}
		if err := writeAtomically(filepath.Join(dir, "g"), data); err != nil {
			b.Fatal(err)
		}
		written += time.Since(between)
	}
	b.ReportMetric(float64(edited)/float64(written), "times")
}

// writeAtomically replaces a file as any careful program does.
func writeAtomically(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close(), os.Rename(f.Name(), path)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// TestRefusedPatches is what no patch can say here: the answer tells the line.
func TestRefusedPatches(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": "old\n"})
	for _, test := range []struct{ name, patch, want string }{
		{"a link", "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n", "line 2: the mode 120000 is not that of a file"},
		{"a file that becomes a link", "diff --git a/f b/f\nold mode 100644\nnew mode 120000\n", "line 3: the mode 120000"},
		{"a submodule", "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 1\n", "line 2: the mode 160000"},
		{"no mode", "diff --git a/f b/f\nnew mode \n", "line 2: the mode "},
		{"a binary file", "diff --git a/f b/f\nGIT binary patch\nliteral 0\n", "line 2: binary files"},
		{"no file", "hello", "there is no file in it"},
		{"no end", "*** Begin Patch\n*** Add File: x\n+1\n", "*** End Patch is missing"},
	} {
		input, err := json.Marshal(map[string]string{"patch": test.patch})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tool(t, "apply_patch").Decode(&env, input); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestListChangesAfterARestart: what calls changed before is told to be unknown, and not to be nothing.
func TestListChangesAfterARestart(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": "old\n"})
	env.Changes = history.New(history.Config{Dir: t.TempDir(), Forgot: true})
	const unknown = "(what calls changed before the server was last started, or before the session came to this server, is not known: git_diff shows what is different)\n"
	if got := answer(t, env, "list_changes", `{}`); !strings.HasPrefix(got, "No file differs from what it was when this session first changed one since ") || !strings.HasSuffix(got, "\n"+unknown) {
		t.Errorf("got\n%s", got)
	}
	answer(t, env, "edit_file", `{"path":"f","old_string":"old","new_string":"new"}`)
	if got := answer(t, env, "list_changes", `{}`); !strings.HasPrefix(got, "changed  f (+1 -1 lines)\n"+unknown) {
		t.Errorf("got\n%s", got)
	}
}

// TestListChangesOfLinks lists links themselves, and goes on where one leads
// outside.
func TestListChangesOfLinks(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": "old\n", "d/in": "x\n"})
	dir, outside := env.Workspace.Dir(), t.TempDir()
	for name, target := range map[string]string{"back": outside, "other": outside, "gone": "f", "moved": "f"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	answer(t, env, "delete_file", `{"path":"back"}`)
	answer(t, env, "undo", `{}`)
	answer(t, env, "move_file", `{"from":"moved","to":"elsewhere/moved"}`)
	answer(t, env, "undo", `{}`)
	answer(t, env, "delete_file", `{"path":"other"}`)
	answer(t, env, "delete_file", `{"path":"gone"}`)
	answer(t, env, "edit_file", `{"path":"d/in","old_string":"x","new_string":"y"}`)
	for _, err := range []error{
		os.Symlink("elsewhere", filepath.Join(dir, "other")),
		os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")), os.Symlink(outside, filepath.Join(dir, "d")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := answer(t, env, "list_changes", `{}`)
	want := "deleted  d/in (2 to 0 bytes)\ndeleted  gone\nreplaced other\n"
	if files, _, _ := strings.Cut(got, "\n\n"); files+"\n" != want {
		t.Errorf("got\n%s", got)
	}
}

// TestListChangesOfLarge tells of files whose lines are not counted whether they
// have changed.
func TestListChangesOfLarge(t *testing.T) {
	large := strings.Repeat("line\n", 1<<20)
	env := toolstest.Env(t, map[string]string{"back": large, "changed": large})
	for _, path := range []string{"changed", "back"} {
		answer(t, env, "edit_file", `{"path":"`+path+`","insert_line":0,"new_string":"first\n"}`)
	}
	answer(t, env, "undo", `{}`)
	if got := answer(t, env, "list_changes", `{}`); !strings.HasPrefix(got, "changed  changed (5242880 to 5242886 bytes)\n\n") {
		t.Errorf("%s", got)
	}
}

// TestHunks has edits answer with where they changed what, and not with what they
// were given.
func TestHunks(t *testing.T) {
	lines := func(word string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s %d\n", word, i+1)
		}
		return b.String()
	}
	quoted := func(text string) string { return strconv.Quote(text) }
	env := toolstest.Env(t, map[string]string{"f": lines("old", 1000), "g": lines("old", 1000), "h": lines("old", 1000), "i": lines("old", 1000)})
	for _, test := range []struct{ tool, input, want string }{
		{"edit_file", `{"path":"f","old_string":"old 500\n","new_string":` + quoted("old 500\n"+lines("new", 400)) + `}`,
			"\n 498\told 498\n 499\told 499\n 500\told 500\n+501\tnew 1\n+502\tnew 2\n+503\tnew 3\n+… 394 lines as they were given\n+898\tnew 398\n+899\tnew 399\n+900\tnew 400\n 901\told 501\n 902\told 502\n 903\told 503\n"},
		{"write_file", `{"path":"g","content":` + quoted(lines("new", 1000)) + `}`,
			"\n-1\told 1\n-2\told 2\n-3\told 3\n-… 994 lines removed\n-998\told 998\n-999\told 999\n-1000\told 1000\n+1\tnew 1\n+2\tnew 2\n+3\tnew 3\n+… 994 lines as they were given\n+998\tnew 998\n+999\tnew 999\n+1000\tnew 1000\n"},
		{"multi_edit", `{"path":"h","edits":[{"old_string":"old 10\n","new_string":"ten\n"},{"old_string":"old 900\n","new_string":""}]}`,
			"\n 7\told 7\n 8\told 8\n 9\told 9\n-10\told 10\n+10\tten\n 11\told 11\n 12\told 12\n 13\told 13\n…\n 897\told 897\n 898\told 898\n 899\told 899\n-900\told 900\n 900\told 901\n 901\told 902\n 902\told 903\n"},
	} {
		got := answer(t, env, test.tool, test.input)
		if _, hunks, _ := strings.Cut(got, "\n"); hunks != test.want {
			t.Errorf("%s: %q, want %q", test.tool, hunks, test.want)
		}
	}
	// A change in every place keeps to the budget.
	env.Answer = 2000
	got := answer(t, env, "edit_file", `{"path":"i","old_string":"0\n","new_string":"zero\n","replace_all":true}`)
	if len(got) > env.Answer || len(got) < 1000 || !strings.Contains(got, "more lines of what changed not shown)\n") {
		t.Errorf("%d characters: %s", len(got), got)
	}
}
