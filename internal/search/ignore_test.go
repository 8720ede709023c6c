// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/ignore"
)

// judge returns what an ignore file in the workspace says about a path: -1 that it
// is ignored, 1 that it is wanted, 0 nothing.
func judge(text, path, name string, dir bool) int {
	rules := ignore.Patterns{}.Enter(".", ignore.Texts{Gitignore: text})
	return map[ignore.Match]int{ignore.Ignored: -1, ignore.Wanted: 1}[rules.Match(path, name, dir)]
}

func TestRules(t *testing.T) {
	for _, test := range []struct {
		rules string
		path  string // a slash at the end says that it is a directory
		want  int
	}{
		{"a", "a", -1},
		{"a", "x/a", -1},
		{"a", "ab", 0},
		{"/a", "a", -1},
		{"/a", "x/a", 0},
		{"x/a", "x/a", -1},
		{"x/a", "y/x/a", 0},
		{"a/", "a", 0},
		{"a/", "a/", -1},
		{"*.o", "x/a.o", -1},
		{"*.o\n!a.o", "a.o", 1},
		{"!a.o\n*.o", "a.o", -1},
		{"# a", "# a", 0},
		{`\# a`, "# a", -1},
		{`\!a`, "!a", -1},
		{"a ", "a", -1},
		{`a\ `, "a ", -1},
		{"a\t", "a", 0},
		{"a\r", "a", -1},
		{"\uFEFFa", "a", -1},
		{"**/a", "x/y/a", -1},
		{"a/**", "a/x/y", -1},
		{"a/**", "a/", 0},
		{"a/**/b", "a/b", -1},
		{"a/**/b", "a/x/y/b", -1},
		{"a/*", "a/x", -1},
		{"a/*", "a/x/y", 0},
		{"a*b", "axxb", -1},
		{"a?b", "a/b", 0},
		{"x/a?b", "x/a/b", 0},
		{"[a-c]", "b", -1},
		{"[!a-c]", "b", 0},
		{"[[:digit:]]", "7", -1},
		{"[[:nope:]]", "n", 0},
		{"[a", "[a", 0},
		{`a\`, "a", 0},
		{"/a**/b", "axx/y/b", -1}, // as git has it
		{"{a,b}", "a", 0},
		{"{a,b}", "{a,b}", -1},
		{"", "a", 0},
		{"/", "a/", 0},
		{"!", "a", 0},
		{"a\n!a/", "a/", 1},
		{"a\n!a/", "a", -1},
	} {
		name, dir := strings.CutSuffix(test.path, "/")
		if got := judge(test.rules, name, path.Base(name), dir); got != test.want {
			t.Errorf("%q, %s: %d, want %d", test.rules, test.path, got, test.want)
		}
	}
}

// TestNestedRules shows which of several files decides.
func TestNestedRules(t *testing.T) {
	x := newTree(t, 0)
	for name, text := range map[string]string{
		".gitignore": "*.log\n/out\n!keep.log\n", "a.log": "", "keep.log": "", "out/x": "", "a.txt": "", ".hidden": "", ".shown": "", ".ignore": "!.shown\n",
		"sub/.gitignore": "!a.log\nb.txt\n", "sub/a.log": "", "sub/b.txt": "", "sub/out": "", "sub/c.log": "",
		"repo/.git/HEAD": "", "repo/.git/info/exclude": "x.txt\n", "repo/a.log": "", "repo/x.txt": "", "repo/y.txt": "",
		"first/.gitignore": "*\n", "first/.ignore": "!i.txt\n", "first/.rgignore": "!r.txt\n", "first/g.txt": "", "first/i.txt": "", "first/r.txt": "",
	} {
		if err := os.MkdirAll(path.Join(x.root, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		x.write(name, text)
	}
	for _, test := range []struct {
		scope search.Scope
		want  string
	}{
		{search.Scope{}, ".shown a.txt first/i.txt first/r.txt keep.log repo/a.log repo/y.txt sub/a.log sub/out"},
		{search.Scope{Path: "sub"}, "sub/a.log sub/out"},
		{search.Scope{Path: "out"}, "out/x"},
		{search.Scope{Path: "a.log"}, "a.log"},
		{search.Scope{NoIgnore: true, Path: "sub"}, "sub/a.log sub/b.txt sub/c.log sub/out"},
		{search.Scope{Hidden: true, MaxDepth: 1}, ".gitignore .hidden .ignore .shown a.txt keep.log"},
		{search.Scope{Globs: []string{"*.log"}}, "a.log keep.log repo/a.log sub/a.log sub/c.log"},
		{search.Scope{Match: "*.log"}, "keep.log repo/a.log sub/a.log"},
		{search.Scope{Path: "sub", Match: "a.*"}, "sub/a.log"},
		{search.Scope{Path: "sub", Match: "/a.*"}, "sub/a.log"},
		{search.Scope{Types: []string{"txt"}}, "a.txt first/i.txt first/r.txt repo/y.txt"},
		{search.Scope{NotTypes: []string{"txt"}}, ".shown keep.log repo/a.log sub/a.log sub/out"},
		{search.Scope{Exclude: func(p string) bool { return p == "sub" || p == "keep.log" }}, ".shown a.txt first/i.txt first/r.txt repo/a.log repo/y.txt"},
		{search.Scope{Path: "sub/a.log", Exclude: func(p string) bool { return p == "sub" }}, ""},
		{search.Scope{Globs: []string{"*.log"}, Exclude: func(p string) bool { return p == "a.log" }}, "keep.log repo/a.log sub/a.log sub/c.log"},
	} {
		files, _, err := x.engine().Glob(t.Context(), test.scope, search.ByName)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
		}
		if want := strings.Fields(test.want); !slices.Equal(got, want) {
			t.Errorf("%+v\ngot  %q\nwant %q", test.scope, got, want)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, rule := range []string{"a", "*.o", "/a/b", "a/**/b", "!a", "[a-c]*", `\#a`, "a/", "[[:alpha:]]", "**/x", "a**b", "[]-a]", "a ", "[!-]"} {
		for _, path := range []string{"a", "x/a", "a/x/b", "b.o"} {
			f.Add(rule, path)
		}
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		if strings.ContainsAny(text, "\x00\n") || len(text) > 60 || len(name) > 60 || strings.Count(text, "*") > 6 {
			return // a NUL ends a rule; the reference takes long for many asterisks
		}
		if name == "" || path.Clean(name) != name || name[0] == '/' || name[0] == '.' || strings.ContainsAny(name, "\x00") {
			return
		}
		for _, dir := range []bool{false, true} {
			got := judge(text, name, path.Base(name), dir)
			if want := referenceRule(strings.TrimPrefix(text, "\uFEFF"), name, dir); got != want {
				t.Errorf("%q, %q, directory %t: %d, want %d", text, name, dir, got, want)
			}
		}
	})
}
