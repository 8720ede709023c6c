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
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/search/plain"
	"github.com/toolserver/toolserver/internal/workspace"
)

// A Match is code that has the shape of a pattern.
type Match struct {
	Path     string
	Line     int // from 1
	EndLine  int
	Text     string            // of its first lines, as far as they are shown
	Captures map[string]string // what metavariables stand for, where it is not too long
}

// What is told of a match. A line is cut behind what anybody shows of it.
const (
	MaxLines   = 8
	maxLine    = 2000 // bytes
	maxCapture = 2000
)

// IsPattern reports whether an error is about the pattern or the replacement.
func IsPattern(err error) bool { return errors.As(err, new(errPattern)) }

// Match finds code of a shape, in the order of paths. It ends when there are more
// than skip and limit. Of the first ones, which are skipped, it tells only where they are.
func (e *Engine) Match(ctx context.Context, s Scope, text string, skip, limit int) ([]Match, Survey, error) {
	var survey Survey
	c, files, err := e.prepare(ctx, s, text)
	if err != nil {
		return nil, survey, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var worded, unparsed atomic.Int64 // files
	var full atomic.Bool
	var found []Match // of the one whose turn it is
	for wave := range slices.Chunk(files, 64) {
		done := make([]chan struct{}, len(wave))
		for i := range done {
			done[i] = make(chan struct{})
		}
		most := skip + limit + 1 - len(found)
		err := each(ctx, wave, func(i int, x source) error {
			defer close(done[i])
			if full.Load() {
				return nil
			}
			text, matches, err := e.matchFile(ctx, c, x, most)
			if err != nil {
				unparsed.Add(1)
				if err = fatal(ctx, err); err != nil {
					cancel(err) // some wait for their turn
				}
				return err
			}
			if text != nil {
				worded.Add(1)
			}
			if len(matches) == 0 {
				return nil
			}
			for _, before := range done[:i] {
				select {
				case <-before:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			matches = matches[:min(len(matches), skip+limit+1-len(found))]
			found = append(found, tell(x.path, text, matches, skip-len(found))...)
			if len(found) > skip+limit {
				full.Store(true)
			}
			return nil
		})
		survey.Files, survey.Unparsed = int(worded.Load()), int(unparsed.Load())
		if full.Load() {
			return found, survey, nil
		}
		if err != nil {
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
func (e *Engine) prepare(ctx context.Context, s Scope, text string) (*pattern, []source, error) {
	e.symbols.touch()
	l := languageNamed(s.Language)
	if l == nil {
		return nil, nil, ErrLanguage
	}
	c, err := e.parsers.compile(ctx, l, text)
	if err != nil {
		return nil, nil, err
	}
	files, ok, err := e.candidates(ctx, s, c)
	if err == nil && !ok {
		files, err = e.searched(ctx, s, c)
	}
	slices.SortFunc(files, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return c, files, err
}

// candidates returns the files that may have a pattern, with their texts, by the index
// of searches. It reports false where that is not kept, or does not know.
func (e *Engine) candidates(ctx context.Context, s Scope, c *pattern) (list []source, ok bool, err error) {
	if e.index == nil || len(c.literals) == 0 || len(c.literals[0]) < index.MinText || strings.Contains(c.literals[0], "\n") {
		return nil, false, nil
	}
	ok, err = e.index.Search(ctx, true, func(t *index.Tree) bool {
		for _, found := range t.Candidates([][]string{c.literals[:1]}, func(f *index.File) bool {
			return !f.Binary && c.language.has(f.Name) && s.has(f.Path) && (s.Exclude == nil || !s.Exclude(f.Path))
		}) {
			f := found.File
			x := source{path: f.Path, language: c.language, text: f.Text, parts: found.Spans}
			if t.Unsure(f) || f.Text == nil {
				x.text, x.parts = nil, nil
			}
			list = append(list, x)
		}
		return true
	})
	return list, ok, err
}

// searched is candidates by a search.
func (e *Engine) searched(ctx context.Context, s Scope, c *pattern) (list []source, err error) {
	add := func(path string) { list = append(list, source{path: path, language: c.language}) }
	scope := search.Scope{Path: s.Path, Match: "**/{" + strings.Join(c.language.globs(), ",") + "}", Exclude: s.Exclude}
	if len(c.literals) == 0 {
		all, _, err := e.search.Glob(ctx, scope, search.ByName)
		for _, f := range all {
			add(f.Path)
		}
		return list, err
	}
	_, err = e.search.Grep(ctx, search.Pattern{Text: c.literals[0], Literal: true, Multiline: strings.Contains(c.literals[0], "\n")}, scope,
		search.Options{Mode: search.Files}, func(f search.File) bool {
			add(f.Path)
			return true
		})
	return list, err
}

// matchFile returns the text of a file and where a pattern matches in it, the first
// ones where there are more than most; no text where the words of the pattern are not in it.
func (e *Engine) matchFile(ctx context.Context, c *pattern, x source, most int) ([]byte, []match, error) {
	text, err := x.read(e)
	if err != nil || text == nil {
		return nil, nil, err
	}
	places, ok := c.places(text, x.parts)
	if !ok {
		return nil, nil, nil
	}
	known := e.symbols.same(x.path, text, 0)
	if known != nil && known.unparsed {
		return nil, nil, ErrLimit
	}
	if len(places) > 0 && len(c.nodes) == 1 {
		found, ok, err := e.matchParts(ctx, c, text, known, places, most)
		if ok || err != nil {
			return text, found, err
		}
	}
	what := parseRequest{text: text}
	if known != nil || c.language.laidOut { // the nodes are not wanted for anything else
		what.places, what.levels = places, c.levels
	}
	t, err := e.parsers.do(ctx, c.language, what)
	if err != nil {
		return nil, nil, err
	}
	if what.places == nil && known == nil {
		e.symbols.keep(x.path, e.symbols.pack(t, 0))
	}
	found, err := t.matches(ctx, c, places, most)
	return text, found, err
}

// matchParts is matchFile of the parts of a text that have a place of the pattern: to
// parse these takes less time than to parse all. It reports false where it is not
// known how to take the text apart, or the parts do not parse by themselves.
func (e *Engine) matchParts(ctx context.Context, c *pattern, text []byte, known *fileSymbols, places []uint32, most int) (found []match, ok bool, err error) {
	var tops []uint32
	var only *excerpt
	if c.language.laidOut {
		all, ok := layoutOf(text)
		if !ok || all.half {
			return nil, false, nil
		}
		if tops = all.tops; c.wide {
			only = topsAround(text, tops, places)
		} else {
			only = all.around(text, places)
		}
	} else if known != nil {
		tops = known.topsOf()
		only = topsAround(text, tops, places)
	}
	if len(tops) < 2 {
		return nil, false, nil
	}
	if len(only.pieces) == 0 {
		return nil, true, nil
	}
	t, err := e.parsers.do(ctx, c.language, parseRequest{text: text, only: only, places: only.places(places), levels: c.levels})
	if err != nil || t.flawed() {
		return nil, false, fatal(ctx, err)
	}
	if found, err = t.matches(ctx, c, places, most); err != nil {
		return nil, false, err
	}
	for _, m := range found {
		k, exact := slices.BinarySearch(tops, m.start)
		if exact {
			k++
		}
		if k < len(tops) && m.end > tops[k] {
			return nil, false, nil // it is of several parts
		}
	}
	return found, true, nil
}

// tell returns matches as others see them; of the first ones only where they are.
func tell(path string, text []byte, found []match, skip int) []Match {
	if len(found) == 0 {
		return nil
	}
	lines := linesOf(text)
	list := make([]Match, len(found))
	for i, m := range found {
		first, last := lines.at(m.start), lines.at(max(m.start, m.end-1))
		list[i] = Match{Path: path, Line: first, EndLine: last}
		if i < skip {
			continue
		}
		list[i].Captures = make(map[string]string)
		for _, c := range m.captures {
			list[i].Captures[c.name] = string(begun(text[c.start:c.end], maxCapture))
		}
		if i > 0 && list[i-1].Text != "" && list[i-1].Line == first && list[i-1].EndLine == last {
			list[i].Text = list[i-1].Text // a line may have very many
			continue
		}
		var shown [][]byte
		for n := first; n <= last && n < first+MaxLines; n++ {
			shown = append(shown, begun(lines.text(text, n), maxLine))
		}
		list[i].Text = string(bytes.Join(shown, []byte("\n")))
	}
	return list
}

// begun returns the beginning of a text, and no half character.
func begun(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	for k := most; k > most-utf8.UTFMax; k-- {
		if utf8.RuneStart(text[k]) {
			return text[:k]
		}
	}
	return text[:most]
}

// A Change is what a rewrite makes of a file.
type Change struct {
	Path   string
	Old    workspace.File
	New    []byte
	Places int
}

// Before returns the text as it is, without a mark at its beginning.
func (c *Change) Before() string { return string(bytes.TrimPrefix(c.Old.Data, []byte(mark))) }

// After is Before of what is made of it.
func (c *Change) After() string { return string(bytes.TrimPrefix(c.New, []byte(mark))) }

const (
	maxChanged = 1000     // files that a rewrite may change
	maxPlanned = 64 << 20 // bytes of them, as they are and as they would be
	maxIndent  = 1000     // bytes before the lines of a replacement
)

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
	var changed, planned atomic.Int64
	err = each(ctx, files, func(i int, x source) (err error) {
		if results[i], err = e.rewriteFile(ctx, c, x.path, replacement); err != nil {
			unparsed.Add(1)
			return fatal(ctx, err)
		}
		if change := results[i]; change != nil {
			if changed.Add(1) > maxChanged {
				return errPattern{fmt.Sprintf("it would change more than %d files, which are the most: name a directory with path", maxChanged)}
			}
			if planned.Add(int64(len(change.Old.Data)+len(change.New))) > maxPlanned {
				return errPattern{fmt.Sprintf("the files that it would change have more than %d MiB, before and after, which are the most: name a directory or a file with path, or write more code in the pattern", maxPlanned>>20)}
			}
		}
		return nil
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
	if plain.IsUTF16(text) || plain.IsBinary(text) {
		return nil, ErrBinary
	}
	wanted, ok := c.places(text, nil)
	if !ok {
		return nil, nil
	}
	t, err := e.parsers.parse(ctx, c.language, text)
	if err != nil {
		return nil, err
	}
	var after bytes.Buffer
	at, places := uint32(0), 0
	lines := linesOf(text)
	all, err := t.matches(ctx, c, wanted, maxKept)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.start < at || m.start == m.end {
			continue // in the one before
		}
		after.Write(text[at:m.start])
		now := m.replaced(text, indented(replacement, text[lines[lines.at(m.start)-1]:m.start]), MaxText-after.Len())
		if after.Len()+len(now) > MaxText {
			return nil, errPattern{fmt.Sprintf("with the replacement %s would have more than %d MiB, which are the most: name other files with path, or make the replacement shorter", path, MaxText>>20)}
		}
		after.WriteString(now)
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
	change := &Change{Path: path, Old: old, Places: places}
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
func indented(replacement string, line []byte) string {
	if !strings.Contains(replacement, "\n") {
		return replacement
	}
	line = line[:min(len(line), maxIndent)]
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return strings.ReplaceAll(replacement, "\n", "\n"+string(indent))
}
