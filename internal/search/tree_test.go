// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A tree is a workspace with random files in it.
type tree struct {
	t     testing.TB
	r     *rand.Rand
	root  string
	ws    *workspace.Workspace
	files []string // that were made, by path
	dirs  []string
	git   bool     // the rules are those of git, so that braces are not special
	links []string // that were made outside
	maps  [][]byte // files that are mapped for writing
}

// newTree makes a workspace with random files.
func newTree(t testing.TB, seed uint64) *tree {
	t.Helper()
	root := filepath.Join(t.TempDir(), "ws")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return &tree{t: t, r: rand.New(rand.NewPCG(seed, 1)), root: root, ws: ws, dirs: []string{"."}}
}

// clear empties the workspace, for another tree.
func (x *tree) clear() {
	entries, err := os.ReadDir(x.root)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(x.root, e.Name())); err != nil {
			x.t.Fatal(err)
		}
	}
	for _, m := range x.maps {
		if err := syscall.Munmap(m); err != nil {
			x.t.Fatal(err)
		}
	}
	x.files, x.dirs, x.links, x.maps = nil, []string{"."}, nil, nil
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (x *tree) name() string {
	return pick(x.r, "a", "b", "ab", "abc", "foo", "bar", "Foo", "a b", "a-b", "a.b", ".hid", ".cfg", "é", "x[1]", "src", "lib", "build", "node_modules") +
		pick(x.r, "", "", "", ".go", ".go", ".txt", ".js", ".md", ".min.js", "_test.go", ".GO", "~", " ")
}

// grow adds files and directories.
func (x *tree) grow(n int) {
	for range n {
		dir := pick(x.r, x.dirs...)
		if len(x.dirs) < 12 && x.r.IntN(3) == 0 {
			name := filepath.Join(dir, pick(x.r, "a", "b", "src", "lib", "build", "foo.go", "x.d", ".hid", "node_modules", "a b", "é"))
			if os.Mkdir(filepath.Join(x.root, name), 0o755) == nil {
				x.dirs = append(x.dirs, name)
			}
			continue
		}
		name := filepath.Join(dir, x.name())
		if info, err := os.Lstat(filepath.Join(x.root, name)); err == nil && !info.Mode().IsRegular() {
			continue
		}
		x.write(name, x.text())
	}
}

func (x *tree) write(name, text string) {
	x.t.Helper()
	if err := os.WriteFile(filepath.Join(x.root, name), []byte(text), 0o644); err != nil {
		x.t.Fatal(err)
	}
	x.files = append(x.files, name)
}

// text returns a text of a few lines.
func (x *tree) text() string {
	var b strings.Builder
	if x.r.IntN(20) == 0 {
		b.WriteString("\xEF\xBB\xBF")
	}
	for range x.r.IntN(pick(x.r, 1, 4, 12, 60)) {
		for range x.r.IntN(6) {
			b.WriteString(pick(x.r, "foo", "bar", "Foo", "FOO", "foobar", "x", "func", "(err", "err", "!=", "nil", "12", "3456", "a1", "_", "größe", "ß", "K", "k", "s", "\t", ".", "a.b", "日本", "fo", "o", "é"))
			b.WriteString(pick(x.r, "", " ", " ", " "))
		}
		b.WriteString(pick(x.r, "\n", "\n", "\n", "\n", "\r\n", "\n\n"))
	}
	if x.r.IntN(3) == 0 {
		b.WriteString("foo bar")
	}
	if x.r.IntN(25) == 0 {
		b.WriteString("\x00bin foo\n")
	}
	return b.String()
}

// ignore writes some files with rules.
func (x *tree) ignore(names ...string) {
	for _, dir := range x.dirs {
		for _, name := range names {
			if x.r.IntN(3) == 0 {
				x.write(filepath.Join(dir, name), x.rules())
			}
		}
	}
}

func (x *tree) rules() string {
	var b strings.Builder
	for range 1 + x.r.IntN(5) {
		b.WriteString(x.rule() + pick(x.r, "\n", "\n", "\n", "\r\n", " \n", "\n\n"))
	}
	return b.String()
}

// rule returns a random line of an ignore file.
func (x *tree) rule() string {
	part := func() string {
		return pick(x.r, "a", "b", "foo", "*.go", "*.js", "a*", "*b*", "?", "[ab]*", "[!a]*", "[^a-c]*", "*", "**", "src", "build", "é", "a b", `x\[1\]`, ".*", "*.min.*", "node_modules", "foo.go", "lib")
	}
	line := part()
	for range x.r.IntN(3) {
		line += "/" + part()
	}
	if x.git {
		line = pick(x.r, line, line, line, line, `a\ `, `\!a`, `[[:alpha:]]*`, `[]a]*`, `a[`, `foo**`, `a/foo**`, `a/f**o`, `**/`, `a\`, `{a,b}`, `[a-]*`, `*[`, `\a`, "#a", `\#a`, "a  ", "[[:bad:]]", "**foo/bar", "a**/b", "/a**/b", "[b-a]", "*a/b", "***/a", "a/***")
	}
	return pick(x.r, "", "", "", "", "!", "!") + pick(x.r, "", "", "", "/", "**/") + line + pick(x.r, "", "", "", "/", "/**", "/*")
}

func (x *tree) engine() *engine { return &engine{Engine: search.New(x.ws, nil)} }

// An engine is one with its index, which is nil where it has none.
type engine struct {
	*search.Engine
	*index.Index
}

func (e *engine) Close() {
	if e.Index != nil {
		e.Index.Close()
	}
}

// newEngine returns an engine with an index.
func (x *tree) newEngine(config index.Config) *engine {
	in := index.New(x.ws, config)
	return &engine{search.New(x.ws, in), in}
}

// describe shows a tree that something went wrong with.
func (x *tree) describe() string {
	var b strings.Builder
	_ = filepath.WalkDir(x.root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(x.root, path)
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			fmt.Fprintf(&b, "%q: %.300q\n", rel, text)
		}
		return nil
	})
	return b.String()
}
