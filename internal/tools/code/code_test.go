// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/syntax/syntaxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/code"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { syntaxtest.Main(m) }

// noServers is a machine without language servers.
var noServers = lsp.New(command.New(command.Config{Path: []string{"/nonexistent"}}), search.NewPool(nil), lsp.Config{})

func tool(t testing.TB) tools.Tool {
	return code.Tools(syntaxtest.Pool(t, syntaxtest.Program(t), index.NewPool(index.Config{})), noServers)[0]
}

func TestContract(t *testing.T) { toolstest.Test(t, tool(t)) }

// TestScripts runs testdata/*.txtar: files of a workspace, calls by number, and the
// text wanted of each, which for a failure is its code and its message.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(script)
			if err != nil {
				t.Fatal(err)
			}
			files := make(map[string]string)
			for _, f := range archive.Files {
				if !strings.HasPrefix(f.Name, "code.") && !strings.HasPrefix(f.Name, "want.") {
					files[f.Name] = string(f.Data)
				}
			}
			env, tool := toolstest.Env(t, files), tool(t)
			for i := range archive.Files {
				f := &archive.Files[i]
				if !strings.HasPrefix(f.Name, "code.") {
					continue
				}
				got := run(t, tool, env, strings.TrimSpace(string(f.Data)))
				want := slices.IndexFunc(archive.Files, func(w txtar.File) bool { return w.Name == "want"+f.Name[4:] })
				if os.Getenv("UPDATE_GOLDEN") != "" && want >= 0 {
					archive.Files[want].Data = []byte(got)
				} else if want < 0 || string(archive.Files[want].Data) != got {
					t.Errorf("%s: %s\ngot\n%s", f.Name, f.Data, got)
				}
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(script, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func run(t *testing.T, tool tools.Tool, env tools.Env, input string) string {
	t.Helper()
	result, _, err := toolstest.Run(t, tool, env, input)
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure.Code + "\n" + failure.Message + "\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	return toolstest.Text(result)
}

// TestRewriteWritesWhatItTold proves that a rewrite tells every file that it writes,
// shows it, and writes nothing where one has changed since.
func TestRewriteWritesWhatItTold(t *testing.T) {
	files := map[string]string{"kept.go": "package a\n", "other.py": "foo(1)\n"}
	var names []string
	for i := range 50 {
		name := fmt.Sprintf("dir%d/f.go", i)
		names = append(names, name)
		files[name] = fmt.Sprintf("package a\n\nvar _ = foo(%d)\n", i)
	}
	slices.Sort(names)
	env := toolstest.Env(t, files)
	const input = `{"operation":"pattern_rewrite","pattern":"foo($A)","replacement":"bar($A)","language":"go","dry_run":false}`
	call, err := tool(t).Decode(&env, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, e := range call.Effects() {
		if e.Kind == tools.WritesPath {
			written = append(written, e.Path)
		}
	}
	if !slices.Equal(written, names) {
		t.Errorf("it tells that it writes %q", written)
	}
	preview := call.(tools.Previewer).Preview(t.Context())
	if preview.Kind != tools.PreviewDiff || strings.Count(preview.Text, "+var _ = bar(") != 50 {
		t.Errorf("preview %v", preview)
	}
	stale := filepath.Join(env.Workspace.Dir(), "dir30/f.go")
	if err := os.WriteFile(stale, []byte("package a\n\nvar _ = foo(0) // else\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = call.Run(t.Context(), toolstest.RightsOf(call), new(toolstest.Recorder))
	if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != "stale_file" {
		t.Fatalf("with a file that has changed: %v", err)
	}
	for _, name := range names {
		if text := read(t, env, name); strings.Contains(text, "bar") {
			t.Fatalf("%s was changed: %s", name, text)
		}
	}
	if got := run(t, tool(t), env, input); !strings.HasPrefix(got, "Changed 50 places in 50 files.") {
		t.Error(got)
	}
	if text := read(t, env, "dir49/f.go"); text != "package a\n\nvar _ = bar(49)\n" {
		t.Error(text)
	}
	if n := len(env.Changes.Records()); n != 1 {
		t.Errorf("%d changes can be undone", n)
	}
}

func read(t *testing.T, env tools.Env, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Workspace.Dir(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMissing proves that a server without toolserver-syntax says what to do.
func TestMissing(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"a.go": "package a\n"})
	without := code.Tools(syntaxtest.Pool(t, "", nil), noServers)[0]
	for _, input := range []string{
		`{"operation":"get_document_symbols","file_path":"a.go"}`, `{"operation":"search_symbols","symbol_name":"a"}`,
		`{"operation":"pattern_rewrite","pattern":"a($A)","replacement":"b","language":"go","dry_run":false}`,
	} {
		if got := run(t, without, env, input); !strings.HasPrefix(got, "unavailable\n") || !strings.Contains(got, "make build") {
			t.Error(got)
		}
	}
}

// TestPages proves that the pages of an answer together are everything.
func TestPages(t *testing.T) {
	text := "package a\n"
	for i := range 120 {
		text += fmt.Sprintf("\nfunc Name%03d() { call(%d) }\n", i, i)
	}
	env, tool := toolstest.Env(t, map[string]string{"a.go": text}), tool(t)
	for _, input := range []string{
		`{"operation":"search_symbols","symbol_name":"Name","limit":25}`,
		`{"operation":"pattern_search","pattern":"call($A)","language":"go","limit":25}`,
		`{"operation":"get_document_symbols","file_path":"a.go","limit":25}`,
	} {
		found, pages := 0, 0
		for next := input; next != ""; pages++ {
			got := run(t, tool, env, next)
			found += strings.Count(got, "func Name")
			if _, next = toolstest.GoOn(got); pages > 10 {
				t.Fatal("no end")
			}
		}
		if found != 120 || pages != 5 {
			t.Errorf("%s: %d on %d pages", input, found, pages)
		}
	}
}

// TestNoReplacement: a rewrite that says nothing of what comes instead removes nothing; an
// empty text does.
func TestNoReplacement(t *testing.T) {
	env, tool := toolstest.Env(t, map[string]string{"a.go": "package a\n\nfunc f() {\n\tfoo(1)\n}\n"}), tool(t)
	_, err := tool.Decode(&env, []byte(`{"operation":"pattern_rewrite","pattern":"foo($A)","language":"go","dry_run":false}`))
	if err == nil || !strings.Contains(err.Error(), "replacement") {
		t.Errorf("without a replacement: %v", err)
	}
	if got := run(t, tool, env, `{"operation":"pattern_rewrite","pattern":"foo($A)","replacement":"","language":"go","dry_run":false}`); !strings.HasPrefix(got, "Changed 1 place") || read(t, env, "a.go") != "package a\n\nfunc f() {\n\t\n}\n" {
		t.Errorf("with an empty one: %s\n%s", got, read(t, env, "a.go"))
	}
}
