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

	"github.com/toolserver/toolserver/internal/search"
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

// entryFiles are names of files in which programs begin: at the top of a project or in its src.
// In other directories they are what others import, but for some names.
var entryFiles = map[string]bool{
	"__main__.py": true, "manage.py": true, "app.py": true, "wsgi.py": true, "asgi.py": true, "index.js": true, "index.ts": true, "main.js": true, "index.jsx": true,
	"main.ts": true, "main.jsx": true, "main.tsx": true, "index.tsx": true, "server.js": true, "server.ts": true, "app.js": true, "app.ts": true, "main.rb": true, "index.php": true,
}

// entryAnywhere are those of entryFiles in which programs begin in every directory.
var entryAnywhere = map[string]bool{"__main__.py": true, "manage.py": true}

// projectFiles are in the directory of a project.
var projectFiles = []string{"package.json", "pyproject.toml", "setup.py", "requirements.txt", "deno.json", "composer.json", "Gemfile"}

// Overview returns what the files of a scope are made of.
func (e *Engine) Overview(ctx context.Context, s Scope, progress func(done, total int)) (Overview, Survey, error) {
	files, survey, err := e.all(ctx, s, "", progress)
	if err != nil {
		return Overview{}, survey, err
	}
	var o Overview
	scripts, err := e.scripts(ctx, s)
	if err != nil {
		return Overview{}, survey, err
	}
	projects := make(map[string]bool) // by directory
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
		if line := scripts[f.path]; line > 0 {
			o.Entries = append(o.Entries, Found{Path: f.path, Line: line})
		} else if entry, ok := f.entry(); ok {
			o.Entries = append(o.Entries, entry)
		} else if e.isEntryFile(f.path, projects) {
			o.Entries = append(o.Entries, Found{Path: f.path, Line: 1})
		}
		d.Symbols = append(d.Symbols, f.important()...)
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

// scripts returns the files of Python that are programs as well as modules, and the line where
// the program begins.
func (e *Engine) scripts(ctx context.Context, s Scope) (map[string]int, error) {
	lines := make(map[string]int)
	scope := search.Scope{Path: s.Path, Match: "**/*.py", Exclude: s.Exclude}
	_, err := e.search.Grep(ctx, search.Pattern{Text: `^if\s*\(?__name__\s*==\s*['"]__main__['"]`}, scope, search.Options{MaxPerFile: 1, MaxColumns: 1}, func(f search.File) bool {
		if len(f.Lines) > 0 && !isTest(f.Path) {
			lines[f.Path] = f.Lines[0].Number
		}
		return true
	})
	return lines, err
}

// mains are what programs begin with in languages: what is called main, or Main.
var mains = map[string]string{"go": "function", "c": "function", "cpp": "function", "rust": "function", "kotlin": "function", "java": "method", "csharp": "method"}

// entry returns the symbol of a file with which a program begins.
func (f pathSymbols) entry() (Found, bool) {
	kind := mains[languageOf(f.path, nil).name]
	if kind == "" || isTest(f.path) {
		return Found{}, false
	}
	for r := range f.each {
		if kinds[r.kind] == kind && (r.name == "main" || r.name == "Main") && (r.depth == 0 || kind == "method") {
			return Found{Path: f.path, Name: strings.TrimPrefix(r.container+"."+r.name, "."), Kind: kind, Line: r.line, EndLine: r.end()}, true
		}
	}
	return Found{}, false
}

// isEntryFile reports whether a program begins with a file, by its name and where it is. It
// notes which directories are those of projects.
func (e *Engine) isEntryFile(file string, projects map[string]bool) bool {
	base, dir := path.Base(file), path.Dir(file)
	if !entryFiles[base] || isTest(file) {
		return false
	}
	if path.Base(dir) == "src" {
		dir = path.Dir(dir)
	}
	if entryAnywhere[base] || dir == "." {
		return true
	}
	is, known := projects[dir]
	if !known {
		is = slices.ContainsFunc(projectFiles, func(name string) bool {
			info, err := e.ws.Stat(path.Join(dir, name))
			return err == nil && info.Exists()
		})
		projects[dir] = is
	}
	return is
}

// testDirs are names of directories with tests.
var testDirs = []string{"testdata", "test", "tests", "__tests__", "spec", "fixtures"}

func isTest(file string) bool {
	base := path.Base(file)
	return strings.Contains(base, "_test.") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") || strings.HasPrefix(base, "test_") ||
		slices.ContainsFunc(strings.Split(path.Dir(file), "/"), func(dir string) bool { return slices.Contains(testDirs, dir) })
}

// important returns the symbols at the top level of a file, with a score for readers who have not seen the file: types score
// by their members, functions by their length, and exported symbols come before others.
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
