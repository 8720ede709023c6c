// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Found is a symbol of the workspace.
type Found struct {
	Path, Name, Container, Kind string
	Line, EndLine               int

	score int
}

// A Query says which symbols are looked for.
type Query struct {
	Name  string // "" for all; one with a dot, as Type.Name, names its container too
	Exact bool   // the name is all of it
	Kind  string // "" for all
}

// A Survey tells of a search as a whole.
type Survey struct {
	Files    int // that were looked at
	Unparsed int // that are too large, or cannot be parsed
	Waiting  int // that could not be looked at in time
}

// directly is how many files are parsed while a call waits; more are parsed in the
// background.
const directly = 64

// Find returns symbols of the workspace, the best first. progress, if not nil, is
// told how many files are parsed of how many. When ctx is done it returns what is
// known until then, and the survey says how much that is not.
func (e *Engine) Find(ctx context.Context, s Scope, q Query, progress func(done, total int)) ([]Found, Survey, error) {
	files, survey, err := e.all(ctx, s, q.literal(), progress)
	if err != nil {
		return nil, survey, err
	}
	var found []Found
	m := newNameMatch(q)
	for _, f := range files {
		if q.Exact && !f.has(m.name) {
			continue
		}
		for r := range f.each {
			score, ok := m.score(r.name)
			if !ok || q.Kind != "" && kinds[r.kind] != q.Kind || m.container != "" && !m.contains(r.container) {
				continue
			}
			found = append(found, Found{
				Path: f.path, Name: r.name, Container: r.container, Kind: kinds[r.kind],
				Line: r.line, EndLine: r.end(), score: score - weight(r),
			})
		}
	}
	slices.SortFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return found, survey, nil
}

// all returns the symbols of all files of a scope. With a literal, files that do not
// have it are left out as long as they are not parsed.
func (e *Engine) all(ctx context.Context, s Scope, literal string, progress func(done, total int)) ([]pathSymbols, Survey, error) {
	e.symbols.touch()
	if s.Language != "" && languageNamed(s.Language) == nil {
		return nil, Survey{}, ErrLanguage
	}
	files, missing, err := e.sources(ctx, s)
	if err != nil {
		return nil, Survey{}, err
	}
	survey := Survey{Files: len(files)}
	if missing, err = e.unchanged(ctx, files, missing); err != nil {
		return nil, survey, err
	}
	if len(missing) > directly {
		if missing, err = e.wait(ctx, files, missing, literal, progress); err != nil {
			return nil, survey, err
		}
	}
	err = each(ctx, missing, func(_ int, x source) (err error) {
		files[x.at].fileSymbols, err = e.indexed(ctx, e.parsers, x)
		return err
	})
	if err != nil && ctx.Err() == nil {
		return nil, survey, err
	}
	if ctx.Err() != nil {
		for _, x := range missing {
			if files[x.at].fileSymbols == nil {
				survey.Waiting++
			}
		}
	}
	if s.Path == "" || s.Path == "." {
		e.symbols.forgetOthers(files, s)
	}
	known := files[:0]
	for _, f := range files {
		switch {
		case f.fileSymbols == nil: // it is gone, or does not have the literal
		case f.unparsed:
			survey.Unparsed++
		default:
			known = append(known, f)
		}
	}
	return known, survey, nil
}

// unchanged finds the files whose text is one that was parsed, whatever else is known
// of them, and returns those that have to be.
func (e *Engine) unchanged(ctx context.Context, files []pathSymbols, missing []source) ([]source, error) {
	err := each(ctx, missing, func(_ int, x source) error {
		if !e.symbols.has(x.path) {
			return nil
		}
		text, err := x.read(e)
		if err != nil {
			files[x.at].fileSymbols, err = unparsed(err)
			return err
		}
		files[x.at].fileSymbols = e.symbols.same(x.path, text, x.stamp)
		return nil
	})
	if ctx.Err() != nil {
		err = nil
	}
	return slices.DeleteFunc(missing, func(x source) bool { return files[x.at].fileSymbols != nil }), err
}

// wait has many files parsed in the background. It returns those that somebody has
// to parse now: with a literal the few that have it, and without one none, for then
// it waits until all are.
func (e *Engine) wait(ctx context.Context, files []pathSymbols, missing []source, literal string, progress func(done, total int)) ([]source, error) {
	f := e.inBackground(slices.Clone(missing))
	if f == nil {
		return missing, nil
	}
	if literal != "" {
		has := make([]bool, len(files))
		err := each(ctx, missing, func(_ int, x source) error {
			text, err := x.read(e)
			if err != nil {
				_, err = unparsed(err)
			}
			has[x.at] = bytes.Contains(text, []byte(literal))
			return err
		})
		return slices.DeleteFunc(missing, func(x source) bool { return !has[x.at] }), err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if progress != nil {
				progress(int(f.parsed.Load()), f.total)
			}
			continue
		case <-f.done:
			if f.err != nil {
				return nil, f.err
			}
		}
		break
	}
	return slices.DeleteFunc(missing, func(x source) bool {
		files[x.at].fileSymbols = e.symbols.known(x.path, x.stamp)
		return files[x.at].fileSymbols != nil
	}), nil
}

// forgetOthers forgets what is kept of files that are not there any more.
func (s *symbols) forgetOthers(list []pathSymbols, scope Scope) {
	s.mu.Lock()
	many := len(s.files) > len(list)+len(list)/8+directly
	s.mu.Unlock()
	if !many || scope.Language != "" || scope.Exclude != nil {
		return
	}
	there := make(map[string]bool, len(list))
	for _, x := range list {
		there[x.path] = true
	}
	s.retain(there)
}

// literal is what a file must have in it to have the symbol.
func (q Query) literal() string {
	if !q.Exact {
		return ""
	}
	_, name := q.split()
	return name
}

// split returns the container and the name that a query has.
func (q Query) split() (container, name string) {
	name = q.Name
	for _, mark := range []string{"::", "#", "."} {
		if i := strings.LastIndex(name, mark); i > 0 && i+len(mark) < len(name) {
			return name[:i], name[i+len(mark):]
		}
	}
	return "", name
}

// weight says what matters less: what lies in others, and what is no type or function.
func weight(r *record) int {
	w := 2 * int(r.depth)
	switch kinds[r.kind] {
	case "field", "constant", "variable":
		w += 3
	}
	return w
}

// A nameMatch compares names with that of a query.
type nameMatch struct {
	container, name, lower string
	exact                  bool
}

func newNameMatch(q Query) nameMatch {
	container, name := q.split()
	return nameMatch{container: container, name: name, lower: strings.ToLower(name), exact: q.Exact}
}

// contains reports whether a symbol belongs to what the query says.
func (m *nameMatch) contains(container string) bool {
	return container == m.container || strings.HasSuffix(container, "::"+m.container) || !m.exact && strings.EqualFold(container, m.container)
}

// score says how much a name is like that of the query, and whether it is at all.
func (m *nameMatch) score(name string) (int, bool) {
	switch {
	case name == m.name:
		return 1000, true
	case m.exact:
		return 0, false
	case m.name == "":
		return 0, true
	case len(name) < len(m.name)-1:
		return 0, false
	case strings.EqualFold(name, m.name):
		return 900, true
	case strings.HasPrefix(name, m.name):
		return 800 - min(len(name), 100), true
	}
	if !m.mayMatch(name) { // most names end here, without a copy
		return 0, false
	}
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, m.lower) {
		return 750 - min(len(name), 100), true
	}
	if i := strings.Index(lower, m.lower); i > 0 {
		if wordBegins(name, i) {
			return 600 - min(len(name), 100), true
		}
		return 500 - min(len(name), 100), true
	}
	if n := gaps(name, lower, m.lower); n >= 0 {
		return 300 - min(10*n, 250), true
	}
	if len(m.lower) >= 4 && len(lower) <= len(m.lower)+1 && oneOff(lower, m.lower) {
		return 200, true
	}
	return 0, false
}

// mayMatch reports whether a name has the letters of the query in their order, whatever
// their case, or is short enough to differ from it by one letter. What is beyond ASCII may.
func (m *nameMatch) mayMatch(name string) bool {
	left := m.lower
	for i := 0; i < len(name) && left != ""; i++ {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch {
		case c >= utf8.RuneSelf:
			return true
		case c == left[0]:
			left = left[1:]
		}
	}
	return left == "" || len(m.lower) >= 4 && len(name) <= len(m.lower)+1
}

// wordBegins reports whether a word of a name begins at i.
func wordBegins(name string, i int) bool {
	r, _ := utf8.DecodeRuneInString(name[min(i, len(name)):])
	before, _ := utf8.DecodeLastRuneInString(name[:min(i, len(name))])
	return unicode.IsUpper(r) && !unicode.IsUpper(before) || before == '_' || before == '-'
}

// gaps returns how many letters lie between those of want, which must each begin a
// word or follow the one before; -1 where they are not all there.
func gaps(name, lower, want string) int {
	if len(lower) != len(name) {
		return -1 // letters whose lower case has another length
	}
	n, at := 0, -1
	for _, c := range []byte(want) {
		i := at + 1
		for ; i < len(lower); i++ {
			if lower[i] == c && (i == at+1 || wordBegins(name, i)) {
				break
			}
		}
		if i == len(lower) {
			return -1
		}
		n += i - at - 1
		at = i
	}
	return n
}

// oneOff reports whether one letter is missing, too many, another, or in the place of its neighbour.
func oneOff(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case len(a) == len(b):
		return len(a) > 0 && a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
	case len(a) == len(b)+1:
		return a[1:] == b
	case len(b) == len(a)+1:
		return b[1:] == a
	}
	return false
}
