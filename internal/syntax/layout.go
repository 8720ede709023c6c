// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"cmp"
	"slices"
)

// A layout is how a text of Go is laid out: where its braces are, and where what
// stands at its top begins. To know it takes a hundredth of the time of parsing, and
// what nobody asks about need not be parsed then.
type layout struct {
	blocks []block // in the order of the text, each before those in it
	tops   []uint32
}

// A block is what stands between two braces.
type block struct {
	span        // without the braces
	after  int  // the number of the first block behind it
	isBody bool // of a function that stands at the top
}

// maxNesting is how deep brackets may be for a layout.
const maxNesting = 1000

// What a byte is to a layout; 0 is the rest.
const (
	isWhite = 1 + iota
	isMark  // of a comment, a quote or a bracket
)

var layoutBytes = func() (kinds [256]uint8) {
	for kind, bytes := range map[uint8]string{isWhite: " \t\r\n", isMark: "/\"'`()[]{}"} {
		for _, c := range []byte(bytes) {
			kinds[c] = kind
		}
	}
	return kinds
}()

// layoutOf returns the layout of a text of Go. It reports false where brackets do not
// fit, or something does not end: such a text is parsed as it is.
func layoutOf(text []byte) (l layout, ok bool) {
	type bracket struct {
		closing byte
		block   int // -1: it is no brace
	}
	var open []bracket
	var last byte                 // that was not white
	begins, inHead := true, false // something at the top, and the head of a function there
	for i := 0; i < len(text); i++ {
		c := text[i]
		kind := layoutBytes[c]
		if kind == isWhite {
			if c == '\n' && len(open) == 0 && endsStatement(last) {
				begins, inHead = true, false
			}
			continue
		}
		if begins && len(open) == 0 {
			begins = false
			l.tops = append(l.tops, uint32(i))
			inHead = bytes.HasPrefix(text[i:], []byte("func")) && !isWordByte(text, i+4)
		}
		if kind == 0 {
			last = c
			continue
		}
		switch c {
		case '/':
			if i+1 < len(text) && (text[i+1] == '/' || text[i+1] == '*') {
				n := commentEnd(text[i:])
				if n < 0 {
					return l, false
				}
				i += n - 1
				continue // it is white
			}
		case '"', '\'', '`':
			n := quoteEnd(text[i:])
			if n < 0 {
				return l, false
			}
			i += n - 1
		case '(', '[', '{':
			if len(open) == maxNesting {
				return l, false
			}
			b := bracket{closing: ')', block: -1}
			switch c {
			case '[':
				b.closing = ']'
			case '{':
				b = bracket{'}', len(l.blocks)}
				isBody := inHead && len(open) == 0 && !endsWithType(text[:i])
				inHead = inHead && !isBody
				l.blocks = append(l.blocks, block{span: span{start: uint32(i) + 1}, isBody: isBody})
			}
			open = append(open, b)
		default:
			if len(open) == 0 || open[len(open)-1].closing != c {
				return l, false
			}
			if k := open[len(open)-1].block; k >= 0 {
				l.blocks[k].end, l.blocks[k].after = uint32(i), len(l.blocks)
			}
			open = open[:len(open)-1]
		}
		last = c
	}
	return l, len(open) == 0
}

// endsStatement reports whether a statement may end with a byte; 0 is before the first.
func endsStatement(c byte) bool {
	return c == 0 || isWordByte([]byte{c}, 0) || c == ')' || c == ']' || c == '}' || c == '"' || c == '\'' || c == '`'
}

// isWordByte reports whether a byte of a text is one of a word.
func isWordByte(text []byte, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	c := text[i]
	return c >= 0x80 || c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// endsWithType reports whether the brace behind a text is that of a type.
func endsWithType(text []byte) bool {
	text = bytes.TrimRight(text, " \t")
	return bytes.HasSuffix(text, []byte("struct")) || bytes.HasSuffix(text, []byte("interface"))
}

// commentEnd returns how long the comment is that a text begins with; -1 where it
// does not end.
func commentEnd(text []byte) int {
	if text[1] == '/' {
		if n := bytes.IndexByte(text, '\n'); n >= 0 {
			return n
		}
		return len(text)
	}
	n := bytes.Index(text[2:], []byte("*/"))
	if n < 0 {
		return -1
	}
	return n + 4
}

// quoteEnd returns how long what is quoted at the beginning of a text is, with its
// quotes; -1 where it does not end.
func quoteEnd(text []byte) int {
	if text[0] == '`' {
		n := bytes.IndexByte(text[1:], '`')
		if n < 0 {
			return -1
		}
		return n + 2
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n':
			return -1
		case text[0]:
			return i + 1
		}
	}
	return -1
}

// withoutBodies returns a text without the bodies of functions, where no symbol lies
// in them; nil where it has to be parsed as it is.
func (l *language) withoutBodies(text []byte) *excerpt {
	if !l.laidOut {
		return nil
	}
	all, ok := layoutOf(text)
	if !ok {
		return nil
	}
	var x excerpt
	at := uint32(0)
	for _, b := range all.blocks {
		if b.isBody && !declares(text[b.start:b.end]) {
			x.add(text, at, b.start)
			at = b.end
		}
	}
	if at == 0 {
		return nil // there is nothing to leave out
	}
	x.add(text, at, uint32(len(text)))
	return &x
}

// declares reports whether the body of a function may have symbols of its own: types,
// and the methods of interfaces.
func declares(body []byte) bool {
	for _, word := range []string{"type", "interface"} {
		for rest := body; ; {
			i := bytes.Index(rest, []byte(word))
			if i < 0 {
				break
			}
			behind := rest[i+len(word):]
			if !isWordByte(rest, i-1) && !isWordByte(behind, 0) {
				behind = bytes.TrimLeft(behind, " \t\r\n")
				if !bytes.HasPrefix(behind, []byte(")")) && !bytes.HasPrefix(bytes.TrimLeft(behind, "{ \t\r\n"), []byte("}")) {
					return true
				}
			}
			rest = rest[i+len(word):]
		}
	}
	return false
}

// around returns of a text what stands at its top and has one of the places in it,
// and without what stands in braces and has none if that does not matter. Places are
// in order.
func (l layout) around(text []byte, places []uint32, withBlocks bool) *excerpt {
	var x excerpt
	blocks := l.blocks
	for k, from := range l.tops {
		to := uint32(len(text))
		if k+1 < len(l.tops) {
			to = l.tops[k+1]
		}
		if !hasPlace(places, span{from, to}) || bytes.HasPrefix(text[from:], []byte("//")) {
			continue
		}
		i, _ := slices.BinarySearchFunc(blocks, from, func(b block, at uint32) int { return cmp.Compare(b.start, at) })
		for i < len(blocks) && blocks[i].start <= to && !withBlocks {
			b := blocks[i]
			if i++; !hasPlace(places, b.span) {
				x.add(text, from, b.start)
				from, i = b.end, b.after
			}
		}
		if x.add(text, from, to); text[to-1] != '\n' {
			x.text = append(x.text, '\n')
		}
	}
	return &x
}

// hasPlace reports whether one of some places, which are in order, lies in a part of
// a text.
func hasPlace(places []uint32, in span) bool {
	i, _ := slices.BinarySearch(places, in.start)
	return i < len(places) && places[i] < in.end
}
