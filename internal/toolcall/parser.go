// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Parser finds the calls in what a model writes. It is for one message of one model,
// and for one goroutine.
type Parser struct {
	// Accepts, if set, reports whether there is a tool of a name that is not among those of
	// [NewParser]. Set it before the first Write.
	Accepts func(name string) bool

	dialect   *Dialect // nil: not known yet, or text of any dialect
	known     *catalog
	undecided []byte // what came before it was clear what it is
	scanned   int    // how much of it was looked at for the end of its first object
	first     int    // one more than where that begins; 0: it did not begin yet
	scan      jsonScan
	auto      bool
	stream    *stream
	text      *textParser
}

// What a [NewParser] takes beside the names of dialects.
const (
	Auto    = "auto" // whatever it is
	AnyText = "text" // text with calls of any dialect
)

// NewParser returns a parser for a dialect, for [AnyText] or for [Auto]. Calls of tools
// that are not among these are broken; without any, all names are taken. Beside a
// dialect's complete messages a parser takes its streams, also as server-sent events.
func NewParser(dialect string, tools []Tool) (*Parser, error) {
	p := &Parser{known: newCatalog(tools)}
	switch dialect {
	case Auto:
		p.auto = true
		return p, nil
	case AnyText:
		p.text = newTextParser(p.known, allSyntaxes())
		return p, nil
	}
	d, err := Named(dialect)
	if err != nil {
		return nil, fmt.Errorf("%w, %s or %s", err, AnyText, Auto)
	}
	p.dialect = d
	if d.Text {
		p.text = newTextParser(p.known, d.syntaxes)
	} else {
		p.stream = &stream{known: p.known, event: d.event}
	}
	return p, nil
}

func allSyntaxes() (all []*syntax) {
	for _, d := range Dialects {
		for _, s := range d.syntaxes {
			if s != jsonFence { // everybody writes JSON in fences
				all = append(all, s)
			}
		}
	}
	return all
}

// Write takes the next piece of what the model writes and returns what became clear
// with it. The slice is good until the next Write.
func (p *Parser) Write(chunk []byte) []Piece {
	p.known.accepts = p.Accepts
	if p.auto {
		p.undecided = append(p.undecided, chunk...)
		if !p.decide(false) {
			return nil
		}
		chunk, p.undecided = p.undecided, nil
	}
	if p.stream != nil {
		return p.stream.write(chunk)
	}
	return p.text.write(chunk)
}

// Close says that the message has ended and returns the rest.
func (p *Parser) Close() []Piece {
	var pieces []Piece
	if p.auto {
		p.decide(true)
		pieces = p.Write(nil)
	}
	if p.stream != nil {
		return append(pieces, p.stream.close()...)
	}
	return append(slices.Clone(pieces), p.text.close()...)
}

// decide finds out whether what comes is JSON of a provider or text.
func (p *Parser) decide(final bool) bool {
	found := p.detect()
	if found == unsure && !final {
		return false
	}
	p.auto = false
	if found == yes {
		p.stream = &stream{known: p.known, event: p.dialect.event}
	} else {
		p.text = newTextParser(p.known, allSyntaxes())
	}
	return true
}

func (p *Parser) detect() answer {
	text := bytes.TrimLeft(p.undecided, " \t\r\n\ufeff")
	if len(text) == 0 {
		if len(p.undecided) > maxGap {
			return no
		}
		return unsure
	}
	if text[0] != '{' {
		lines := beginsWith("data:", "event:", "id:", ":")(text)
		if text[0] == '[' {
			lines = beginsWith("{")(bytes.TrimLeft(text[1:], " \t\r\n"))
		}
		if lines != yes {
			return lines
		}
	}
	first := p.firstObject()
	if first == nil {
		if len(text) > maxCall {
			return no
		}
		return unsure
	}
	o, _ := parseObject(first)
	for _, d := range Dialects {
		if d.knows != nil && d.knows(o) {
			p.dialect = d
			return yes
		}
	}
	return no
}

// firstObject returns the first JSON object of what is undecided; nil where it is not
// complete. What was looked at before is not looked at again.
func (p *Parser) firstObject() []byte {
	if p.first == 0 {
		start := bytes.IndexByte(p.undecided[p.scanned:], '{')
		if start < 0 {
			p.scanned = len(p.undecided)
			return nil
		}
		p.scanned += start
		p.first = p.scanned + 1
	}
	n, state := p.scan.scan(p.undecided[p.scanned:])
	p.scanned += n
	if state == jsonMore {
		return nil
	}
	return p.undecided[p.first-1 : p.scanned]
}

// A stream reads JSON of a provider: a message, or the events of one. What is between
// objects, such as the lines of server-sent events, says nothing.
type stream struct {
	known  *catalog
	event  func(*stream, []byte)
	buf    []byte
	inside bool // buf is an object
	seen   int  // how much of it was looked at
	scan   jsonScan
	pieces []Piece
	open   []*openCall
	held   int // bytes of their arguments
}

const maxOpen = 1000 // calls that have not ended

// An openCall is a call whose arguments come in pieces.
type openCall struct {
	index int
	draft
	arguments []byte
	scan      jsonScan
	done      bool
}

func (s *stream) write(chunk []byte) []Piece {
	s.pieces = nil
	s.buf = append(s.buf, chunk...)
	for {
		if !s.inside {
			start := bytes.IndexByte(s.buf, '{')
			if start < 0 {
				s.buf = s.buf[:0]
				return s.pieces
			}
			s.buf = append(s.buf[:0], s.buf[start:]...)
			s.inside, s.seen, s.scan = true, 0, jsonScan{}
		}
		n, state := s.scan.scan(s.buf[s.seen:])
		s.seen += n
		if state == jsonMore {
			if len(s.buf) > 4*maxCall {
				s.pieces = append(s.pieces, broken("", "", s.buf[:100], "the event has more than %d bytes", 4*maxCall))
				s.buf, s.inside = nil, false
			}
			return s.pieces
		}
		if state == jsonEnded {
			s.event(s, s.buf[:s.seen])
		}
		s.buf, s.inside = append(s.buf[:0], s.buf[s.seen:]...), false
	}
}

func (s *stream) close() []Piece {
	s.pieces = nil
	if s.inside && len(bytes.TrimSpace(s.buf)) > 1 {
		s.pieces = append(s.pieces, broken("", "", s.buf, "the message ends before it is complete"))
	}
	s.buf, s.inside = nil, false
	for _, c := range s.open {
		if !c.done {
			s.finish(c, false)
		}
	}
	s.open = nil
	return s.pieces
}

// say hands text over.
func (s *stream) say(text string) {
	if text == "" {
		return
	}
	if n := len(s.pieces); n > 0 {
		if before, ok := s.pieces[n-1].(Text); ok {
			s.pieces[n-1] = before + Text(text)
			return
		}
	}
	s.pieces = append(s.pieces, Text(text))
}

// call hands a call over that is complete; its input is JSON, or a string of it.
func (s *stream) call(id, name string, input json.RawMessage) {
	d := draft{id: id, name: name, input: string(input), closed: true}
	d.raw = strings.TrimSpace(name + " " + string(input))
	s.pieces = append(s.pieces, s.known.finish(d, nil))
}

// failed hands an error of the provider over.
func (s *stream) failed(message string) {
	s.pieces = append(s.pieces, Broken{Message: "The provider ended the message: " + message})
}

// begin notes a call whose arguments follow.
func (s *stream) begin(index int, id, name string) *openCall {
	c := &openCall{index: index, draft: draft{id: id, name: name}}
	if len(s.open) >= maxOpen {
		s.open = slices.DeleteFunc(s.open, func(c *openCall) bool { return c.done })
	}
	if len(s.open) >= maxOpen {
		c.done = true
		s.pieces = append(s.pieces, broken(id, name, []byte(name), "%d calls before it have not ended", maxOpen))
		return c
	}
	s.open = append(s.open, c)
	return c
}

// at returns the call of an index.
func (s *stream) at(index int) *openCall {
	for i := len(s.open) - 1; i >= 0; i-- {
		if s.open[i].index == index {
			return s.open[i]
		}
	}
	return nil
}

// argue takes more of the arguments of a call, and hands it over once they are complete.
func (s *stream) argue(c *openCall, text string) {
	if c == nil || c.done || text == "" {
		return
	}
	c.arguments = append(c.arguments, text...)
	s.held += len(text)
	if len(c.arguments) > maxCall || s.held > 4*maxCall {
		s.held -= len(c.arguments)
		c.done = true
		s.pieces = append(s.pieces, broken(c.id, c.name, c.arguments[:100], "it has more than %d bytes", maxCall))
		c.arguments = nil
		return
	}
	if first := bytes.TrimLeft(c.arguments, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return
	}
	if _, state := c.scan.scan([]byte(text)); state == jsonEnded && json.Valid(c.arguments) {
		s.finish(c, true)
	}
}

// end says that the arguments of a call are complete.
func (s *stream) end(c *openCall) {
	if c != nil && !c.done {
		s.finish(c, false)
	}
}

func (s *stream) finish(c *openCall, closed bool) {
	c.done = true
	s.held -= len(c.arguments)
	c.input, c.closed = string(c.arguments), closed
	c.raw = strings.TrimSpace(c.name + " " + c.input)
	s.pieces = append(s.pieces, s.known.finish(c.draft, nil))
	c.arguments = nil
}

// decodeEvent reads an event. One that does not fit says nothing.
func decodeEvent[E any](text []byte) (e E, ok bool) {
	err := json.Unmarshal(text, &e)
	return e, err == nil
}
