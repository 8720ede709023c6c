// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Pattern says what lines are looked for.
type Pattern struct {
	// Text is a regular expression in the syntax of package regexp, or a plain
	// text if Literal is set.
	Text    string
	Literal bool

	IgnoreCase bool
	SmartCase  bool // ignore case unless there is an upper-case letter in Text
	Word       bool // only whole words
	WholeLine  bool // only whole lines
	Invert     bool // the lines that do not match

	// Multiline lets a match go over the ends of lines; DotAll lets a dot do so.
	Multiline, DotAll bool
}

// maxPattern is how long a pattern may be.
const maxPattern = 64 << 10

// A query is a compiled pattern. It never changes.
type query struct {
	Pattern
	needs   []need // what is in every line that matches, or, with Multiline, in every match
	finders []*finder
	exact   bool // a line matches if one of the finders finds something in it
	program *program
	multi   *regexp.Regexp
}

func (p Pattern) compile() (*query, error) {
	if len(p.Text) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes: at most %d are allowed", len(p.Text), maxPattern)
	}
	if !utf8.ValidString(p.Text) {
		return nil, fmt.Errorf("the pattern is not valid UTF-8")
	}
	if p.Multiline && p.Invert {
		return nil, fmt.Errorf("invert and multiline cannot be used together: a match over several lines has no opposite")
	}
	q := &query{Pattern: p}
	text := p.Text
	if p.Literal {
		text = regexp.QuoteMeta(text)
	}
	if p.SmartCase && !hasUpper(p.Text, p.Literal) {
		q.IgnoreCase = true
	}
	flags := syntax.Perl &^ syntax.OneLine
	if q.IgnoreCase {
		flags |= syntax.FoldCase
	}
	if p.DotAll {
		flags |= syntax.DotNL
	}
	re, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, explainSyntax(err)
	}
	if p.Multiline {
		return q, q.compileMulti(text, re)
	}
	if hasNewline(re) {
		return nil, fmt.Errorf("the pattern has a line feed in it, and lines are searched one by one: set multiline to match over several lines")
	}
	best, ok := choose(needs(re))
	if ok && len(best.any) <= maxAny && (best.exact && len(best.any) == 1 || !slices.ContainsFunc(best.any, func(l literal) bool { return len(l.text) < 2 })) {
		for _, l := range best.any {
			q.finders = append(q.finders, newFinder(l))
		}
		q.exact = best.exact && !p.WholeLine
	}
	q.needs = needs(re)
	if q.exact {
		return q, nil
	}
	switch {
	case p.WholeLine:
		re, err = syntax.Parse(`^(?:`+text+`)$`, flags)
	case p.Word:
		re, err = syntax.Parse(`(?:^|`+notWord+`)(?:`+text+`)(?:$|`+notWord+`)`, flags)
	}
	if err != nil {
		return nil, explainSyntax(err)
	}
	q.program, err = newProgram(re)
	return q, err
}

// notWord matches a character that belongs to no word.
const notWord = `[^\pL\pM\p{Nd}\p{Nl}\p{Pc}]`

// isWordRune is its opposite.
func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return isWord(byte(r))
	}
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc)
}

func (q *query) compileMulti(text string, re *syntax.Regexp) error {
	flags := "m"
	if q.IgnoreCase {
		flags += "i"
	}
	if q.DotAll {
		flags += "s"
	}
	switch {
	case q.WholeLine:
		text = `^(?:` + text + `)$`
	case q.Word:
		text = `\b(?:` + text + `)\b`
	}
	var err error
	if q.multi, err = regexp.Compile(`(?` + flags + `)` + text); err != nil {
		return explainSyntax(err)
	}
	if best, ok := choose(needs(re)); ok && len(best.any) <= maxAny {
		for _, l := range best.any {
			q.finders = append(q.finders, newFinder(l))
		}
	}
	return nil
}

// explainSyntax says what is wrong with a pattern and what would be right.
func explainSyntax(err error) error {
	hint := "set literal to look for the text as it is"
	if strings.Contains(err.Error(), "(?") || strings.Contains(err.Error(), `\`) {
		hint = "look-around and back-references are not supported; " + hint
	}
	return fmt.Errorf("the pattern is no regular expression: %s; %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "), hint)
}

// hasUpper reports whether a pattern has an upper-case letter that stands for
// itself.
func hasUpper(text string, literal bool) bool {
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && !literal:
			escaped = true
		case unicode.IsUpper(r):
			return true
		}
	}
	return false
}

// hasNewline reports whether an expression asks for a line feed.
func hasNewline(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') || slices.ContainsFunc(re.Sub, hasNewline)
}

// A matcher finds lines. It is for one goroutine.
type matcher struct {
	*query
	dfa   *dfa
	nexts [maxAny]int // where each finder finds something next

	// Without finders: places in lines that match, as far as was scanned.
	hits    []int
	room    []int // where hits began
	scanned int
}

// stretch is how much is scanned at once without finders.
const stretch = 64 << 10

func (q *query) matcher(halted func() bool) *matcher {
	m := &matcher{query: q}
	if q.program != nil {
		m.dfa = newDFA(q.program, halted)
	}
	return m
}

// begin is called before a text is searched.
func (m *matcher) begin() {
	for i := range m.nexts {
		m.nexts[i] = -1
	}
	m.hits, m.scanned = nil, 0
}

// A span is a part of a text, from start up to end.
type span struct{ start, end int }

// next returns the first line that matches in text[from:to], which begins and
// ends with a line, and a place in it where the match is. The line is without
// its line feed.
func (m *matcher) next(text []byte, from, to int) (line span, at int, ok bool) {
	for from < to {
		if len(m.finders) == 0 {
			at = m.scan(text, from, to)
		} else {
			at = m.findAny(text[:to], from)
		}
		if at < 0 {
			return span{}, 0, false
		}
		line.start = bytes.LastIndexByte(text[from:at], '\n') + 1 + from
		line.end = to
		if i := bytes.IndexByte(text[at:to], '\n'); i >= 0 {
			line.end = at + i
		}
		if len(m.finders) == 0 || m.verify(text, line) {
			return line, at, true
		}
		from = line.end + 1
	}
	return span{}, 0, false
}

// scan returns the first place at or after from that is in a line that matches,
// or -1.
func (m *matcher) scan(text []byte, from, to int) int {
	for {
		for len(m.hits) > 0 {
			if m.hits[0] >= from {
				return m.hits[0]
			}
			m.hits = m.hits[1:]
		}
		if m.scanned = max(m.scanned, from); m.scanned >= to {
			return -1
		}
		end := to
		if to-m.scanned > stretch {
			if i := bytes.IndexByte(text[m.scanned+stretch:to], '\n'); i >= 0 {
				end = m.scanned + stretch + i + 1
			}
		}
		m.hits = m.dfa.scan(text, m.scanned, end, m.room[:0])
		m.room = m.hits
		m.scanned = end
	}
}

// findAny returns the first place at or after from where a finder finds
// something, or a negative number.
func (m *matcher) findAny(text []byte, from int) int {
	if len(m.finders) == 1 {
		if at := m.finders[0].index(text, from); at >= 0 {
			return at
		}
		return -1
	}
	first := len(text)
	for i, f := range m.finders {
		if m.nexts[i] < from {
			if m.nexts[i] = f.index(text, from); m.nexts[i] < 0 {
				m.nexts[i] = len(text)
			}
		}
		first = min(first, m.nexts[i])
	}
	if first == len(text) {
		return -1
	}
	return first
}

// verify reports whether a line in which a finder found something matches.
func (m *matcher) verify(text []byte, line span) bool {
	switch {
	case !m.exact:
		return m.dfa.match(text[line.start:line.end])
	case m.Word:
		return m.hasWord(text[line.start:line.end])
	}
	return true
}

// hasWord reports whether a finder finds something that stands alone.
func (m *matcher) hasWord(line []byte) bool {
	for _, f := range m.finders {
		for at := f.index(line, 0); at >= 0; at = f.index(line, at+1) {
			before, _ := utf8.DecodeLastRune(line[:at])
			after, _ := utf8.DecodeRune(line[at+len(f.text):])
			if !isWordRune(before) && !isWordRune(after) {
				return true
			}
			if at+1 >= len(line) {
				break
			}
		}
	}
	return false
}
