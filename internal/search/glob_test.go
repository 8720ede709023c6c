// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/search"
)

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		glob, yes, no string // paths, with spaces between them
	}{
		{"*.go", "a.go x/a.go .go x/.go", "a.goo go a.go/x"},
		{"/*.go", "a.go", "x/a.go"},
		{"x/*.go", "x/a.go", "a.go x/y/a.go y/x/a.go"},
		{"**/*.go", "a.go x/a.go x/y/a.go", "a.txt"},
		{"x/**", "x/a x/y/a", "x y/x/a"},
		{"x/**/a", "x/a x/y/a x/y/z/a", "a y/x/a x/ya"},
		{"**/x/**", "x/a y/x/a", "x y/x"},
		{"**", "a x/a", ""},
		{"*", "a x/a", ""},
		{"a**b", "ab axb x/ab", "a/b"},
		{"?", "a x/a", "ab a/bc"},
		{"[a-c]x", "ax cx", "dx"},
		{"[!a-c]x", "dx", "ax"},
		{"[^a-c]x", "dx", "ax"},
		{"[]a]", "] a", "b"},
		{"[a-]", "a -", "b"},
		{`\[a`, "[a", "a"},
		{"?", "a x/a é", "ab a/bc"},
		{"[é-ü]x", "éx üx", "ex"},
		{"{a,b}.go", "a.go b.go x/a.go", "c.go"},
		{"{a,b/c}.go", "a.go b/c.go", "c.go x/a.go"},
		{"*.{ts,tsx}", "a.ts a.tsx x/a.ts", "a.js"},
		{"{a,{b,c}}d", "ad bd cd", "d"},
		{"a{,b}", "a ab", "b"},
		{"src/**/*.{go,md}", "src/a.go src/x/a.md", "a.go src/a.txt"},
		{`\*`, "*", "a"},
		{`\{a\}`, "{a}", "a"},
		{"a,b", "a,b", "a"},
		{"**/**/a", "a x/a x/y/a", "b"},
		{"a/**/**/b", "a/b a/x/b a/x/y/b", "b"},
		{"é*", "é éx", "e"},
	} {
		for want, paths := range map[bool]string{true: test.yes, false: test.no} {
			for path := range strings.FieldsSeq(paths) {
				if got, err := search.MatchGlob(test.glob, path, false); got != want || err != nil {
					t.Errorf("%s, %s: %t, %v", test.glob, path, got, err)
				}
			}
		}
	}
}

func TestGlobErrors(t *testing.T) {
	for glob, want := range map[string]string{
		"{a":                          "{ without its }",
		"[a":                          "[ without its ]",
		"[/]":                         "[ without its ]",
		"a}":                          "} without its {",
		`a\`:                          "ends with a backslash",
		strings.Repeat("a", 5000):     "at most 4096",
		strings.Repeat("{", 100):      "nested more than",
		strings.Repeat("{a,", 4) + "": "{ without its }",
	} {
		if _, err := search.MatchGlob(glob, "a", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", glob, err, want)
		}
	}
}

// TestGlobIsLinear would not end if alternatives were written out, or tried one
// after another.
func TestGlobIsLinear(t *testing.T) {
	for _, glob := range []string{strings.Repeat("{a,b}", 24), strings.Repeat("*a", 60) + "b", strings.Repeat("**/a/", 200) + "b", strings.Repeat("{a,{b,", 15) + strings.Repeat("}}", 15)} {
		for _, path := range []string{strings.Repeat("a", 4000), strings.Repeat("a/", 2000)} {
			if _, err := search.MatchGlob(glob, path, false); err != nil {
				t.Error(err)
			}
		}
	}
	if ok, err := search.MatchGlob(strings.Repeat("{a,b}", 24), strings.Repeat("ab", 12), false); !ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
}

func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"*.go", "a/**/b", "{a,b}*", "[!a]?", "**/a/*", `\*x`, "a**b", "{a/**,b}/c"} {
		for _, path := range []string{"a.go", "a/x/b", "b", "x/a/b"} {
			f.Add(glob, path)
		}
	}
	f.Fuzz(func(t *testing.T, glob, path string) {
		if len(glob) > 200 || len(path) > 200 {
			return
		}
		got, err := search.MatchGlob(glob, path, false)
		// The reference knows the plain forms: classes of letters, braces that are not
		// empty and have no ** in them, and what is not trimmed.
		if err != nil || strings.ContainsAny(glob, "[]\\\n !#\t\r\f\v") || strings.Contains(glob, "{,") || strings.Contains(glob, ",,") || strings.Contains(glob, ",}") || strings.Contains(glob, "{}") ||
			strings.Contains(glob, "{") && strings.Contains(glob, "**") || strings.Contains(glob, "//") || strings.Contains(glob, "***") || strings.ContainsFunc(glob, func(r rune) bool { return r >= 0x80 }) {
			return
		}
		if path == "" || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") || strings.ContainsAny(path, "\x00") {
			return
		}
		if want := referenceOverrides([]string{glob}, path, false) == 1; glob != "" && got != want && !strings.HasSuffix(glob, "/") {
			t.Errorf("%q, %q: %t, want %t", glob, path, got, want)
		}
	})
}
