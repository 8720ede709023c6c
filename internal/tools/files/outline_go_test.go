// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools/files"
)

func TestGoOutline(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"functions", "package p\nfunc f(a struct{ b int }) interface{ M() } { return nil }\nfunc g() struct{} {\n\treturn struct{}{}\n}\nfunc h()\nvar x int",
			[]string{"2-2 func f(a struct{ b int }) interface{ M() }", "3-5 func g() struct{}", "6-6 func h()", "7-7 var x"}},
		{"types", "package p\ntype (\n\tA [N]struct{}\n\tB[T any] struct{ t T }\n\tC[K comparable, V []K] interface {\n\t\tm()\n\t}\n\tD = struct{}\n\tF [2 * N]struct{}\n)",
			[]string{"3-3 type A (type)", "4-4 type B (struct)", "5-7 type C (interface)", "8-8 type D (struct)", "9-9 type F (type)"}},
		{"values", "package p\nconst a, b = iota, `\n\r\n`\nconst (\n\tc = 1 + iota // one\n\td\n\n\te, f\n)\nvar (\n\tg = func() {\n\t\tvar inner int\n\t}\n)",
			[]string{"2-4 const a, b", "6-6 const c", "7-7 const d", "9-9 const e, f", "12-14 var g"}},
		{"a line comment", "package p\n\n//line other.go:100\nfunc (r *R[T]) m(\n\ta int,\n\tb ...string,\n) (c, d error) {\n\treturn\n}\n",
			[]string{"4-9 func (r *R[T]) m( a int, b ...string, ) (c, d error)"}},
		{"empty groups", "package p\nvar ()\ntype ()\nconst ()\n", nil},
		{"mistakes in a body", "package p\nfunc f() {\n\tx := := 1\n\tfor {\n\t}\n}\nfunc g() {}\n", []string{"2-6 func f()", "7-7 func g()"}},
		{"mistakes that hide what follows", "package p\nfunc f() { x := := 1 }\nfunc g() {}\ntype T struct{}\n",
			[]string{"2-0 func f() { x := := 1 }", "3-0 func g() {}", "4-0 type T struct{}"}},
		{"a declaration that is none", "package p\ntype A struct{}\nfun f() {}\nfunc g() {}\n", []string{"2-0 type A struct{}", "4-0 func g() {}"}},
		{"no package", "func f() {\n}\n", []string{"1-0 func f()"}},
		{"too large", "package p\nfunc f() {\n}\n" + strings.Repeat("//\n", 1<<19), []string{"2-0 func f()"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := files.GoOutline(c.text); !slices.Equal(got, c.want) {
				t.Errorf("%q, want\n%q", got, c.want)
			}
		})
	}
	for _, text := range []string{"", "func", "func (", "package p\ntype", "package p;type (", "package p;type T[", "package p;type T [", "package p;var", "package p;const a,", "`", "package p\nvar x = `",
		"package p;func f() }", "\"\\x", "package p;func", "package p;func (", "package p;func (r", "package p;func f(", "package p;func f() (", "package p;func f" + strings.Repeat("(", 1<<19)} {
		files.GoOutline(text) // does not break down
	}
}
