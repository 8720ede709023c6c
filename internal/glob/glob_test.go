// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package glob_test

import (
	"path"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/glob"
)

// TestGrammar reads each pattern in all ways there are: they agree on names.
func TestGrammar(t *testing.T) {
	for _, test := range []struct {
		pattern, yes, no string // names, with spaces between them
	}{
		{"a", "a", "b ab"},
		{"*", "a .a é", ""},
		{"*.go", "a.go .go", "a.goo go"},
		{"a*b*c", "abc axbxc", "ab acb"},
		{"?", "a é 日", "ab"},
		{"a?c", "abc aßc", "ac abbc"},
		{"[a-c]x", "ax cx", "dx x"},
		{"[!a-c]x", "dx éx", "ax"},
		{"[^a-c]x", "dx", "ax"},
		{"[]a]", "] a", "b"},
		{"[a-]", "a -", "b"},
		{`[\]a]`, "] a", `b \`},
		{"[é-ü]", "é ü", "e"},
		{"{a,b}c", "ac bc", "c cc"},
		{"{a,{b,c}}d", "ad bd cd", "d"},
		{"a{,b}", "a ab", "b"},
		{"[{,]x", "{x ,x", "x"},
		{`\*\{\}`, "*{}", "a{}"},
		{"a,b", "a,b", "a"},
	} {
		p, err := glob.Compile(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		word, err := glob.CompileWord(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for want, names := range map[bool]string{true: test.yes, false: test.no} {
			for name := range strings.FieldsSeq(names) {
				if p.Match(name) != want || word.Match(name) != want {
					t.Errorf("%s, %s: as a path %t, as a word %t", test.pattern, name, p.Match(name), word.Match(name))
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"[a": "[ without its ]", "[/]": "[ without its ]", "[z-a]": "range", "{a": "{ without its }", "a}": "} without its {",
		`a\`: "backslash", "\xff": "UTF-8", `\` + "\xff": "UTF-8",
	} {
		_, asPath := glob.Compile(pattern)
		_, asWord := glob.CompileWord(pattern)
		for _, err := range []error{asPath, asWord} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", pattern, err, want)
			}
		}
	}
}

// TestBelow is about where a pattern begins.
func TestBelow(t *testing.T) {
	for _, test := range []struct{ pattern, yes, no string }{
		{"node_modules", "node_modules a/node_modules", "node_modules/a"},
		{"node_modules/", "node_modules a/node_modules", "node_modules/a"},
		{"/build", "build", "a/build"},
		{"a/b", "a/b", "x/a/b a/b/c"},
		{"a/*.o", "a/x.o", "a/b/x.o"},
		{"**/*.o", "x.o a/b/x.o", "x.c"},
		{"a/**", "a/b a/b/c", "a"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "b"},
		{"a**b", "ab x/axb", "a/b"},
		{"{a,b}.{o,so}", "a.o x/b.so", "c.o"},
		{"[!a]b", "xb", "/b x/b/"},
	} {
		list, err := glob.CompileList([]string{"nothing", test.pattern})
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for want, paths := range map[bool]string{true: test.yes, false: test.no} {
			for path := range strings.FieldsSeq(paths) {
				if list.Match(path) != want {
					t.Errorf("%s, %s: want %t", test.pattern, path, want)
				}
			}
		}
	}
	for _, pattern := range []string{"", "/", "["} {
		if _, err := glob.CompileList([]string{pattern}); err == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
}

// FuzzAgree proves that a pattern means one thing, whichever way it is matched,
// and what path.Match says of it where that knows the pattern.
func FuzzAgree(f *testing.F) {
	for _, pattern := range []string{"*.go", "a?c", "[a-c]*", "[!é]x", "{a,b}*", `\*x`, "a**b", "*a*b*", "{a,{b,c}d}", "[{]", "日?"} {
		for _, name := range []string{"a.go", "abc", "*x", "日本", "\xff", "", "{"} {
			f.Add(pattern, name)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 100 || len(name) > 100 || strings.Contains(pattern+name, "/") {
			return
		}
		word, err := glob.CompileWord(pattern)
		p, pathErr := glob.Compile(pattern)
		if err != nil || pathErr != nil {
			tooMany := err != nil && strings.Contains(err.Error(), "alternatives") || pathErr != nil && strings.Contains(pathErr.Error(), "nested")
			if (err == nil) != (pathErr == nil) && !tooMany {
				t.Fatalf("%q: as a word %v, as a path %v", pattern, err, pathErr)
			}
			return
		}
		got := word.Match(name)
		if p.Match(name) != got {
			t.Errorf("%q, %q: as a word %t, as a path %t", pattern, name, got, !got)
		}
		// path.Match knows no braces and no !, and wants what is quoted in sets.
		if strings.ContainsAny(pattern, "{}") || strings.Contains(pattern, "[!") || strings.Contains(pattern, "[") && strings.ContainsAny(pattern, `\-`) {
			return
		}
		if want, err := path.Match(pattern, name); err == nil && want != got {
			t.Errorf("%q, %q: %t, path.Match: %t", pattern, name, got, want)
		}
	})
}
