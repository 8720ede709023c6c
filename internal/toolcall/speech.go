// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import "unicode/utf8"

// A speech tells whether a model makes a call where it writes, or speaks of one: in code,
// in quotes, or in its thoughts. It knows as much of Markdown as that needs.
type speech struct {
	last    byte // the byte before
	indent  int  // columns of white space that the line began with
	begun   bool // something else has come in the line
	cited   bool // the line is a quotation
	thought bool

	run      int  // length of the run of fence characters that the last byte belongs to
	runMark  byte // a backtick or a tilde
	runFirst bool // the run is the first in its line
	fence    int  // length of the fence that opened a block of code
	mark     byte // its character
	code     int  // length of the run that opened code within a line

	pending byte       // a quotation mark that the next byte makes an opening or a closing one
	before  byte       // what came before it
	open    [marks]int // quotations, by their marks
	lead    byte       // the byte before the last, for marks of several bytes
}

// Marks of quotations. A letter with an apostrophe never closes what a letter opened.
const (
	double      = iota // "
	single             // '
	curly              // “ ”
	curlySingle        // ‘ ’
	low                // „ “
	angle              // « », or the other way round
	corner             // 「 」
	marks
)

// only reports whether the model speaks only, just before a byte.
func (s *speech) only(next byte) bool {
	quoted := s.pending != 0 // whatever the next byte makes of it
	s.settle(next)
	return quoted || s.thought || s.cited || s.fence > 0 || s.code > 0 || s.open != [marks]int{} ||
		!s.begun && s.indent >= 4
}

// settle decides what ended before a byte.
func (s *speech) settle(next byte) {
	if s.run > 0 && next != s.runMark {
		s.endRun(next)
	}
	if s.pending == 0 {
		return
	}
	open := &s.open[double]
	if s.pending == '\'' {
		open = &s.open[single]
	}
	switch {
	case opens(s.before, next) || s.before >= utf8.RuneSelf && *open == 0: // or there are no spaces between words
		*open++
	case *open > 0 && !(s.pending == '\'' && isLetter(next)): // not the one of don't
		*open--
	}
	s.pending = 0
}

// opens reports whether a quotation mark between two bytes opens a quotation.
func opens(before, next byte) bool {
	switch before {
	case 0, ' ', '\n', '\t', '(', '[', '{', '<', '>', ':', ',', '=', '-', '/', '|', '*', '_':
	default:
		return next == '<' || next == '['
	}
	switch next {
	case ' ', '\n', '\t', '\r', '.', ',', ';', ':', '!', '?', ')', ']', '}':
		return false
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (s *speech) endRun(next byte) {
	run := s.run
	s.run = 0
	switch {
	case s.fence > 0:
		if s.runFirst && s.runMark == s.mark && run >= s.fence && (next == '\n' || next == '\r' || next == ' ') {
			s.fence = 0
		}
	case s.runFirst && run >= 3 && s.code == 0:
		s.fence, s.mark = run, s.runMark
	case s.runMark != '`':
	case s.code == 0:
		s.code = run
	case s.code == run:
		s.code = 0
	}
}

// step takes the next byte.
func (s *speech) step(c byte) {
	s.settle(c)
	switch {
	case c == '\n':
		if !s.begun {
			s.code = 0 // a paragraph ended
		}
		s.indent, s.begun, s.cited = 0, false, false
	case !s.begun && c == ' ':
		s.indent++
	case !s.begun && c == '\t':
		s.indent += 4
	case c == '`' || c == '~' && (!s.begun || s.run > 0):
		if s.run++; s.run == 1 {
			s.runMark, s.runFirst = c, !s.begun
		}
		s.begun = true
	case c == '\r':
	default:
		if !s.begun && c == '>' && s.fence == 0 {
			s.cited = true
		}
		s.begun = true
		s.quote(c)
	}
	s.lead, s.last = s.last, c
}

// skip takes bytes that are nothing but text, up to one that may be more, and returns how
// many there were.
func (s *speech) skip(text []byte, more *[256]bool) int {
	if !s.begun || s.run > 0 || s.pending != 0 {
		return 0
	}
	n := 0
	for n < len(text) && !more[text[n]] {
		n++
	}
	switch {
	case n > 1:
		s.lead, s.last = text[n-2], text[n-1]
	case n == 1:
		s.lead, s.last = s.last, text[0]
	}
	return n
}

// telling are the bytes that [speech.step] does more with than remember them.
func telling() (more [256]bool) {
	for c := range more {
		more[c] = c >= utf8.RuneSelf || c == '\n' || c == '`' || c == '~' || c == '"' || c == '\'' || c == '\r'
	}
	return more
}

// quote looks for quotation marks.
func (s *speech) quote(c byte) {
	if s.fence > 0 || s.code > 0 {
		return
	}
	if c < utf8.RuneSelf {
		if (c == '"' || c == '\'') && s.last != '\\' {
			s.pending, s.before = c, s.last
		}
		return
	}
	switch mark := [3]byte{s.lead, s.last, c}; {
	case mark == [3]byte{0xE2, 0x80, 0x9C} && s.open[low] > 0:
		s.open[low]--
	case mark == [3]byte{0xE2, 0x80, 0x9C}:
		s.open[curly]++
	case mark == [3]byte{0xE2, 0x80, 0x9D}:
		s.close(curly)
	case mark == [3]byte{0xE2, 0x80, 0x98}:
		s.open[curlySingle]++
	case mark == [3]byte{0xE2, 0x80, 0x99}:
		s.close(curlySingle)
	case mark == [3]byte{0xE2, 0x80, 0x9E}:
		s.open[low]++
	case mark == [3]byte{0xE3, 0x80, 0x8C} || mark == [3]byte{0xE3, 0x80, 0x8E}:
		s.open[corner]++
	case mark == [3]byte{0xE3, 0x80, 0x8D} || mark == [3]byte{0xE3, 0x80, 0x8F}:
		s.close(corner)
	case s.last == 0xC2 && (c == 0xAB || c == 0xBB):
		first := s.lead == ' ' || s.lead == '\n' || s.lead == '(' || s.lead == 0
		if first && (c == 0xAB || s.open[angle] == 0) {
			s.open[angle]++
		} else {
			s.close(angle)
		}
	}
}

func (s *speech) close(mark int) { s.open[mark] = max(0, s.open[mark]-1) }
