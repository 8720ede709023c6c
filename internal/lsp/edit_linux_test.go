// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/workspace"
)

// everything returns what every file of the workspace has, with its mode.
func (k *kit) everything() map[string]string {
	k.t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(k.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = info.Mode().String() + "\n" + string(data)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return all
}

// fifty is a module in which a function is used in fifty files.
func fifty() map[string]string {
	files := map[string]string{"go.mod": "module example.com/fifty\n\ngo 1.21\n", "greet/greet.go": "package greet\n\n// Hello greets.\nfunc Hello(name string) string { return \"Hello, \" + name }\n"}
	for i := range 50 {
		files[fmt.Sprintf("use/use%02d.go", i)] = fmt.Sprintf("package use\n\nimport \"example.com/fifty/greet\"\n\n// 🙂 Use%02[1]d uses Hello twice.\nfunc Use%02[1]d() (string, string) { /* 🙂 */ return greet.Hello(\"a\"), greet.Hello(\"b\") }\n", i)
	}
	return files
}

// TestRename: all files or none, and undo puts back exactly what was there.
func TestRename(t *testing.T) {
	k := newKit(t, lsp.Config{}, fifty())
	k.needs("gopls")
	before := k.everything()
	rename := func() *lsp.Edit {
		t.Helper()
		edit, err := k.asker.Rename(t.Context(), lsp.Target{Symbol: "Hello"}, "Greeting")
		if err != nil {
			t.Fatal(err)
		}
		if len(edit.Files) != 51 {
			t.Fatalf("it would change %d files: %q", len(edit.Files), edit.Paths())
		}
		return edit
	}
	edit := rename()
	has(t, edit.Diff(strings.Clone), "--- a/use/use25.go\n+++ b/use/use25.go\n", "-func Use25() (string, string) { /* 🙂 */ return greet.Hello(\"a\"), greet.Hello(\"b\") }\n+func Use25() (string, string) { /* 🙂 */ return greet.Greeting(\"a\"), greet.Greeting(\"b\") }\n")
	unchanged := func(what string) {
		t.Helper()
		if !maps.Equal(k.everything(), before) {
			t.Errorf("%s: files have changed", what)
		}
		if n := len(k.env.Changes.Records()); n != 0 {
			t.Errorf("%s: there are %d changes to undo", what, n)
		}
	}
	unchanged("a preview")

	// In the middle a file that may not be written, and one that somebody changed since.
	middle := filepath.Join(k.dir, "use/use25.go")
	if err := os.Chmod(middle, 0o444); err != nil {
		t.Fatal(err)
	}
	edit = rename()
	_, err := edit.Apply(k.env, "code")
	if err := os.Chmod(middle, 0o644); err != nil {
		t.Fatal(err)
	}
	code, text := failure(t, err)
	if code != "not_writable" {
		t.Errorf("%s: %s", code, text)
	}
	has(t, text, "use/use25.go may not be written", "Nothing was changed")
	unchanged("a file that may not be written")
	edit = rename()
	k.write("use/use25.go", "package use\n")
	_, err = edit.Apply(k.env, "code")
	if code, text = failure(t, err); code != "stale_file" {
		t.Errorf("%s: %s", code, text)
	}
	k.write("use/use25.go", strings.SplitN(before[middle], "\n", 2)[1])
	unchanged("a file that was changed meanwhile")

	record, err := rename().Apply(k.env, "code")
	if err != nil {
		t.Fatal(err)
	}
	if len(record.Changes) != 51 || record.Lost != "" {
		t.Errorf("the record: %d changes, lost: %q", len(record.Changes), record.Lost)
	}
	has(t, k.read("use/use00.go"), `return greet.Greeting("a"), greet.Greeting("b")`)
	problems, err := k.asker.Diagnostics(t.Context(), "greet/greet.go", "use/use00.go", "use/use49.go")
	if err != nil || len(problems.List) > 0 {
		t.Errorf("after the rename: %+v, %v", problems, err)
	}
	if n := len(k.find(lsp.References, lsp.Target{Symbol: "Greeting"})); n != 101 {
		t.Errorf("it is used in %d places", n)
	}
	unlock := k.env.Workspace.LockAll()
	err = history.Undo(t.Context(), k.env.Workspace, k.env.Changes, []*history.Record{record})
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(k.everything(), before) {
		t.Error("undo left something behind")
	}
	if n := len(k.find(lsp.References, lsp.Target{Symbol: "Hello"})); n != 101 {
		t.Errorf("after the undo it is used in %d places", n)
	}
	for name, want := range map[string]string{"": "no_name", "a b": "no_name", "9": "language_server_refused"} {
		_, err := k.asker.Rename(t.Context(), lsp.Target{Symbol: "Hello"}, name)
		if code, text := failure(t, err); code != want {
			t.Errorf("to %q: %s: %s", name, code, text)
		}
	}
}

// TestEditsRaceWithRename: whatever comes first, two edits stay, and a rename is done in all
// files or in none.
func TestEditsRaceWithRename(t *testing.T) {
	k := newKit(t, lsp.Config{}, fifty())
	k.needs("gopls")
	from, to := "Hello", "Greeting"
	for round := range 6 {
		line := fmt.Sprintf("// edit %d\n", round)
		edited := []string{"use/use10.go", "use/use40.go"}
		var all sync.WaitGroup
		for _, name := range edited {
			all.Go(func() {
				defer k.env.Workspace.Lock(name)()
				old, err := k.env.Workspace.ReadFile(name, 1<<20)
				if err != nil {
					t.Error(err)
					return
				}
				batch := history.Begin(k.env.Workspace, k.env.Changes, name+line, "edit_file")
				if _, err := batch.Write(name, append(bytes.Clone(old.Data), line...), workspace.KeepMode, old); err != nil {
					t.Error(err)
				}
				batch.Commit()
			})
		}
		edit, err := k.asker.Rename(t.Context(), lsp.Target{Symbol: from}, to)
		if err == nil {
			_, err = edit.Apply(k.env, "code")
		}
		all.Wait()
		renamed := 0
		for _, text := range k.everything() {
			if strings.Contains(text, to+"(") {
				renamed++
			}
			if err == nil && strings.Contains(text, from+"(") {
				t.Errorf("round %d: the rename left: %s", round, text)
			}
		}
		switch {
		case err == nil && renamed == 51:
			from, to = to, from
		case err == nil || renamed != 0:
			t.Errorf("round %d: %d files were renamed: %v", round, renamed, err)
		default:
			if code, text := failure(t, err); code != "stale_file" {
				t.Errorf("round %d: %s: %s", round, code, text)
			}
		}
		for _, name := range edited {
			has(t, k.read(name), line)
		}
	}
}

// TestGoplsEdits: formatting, imports and actions, as edits that nobody has written yet.
func TestGoplsEdits(t *testing.T) {
	k := newKit(t, lsp.Config{}, map[string]string{
		"go.mod":  "module example.com/edits\n\ngo 1.21\n",
		"ugly.go": "package edits\n\nimport \"os\"\n\nfunc  F( )   string{\nreturn strings.ToUpper(\"é🙂\")}\n",
		"fine.go": "package edits\n\nfunc G(a, b int) int {\n\tx := a + b\n\treturn x * x\n}\n",
	})
	k.needs("gopls")
	before := k.everything()
	format, err := k.asker.Format(t.Context(), "ugly.go")
	if err != nil || len(format.Files) != 1 || string(format.Files[0].New) != "package edits\n\nimport \"os\"\n\nfunc F() string {\n\treturn strings.ToUpper(\"é🙂\")\n}\n" {
		t.Errorf("format: %+v, %v", format, err)
	}
	if format, err = k.asker.Format(t.Context(), "fine.go"); err != nil || len(format.Files) != 0 {
		t.Errorf("format of what is formatted: %+v, %v", format, err)
	}
	imports, err := k.asker.Action(t.Context(), lsp.Span{Path: "ugly.go"}, lsp.OrganizeImports, "")
	if err != nil || len(imports.Files) != 1 {
		t.Fatalf("imports: %+v, %v", imports, err)
	}
	has(t, imports.Diff(strings.Clone), "-import \"os\"", "+import \"strings\"")
	actions, err := k.asker.Actions(t.Context(), lsp.Span{Path: "fine.go", Line: 4, Column: 7, EndLine: 4, EndCol: 12}, "refactor")
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, a := range actions.List {
		titles = append(titles, a.Title)
	}
	has(t, strings.Join(titles, "\n"), "Extract variable")
	extract, err := k.asker.Action(t.Context(), lsp.Span{Path: "fine.go", Line: 4, Column: 7, EndLine: 4, EndCol: 12}, "refactor", "Extract variable")
	if err != nil || len(extract.Files) != 1 {
		t.Fatalf("extract: %+v, %v", extract, err)
	}
	has(t, extract.Diff(strings.Clone), "+\tnewVar := a + b")
	_, err = k.asker.Action(t.Context(), lsp.Span{Path: "fine.go", Line: 4}, "refactor", "Make tea")
	_, text := failure(t, err)
	has(t, text, `There is no action "Make tea" there`)
	if !maps.Equal(k.everything(), before) {
		t.Error("a preview has changed files")
	}
}
