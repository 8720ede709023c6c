// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	maxOperators = 3_000_000 // of a page
	maxOperands  = 64        // of an operator; an array is one
	maxStates    = 256       // graphics states that are kept
	maxForms     = 10_000    // drawn on a page
	maxFormDepth = 8         // inside each other
	lookOften    = 1024      // operators between looks at the context
	minSpaced    = 6         // bytes of a string from which on space between its characters is a style
)

// A Page is what there is to read on a page.
type Page struct {
	Text    string // lines, each with its ending
	Unknown int    // characters whose meaning the document does not tell; each is U+FFFD in the text
	Images  int    // drawn on the page
	Cut     error  // why not all of it was read, or nil
}

// Page returns the text of a page, of which 0 is the first. At most limit
// bytes of it are made. What goes wrong on one page only is told in Cut; an
// error is the end of all reading.
func (d *Document) Page(ctx context.Context, page, limit int) (Page, error) {
	d.during(ctx)
	if d.failure != nil {
		return Page{}, d.failure
	}
	if page < 0 || page >= len(d.pages) {
		return Page{}, fmt.Errorf("there is no page %d of %d", page, len(d.pages))
	}
	sound := !d.repaired
	p, err := d.readPage(page, limit)
	if err == nil && sound && d.repaired { // some of it was found by tables that are wrong
		return d.readPage(page, limit)
	}
	return p, err
}

func (d *Document) readPage(page, limit int) (Page, error) {
	r := &reading{d: d, out: collector{limit: limit}}
	resources := d.dict(d.inherited(page, "Resources"))
	described := d.dict(ref{num: d.nodes[d.pages[page]].num})
	in := &contents{d: d, streams: d.list(described["Contents"])}
	err := r.run(in, resources, state{ctm: identity, scale: 1}, 0)
	if d.failure != nil {
		return Page{}, d.failure
	}
	return Page{Text: r.out.String(), Unknown: r.out.unknown, Images: r.images, Cut: cmp.Or(err, r.out.full, r.lost, in.lost)}, nil
}

// contents reads the streams of a page one after the other, with white space
// between them. One that cannot be read is passed over.
type contents struct {
	d       *Document
	streams array
	now     io.Reader
	lost    error // why one was passed over
}

func (c *contents) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if c.now == nil {
			if len(c.streams) == 0 {
				return 0, io.EOF
			}
			s, ok := c.d.resolve(c.streams[0]).(stream)
			c.streams = c.streams[1:]
			if c.d.failure != nil {
				return 0, c.d.failure
			}
			if !ok {
				continue
			}
			data, err := c.d.decode(s)
			if err != nil {
				c.lost = err
				continue
			}
			c.now = data
		}
		n, err := c.now.Read(p)
		if err == io.EOF {
			c.now, err = nil, nil
			if n == 0 {
				p[0], n = '\n', 1
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// A matrix is [a b 0; c d 0; e f 1].
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

// times returns the matrix that does m first, then n.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// state is the part of the graphics state that text depends on.
type state struct {
	ctm                      matrix
	font                     *font
	size, chars, words, rise float64
	leading, scale           float64
}

// reading is the reading of one page.
type reading struct {
	d         *Document
	out       collector
	operators int
	forms     int
	images    int
	lost      error // why a form was passed over
	runes     []rune
}

// A program is the running of one content stream.
type program struct {
	*reading
	state
	resources dict
	fonts     dict // of the resources, once looked up
	depth     int
	saved     []state
	unsaved   int    // states that were too many to be kept
	text      matrix // where the next character is
	line      matrix // where the line began
	operands  []object
}

// run reads what a content stream shows.
func (r *reading) run(in io.Reader, resources dict, start state, depth int) error {
	p := &program{reading: r, state: start, resources: resources, depth: depth, text: identity, line: identity}
	l := newLexer(in, contentBuf)
	for {
		l.room = maxObject
		token, err := l.token()
		if err == nil {
			token, err = l.value(token, 0)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		operator, ok := token.(keyword)
		if !ok {
			if len(p.operands) < maxOperands {
				p.operands = append(p.operands, token)
			}
			continue
		}
		if r.operators++; r.operators > maxOperators {
			return fmt.Errorf("%w: a page has more than %d operators", ErrLimit, maxOperators)
		}
		if r.operators%lookOften == 0 {
			if r.d.failure = r.d.stop(); r.d.failure != nil {
				return r.d.failure
			}
		}
		if operator == "ID" {
			r.images++
			err = skipImage(l)
		} else {
			err = p.do(operator)
		}
		if err != nil || r.out.full != nil {
			return err
		}
		clear(p.operands)
		p.operands = p.operands[:0]
	}
}

// skipImage passes over the data of an image, up to an EI that what follows
// lets pass as one.
func skipImage(l *lexer) error {
	var last [3]byte
	for {
		c, err := l.take()
		if err != nil {
			return nil // the program ends in the image
		}
		if isSpace(last[0]) && last[1] == 'E' && last[2] == 'I' && isSpace(c) {
			after, err := l.in.Peek(16)
			if err != nil && err != io.EOF {
				return err
			}
			if !bytes.ContainsFunc(after, func(r rune) bool { return r > '~' || r < ' ' && !strings.ContainsRune("\x00\t\n\f\r", r) }) {
				return nil
			}
		}
		last = [3]byte{last[1], last[2], c}
	}
}

// number returns an operand that is a number, or 0.
func (p *program) number(i int) float64 {
	if i < len(p.operands) {
		return decimal(p.operands[i])
	}
	return 0
}

func (p *program) operand(i int) object {
	if i < len(p.operands) {
		return p.operands[i]
	}
	return nil
}

// matrix returns the operands that are one.
func (p *program) matrix() (m matrix, ok bool) {
	for i := range m {
		m[i] = p.number(i)
	}
	return m, len(p.operands) == len(m)
}

// do runs one operator.
func (p *program) do(operator keyword) error {
	switch operator {
	case "q":
		if len(p.saved) < maxStates {
			p.saved = append(p.saved, p.state)
		} else {
			p.unsaved++
		}
	case "Q":
		if p.unsaved > 0 {
			p.unsaved--
		} else if n := len(p.saved); n > 0 {
			p.state, p.saved = p.saved[n-1], p.saved[:n-1]
		}
	case "cm":
		if m, ok := p.matrix(); ok {
			p.ctm = m.times(p.ctm)
		}
	case "BT":
		p.text, p.line = identity, identity
	case "Tf":
		font, _ := p.operand(0).(name)
		p.setFont(font)
		p.size = p.number(1)
	case "Tc":
		p.chars = p.number(0)
	case "Tw":
		p.words = p.number(0)
	case "Tz":
		p.scale = p.number(0) / 100
	case "TL":
		p.leading = p.number(0)
	case "Ts":
		p.rise = p.number(0)
	case "Td":
		p.move(p.number(0), p.number(1))
	case "TD":
		p.leading = -p.number(1)
		p.move(p.number(0), p.number(1))
	case "Tm":
		if m, ok := p.matrix(); ok {
			p.text, p.line = m, m
		}
	case "T*":
		p.move(0, -p.leading)
	case "Tj":
		p.showAll(array{p.operand(0)})
	case "'":
		p.move(0, -p.leading)
		p.showAll(array{p.operand(0)})
	case "\"":
		p.words, p.chars = p.number(0), p.number(1)
		p.move(0, -p.leading)
		p.showAll(array{p.operand(2)})
	case "TJ":
		list, _ := p.operand(0).(array)
		p.showAll(list)
	case "gs":
		p.setState()
	case "Do":
		return p.draw()
	}
	return nil
}

func (p *program) move(x, y float64) {
	p.line = matrix{1, 0, 0, 1, x, y}.times(p.line)
	p.text = p.line
}

// advance goes on in the direction of writing.
func (p *program) advance(by float64) {
	if p.font != nil && p.font.vertical {
		p.text = matrix{1, 0, 0, 1, 0, by}.times(p.text)
	} else {
		p.text = matrix{1, 0, 0, 1, by * p.scale, 0}.times(p.text)
	}
}

func (p *program) setFont(called name) {
	if p.fonts == nil {
		if p.fonts = p.d.dict(p.resources["Font"]); p.fonts == nil {
			p.fonts = dict{}
		}
	}
	p.font = p.d.font(p.fonts[called])
}

// setState takes the font of a graphics state that has a name.
func (p *program) setState() {
	called, _ := p.operand(0).(name)
	set := p.d.dict(p.d.dict(p.resources["ExtGState"])[called])
	if list, ok := p.d.resolve(set["Font"]).(array); ok && len(list) == 2 {
		p.font = p.d.font(list[0])
		p.size = decimal(p.d.resolve(list[1]))
	}
}

// showAll shows strings, and moves between them by the numbers there.
//
// Space between all characters of a string is a style, and parts no words. But
// some programs put just a few characters into a string, with space in place of
// a blank, or take the space back where there is no blank.
func (p *program) showAll(list array) {
	size, takenBack := 0, false
	for _, o := range list {
		size += len(asText(o))
		takenBack = takenBack || decimal(o)/1000*p.size > p.chars/2
	}
	for _, o := range list {
		switch o := o.(type) {
		case text:
			p.show(o, size >= minSpaced && !takenBack)
		case float64:
			p.advance(-o / 1000 * p.size)
		}
	}
}

// show shows a string. Where it is spaced, space between its characters belongs
// to them.
func (p *program) show(s text, spaced bool) {
	if p.font == nil {
		p.font = p.d.font(nil)
	}
	at := matrix{p.size * p.scale, 0, 0, p.size, 0, p.rise}
	for len(s) > 0 && p.out.full == nil {
		c, runes := p.font.next(s, p.runes[:0])
		p.runes = runes
		s = s[c.size:]
		if !c.known {
			p.runes = append(p.runes[:0], '\uFFFD')
		}
		where := at.times(p.text).times(p.ctm)
		space := p.chars
		if c.size == 1 && c.code == ' ' {
			space += p.words
		}
		width := c.width
		if p.font.vertical {
			// From the top of the character downwards, by its size.
			where = matrix{-where[2], -where[3], where[0], where[1], where[4], where[5]}
			width = 1
			p.advance(-p.size - space)
		} else {
			p.advance(c.width*p.size + space)
		}
		if space > 0 && p.size > 0 && (spaced || space != p.chars) {
			width += space / p.size
		}
		p.out.add(where, width, p.runes)
	}
}

// draw shows what a form shows.
func (p *program) draw() error {
	called, _ := p.operand(0).(name)
	form, ok := p.d.resolve(p.d.dict(p.resources["XObject"])[called]).(stream)
	if !ok {
		return nil
	}
	switch p.d.resolve(form.dict["Subtype"]) {
	case name("Image"):
		p.images++
		return nil
	case name("Form"):
	default:
		return nil
	}
	if p.depth >= maxFormDepth { // one that draws itself, most likely
		return nil
	}
	if p.forms++; p.forms > maxForms {
		return fmt.Errorf("%w: a page draws more than %d forms", ErrLimit, maxForms)
	}
	resources := p.d.dict(form.dict["Resources"])
	if resources == nil {
		resources = p.resources
	}
	inside := p.state
	if list, ok := p.d.resolve(form.dict["Matrix"]).(array); ok && len(list) == 6 {
		var m matrix
		for i := range m {
			m[i] = decimal(p.d.resolve(list[i]))
		}
		inside.ctm = m.times(inside.ctm)
	}
	data, err := p.d.decode(form)
	if err != nil {
		p.lost = err
		return nil
	}
	return p.run(data, resources, inside, p.depth+1)
}

// finite tells whether a place can be on a page.
func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.Abs(v) > 1e6 {
			return false
		}
	}
	return true
}
