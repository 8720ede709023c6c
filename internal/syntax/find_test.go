// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/syntax/syntaxtest"
	"github.com/toolserver/toolserver/internal/workspace"
)

// names returns what was found, one a line.
func names(found []syntax.Found) []string {
	var list []string
	for _, f := range found {
		list = append(list, fmt.Sprintf("%s:%d-%d %s %s.%s", f.Path, f.Line, f.EndLine, f.Kind, f.Container, f.Name))
	}
	return list
}

func TestFind(t *testing.T) {
	e := engineOf(t, tree(t, map[string]string{
		"a.go":                "package a\n\ntype UserStore struct{ users int }\n\nfunc (s *UserStore) FindUser() {}\n\nfunc findAll() {}\n",
		"b/b.py":              "class User:\n    def find_user(self): pass\n",
		"c.json":              `{"User": 1}`,
		"node_modules/x.js":   "function User() {}\n",
		".gitignore":          "node_modules\n",
		"secret/s.go":         "package s\n\nfunc User() {}\n",
		"dir/deep/x/y/z/w.rs": "struct Usher;\n",
	}))
	scope := syntax.Scope{Exclude: func(path string) bool { return strings.HasPrefix(path, "secret") }}
	for _, c := range []struct {
		query syntax.Query
		path  string
		want  []string
	}{
		{syntax.Query{Name: "User", Exact: true}, "", []string{"b/b.py:1-2 class .User"}},
		{syntax.Query{Name: "User"}, "", []string{"b/b.py:1-2 class .User", "a.go:3-3 struct .UserStore", "a.go:3-3 field UserStore.users", "b/b.py:2-2 method User.find_user", "a.go:5-5 method UserStore.FindUser", "dir/deep/x/y/z/w.rs:1-1 struct .Usher"}},
		{syntax.Query{Name: "fu"}, "", []string{"a.go:5-5 method UserStore.FindUser", "b/b.py:2-2 method User.find_user"}},
		{syntax.Query{Name: "UserStore.FindUser", Exact: true}, "", []string{"a.go:5-5 method UserStore.FindUser"}},
		{syntax.Query{Name: "User", Kind: "class"}, "b", []string{"b/b.py:1-2 class .User"}},
		{syntax.Query{Name: "nothing"}, "", nil},
	} {
		scope.Path = c.path
		found, _, err := e.Find(t.Context(), scope, c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, want := names(found), slices.Clone(c.want)
		if c.query.Name == "User" && !c.query.Exact { // the order beyond the first is not what this is about
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got\n%s\nwant\n%s", c.query, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestWalk changes files at random, and proves after each change that the answer is
// that of an engine that knows nothing yet.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	e := engineOf(t, dir)
	rng := rand.New(rand.NewPCG(1, 2))
	paths := []string{"a.go", "b.go", "x/c.go", "x/d.py", "x/y/e.ts", "f.rs"}
	for step := range 150 {
		change(t, rng, dir, paths[rng.IntN(len(paths))])
		if rng.IntN(3) == 0 {
			continue // several changes between two questions
		}
		var query syntax.Query
		if rng.IntN(2) == 0 {
			query = syntax.Query{Name: fmt.Sprintf("name%d", rng.IntN(8)), Exact: rng.IntN(2) == 0}
		}
		got, _, err := e.Find(t.Context(), syntax.Scope{}, query, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := fresh(t, dir, query)
		if !slices.Equal(names(got), names(want)) {
			t.Fatalf("step %d, %+v: got\n%s\nand a new engine finds\n%s", step, query, strings.Join(names(got), "\n"), strings.Join(names(want), "\n"))
		}
		pattern := fmt.Sprintf("name%d($$$)", rng.IntN(8))
		matched, _, err := e.Match(t.Context(), syntax.Scope{Language: "go"}, pattern, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := freshEngine(t, dir).Match(t.Context(), syntax.Scope{Language: "go"}, pattern, 0, 1000); err != nil || fmt.Sprint(matched) != fmt.Sprint(again) {
			t.Fatalf("step %d, %s: got %v and a new engine %v, %v", step, pattern, matched, again, err)
		}
	}
}

// change does something to a file.
func change(t *testing.T, rng *rand.Rand, dir, path string) {
	t.Helper()
	file := filepath.Join(dir, path)
	name := fmt.Sprintf("name%d", rng.IntN(8))
	switch rng.IntN(6) {
	case 0:
		_ = os.Remove(file)
	case 1: // in place, and as long as before
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(strings.ReplaceAll(string(text), "name1", name)), 0); err != nil {
			t.Fatal(err)
		}
	case 2: // by a name of its own
		write(t, dir, "tmp", code(path, name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "tmp"), file); err != nil {
			t.Fatal(err)
		}
	case 3: // the whole directory
		if path != filepath.Base(path) {
			_ = os.RemoveAll(filepath.Dir(file))
		}
	case 4:
		write(t, dir, ".gitignore", []string{"", "x/d.py\n", "*.ts\n"}[rng.IntN(3)])
	default:
		write(t, dir, path, code(path, name)+code(path, "name1"))
	}
}

// code is a text that declares a name, and calls another in Go.
func code(path, name string) string {
	switch filepath.Ext(path) {
	case ".go":
		return "package a\n\nfunc " + name + "() { " + name + "(1, 2) }\n"
	case ".py":
		return "def " + name + "(): pass\n"
	case ".ts":
		return "export class " + name + " { m() {} }\n"
	}
	return "fn " + name + "() {}\n"
}

func freshEngine(t *testing.T, dir string) *syntax.Engine {
	t.Helper()
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return syntaxtest.Pool(t, syntaxtest.Program(t), nil).Engine(ws)
}

func fresh(t *testing.T, dir string, q syntax.Query) []syntax.Found {
	t.Helper()
	found, _, err := freshEngine(t, dir).Find(t.Context(), syntax.Scope{}, q, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
