// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Overview tells what a code base is made of, the most important first.
type Overview struct {
	Languages   []Count
	Directories []Directory
	Entries     []Found // where programs begin
	Symbols     int
}

// A Count is how many files there are of something.
type Count struct {
	Name  string
	Files int
}

// A Directory is one with source code in it.
type Directory struct {
	Path      string
	Files     int
	Languages []string
	Symbols   []Found // at the top of its files, the most important first
}

// maxImportant is how many symbols are told of a directory.
const maxImportant = 12

// entryFiles are names of files in which programs begin.
var entryFiles = map[string]bool{
	"__main__.py": true, "manage.py": true, "app.py": true, "wsgi.py": true, "asgi.py": true, "index.js": true, "index.ts": true, "main.js": true,
	"main.ts": true, "main.tsx": true, "index.tsx": true, "server.js": true, "server.ts": true, "app.js": true, "app.ts": true, "main.rb": true, "index.php": true,
}

// Overview returns what the files of a scope are made of.
func (e *Engine) Overview(ctx context.Context, s Scope, progress func(done, total int)) (Overview, Survey, error) {
	files, survey, err := e.all(ctx, s, "", progress)
	if err != nil {
		return Overview{}, survey, err
	}
	var o Overview
	languages := make(map[string]int)
	dirs := make(map[string]*Directory)
	for _, f := range files {
		l := languageOf(f.path, nil)
		languages[l.name]++
		for range f.each {
			o.Symbols++
		}
		d := dirs[path.Dir(f.path)]
		if d == nil {
			d = &Directory{Path: path.Dir(f.path)}
			dirs[d.Path] = d
		}
		if d.Files++; !slices.Contains(d.Languages, l.name) {
			d.Languages = append(d.Languages, l.name)
		}
		tops := f.important()
		for _, t := range tops {
			if isEntry(t) {
				o.Entries = append(o.Entries, t)
			}
		}
		if entryFiles[path.Base(f.path)] {
			o.Entries = append(o.Entries, Found{Path: f.path, Line: 1})
		}
		d.Symbols = append(d.Symbols, tops...)
	}
	for name, count := range languages {
		o.Languages = append(o.Languages, Count{name, count})
	}
	slices.SortFunc(o.Languages, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Files, a.Files), cmp.Compare(a.Name, b.Name))
	})
	for _, d := range dirs {
		slices.SortFunc(d.Symbols, func(a, b Found) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
		})
		d.Symbols = slices.Clone(d.Symbols[:min(len(d.Symbols), maxImportant)])
		slices.Sort(d.Languages)
		o.Directories = append(o.Directories, *d)
	}
	slices.SortFunc(o.Directories, func(a, b Directory) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(o.Entries, func(a, b Found) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	return o, survey, nil
}

// isEntry reports whether a program begins with a symbol.
func isEntry(f Found) bool {
	return isFunction(f.Kind) && (f.Name == "main" || f.Name == "Main") && !isTest(f.Path)
}

func isTest(file string) bool {
	return strings.Contains(file, "_test.") || strings.Contains(file, ".test.") || strings.Contains(file, ".spec.") || strings.Contains("/"+file, "/testdata/") || strings.Contains("/"+file, "/test/")
}

// important returns what stands at the top of a file, with a score that says what of a file matters to who has not seen it: types by what they
// have, functions by their length, what others can use before what they cannot.
func (f pathSymbols) important() []Found {
	members := make(map[string]int)
	for r := range f.each {
		members[r.container]++
	}
	var list []Found
	for r := range f.each {
		kind := kinds[r.kind]
		if r.depth > 0 || isLocal[kind] || kind == "method" {
			continue
		}
		score := min(r.lines, 200)/10 + 4*min(members[r.name], 25)
		if isType[kind] {
			score += 10
		}
		first, _ := utf8.DecodeRuneInString(r.name)
		if strings.HasSuffix(f.path, ".go") && unicode.IsUpper(first) || !strings.HasSuffix(f.path, ".go") && first != '_' {
			score += 20
		}
		if isTest(f.path) {
			score -= 60
		}
		list = append(list, Found{Path: f.path, Name: r.name, Kind: kind, Line: r.line, EndLine: r.end(), score: score})
	}
	return list
}
