// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/search"
)

// This file finds the files that a question is about beside the one that it names. Some servers
// know the files that they were given and those of the same project, and no others: before
// they are asked who uses a name, they are given all files that have it.

// Bounds of what a server is given for one question.
const (
	maxGiven     = 200      // files
	maxGivenSize = 16 << 20 // bytes of them
	maxWith      = 2000     // files that are looked for
	maxNames     = 100      // names that are looked for at once
)

// foreign are directories of what others have written, which nobody renames.
var foreign = []string{"node_modules", "vendor", "venv", "__pycache__"}

// filesWith returns the files of the languages of the server that have one of some words, by
// path; the first ones where there are very many.
func (q *question) filesWith(words ...string) (paths []string, err error) {
	var quoted, globs []string
	for _, word := range words {
		if word != "" && len(quoted) < maxNames {
			quoted = append(quoted, regexp.QuoteMeta(word))
		}
	}
	if len(quoted) == 0 {
		return nil, nil
	}
	for _, names := range q.server.Languages {
		for _, name := range names {
			if strings.HasPrefix(name, ".") {
				name = "*" + name
			}
			globs = append(globs, name)
		}
	}
	slices.Sort(globs)
	withheld := q.env.WithheldBelow(".", true)
	scope := search.Scope{Match: "**/{" + strings.Join(globs, ",") + "}", Exclude: func(path string) bool {
		return slices.Contains(foreign, filepath.Base(path)) || withheld != nil && withheld(path)
	}}
	pattern := search.Pattern{Text: `(?:^|[^\w$])(?:` + strings.Join(quoted, "|") + `)(?:$|[^\w$])`}
	_, err = q.set.engines.Engine(q.files).Grep(q.ctx, pattern, scope, search.Options{Mode: search.Files, Limit: maxWith}, func(f search.File) bool {
		paths = append(paths, f.Path)
		return len(paths) < maxWith
	})
	slices.Sort(paths)
	return paths, err
}

// giveUsers gives the server the files that have a name, unless it finds them by itself, and
// notes those that are too many.
func (q *question) giveUsers(name string) error {
	q.unseen = nil
	if q.server.findsAll {
		return nil
	}
	paths, err := q.filesWith(name)
	if err != nil {
		return err
	}
	given, size := 0, 0
	for _, path := range paths {
		if given == maxGiven || size > maxGivenSize {
			q.unseen = append(q.unseen, path)
			continue
		}
		if real, err := q.inside(path); err != nil || real != path {
			continue
		}
		d, err := q.open(q.ctx, path)
		if q.ctx.Err() != nil || q.isGone() {
			return cmp.Or(err, errGone)
		}
		if err == nil { // what is no text, or is gone by now, uses nothing
			given++
			size += len(d.text.all)
		}
	}
	return nil
}

// wordAt returns the name at a position, or the one that ends there; "" where there is none.
func (t *text) wordAt(p protocol.Position, e encoding) string {
	at := t.offset(p, e)
	begin, end := at, at
	for begin > 0 && isWord(lastRune(t.all[:begin])) {
		begin -= len(string(lastRune(t.all[:begin])))
	}
	for end < len(t.all) && isWord(firstRune(t.all[end:])) {
		end += len(string(firstRune(t.all[end:])))
	}
	return t.all[begin:end]
}

// dependents gives the server files that a change may break, which it would not look at by
// itself: those that have a name of what changes, or the name of the file, and first those that
// have both. It returns how many more there are.
func (q *question) dependents(docs []document, there []string, texts map[string]string) (list []document, more int, err error) {
	if q.server.checksAll {
		return nil, 0, nil
	}
	var names, modules []string
	for name := range texts {
		modules = append(modules, moduleName(name))
	}
	for i := range docs {
		changed, err := q.changedNames(&docs[i], texts[there[i]])
		if err != nil {
			return nil, 0, err
		}
		names = append(names, changed...)
	}
	using, err := q.filesWith(names...)
	if err != nil {
		return nil, 0, err
	}
	naming, err := q.filesWith(modules...)
	if err != nil {
		return nil, 0, err
	}
	rank := make(map[string]int)
	for _, path := range using {
		rank[path] += 2
	}
	for _, path := range naming {
		rank[path]++
	}
	paths := slices.SortedFunc(maps.Keys(rank), func(a, b string) int { return cmp.Or(rank[b]-rank[a], cmp.Compare(a, b)) })
	for _, path := range paths {
		if real, err := q.inside(path); err != nil || real != path || slices.ContainsFunc(docs, func(d document) bool { return d.path == path }) {
			continue
		}
		if len(list) == maxFiles {
			more++
			continue
		}
		d, err := q.open(q.ctx, path)
		if q.ctx.Err() != nil || q.isGone() {
			return nil, 0, cmp.Or(err, errGone)
		}
		if err == nil {
			list = append(list, d)
		}
	}
	return list, more, nil
}

// changedNames returns the names of what another text of a file would change and others may use.
func (q *question) changedNames(d *document, now string) (names []string, err error) {
	if q.can.DocumentSymbolProvider == nil {
		return nil, nil
	}
	symbols, err := q.symbolsIn(d)
	if err != nil {
		return nil, err
	}
	edits := udiff.Strings(d.text.all, now)
	local := 0 // how deep what a function has to itself lies; 0: it is none
	for _, s := range symbols {
		if local > 0 && s.Depth >= local {
			continue
		}
		local = 0
		if slices.Contains([]string{"function", "method", "constructor"}, s.Kind) {
			local = s.Depth + 1
		}
		touched := func(e udiff.Edit) bool { return d.text.lineAt(e.Start) <= s.Last && d.text.lineAt(e.End) >= s.Begin }
		if slices.ContainsFunc(edits, touched) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// moduleName returns what others call a file by when they import it.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	if dir := filepath.Base(filepath.Dir(path)); dir != "." && (name == "index" || name == "__init__") {
		return dir
	}
	return name
}
