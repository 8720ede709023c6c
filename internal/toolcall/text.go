// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// A syntax is one way to write a call in text.
type syntax struct {
	open  string // what begins it
	close string // what ends it, outside of values and JSON; empty: the end of its JSON
	line  bool   // it begins at the beginning of a line alone

	// begins tells whether what follows open is a call, so that a word in a sentence is
	// none.
	begins func(rest []byte) answer

	// value is what the values are between that are written as they are. A value ends
	// at its end and nowhere else; again is what begins another call in it, which leaves
	// open where the value ends.
	value [2]string
	again string

	// ends tells whether close counts after some text; nil: it always does.
	ends func(before []byte) bool

	// json tells whether a brace after some text begins JSON; nil: every one does.
	json func(before []byte) bool

	// rest is what may follow that says no more, in this order: ends of wrappers.
	rest []string

	read func(body string, closed bool) (draft, error)
}

type answer int

const (
	no answer = iota
	yes
	unsure // more has to come
)

// A textParser finds calls in text.
type textParser struct {
	known    *catalog
	syntaxes []*syntax
	starts   [256]bool // first bytes of syntaxes
	telling  [256]bool // those, and bytes that change what a model does

	buf  []byte
	from int // where what was not handed over begins
	at   int // where reading goes on
	speech
	pieces []Piece

	open   *syntax // of the call that was begun
	body   int     // where it begins
	list   bool    // it is one of a list
	ending ending
	after  *syntax  // of the call that just ended
	rest   []string // of what may follow it
	not    int      // one more than where no call begins, though it looks so
}

const (
	maxCall = 8 << 20 // bytes of a call
	maxGap  = 256     // of white space before the rest of a call
)

func newTextParser(known *catalog, syntaxes []*syntax) *textParser {
	p := &textParser{known: known, syntaxes: syntaxes}
	p.starts['<'] = true // of thoughts
	for _, s := range syntaxes {
		p.starts[s.open[0]] = true
	}
	p.telling = telling()
	for c, starts := range p.starts {
		p.telling[c] = p.telling[c] || starts
	}
	return p
}

func (p *textParser) write(chunk []byte) []Piece {
	p.buf = append(p.buf, chunk...)
	return p.run(false)
}

func (p *textParser) close() []Piece { return p.run(true) }

// run reads on as far as it is clear what the text means.
func (p *textParser) run(final bool) []Piece {
	p.pieces = p.pieces[:0]
	for {
		goesOn := false
		if p.open != nil {
			goesOn = p.readCall(final)
		} else {
			goesOn = p.readText(final)
		}
		if !goesOn {
			break
		}
	}
	if p.from == len(p.buf) || p.from > 1<<16 { // copying costs, so it is done seldom
		p.buf = append(p.buf[:0], p.buf[p.from:]...)
		p.at, p.body, p.not, p.from = p.at-p.from, p.body-p.from, p.not-p.from, 0
	}
	return p.pieces
}

// say hands text over, up to a place; of a character that is not complete, nothing.
func (p *textParser) say(to int, final bool) {
	text := p.buf[p.from:to]
	if !final && to == len(p.buf) {
		for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
			if c := text[len(text)-n]; utf8.RuneStart(c) {
				if !utf8.FullRune(text[len(text)-n:]) {
					text = text[:len(text)-n]
				}
				break
			}
		}
	}
	p.from += len(text)
	if len(text) == 0 {
		return
	}
	said := Text(valid(text))
	if n := len(p.pieces); n > 0 {
		if before, ok := p.pieces[n-1].(Text); ok {
			p.pieces[n-1] = before + said
			return
		}
	}
	p.pieces = append(p.pieces, said)
}

// readText reads to the beginning of a call, and reports whether there is one.
func (p *textParser) readText(final bool) bool {
	if p.after != nil && !p.readRest(final) {
		return p.open != nil
	}
	for ; p.at < len(p.buf); p.at++ {
		if p.at += p.skip(p.buf[p.at:], &p.telling); p.at == len(p.buf) {
			break
		}
		c := p.buf[p.at]
		if !p.starts[c] {
			p.step(c)
			continue
		}
		if c == '<' {
			switch tag := p.thinks(); {
			case tag == unsure && !final:
				p.say(p.at, false)
				return false
			case tag == yes:
				p.thought = !p.thought
			}
		}
		if p.only(c) {
			p.step(c)
			continue
		}
		s, body, found := p.begin()
		if p.at+1 == p.not {
			found = no
		}
		if found == unsure && !final {
			p.say(p.at, false)
			return false
		}
		if found == yes {
			p.say(p.at, true)
			p.open, p.body, p.ending = s, body, ending{}
			if p.list = len(p.buf) > body && p.buf[body] == '[' && s.close == "" && s.json == nil; p.list {
				p.body++
			}
			return true
		}
		p.step(c)
	}
	p.say(len(p.buf), final)
	return false
}

// thinks reports whether a tag of thoughts is next, that changes something.
func (p *textParser) thinks() answer {
	if p.thought {
		return hasPrefix(p.buf[p.at:], "</think>")
	}
	return hasPrefix(p.buf[p.at:], "<think>")
}

// begin returns the syntax of the call that begins here, and where its body does.
func (p *textParser) begin() (_ *syntax, body int, found answer) {
	text := p.buf[p.at:]
	for _, s := range p.syntaxes {
		if s.open[0] != text[0] || s.line && p.begun {
			continue
		}
		is := hasPrefix(text, s.open)
		if is == yes {
			body = len(s.open)
			for body < len(text) && isSpace(text[body]) {
				body++
			}
			is = s.begins(text[body:])
			if body > maxGap {
				is = no
			}
		}
		switch is {
		case yes:
			return s, p.at + body, yes
		case unsure:
			found = unsure
		}
	}
	return nil, 0, found
}

// readRest drops what is left of a call that was handed over, such as the end of its
// wrapper, and begins the next of a list. It reports whether text follows.
func (p *textParser) readRest(final bool) bool {
	for {
		i := p.at
		for i < len(p.buf) && isSpace(p.buf[i]) {
			i++
		}
		left := p.buf[i:]
		if len(left) == 0 && !final && i-p.at <= maxGap {
			return false
		}
		if p.list && len(left) > 0 {
			switch left[0] {
			case ',':
				p.at, p.from = i+1, i+1
				continue
			case '{':
				p.open, p.body, p.from, p.ending = p.after, i, i, ending{}
				p.after = nil
				return false
			}
			p.list = false
			if left[0] == ']' {
				p.at, p.from = i+1, i+1
				continue
			}
		}
		dropped := no
		for n, tag := range p.rest {
			if len(left) == 0 {
				break
			}
			if is := hasPrefix(left, tag); is == yes {
				p.at, p.from, dropped, p.rest = i+len(tag), i+len(tag), yes, p.rest[n+1:]
				break
			} else if is == unsure {
				dropped = unsure
			}
		}
		if dropped == unsure && !final {
			return false
		}
		if dropped != yes {
			p.after, p.list = nil, false
			return true
		}
	}
}

// readCall reads to the end of the call, and reports whether it is there.
func (p *textParser) readCall(final bool) bool {
	s := p.open
	body := p.buf[p.body:]
	end, size, found := p.ending.find(s, body)
	tooLong := len(body) > maxCall
	if !found && !final && !tooLong {
		return false
	}
	cut := !found && !tooLong
	if !found {
		end, size = len(body), 0
		if cut {
			end, size = p.ending.cutOff(s, body)
		}
	}
	raw := p.buf[p.from : p.body+end+size]
	var piece Piece
	switch text := valid(body[:end]); {
	case tooLong:
		piece = broken("", "", raw[:100], "it has more than %d bytes", maxCall)
	case p.ending.lost:
		piece = broken("", "", raw, "its JSON does not end: check the quotation marks and brackets")
	case p.ending.mixed:
		piece = broken("", "", raw, "a value has %s in it, so that nobody can say where the value ends: write that value as a JSON string, with \\u003c for <", s.again)
	default:
		draft, err := s.read(text, !cut || size > 0)
		if draft.maybe && (err != nil || draft.name == "") {
			p.at, p.open, p.list, p.not = p.from, nil, false, p.from+1
			return true
		}
		draft.raw = valid(raw)
		piece = p.known.finish(draft, err)
	}
	p.pieces = append(p.pieces, piece)
	p.from = p.body + end + size
	p.at, p.open, p.after, p.rest, p.speech = p.from, nil, s, s.rest, speech{last: '\n'}
	return true
}

// hasPrefix reports whether text begins with a prefix, as far as there is text.
func hasPrefix(text []byte, prefix string) answer {
	if len(text) >= len(prefix) {
		if string(text[:len(prefix)]) == prefix {
			return yes
		}
		return no
	}
	if string(text) == prefix[:len(text)] {
		return unsure
	}
	return no
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// beginsWith is a [syntax.begins] for one of some prefixes.
func beginsWith(prefixes ...string) func([]byte) answer {
	return func(rest []byte) answer {
		found := no
		for _, prefix := range prefixes {
			switch hasPrefix(rest, prefix) {
			case yes:
				return yes
			case unsure:
				found = unsure
			}
		}
		return found
	}
}

// beginsJSON is one for an object, or a list of some.
func beginsJSON(rest []byte) answer {
	if len(rest) > 0 && rest[0] == '[' {
		rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	}
	return hasPrefix(rest, "{")
}

// beginsNamed is one for a name that some text follows.
func beginsNamed(follow ...string) func([]byte) answer {
	follows := beginsWith(follow...)
	return func(rest []byte) answer {
		n := nameLength(rest)
		switch {
		case n == len(rest) && n < maxName:
			return unsure
		case n == 0 || n >= maxName:
			return no
		}
		return follows(rest[n:])
	}
}

const maxName = 128 // bytes of the name of a tool, as it is looked for

// nameLength returns how many bytes of text can be the name of a tool.
func nameLength(text []byte) int {
	for i, c := range text {
		if !isWord(c) && c != ':' && c != '/' || c == '+' {
			return i
		}
	}
	return len(text)
}

// after is a [syntax.json]: JSON follows one of some marks.
func after(marks ...string) func([]byte) bool {
	return func(before []byte) bool {
		before = bytes.TrimRight(before, " \t\r\n")
		return slices.ContainsFunc(marks, func(mark string) bool { return bytes.HasSuffix(before, []byte(mark)) })
	}
}

// valid returns text with U+FFFD for each byte that is not UTF-8.
func valid(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	return string([]rune(string(text)))
}
