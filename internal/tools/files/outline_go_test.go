// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools/files"
)

// parsedOutline is the outline of a Go file as Go's own parser sees it, and nil
// of one that it does not take.
func parsedOutline(text string) []string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	entries := []string{}
	add := func(node ast.Node, text string) {
		at, end := set.PositionFor(node.Pos(), false), set.PositionFor(node.End(), false)
		entries = append(entries, fmt.Sprintf("%d-%d %s", at.Line, end.Line, text))
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			from, to := set.PositionFor(d.Pos(), false).Offset, set.PositionFor(d.Type.End(), false).Offset
			shown := []rune(strings.Join(strings.Fields(text[from:to]), " "))
			add(d, string(shown[:min(len(shown), 160)]))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					kind := "type"
					switch s.Type.(type) {
					case *ast.StructType:
						kind = "struct"
					case *ast.InterfaceType:
						kind = "interface"
					}
					add(s, "type "+s.Name.Name+" ("+kind+")")
				case *ast.ValueSpec:
					var names []string
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
					add(s, d.Tok.String()+" "+strings.Join(names, ", "))
				}
			}
		}
	}
	return entries
}

func TestGoOutlineOfHardCases(t *testing.T) {
	for _, text := range []string{
		"package p\nfunc f(a struct{ b int }) interface{ M() } { return nil }\nfunc g() struct{} {\n\treturn struct{}{}\n}\nfunc h()\nvar x int",
		"package p\ntype (\n\tA [N]struct{}\n\tB[T any] struct{ t T }\n\tC[K comparable, V []K] interface {\n\t\tm()\n\t}\n\tD = struct{}\n\tE []struct{}\n\tF [2 * N]struct{}\n\tG[T ~int | string] struct{}\n\tH [N * M]struct{}\n)",
		"package p\nconst a, b = iota, `\n\r\n`\nconst (\n\tc = 1 + iota // one\n\td\n\n\te, f\n)\nvar (\n\tg = func() {\n\t\tvar inner int\n\t}\n)\nvar _ = []int{\n\t1,\n}",
		"package p; import \"fmt\"; func a() {}; func b() {}; type c int",
		"package p\n\n//line other.go:100\nfunc (r *R[T]) m(\n\ta int,\n\tb ...string,\n) (c, d error) {\n\tif x := (T{}); true {\n\t}\n\treturn\n}\n",
		"package p\nvar ()\ntype ()\nconst ()\n",
	} {
		want := parsedOutline(text)
		if want == nil {
			t.Fatalf("no Go: %s", text)
		}
		if got := files.GoOutline(text); !slices.Equal(got, want) {
			t.Errorf("%s\n%q, want\n%q", text, got, want)
		}
	}
	for _, text := range []string{"", "func", "func (", "package p\ntype", "type (", "type T[", "type T [", "var", "const a,", "`", "package p\nvar x = `", "func f() }", "\"\\x"} {
		files.GoOutline(text) // does not break down
	}
}

// TestGoOutlineAsParsed compares the outlines of Go's own source with those that
// its parser gives.
func TestGoOutlineAsParsed(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, part := range []string{"go", "net/http", "reflect", "slices", "encoding", "internal/types/testdata"} {
		err := filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src", part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			want := parsedOutline(string(text))
			if want == nil {
				return nil
			}
			compared++
			if got := files.GoOutline(string(text)); !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Errorf("%s: %s, want %s", path, got[i], want[i])
						return nil
					}
				}
				t.Errorf("%s: %d entries, want %d", path, len(got), len(want))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if compared < 500 {
		t.Errorf("only %d files were compared", compared)
	}
}
