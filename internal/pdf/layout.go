// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxSpans  = 100_000 // pieces of text on a page
	maxBlocks = 2000    // more are taken for one
	maxBands  = 64      // rows of blocks among which columns are looked for
)

// How far apart things are, in parts of the size of the letters.
const (
	wordGap  = 0.1 // between words
	pieceGap = 1.0 // between pieces of text that may belong to different columns
	cellGap  = 2.0 // between cells of a table: shown as a tab
	overlap  = 0.5 // of letters that are put closer together
	sameLine = 0.3 // between the baselines of a line
	indexed  = 0.6 // the same, for what stands higher or lower after something
	apart    = 2.2 // between the baselines of two blocks
	wider    = 1.4 // the same, as a multiple of the lines before
)

// A span is a piece of text on a line. Its place is as seen by a reader who
// holds the page so that the text is upright.
type span struct {
	x0, x1, y, size float64
	start, end      int // in the text
}

// A collector brings the characters of a page into the order of reading.
type collector struct {
	limit   int
	full    error // why no more is taken, or nil
	unknown int
	buf     []byte
	count   int
	sides   [4][]span // by the direction of writing: right, up, left, down
	last    int       // side of the last span
	glyph   span      // the last character
}

// add takes a character: where is its place and size, and it is width wide.
func (c *collector) add(where matrix, width float64, runes []rune) {
	s, side, ok := place(where, width)
	if !ok {
		return
	}
	before := len(c.buf)
	c.buf = c.appendClean(c.buf, runes)
	if added := c.buf[before:]; len(added) == 0 || strings.TrimSpace(string(added)) == "" {
		// Space parts what is on both sides of it, and is nothing elsewhere.
		c.buf = c.buf[:before]
		if last := c.lastOf(side); last != nil && len(added) > 0 && last.end == before && last.goesOn(s) {
			last.x1 = max(last.x1, s.x1)
			if before > last.start && c.buf[before-1] != ' ' {
				c.buf = append(c.buf, ' ')
				last.end = len(c.buf)
			}
		}
		return
	}
	if len(c.buf) > c.limit {
		c.full = fmt.Errorf("%w: a page has more than %d bytes of text", ErrLimit, c.limit)
	} else if c.count >= maxSpans {
		c.full = fmt.Errorf("%w: a page has more than %d pieces of text", ErrLimit, maxSpans)
	}
	if c.full != nil {
		c.buf = c.buf[:before]
		return
	}
	last := c.lastOf(side)
	if last != nil && last.end == before && c.joinAccent(s, before) {
		last.x1, last.end = max(last.x1, s.x1), len(c.buf)
		return
	}
	c.glyph = s
	if last != nil && last.end == before && last.goesOn(s) {
		if s.x0-last.x1 > wordGap*s.size && c.buf[before-1] != ' ' && c.buf[before] != ' ' {
			c.buf = slices.Insert(c.buf, before, ' ')
		}
		last.x1, last.end, last.size = max(last.x1, s.x1), len(c.buf), max(last.size, s.size)
		return
	}
	s.start, s.end = before, len(c.buf)
	c.sides[side] = append(c.sides[side], s)
	c.last = side
	c.count++
}

// place returns a span for a character, and the side it is read from.
func place(where matrix, width float64) (s span, side int, ok bool) {
	x, y := where[4], where[5]
	dx, dy := where[0], where[1]
	s.size = math.Hypot(where[2], where[3])
	length := math.Hypot(dx, dy) * width
	if !finite(x, y, s.size, length) || s.size < 1e-3 {
		return span{}, 0, false
	}
	switch {
	case dx >= math.Abs(dy):
	case dy > math.Abs(dx):
		side, x, y = 1, y, -x
	case -dx >= math.Abs(dy):
		side, x, y = 2, -x, -y
	default:
		side, x, y = 3, -y, x
	}
	s.x0, s.x1, s.y = x, x+length, y
	return s, side, true
}

// lastOf returns the last span, if it is of a side.
func (c *collector) lastOf(side int) *span {
	if c.last != side || len(c.sides[side]) == 0 {
		return nil
	}
	return &c.sides[side][len(c.sides[side])-1]
}

// goesOn tells whether next is the end of a piece that s is the beginning of.
func (s *span) goesOn(next span) bool {
	size := min(s.size, next.size)
	gap := next.x0 - s.x1
	return math.Abs(next.y-s.y) < sameLine*size && gap > -overlap*size && gap < pieceGap*size
}

// appendClean appends what characters mean to a reader.
func (c *collector) appendClean(out []byte, runes []rune) []byte {
	for _, r := range runes {
		switch {
		case r == '\u00ad': // where a line was broken
			out = append(out, '-')
		case r == '\uf0b7': // of symbol fonts
			out = append(out, "•"...)
		case r == '\uf0a7':
			out = append(out, "▪"...)
		case unicode.IsSpace(r):
			out = append(out, ' ')
		case r >= '\ufb00' && r <= '\ufb06':
			out = append(out, [...]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}[r-'\ufb00']...)
		case r >= '\u200b' && r <= '\u200f', r == '\ufeff': // invisible
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Co, r), !utf8.ValidRune(r):
			c.unknown++
			out = append(out, "\uFFFD"...)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// String returns the text: of the side that has most of it first.
func (c *collector) String() string {
	sides := slices.Clone(c.sides[:])
	slices.SortStableFunc(sides, func(a, b []span) int { return cmp.Compare(len(b), len(a)) })
	var out strings.Builder
	for _, spans := range sides {
		if len(spans) == 0 {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		c.write(&out, order(blocksOf(spans)))
	}
	return out.String()
}

// A line is the spans on one baseline.
type line struct {
	spans           []span
	y, x0, x1, size float64
}

func newLine(s span) line { return line{[]span{s}, s.y, s.x0, s.x1, s.size} }

// holds tells whether a span is on the line.
func (l *line) holds(s span) bool {
	size := max(l.size, s.size)
	if math.Abs(s.y-l.y) < sameLine*min(l.size, s.size) {
		return true
	}
	// An index or an exponent directly follows what it belongs to.
	gap := s.x0 - l.x1
	return math.Abs(s.y-l.y) < indexed*size && gap > -overlap*size && gap < overlap*size
}

func (l *line) add(s span) {
	if s.size > l.size {
		l.y, l.size = s.y, s.size
	}
	l.spans = append(l.spans, s)
	l.x0, l.x1 = min(l.x0, s.x0), max(l.x1, s.x1)
}

// A block is lines below each other.
type block struct {
	lines          []line
	x0, x1, y0, y1 float64 // y1 is the top
}

func newBlock(l line) block {
	return block{[]line{l}, l.x0, l.x1, l.y, l.y + l.size/2}
}

func (b *block) add(l line) {
	b.lines = append(b.lines, l)
	b.x0, b.x1 = min(b.x0, l.x0), max(b.x1, l.x1)
	b.y0, b.y1 = min(b.y0, l.y), max(b.y1, l.y+l.size/2)
}

// blocksOf makes lines and blocks of spans in the order in which they were
// drawn, which mostly is that in which they were written.
func blocksOf(spans []span) []block {
	var lines []line
	for _, s := range spans {
		if n := len(lines); n > 0 && lines[n-1].holds(s) {
			lines[n-1].add(s)
		} else {
			lines = append(lines, newLine(s))
		}
	}
	var blocks []block
	step := 0.0 // between the last two lines
	for i, l := range lines {
		if i == 0 {
			blocks = append(blocks, newBlock(l))
			continue
		}
		down := lines[i-1].y - l.y
		b := &blocks[len(blocks)-1]
		beside := l.x0 > b.x1 || l.x1 < b.x0
		if down < 0 || beside || down > apart*l.size || step > 0 && down > wider*step && down > wider*l.size {
			blocks = append(blocks, newBlock(l))
			step = 0
			continue
		}
		b.add(l)
		step = down
	}
	return joined(blocks)
}

// joined makes one block of those that lie over each other: what is in them was
// drawn in another order than it is read.
func joined(blocks []block) []block {
	if len(blocks) > maxBlocks {
		all := blocks[0]
		for _, b := range blocks[1:] {
			for _, l := range b.lines {
				all.add(l)
			}
		}
		return []block{all.sorted()}
	}
	for i := 0; i < len(blocks); i++ {
		mixed := false
		for j := i + 1; j < len(blocks); j++ {
			a, b := &blocks[i], &blocks[j]
			if a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1 {
				for _, l := range b.lines {
					a.add(l)
				}
				mixed = true
				blocks = slices.Delete(blocks, j, j+1)
				j = i // it is larger now: look at all again
			}
		}
		if mixed {
			blocks[i] = blocks[i].sorted()
		}
	}
	return blocks
}

// sorted returns a block with its lines from top to bottom, and those that are
// on one baseline made one.
func (b block) sorted() block {
	slices.SortStableFunc(b.lines, func(m, n line) int { return cmp.Compare(n.y, m.y) })
	lines := b.lines[:1]
	for _, l := range b.lines[1:] {
		last := &lines[len(lines)-1]
		if math.Abs(l.y-last.y) >= sameLine*min(l.size, last.size) {
			lines = append(lines, l)
			continue
		}
		for _, s := range l.spans {
			last.add(s)
		}
	}
	b.lines = lines
	return b
}

// order returns blocks in the order of reading: columns from left to right
// where there are columns, from top to bottom otherwise.
func order(blocks []block) []block {
	if len(blocks) < 2 {
		return blocks
	}
	if columns := columnsOf(blocks); len(columns) > 1 {
		var all []block
		for _, column := range columns {
			all = append(all, order(column)...)
		}
		return all
	}
	bands := bandsOf(blocks)
	if len(bands) == 1 {
		return blocks
	}
	var all []block
	for len(bands) > 0 {
		// The most bands that have columns in common go together.
		n := 1
		for m := min(len(bands), maxBands); m > 1 && len(bands) < len(blocks); m-- {
			if together := slices.Concat(bands[:m]...); len(columnsOf(together)) > 1 {
				n = m
				break
			}
		}
		all = append(all, order(slices.Concat(bands[:n]...))...)
		bands = bands[n:]
	}
	return all
}

// columnsOf parts blocks by white space from top to bottom, if what is on both
// sides of it is beside each other.
func columnsOf(blocks []block) [][]block {
	sorted := slices.Clone(blocks)
	slices.SortStableFunc(sorted, func(a, b block) int { return cmp.Compare(a.x0, b.x0) })
	var columns [][]block
	right := 0.0
	for i, b := range sorted {
		if i == 0 || b.x0 > right {
			columns = append(columns, nil)
			right = b.x1
		}
		columns[len(columns)-1] = append(columns[len(columns)-1], b)
		right = max(right, b.x1)
	}
	for i := 1; i < len(columns); i++ {
		bottom1, top1 := extent(columns[i-1])
		bottom2, top2 := extent(columns[i])
		common := min(top1, top2) - max(bottom1, bottom2)
		if common < min(top1-bottom1, top2-bottom2)/2 {
			return nil
		}
	}
	// As they were drawn, not from left to right.
	starts := make([]float64, len(columns))
	for i := range columns {
		starts[i], columns[i] = columns[i][0].x0, nil
	}
	for _, b := range blocks {
		i := sort.Search(len(starts), func(i int) bool { return starts[i] > b.x0 }) - 1
		columns[i] = append(columns[i], b)
	}
	return columns
}

func extent(blocks []block) (bottom, top float64) {
	bottom, top = blocks[0].y0, blocks[0].y1
	for _, b := range blocks[1:] {
		bottom, top = min(bottom, b.y0), max(top, b.y1)
	}
	return bottom, top
}

// bandsOf parts blocks by white space from left to right.
func bandsOf(blocks []block) [][]block {
	sorted := slices.Clone(blocks)
	slices.SortStableFunc(sorted, func(a, b block) int { return cmp.Compare(b.y1, a.y1) })
	var bands [][]block
	bottom := 0.0
	for i, b := range sorted {
		if i == 0 || b.y1 <= bottom {
			bands = append(bands, nil)
			bottom = b.y0
		}
		bands[len(bands)-1] = append(bands[len(bands)-1], b)
		bottom = min(bottom, b.y0)
	}
	return bands
}

// write writes blocks, with an empty line between those that are apart.
func (c *collector) write(out *strings.Builder, blocks []block) {
	for i, b := range blocks {
		if i > 0 {
			last := blocks[i-1].lines[len(blocks[i-1].lines)-1]
			if down := last.y - b.lines[0].y; down < 0 || down > wider*max(last.size, b.lines[0].size) {
				out.WriteByte('\n')
			}
		}
		for _, l := range b.lines {
			c.writeLine(out, l)
		}
	}
}

func (c *collector) writeLine(out *strings.Builder, l line) {
	slices.SortStableFunc(l.spans, func(a, b span) int { return cmp.Compare(a.x0, b.x0) })
	var text []byte
	var last span
	for i, s := range l.spans {
		piece := c.buf[s.start:s.end]
		if i > 0 {
			// What is drawn twice, a little aside, is meant to be bold.
			if math.Abs(s.x0-last.x0) < wordGap*s.size && string(piece) == string(c.buf[last.start:last.end]) {
				continue
			}
			switch gap := s.x0 - last.x1; {
			case gap > cellGap*s.size:
				text = append(bytes.TrimRight(text, " "), '\t')
			case gap > wordGap*s.size && len(text) > 0 && text[len(text)-1] != ' ':
				text = append(text, ' ')
			}
		}
		text = append(text, piece...)
		last = s
	}
	if trimmed := logical(strings.TrimSpace(string(text))); trimmed != "" {
		out.WriteString(trimmed)
		out.WriteByte('\n')
	}
}
