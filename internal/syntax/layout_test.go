// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/syntax"
)

// goFiles calls use with the files below a directory of Go's source.
func goFiles(t *testing.T, dir string, use func(path string, text []byte)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(goSource(t), dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		use(path, text)
	}
}

// TestPartsAsWhole proves that what is found by parsing parts of files is what is found
// by parsing all of them.
func TestPartsAsWhole(t *testing.T) {
	const dir = "net/http/httputil"
	e := engineOf(t, filepath.Join(goSource(t), dir))
	for _, pattern := range []string{
		"errors.New($A)", "if err != nil { return $$$ }", "$A.Lock()", "make($T, $$$)", "func ($R) Close() error { $$$ }",
		"return $A, nil", "defer $A()", "go func() { $$$ }()", "$A == nil", "var $A = $B",
	} {
		parts, _, err := e.Match(t.Context(), syntax.Scope{Language: "go"}, pattern, 0, 1e6)
		if err != nil {
			t.Fatal(err)
		}
		var whole []syntax.Match
		goFiles(t, dir, func(path string, text []byte) {
			found, err := e.WholeMatch(t.Context(), path, text, pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found {
				m.Path = filepath.Base(path)
				whole = append(whole, m)
			}
		})
		inDir := parts[:0]
		for _, m := range parts {
			if filepath.Dir(m.Path) == "." {
				inDir = append(inDir, m)
			}
		}
		if fmt.Sprint(inDir) != fmt.Sprint(whole) || len(whole) == 0 {
			t.Errorf("%s: %d matches in parts of files and %d in all of them", pattern, len(inDir), len(whole))
		}
		t.Logf("%s: %d matches", pattern, len(whole))
	}
}

// TestDeclarationsAsWhole is TestPartsAsWhole of outlines.
func TestDeclarationsAsWhole(t *testing.T) {
	e := engineOf(t, t.TempDir())
	same := func(path string, text []byte) {
		got, err := e.Outline(t.Context(), path, text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := e.WholeOutline(t.Context(), path, text)
		if err != nil {
			t.Fatal(err)
		}
		if shown(got) != shown(want) || got.Lines != want.Lines {
			t.Errorf("%s has the outline\n%s\nand as a whole\n%s", path, shown(got), shown(want))
		}
	}
	for _, dir := range []string{"net/http", "unicode"} {
		goFiles(t, dir, same)
	}
	for name, text := range map[string]string{
		"types in functions":  "package a\n\nfunc f() {\n\ttype T struct{ a int }\n\tvar x interface{ M() }\n}\n\nfunc g() { var y interface{}; switch y.(type) {} }\n",
		"braces in heads":     "package a\n\nfunc f(x struct{ a int }) struct{ b int } {\n\treturn 1\n}\n\nfunc g() interface {\n\tM()\n} {\n\treturn nil\n}\n",
		"values of variables": "package a\n\nvar x = []struct{ a int }{{1}, {2}}\n\nvar (\n\ty = map[string]int{\"}\": 1}\n\tz = func() int { var in int; return in }\n\tw = T{a: struct{ c int }{1}}\n)\n\nvar _ interface{ m() } = struct /* why */ {\n\tm func()\n}{}\n",
		"quotes":              "package a\n\nfunc f() { _ = `}` + \"}\\\"\" + string('}') + string('\\'') /* } */ // }\n}\n\nvar after int\n",
		"no bodies":           "package a\n\nfunc f()\n\nfunc g(a,\n\tb int) (\n\tc int) {\n}\n",
		"does not end":        "package a\n\nfunc f() {\n\tif x {\n}\n\nfunc g() {}\n",
		"too many braces":     "package a\n\nfunc f() {}}\n\nfunc g() { x := \"\n}\n\nvar y = 1\n",
		"fits nowhere":        "package a\n\nfunc f( {\n\tx()\n}\n\nfunc g() { y( }\n",
		"empty":               "",
		"a comment":           "// only this",
	} {
		same(name+".go", []byte(text))
	}
}

// TestLaidOutToHide: code that is laid out so that an excerpt would leave it out is found.
func TestLaidOutToHide(t *testing.T) {
	for _, test := range []struct{ pattern, code string }{
		{"go steal($A)", "package a\n\nvar z = 1\n\nfunc f() {\n\tx()\n\tgo\n\tsteal(1)\n}\n"},
		{"defer steal($A)", "package a\n\nvar z = 1\n\nfunc f() {\n\tx()\n\tdefer\n\tsteal(1)\n}\n"},
		{`import "os/exec"`, "package a\n\nimport\n\"os/exec\"\n\nvar z = 1\n"},
		{"var $A = steal()", "package a\n\nvar\nx = steal()\n\nvar z = 1\n"},
	} {
		e := engineOf(t, tree(t, map[string]string{"a.go": test.code}))
		found, _, err := e.Match(t.Context(), syntax.Scope{Language: "go"}, test.pattern, 0, 100)
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %d found, %v", test.pattern, len(found), err)
		}
	}
	e := engineOf(t, t.TempDir())
	for _, text := range []string{
		"package a\n\nfunc f() interface /* /* */ {\n\tHidden()\n} {\n\treturn nil\n}\n",
		"package a\n\nvar x int; type I interface /* /* */ {\n\tHidden()\n}\n",
		"package a\n\nfunc f(); type I interface /* /* */ {\n\tHidden()\n}\n",
	} {
		got, err := e.Outline(t.Context(), "a.go", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := e.WholeOutline(t.Context(), "a.go", []byte(text))
		if err != nil || shown(got) != shown(want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s%v", text, shown(got), shown(want), err)
		}
	}
}
