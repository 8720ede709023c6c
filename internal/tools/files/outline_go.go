// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// maxParsed is how many bytes of Go are parsed: a syntax tree takes up to a hundred
// times the memory of its text.
const maxParsed = 1 << 20

// goHeads is how lines begin that declare something, in files that gofmt wrote.
var goHeads = regexp.MustCompile(`^(?:func|type|var|const)\b`)

// goOutline returns the declarations of a Go file: of one with mistakes those that
// parse, or the lines that begin one, whichever are more.
func goOutline(text string) []outlineEntry {
	heads := headLines(goHeads, text)
	if len(text) > maxParsed {
		return heads
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution|parser.AllErrors)
	if file == nil {
		return heads
	}
	parsed := declarations(set, file, text)
	if err != nil && len(heads) > len(parsed) {
		return heads
	}
	return parsed
}

// declarations returns what a Go file declares.
func declarations(set *token.FileSet, file *ast.File, text string) []outlineEntry {
	// The place in the file itself, whatever line comments say of another.
	place := func(pos token.Pos) token.Position { return set.PositionFor(pos, false) }
	var entries []outlineEntry
	add := func(node ast.Node, text string) {
		entries = append(entries, outlineEntry{place(node.Pos()).Line, place(node.End()).Line, text})
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			from, to := place(d.Pos()).Offset, place(d.Type.End()).Offset
			signature := strings.Join(strings.Fields(text[from:max(from, to)]), " ")
			shown, _ := firstRunes([]byte(signature), 160)
			add(d, string(shown))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s, "type "+s.Name.Name+" ("+typeKind(s.Type)+")")
				case *ast.ValueSpec:
					names := make([]string, len(s.Names))
					for i, name := range s.Names {
						names[i] = name.Name
					}
					add(s, d.Tok.String()+" "+strings.Join(names, ", "))
				}
			}
		}
	}
	return entries
}

// typeKind says what a type is.
func typeKind(t ast.Expr) string {
	switch t.(type) {
	case *ast.StructType:
		return "struct"
	case *ast.InterfaceType:
		return "interface"
	}
	return "type"
}
