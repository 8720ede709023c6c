// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"cmp"
	"io"
	"slices"
	"sort"
	"unicode/utf16"
)

const maxMappings = 100_000 // of a font

// A cmap maps the codes of a font to text, or to the numbers of glyphs.
type cmap struct {
	spaces   []codeSpace
	mappings []mapping // by their first code
	vertical bool
}

// A codeSpace says how many bytes the codes in it have.
type codeSpace struct {
	low, high uint32
	size      int
}

// A mapping is that of the codes from low to high, which mean what follows the
// text or the glyph, one after the other.
type mapping struct {
	low, high uint32
	text      []rune
	glyph     uint32
}

// readCMap reads a map. One that is cut or damaged is used as far as it goes.
func readCMap(in io.Reader) *cmap {
	m := new(cmap)
	l := newLexer(in, lexerBuf)
	var before, last object // the two tokens before this one
	for {
		l.room = maxObject
		token, err := l.token()
		if err != nil {
			break
		}
		switch token {
		case keyword("begincodespacerange"):
			m.rows(l, 2, func(row []object) {
				low, high := asText(row[0]), asText(row[1])
				if n := len(low); n > 0 && n <= 4 && n == len(high) && len(m.spaces) < 100 {
					m.spaces = append(m.spaces, codeSpace{codeOf(low), codeOf(high), n})
				}
			})
		case keyword("beginbfchar"), keyword("begincidchar"):
			m.rows(l, 2, func(row []object) { m.add(codeOf(asText(row[0])), codeOf(asText(row[0])), row[1]) })
		case keyword("beginbfrange"), keyword("begincidrange"):
			m.rows(l, 3, func(row []object) { m.add(codeOf(asText(row[0])), codeOf(asText(row[1])), row[2]) })
		case keyword("def"):
			if before == name("WMode") && last == 1.0 {
				m.vertical = true
			}
		}
		before, last = last, token
	}
	slices.SortStableFunc(m.mappings, func(a, b mapping) int { return cmp.Compare(a.low, b.low) })
	return m
}

// rows calls do with each n objects up to the keyword that ends them.
func (m *cmap) rows(l *lexer, n int, do func([]object)) {
	row := make([]object, 0, n)
	for {
		l.room = maxObject
		token, err := l.token()
		if err != nil {
			return
		}
		o, err := l.value(token, 0)
		if _, end := o.(keyword); end || err != nil {
			return
		}
		if row = append(row, o); len(row) == n {
			do(row)
			row = row[:0]
		}
	}
}

func asText(o object) text {
	s, _ := o.(text)
	return s
}

// codeOf returns the number that up to four bytes are.
func codeOf(s text) (code uint32) {
	for i := range min(len(s), 4) {
		code = code<<8 | uint32(s[i])
	}
	return code
}

// add maps codes to text, to a list of texts, or to glyphs.
func (m *cmap) add(low, high uint32, to object) {
	if high < low || len(m.mappings) >= maxMappings {
		return
	}
	switch to := to.(type) {
	case text:
		m.mappings = append(m.mappings, mapping{low: low, high: high, text: fromUTF16(to)})
	case array:
		for i, o := range to {
			if uint32(i) > high-low || len(m.mappings) >= maxMappings {
				return
			}
			at := low + uint32(i)
			m.mappings = append(m.mappings, mapping{low: at, high: at, text: fromUTF16(asText(o))})
		}
	case float64:
		if n, ok := integer(to); ok && n >= 0 {
			m.mappings = append(m.mappings, mapping{low: low, high: high, glyph: uint32(n)})
		}
	}
}

// fromUTF16 decodes what a code stands for. More than a few characters are
// nothing that a glyph can show.
func fromUTF16(s text) []rune {
	const most = 32
	units := make([]uint16, 0, min(len(s)/2, most))
	for i := 0; i+1 < len(s) && len(units) < most; i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	if len(s) == 1 {
		units = append(units, uint16(s[0]))
	}
	return utf16.Decode(units)
}

// find returns the mapping of a code, and how far the code is from its first.
func (m *cmap) find(code uint32) (mapping, uint32, bool) {
	if m == nil {
		return mapping{}, 0, false
	}
	// Of those that begin with the same code the last counts.
	i := sort.Search(len(m.mappings), func(i int) bool { return m.mappings[i].low > code }) - 1
	if i < 0 || m.mappings[i].high < code {
		return mapping{}, 0, false
	}
	return m.mappings[i], code - m.mappings[i].low, true
}

// appendText appends what a code means, and tells whether that is known.
func (m *cmap) appendText(out []rune, code uint32) ([]rune, bool) {
	found, by, ok := m.find(code)
	if !ok || len(found.text) == 0 {
		return out, false
	}
	out = append(out, found.text...)
	out[len(out)-1] += rune(by)
	return out, true
}

// glyph returns the number of the glyph of a code.
func (m *cmap) glyph(code uint32) int {
	found, by, _ := m.find(code)
	return int(found.glyph + by)
}

// next returns the first code of a string and how many bytes it has.
func (m *cmap) next(s text) (code uint32, size int) {
	for n := 1; n <= min(4, len(s)); n++ {
		code = code<<8 | uint32(s[n-1])
		for _, space := range m.spaces {
			if space.size == n && space.holds(code) {
				return code, n
			}
		}
	}
	// Nothing fits: as many bytes as the shortest code has.
	size = 2
	if len(m.spaces) > 0 {
		size = slices.MinFunc(m.spaces, func(a, b codeSpace) int { return a.size - b.size }).size
	}
	size = min(size, len(s))
	return codeOf(s[:size]), size
}

// holds tells whether each byte of a code is in the range of the bytes at its
// place.
func (c codeSpace) holds(code uint32) bool {
	for shift := 0; shift < 8*c.size; shift += 8 {
		if b := byte(code >> shift); b < byte(c.low>>shift) || b > byte(c.high>>shift) {
			return false
		}
	}
	return true
}
