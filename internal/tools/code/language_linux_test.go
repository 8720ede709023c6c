// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/syntax/syntaxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/code"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// withGopls returns the tool on a machine that has gopls, and nothing that parses.
func withGopls(t *testing.T) tools.Tool {
	t.Helper()
	bin, err := filepath.Abs("../../../.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "gopls")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no gopls")
	}
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	programs := command.FindPrograms(command.ProgramsConfig{Inherited: os.Getenv("PATH"), Covered: sandbox.SystemPaths()})
	runners := command.New(command.Config{
		Sandbox: s, Grace: 2 * time.Second, Path: append([]string{bin}, programs.Path...),
		View: sandbox.View{Read: slices.Concat(sandbox.SystemPaths(), programs.Trees, []string{filepath.Join(bin, "gopls")})},
	})
	return code.Tools(syntaxtest.Pool(t, "", nil), lsp.New(runners, search.NewPool(nil), lsp.Config{}))[0]
}

// TestLanguageServer: what a language server answers, as the model reads it.
func TestLanguageServer(t *testing.T) {
	env := toolstest.Env(t, map[string]string{
		"go.mod":   "module example.com/m\n\ngo 1.21\n",
		"greet.go": "package m\n\n// Greet greets.\nfunc Greet(name string) string { return \"Hello, \" + name }\n",
		"use.go":   "package m\n\nfunc Both() string { return Greet(\"a\") + Greet(\"b\") }\n",
		"empty.py": "",
	})
	tool := withGopls(t)
	for _, test := range []struct{ input, want string }{
		{`{"operation":"goto_definition","file_path":"use.go","row":3,"symbol_name":"Greet"}`, "greet.go:4:6: func Greet(name string) string { return \"Hello, \" + name }\n\n(answered by gopls)\n"},
		{`{"operation":"find_references","symbol_name":"Greet","limit":1,"offset":1}`, "use.go:3:29: func Both() string { return Greet(\"a\") + Greet(\"b\") }\n\n(there is more: go on with code {\"operation\":\"find_references\",\"symbol_name\":\"Greet\",\"limit\":1,\"offset\":2})\n(answered by gopls)\n"},
		{`{"operation":"get_callers","symbol_name":"Greet"}`, "function Both  use.go:3:6: func Both() string { return Greet(\"a\") + Greet(\"b\") }\n    use.go:3:29: func Both() string { return Greet(\"a\") + Greet(\"b\") }\n    use.go:3:42: func Both() string { return Greet(\"a\") + Greet(\"b\") }\n\n(answered by gopls)\n"},
		{`{"operation":"get_diagnostics","file_path":"use.go"}`, "(nothing is wrong with it)\n(answered by gopls)\n"},
		{`{"operation":"get_diagnostics","file_path":"greet.go","text":"package m\n"}`, "new: use.go:3:29: error: undefined: Greet (compiler UndeclaredName)\n    func Both() string { return Greet(\"a\") + Greet(\"b\") }\nnew: use.go:3:42: error: undefined: Greet (compiler UndeclaredName)\n    func Both() string { return Greet(\"a\") + Greet(\"b\") }\n\n(nothing was written)\n(answered by gopls)\n"},
		{`{"operation":"format","file_path":"use.go"}`, "(nothing would change)\n(answered by gopls)\n"},
		{`{"operation":"get_hover","file_path":"empty.py","row":1,"column":1}`, "no_language_server\nThere is no language server for empty.py. pyright is not here: there is no program pyright-langserver in the PATH of commands: install it, or name its directory in sandbox.path. What does without a language server: grep and read_file.\n"},
		{`{"operation":"rename_symbol","symbol_name":"Both","new_name":"two","dry_run":true}`, "Would change 1 file. Nothing was written: set dry_run to false to do it.\n\n--- a/use.go\n+++ b/use.go\n@@ -1,3 +1,3 @@\n package m\n \n-func Both() string { return Greet(\"a\") + Greet(\"b\") }\n+func two() string { return Greet(\"a\") + Greet(\"b\") }\n\n(answered by gopls)\n"},
	} {
		if got := run(t, tool, env, strings.ReplaceAll(test.input, "\n", `\n`)); got != test.want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", test.input, got, test.want)
		}
	}
}

// TestNoLanguageServer: what a model reads where none is installed.
func TestNoLanguageServer(t *testing.T) {
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	runners := command.New(command.Config{Sandbox: s, Path: []string{t.TempDir()}})
	tool := code.Tools(syntaxtest.Pool(t, "", nil), lsp.New(runners, search.NewPool(nil), lsp.Config{}))[0]
	env := toolstest.Env(t, map[string]string{"a.go": "package a\n", "a.unknown": ""})
	for _, test := range []struct{ input, want string }{
		{`{"operation":"find_references","symbol_name":"A"}`, "no_language_server\nThere is no language server for any file of the workspace. None is installed here. The operator installs them: known are gopls"},
		{`{"operation":"get_hover","file_path":"a.unknown","row":1,"column":1}`, "no_language_server\nThere is no language server for a.unknown: none is known for files of that kind. None is installed here. The operator adds others to code.servers."},
	} {
		if got := run(t, tool, env, test.input); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", test.input, got, test.want)
		}
	}
}

// TestMoreIsTold: an answer that is cut short says so.
func TestMoreIsTold(t *testing.T) {
	var many strings.Builder
	many.WriteString("package m\n\nfunc Greet() {}\n")
	for i := range 501 {
		fmt.Fprintf(&many, "func F%d() { Greet() }\n", i)
	}
	env := toolstest.Env(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.21\n", "many.go": many.String()})
	got := run(t, withGopls(t), env, `{"operation":"get_callers","symbol_name":"Greet","limit":1,"offset":499}`)
	if !strings.Contains(got, "(there are more, which are left out)\n") {
		t.Error(got)
	}
}

// TestRenameWritesWhatItTold: the effects, the preview and what is written are the same, and
// undo takes it back.
func TestRenameWritesWhatItTold(t *testing.T) {
	files := map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.21\n", "greet/greet.go": "package greet\n\nfunc Hello() {}\n",
		"use/a.go": "package use\n\nimport \"example.com/m/greet\"\n\nfunc A() { greet.Hello() }\n", "use/b.go": "package use\n",
	}
	env := toolstest.Env(t, files)
	call, err := withGopls(t).Decode(&env, []byte(`{"operation":"rename_symbol","symbol_name":"Hello","new_name":"Hi","dry_run":false}`))
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, e := range call.Effects() {
		if e.Kind == tools.WritesPath {
			written = append(written, e.Path)
		}
	}
	if !slices.Equal(written, []string{"greet/greet.go", "use/a.go"}) {
		t.Errorf("it tells that it writes %q", written)
	}
	preview := call.(tools.Previewer).Preview(t.Context())
	if preview.Kind != tools.PreviewDiff || !strings.Contains(preview.Text, "+func A() { greet.Hi() }") {
		t.Errorf("preview %v", preview)
	}
	result, err := call.Run(t.Context(), toolstest.RightsOf(call), new(toolstest.Recorder))
	if err != nil {
		t.Fatal(err)
	}
	var details struct {
		Change     string
		AnsweredBy string `json:"answered_by"`
	}
	if json.Unmarshal(result.Details, &details) != nil || details.Change == "" || details.AnsweredBy != "gopls" {
		t.Errorf("details %s", result.Details)
	}
	if text, err := os.ReadFile(filepath.Join(env.Workspace.Dir(), "use/a.go")); err != nil || !strings.Contains(string(text), "greet.Hi()") {
		t.Errorf("it wrote %q, %v", text, err)
	}
	defer env.Workspace.LockAll()()
	if err := history.Undo(t.Context(), env.Workspace, env.Changes, env.Changes.Records()); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if text, err := os.ReadFile(filepath.Join(env.Workspace.Dir(), name)); err != nil || string(text) != want {
			t.Errorf("undo left %s: %q, %v", name, text, err)
		}
	}
}
