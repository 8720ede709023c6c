// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/search"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestContract(t *testing.T) {
	for _, tool := range search.Tools(engine.NewPool(index.NewPool(index.Config{}))) {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

// TestScripts runs testdata/*.txtar: files of a workspace, calls of a tool, and
// the text wanted of each, which for a failure is its code and its message. A
// call is a file with the name of the tool and a number, and what is wanted one
// with the same number. Files are the older the later they are named.
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
			env := toolstest.Env(t, nil)
			pool := engine.NewPool(index.NewPool(index.Config{}))
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			call := ""
			for _, file := range archive.Files {
				switch name := file.Name; {
				case strings.HasPrefix(name, "glob."), strings.HasPrefix(name, "grep."):
					call = name
					input := strings.TrimSpace(string(file.Data))
					tool := search.Grep(pool)
					if strings.HasPrefix(name, "glob.") {
						tool = search.Glob(pool)
					}
					got := run(t, tool, env, input)
					if want := wanted(archive, "want"+name[4:]); got != want {
						t.Errorf("%s: %s\ngot\n%s\nwant\n%s", name, input, got, want)
					}
				case strings.HasPrefix(name, "want."):
				default:
					if call != "" {
						t.Fatalf("%s comes after a call", name)
					}
					path := filepath.Join(env.Workspace.Dir(), name)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, file.Data, 0o644); err != nil {
						t.Fatal(err)
					}
					now = now.Add(-time.Hour)
					if err := os.Chtimes(path, now, now); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func wanted(archive *txtar.Archive, name string) string {
	for _, file := range archive.Files {
		if file.Name == name {
			return string(file.Data)
		}
	}
	return "there is no " + name
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

func TestEffects(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"dir/a.txt": ""})
	if err := os.Symlink("dir", filepath.Join(env.Workspace.Dir(), "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": ".", "dir": "dir", "link": "dir", "dir/..": ".", "/etc": "/etc", "..": filepath.Dir(env.Workspace.Dir())} {
		for _, tool := range search.Tools(engine.NewPool(index.NewPool(index.Config{}))) {
			call, err := tool.Decode(&env, []byte(`{"pattern":"x","path":"`+path+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			effects := call.Effects()
			if len(effects) != 1 || effects[0].Kind != tools.ReadsPath || effects[0].Path != want || !effects[0].Tree || !effects[0].Rooted {
				t.Errorf("%s: %q: effects %+v, want reading all of %s", tool.Spec().Name, path, effects, want)
			}
		}
	}
}

// TestBounded shows that a page has an end, however much there is, and that the
// pages together are everything.
func TestBounded(t *testing.T) {
	files := make(map[string]string)
	var want strings.Builder
	for _, name := range []string{"a", "b", "c"} {
		files[name] = strings.Repeat(strings.Repeat("x", 3000)+"\n", 300)
	}
	env := toolstest.Env(t, files)
	pool := engine.NewPool(index.NewPool(index.Config{}))
	result, reports, err := toolstest.Run(t, search.Grep(pool), env, `{"pattern":"x","limit":10000}`)
	text := toolstest.Text(result)
	if err != nil || len(text) > tools.DefaultAnswer || !strings.Contains(text, `there is more: go on with grep {"pattern":"x","limit":10000,"offset":1`) {
		t.Errorf("%v, %d bytes: …%s", err, len(text), text[max(0, len(text)-200):])
	}
	partial := ""
	for _, r := range reports {
		if p, ok := r.(tools.Partial); ok {
			partial += string(p.Content[0].(tools.Text))
		}
	}
	if len(partial) < len(text)/2 || !strings.HasPrefix(text, partial) {
		t.Errorf("%d bytes were reported on the way, %d in the end", len(partial), len(text))
	}

	lines, pages := 0, 0
	for next := `{"pattern":"x","limit":70,"max_columns":20}`; next != ""; pages++ {
		text := run(t, search.Grep(pool), env, next)
		lines += strings.Count(text, "bytes of the line are left out")
		_, next = toolstest.GoOn(text)
		want.WriteString(text)
	}
	if lines != 900 || pages != 13 {
		t.Errorf("%d lines on %d pages", lines, pages)
	}
}

// TestStops ends searches that would take for ever.
func TestStops(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"slow": strings.Repeat("ab", 4<<20)})
	toolstest.StopsSoon(t, search.Grep(engine.NewPool(index.NewPool(index.Config{}))), `{"pattern":"(a|b)*a(a|b){900}c"}`, env)
}

// TestNames shows that a name cannot pass for two.
func TestNames(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"a\nb.txt": "x\n", "\xff.txt": "x\n"})
	for _, test := range []struct{ got, want string }{
		{run(t, search.Glob(engine.NewPool(index.NewPool(index.Config{}))), env, `{"pattern":"*","sort":"name"}`), "\"a\\nb.txt\"\n\"\\xff.txt\"\n"},
		{run(t, search.Grep(engine.NewPool(index.NewPool(index.Config{}))), env, `{"pattern":"x","output_mode":"count"}`), "\"a\\nb.txt\":1\n\"\\xff.txt\":1\n"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

// TestGlobsAsPaths writes globs as paths are written, and finds the same.
func TestGlobsAsPaths(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"src/a.go": "needle\n", "src/deep/b.go": "needle\n", "c.go": "needle\n", "odd\u202e.txt": "needle\n"})
	pool := engine.NewPool(index.NewPool(index.Config{}))
	dir := env.Workspace.Dir()
	for _, test := range []struct{ path, pattern, want string }{
		{"", "./src/*.go", "src/a.go\n"},
		{"", ".//./src/*.go", "src/a.go\n"},
		{"", dir + "/src/*.go", "src/a.go\n"},
		{"", dir + "/*.go", "c.go\n"},
		{"src", dir + "/src/*.go", "src/a.go\n"},
		{"src", "./deep/*.go", "src/deep/b.go\n"},
		{dir + "/src", "deep/*.go", "src/deep/b.go\n"},
		{"", "odd*", "\"odd\\u202e.txt\"\n"},
		{"", "/etc/*", "(no file matches: a pattern is relative to path, and leads nowhere outside of the workspace)\n"},
		{"", "../*", "(no file matches: a pattern is relative to path, and leads nowhere outside of the workspace)\n"},
		{"", "src", "(no file matches; directories are not listed: src/** shows what is below)\n"},
		{"", "src/", "(no file matches; directories are not listed: src/** shows what is below)\n"},
	} {
		input, err := json.Marshal(map[string]string{"path": test.path, "pattern": test.pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, search.Glob(pool), env, string(input)); got != test.want {
			t.Errorf("%s: got %q, want %q", input, got, test.want)
		}
	}
	for _, test := range []struct{ glob, want string }{
		{"./src/*.go", "src/a.go\n"},
		{dir + "/src/**", "src/a.go\nsrc/deep/b.go\n"},
		{"!" + dir + "/src/**", "c.go\n\"odd\\u202e.txt\"\n"},
	} {
		input, err := json.Marshal(map[string]string{"pattern": "needle", "output_mode": "files_with_matches", "glob": test.glob})
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t, search.Grep(pool), env, string(input)); got != test.want {
			t.Errorf("%s: got %q, want %q", input, got, test.want)
		}
	}
}

// TestBeside searches what commands may read beside the workspace.
func TestBeside(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tree/src/net/a.go", "tree/src/net/b.txt", "tree/src/os/a.go", "tree/.gitignore", "secret/a.go"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("needle\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	env := toolstest.Env(t, map[string]string{"mine.go": "needle\n"})
	env.Readable = []string{dir + "/tree"}
	pool := engine.NewPool(index.NewPool(index.Config{}))
	grep, glob := search.Grep(pool), search.Glob(pool)
	for _, test := range []struct {
		tool  tools.Tool
		input string
		want  string
	}{
		{grep, `{"pattern":"needle","path":"$/tree/src/os"}`, "$/tree/src/os/a.go\n1:needle\n"},
		{grep, `{"pattern":"needle","path":"$/tree/src/os/a.go"}`, "$/tree/src/os/a.go\n1:needle\n"},
		{grep, `{"pattern":"needle","path":"$/tree","output_mode":"files_with_matches","glob":"*.go"}`, "$/tree/src/net/a.go\n$/tree/src/os/a.go\n"},
		{grep, `{"pattern":"needle","path":"$/tree/src","output_mode":"count","glob":"net/*.go"}`, "$/tree/src/net/a.go:1\n"},
		{grep, `{"pattern":"needle","path":"$/tree/src","output_mode":"count","glob":"!net/*"}`, "$/tree/src/os/a.go:1\n"},
		{grep, `{"pattern":"needle","path":"$/tree/src","output_mode":"count","glob":"$/tree/src/os/*"}`, "$/tree/src/os/a.go:1\n"},
		{grep, `{"pattern":"needle","path":"$/secret"}`, "outside_workspace\n$/secret: path is outside the workspace. Only files of the workspace, and those that commands read beside it, can be searched.\n"},
		{grep, `{"pattern":"needle","path":"$/tree/none"}`, "file_not_found\n$/tree/none: there is no such file or directory. Check the path: it is relative to the workspace root.\n"},
		{grep, `{"pattern":"needle"}`, "mine.go\n1:needle\n"},
		{glob, `{"pattern":"**/*.go","path":"$/tree","sort":"name"}`, "$/tree/src/net/a.go\n$/tree/src/os/a.go\n"},
		{glob, `{"pattern":"net/*","path":"$/tree/src","sort":"name"}`, "$/tree/src/net/a.go\n$/tree/src/net/b.txt\n"},
		{glob, `{"pattern":"$/tree/src/*/a.go","sort":"name"}`, "$/tree/src/net/a.go\n$/tree/src/os/a.go\n"},
		{glob, `{"pattern":"$/tree/src/net/a.go"}`, "$/tree/src/net/a.go\n"},
		{glob, `{"pattern":"$/secret/*"}`, "(no file matches: a pattern is relative to path, and leads nowhere outside of the workspace)\n"},
	} {
		for range 3 { // once more where it would be answered from memory
			if got := run(t, test.tool, env, strings.ReplaceAll(test.input, "$", dir)); got != strings.ReplaceAll(test.want, "$", dir) {
				t.Errorf("%s: got\n%s\nwant\n%s", test.input, strings.ReplaceAll(got, dir, "$"), test.want)
			}
		}
	}
}
