// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/plain"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A Match is code that has the shape of a pattern.
type Match struct {
	Path     string
	Line     int // from 1
	EndLine  int
	Text     string            // of all its lines
	Captures map[string]string // what metavariables stand for
}

// IsPattern reports whether an error is about the pattern or the replacement.
func IsPattern(err error) bool { return errors.As(err, new(errPattern)) }

// Match finds code of a shape, in the order of paths. It ends when there are more
// than limit.
func (e *Engine) Match(ctx context.Context, s Scope, text string, limit int) ([]Match, Survey, error) {
	var survey Survey
	c, files, err := e.prepare(ctx, s, text)
	if err != nil {
		return nil, survey, err
	}
	survey.Files = len(files)
	var unparsed atomic.Int64
	var found []Match
	for wave := range slices.Chunk(files, 64) {
		results := make([][]Match, len(wave))
		err := each(ctx, wave, func(i int, path string) error {
			text, matches, err := e.matchFile(ctx, c, path, limit+1)
			if err != nil {
				unparsed.Add(1)
				return fatal(ctx, err)
			}
			results[i] = tell(path, text, matches)
			return nil
		})
		for _, list := range results {
			found = append(found, list...)
		}
		survey.Unparsed = int(unparsed.Load())
		if err != nil || len(found) > limit {
			return found, survey, err
		}
	}
	return found, survey, nil
}

// fatal returns an error that is not of one file alone.
func fatal(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, ErrLimit) && !errors.Is(err, ErrCrashed) && !errors.Is(err, ErrBinary) && !isGone(err) {
		return err
	}
	return nil
}

func isGone(err error) bool {
	return errors.Is(err, workspace.ErrMoved) || errors.Is(err, workspace.ErrNotRegular) || errors.Is(err, fs.ErrNotExist)
}

// prepare compiles a pattern, and finds the files that may have it, by path.
func (e *Engine) prepare(ctx context.Context, s Scope, text string) (*pattern, []string, error) {
	e.symbols.touch()
	l := languageNamed(s.Language)
	if l == nil {
		return nil, nil, ErrLanguage
	}
	c, err := e.parsers.compile(ctx, l, text)
	if err != nil {
		return nil, nil, err
	}
	var files []string
	scope := search.Scope{Path: s.Path, Match: "**/{" + strings.Join(l.globs(), ",") + "}", Exclude: s.Exclude}
	if len(c.literals) == 0 {
		all, _, err := e.search.Glob(ctx, scope, search.ByName)
		for _, f := range all {
			files = append(files, f.Path)
		}
		return c, files, err
	}
	_, err = e.search.Grep(ctx, search.Pattern{Text: c.literals[0], Literal: true, Multiline: strings.Contains(c.literals[0], "\n")}, scope,
		search.Options{Mode: search.Files}, func(f search.File) bool {
			files = append(files, f.Path)
			return true
		})
	slices.Sort(files)
	return c, files, err
}

// matchFile returns the text of a file and where a pattern matches in it, the first
// ones where there are more than most.
func (e *Engine) matchFile(ctx context.Context, c *pattern, path string, most int) ([]byte, []match, error) {
	text, err := e.Read(path)
	if err != nil || !c.mayMatch(text) {
		return nil, nil, err
	}
	known := e.symbols.same(path, text, 0)
	if known != nil && known.unparsed {
		return nil, nil, ErrLimit
	}
	if known != nil && len(known.tops) > 1 && len(c.nodes) == 1 {
		found, ok, err := e.matchParts(ctx, c, text, known.tops, most)
		if ok || err != nil {
			return text, found, err
		}
	}
	t, err := e.parsers.parse(ctx, c.language, text)
	if err != nil {
		return nil, nil, err
	}
	if known == nil {
		e.symbols.keep(path, e.symbols.pack(t, 0))
	}
	found, err := t.matches(ctx, c, most)
	return text, found, err
}

// matchParts is matchFile of the parts of a text that have everything the pattern
// says literally: to parse a few functions takes less time than to parse all. It
// reports false where these do not parse by themselves.
func (e *Engine) matchParts(ctx context.Context, c *pattern, text []byte, tops []uint32, most int) (found []match, ok bool, err error) {
	type piece struct{ from, to, in uint32 } // of the text; and where it begins in what is parsed
	var pieces []piece
	var joined []byte
	for _, at := range occurrences(text, c.literals).at {
		k, exact := slices.BinarySearch(tops, at)
		if !exact {
			k--
		}
		if k < 0 || len(pieces) > 0 && pieces[len(pieces)-1].from == tops[k] {
			continue
		}
		p := piece{from: tops[k], to: uint32(len(text)), in: uint32(len(joined))}
		if k+1 < len(tops) {
			p.to = tops[k+1]
		}
		if c.mayMatch(text[p.from:p.to]) {
			joined = append(append(joined, text[p.from:p.to]...), '\n')
			pieces = append(pieces, p)
		}
	}
	if len(pieces) == 0 {
		return nil, true, nil
	}
	t, err := e.parsers.parse(ctx, c.language, joined)
	if err != nil || t.flawed() {
		return nil, false, fatal(ctx, err)
	}
	back := func(s span) (span, bool) {
		k, exact := slices.BinarySearchFunc(pieces, s.start, func(p piece, at uint32) int { return int(p.in) - int(at) })
		if !exact {
			k--
		}
		p := pieces[k]
		s = span{s.start - p.in + p.from, s.end - p.in + p.from}
		return s, s.end <= p.to
	}
	all, err := t.matches(ctx, c, most)
	if err != nil {
		return nil, false, err
	}
	for _, m := range all {
		at, inside := back(m.span)
		if !inside {
			return nil, false, nil
		}
		for i := range m.captures {
			if m.captures[i].span != (span{}) {
				m.captures[i].span, _ = back(m.captures[i].span)
			}
		}
		found = append(found, match{at, m.captures})
	}
	return found, true, nil
}

// tell returns matches as others see them.
func tell(path string, text []byte, found []match) []Match {
	if len(found) == 0 {
		return nil
	}
	lines := linesOf(text)
	list := make([]Match, len(found))
	for i, m := range found {
		first, last := lines.at(m.start), lines.at(max(m.start, m.end-1))
		end := len(text)
		if last < len(lines) {
			end = int(lines[last]) - 1
		}
		list[i] = Match{Path: path, Line: first, EndLine: last, Text: string(text[lines[first-1]:end]), Captures: make(map[string]string)}
		for _, c := range m.captures {
			list[i].Captures[c.name] = string(text[c.start:c.end])
		}
	}
	return list
}

// A Change is what a rewrite makes of a file.
type Change struct {
	Path   string
	Old    workspace.File
	New    []byte
	Before string // the text without a mark at its beginning
	After  string
	Places int
}

// maxChanged is how many files a rewrite may change.
const maxChanged = 1000

// Rewrite returns what replacing code of a shape makes of files. Of matches that
// lie in each other the outer one is replaced. It changes nothing.
func (e *Engine) Rewrite(ctx context.Context, s Scope, text, replacement string) ([]Change, Survey, error) {
	var survey Survey
	c, files, err := e.prepare(ctx, s, text)
	if err != nil {
		return nil, survey, err
	}
	survey.Files = len(files)
	var unparsed atomic.Int64
	if err := c.checkReplacement(replacement); err != nil {
		return nil, survey, err
	}
	results := make([]*Change, len(files))
	err = each(ctx, files, func(i int, path string) (err error) {
		if results[i], err = e.rewriteFile(ctx, c, path, replacement); err != nil {
			unparsed.Add(1)
		}
		return fatal(ctx, err)
	})
	if err != nil {
		return nil, survey, err
	}
	survey.Unparsed = int(unparsed.Load())
	var changes []Change
	for _, change := range results {
		if change != nil {
			changes = append(changes, *change)
		}
	}
	if len(changes) > maxChanged {
		return nil, survey, errPattern{fmt.Sprintf("it would change %d files, and %d are the most: name a directory with path", len(changes), maxChanged)}
	}
	return changes, survey, nil
}

// mark is what begins some files in UTF-8.
const mark = "\xEF\xBB\xBF"

func (e *Engine) rewriteFile(ctx context.Context, c *pattern, path, replacement string) (*Change, error) {
	old, err := e.ws.ReadFile(path, MaxText)
	if err != nil {
		if errors.Is(err, workspace.ErrTooLarge) {
			err = fmt.Errorf("%w: %w", ErrLimit, err)
		}
		return nil, err
	}
	text := bytes.TrimPrefix(old.Data, []byte(mark))
	if plain.UTF16(text) != nil || plain.IsBinary(text) {
		return nil, ErrBinary
	}
	if !c.mayMatch(text) {
		return nil, nil
	}
	t, err := e.parsers.parse(ctx, c.language, text)
	if err != nil {
		return nil, err
	}
	var after bytes.Buffer
	at, places := uint32(0), 0
	all, err := t.matches(ctx, c, maxKept)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.start < at || m.start == m.end {
			continue // in the one before
		}
		after.Write(text[at:m.start])
		after.WriteString(m.replaced(text, indented(replacement, text[:m.start])))
		at = m.end
		places++
	}
	after.Write(text[at:])
	if places == 0 || bytes.Equal(after.Bytes(), text) {
		return nil, nil
	}
	if !t.flawed() {
		now, err := e.parsers.parse(ctx, c.language, after.Bytes())
		if err != nil {
			return nil, err
		}
		if now.flawed() {
			return nil, errPattern{fmt.Sprintf("with the replacement %s would not parse any more, and nothing is changed. Look at the code that it makes there: line %d", path, firstFlaw(now))}
		}
	}
	change := &Change{Path: path, Old: old, Before: string(text), After: after.String(), Places: places}
	change.New = append([]byte(nil), old.Data[:len(old.Data)-len(text)]...)
	change.New = append(change.New, after.Bytes()...)
	return change, nil
}

// firstFlaw returns the first line that does not parse.
func firstFlaw(t *tree) int {
	for i := range t.nodes {
		if t.nodes[i].flags&(isError|isMissing) != 0 {
			return linesOf(t.text).at(t.nodes[i].start)
		}
	}
	return 1
}

// indented returns a replacement of several lines with what its first line is
// indented by.
func indented(replacement string, before []byte) string {
	if !strings.Contains(replacement, "\n") {
		return replacement
	}
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return strings.ReplaceAll(replacement, "\n", "\n"+string(indent))
}
