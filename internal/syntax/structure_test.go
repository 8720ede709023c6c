// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/syntax"
)

// TestPatterns holds what patterns match against what they are to.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		language, file, pattern string
		code                    string
		want                    []string // lines with captures
	}{
		{"go", "a.go", "foo($A, $$$)", "package a\nfunc f() {\n\tfoo(1)\n\tfoo(1, 2, 3)\n\tfoo()\n\tbar(1)\n\tfoo(\n\t\tx, // why\n\t)\n}\n", []string{"3 A=1", "4 A=1", "7 A=x"}},
		{"go", "a.go", "foo($$$, $A)", "package a\nfunc f() {\n\tfoo(1)\n\tfoo(1, 2)\n}\n", []string{"3 A=1", "4 A=2"}},
		{"go", "a.go", "errors.New($A)", "package a\n\nvar a = errors.New(1)\nvar b = errors. // why\n\tNew(2)\nvar c = errors./* x */New(3)\nvar d = []string{\"errors\", \"New\"}\n", []string{"3 A=1", "4 A=2", "6 A=3"}},
		{"cpp", "a.cpp", "a->b($A)", "void f() {\n  a->b(1);\n  a -> b(2);\n}\n", []string{"2 A=1", "3 A=2"}},
		{"go", "a.go", "$X == $X", "package a\nvar a = b == c\nvar d = e.f == e.f\n", []string{"3 X=e.f"}},
		{"go", "a.go", "if $E != nil { return $$$R }", "package a\nfunc f() {\n\tif err != nil {\n\t\treturn 1, err\n\t}\n\tif err != nil {\n\t\tx()\n\t}\n}\n", []string{"3 E=err R=1, err"}},
		{"go", "a.go", "func ($_ $T) Close() error { $$$ }", "package a\nfunc (a *A) Close() error {\n\tx()\n\treturn nil\n}\nfunc Close() error { return nil }\n", []string{"2 T=*A"}},
		{"go", "a.go", "$A := $B\ndefer $A.Close()", "package a\nfunc f() {\n\tx := g()\n\tdefer x.Close()\n\ty := h()\n\tz()\n\tdefer y.Close()\n}\n", []string{"3 A=x B=g()"}},
		{"python", "a.py", "print($A)", "print(1)\nprint(1, 2)\nif x:\n    print(f(y))\n", []string{"1 A=1", "4 A=f(y)"}},
		{"python", "a.py", "def $F($$$): $$$B", "class A:\n    def f(self, a):\n        return 1\n", []string{"2 B=return 1 F=f"}},
		{"javascript", "a.js", "console.log($$$A)", "console.log('a', b);\nfoo(() => { console.log() })\n", []string{"1 A='a', b", "2 A="}},
		{"javascript", "a.js", "const $A = require($B)", "const a = require('b')\nlet c = require('d')\nconst e = require('f');\n", []string{"1 A=a B='b'", "3 A=e B='f'"}},
		{"typescript", "a.ts", "$A as any", "const x = y as any;\nconst z = y as string;\n", []string{"1 A=y"}},
		{"tsx", "a.tsx", "<App $$$P />", "const a = <App x={1} y=\"b\" />;\nconst b = <B />;\n", []string{"1 P=x={1} y=\"b\""}},
		{"rust", "a.rs", "$A.unwrap()", "fn main() {\n    let x = foo().unwrap();\n    y.unwrap_or(1);\n}\n", []string{"2 A=foo()"}},
		{"java", "A.java", "System.out.println($A)", "class A {\n  void f() {\n    System.out.println(x + 1);\n    for (;;) { System.out.println(\"a\"); }\n  }\n}\n", []string{"3 A=x + 1", "4 A=\"a\""}},
		{"java", "A.java", "while ($C) { $$$B }", "class A {\n  void f() {\n    while (i < 1) { g(); }\n  }\n}\n", []string{"3 B=g(); C=i < 1"}},
		{"c", "a.c", "strcpy($D, $S)", "int f(void) {\n  strcpy(a, b);\n  return strcpy(c, d) != 0;\n}\n", []string{"2 D=a S=b", "3 D=c S=d"}},
		{"cpp", "a.cpp", "std::move($A)", "void f() {\n  g(std::move(x));\n}\n", []string{"2 A=x"}},
		{"csharp", "a.cs", "Console.WriteLine($A)", "class A {\n  void F() {\n    Console.WriteLine(1);\n  }\n}\n", []string{"3 A=1"}},
		{"ruby", "a.rb", "puts $A", "def f\n  puts 1\nend\n", []string{"2 A=1"}},
		{"php", "a.php", "foo($A, $$$)", "<?php\nfoo($x, 1);\nbar($x);\n", []string{"2 A=$x"}},
		{"kotlin", "a.kt", "println($A)", "fun f() {\n  println(x)\n}\n", []string{"2 A=x"}},
		{"bash", "a.sh", "rm -rf $_", "rm -rf /x\nrm /x\n", []string{"1"}},
		{"css", "a.css", "color: $A", "a { color: red; }\nb { width: 1px }\n", []string{"1 A=red"}},
		{"json", "a.json", `{"a": $X}`, `{"b": {"a": [1]}}`, []string{"1 X=[1]"}},
		{"yaml", "a.yaml", "image: $I", "a:\n  image: x:1\n  name: y\n", []string{"2 I=x:1"}},
	} {
		e := engineOf(t, tree(t, map[string]string{c.file: c.code}))
		found, _, err := e.Match(t.Context(), syntax.Scope{Language: c.language}, c.pattern, 0, 100)
		if err != nil {
			t.Errorf("%s: %s: %v", c.language, c.pattern, err)
			continue
		}
		var got []string
		for _, m := range found {
			got = append(got, describe(m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s in\n%s\nmatches %q, not %q", c.language, c.pattern, c.code, got, c.want)
		}
	}
}

// describe returns a match as a line.
func describe(m syntax.Match) string {
	line := fmt.Sprint(m.Line)
	for _, name := range slices.Sorted(maps(m.Captures)) {
		line += " " + name + "=" + strings.ReplaceAll(m.Captures[name], "\n", "\\n")
	}
	return line
}

func maps(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	e := engineOf(t, tree(t, map[string]string{"a.go": "package a\n"}))
	for pattern, want := range map[string]string{
		"$A":                            "would match anything",
		"$$$":                           "would match anything",
		"func {{{":                      "does not parse as go",
		strings.Repeat("f(", 300) + "1": "",
		strings.Repeat("a", 20_000):     "at most",
	} {
		_, _, err := e.Match(t.Context(), syntax.Scope{Language: "go"}, pattern, 0, 10)
		if err == nil || !syntax.IsPattern(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", pattern, err, want)
		}
	}
	if _, _, err := e.Match(t.Context(), syntax.Scope{Language: "cobol"}, "a", 0, 10); err == nil {
		t.Error("there is no COBOL")
	}
	if _, _, err := e.Rewrite(t.Context(), syntax.Scope{Language: "go"}, "foo($A)", "bar($B)"); err == nil || !strings.Contains(err.Error(), "$B") {
		t.Error(err)
	}
}

func TestRewrite(t *testing.T) {
	dir := tree(t, map[string]string{
		"a.go":     "\xEF\xBB\xBFpackage a\n\nfunc f() {\n\tfoo(1, g(foo(2, 3)))\n\tif x {\n\t\tfoo(4)\n\t}\n}\n",
		"b.go":     "package a // foo\n",
		"c.py":     "foo(1)\n",
		"wide.go":  "\xFF\xFEp\x00",
		"sub/d.go": "package sub\n\nvar _ = foo(5)\n",
	})
	e := engineOf(t, dir)
	changes, _, err := e.Rewrite(t.Context(), syntax.Scope{Language: "go"}, "foo($A, $$$REST)", "bar(\n\t$A,\n\t$$$REST)")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range changes {
		got += fmt.Sprintf("%s %d\n%s", c.Path, c.Places, c.New)
	}
	want := "a.go 2\n\xEF\xBB\xBFpackage a\n\nfunc f() {\n\tbar(\n\t\t1,\n\t\tg(foo(2, 3)))\n\tif x {\n\t\tbar(\n\t\t\t4)\n\t}\n}\nsub/d.go 1\npackage sub\n\nvar _ = bar(\n\t5)"
	if got != want+"\n" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, _, err := e.Rewrite(t.Context(), syntax.Scope{Language: "go"}, "foo($A)", "func {"); err == nil || !strings.Contains(err.Error(), "would not parse") {
		t.Error(err)
	}
}

// TestMatchesOfOneLine holds what matches keep to what is shown of them.
func TestMatchesOfOneLine(t *testing.T) {
	line := strings.Repeat("foo(1);", 5000)
	e := engineOf(t, tree(t, map[string]string{"a.js": line, "b.js": line, "c.js": "foo(" + strings.Repeat("\n1,", 20) + "2)\n"}))
	found, _, err := e.Match(t.Context(), syntax.Scope{Language: "javascript"}, "foo($$$A)", 4990, 20)
	if err != nil || len(found) != 5011 {
		t.Fatalf("%d matches, %v", len(found), err)
	}
	for i, m := range found {
		if shown := i >= 4990; len(m.Text) > 2000 || (m.Text != "") != shown || (m.Captures != nil) != shown || (m.Path == "a.js") != (i < 5000) {
			t.Fatalf("%d: %s, %d bytes, %v", i, m.Path, len(m.Text), m.Captures)
		}
	}
	found, _, err = e.Match(t.Context(), syntax.Scope{Language: "javascript", Path: "c.js"}, "foo($$$A)", 0, 20)
	if err != nil || len(found) != 1 || strings.Count(found[0].Text, "\n") != syntax.MaxLines-1 || found[0].EndLine != 21 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestRewriteOfTooMuch proves that a plan ends where it has too many bytes.
func TestRewriteOfTooMuch(t *testing.T) {
	files := make(map[string]string)
	for i := range 6 {
		files[fmt.Sprintf("a%d.go", i)] = "package a\n\nvar _ = foo(1)\n\n/*" + strings.Repeat("x", 7<<20) + "*/\n"
	}
	files["long/a.go"] = "package a\n\nvar _ = bar(\"" + strings.Repeat("x", 100_000) + "\")\n"
	e := engineOf(t, tree(t, files))
	_, _, err := e.Rewrite(t.Context(), syntax.Scope{Language: "go"}, "foo($A)", "baz($A)")
	if !syntax.IsPattern(err) || !strings.Contains(err.Error(), "64 MiB") {
		t.Error(err)
	}
	_, _, err = e.Rewrite(t.Context(), syntax.Scope{Language: "go"}, "bar($A)", "bar("+strings.Repeat("$A, ", 200)+")")
	if !syntax.IsPattern(err) || !strings.Contains(err.Error(), "8 MiB") {
		t.Error(err)
	}
}
