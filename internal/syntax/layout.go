// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"slices"
)

// A layout is how a text of Go is laid out: its statements, and what stands between
// braces. To know it takes a hundredth of the time of parsing, and what nobody asks
// about need not be parsed then.
type layout struct {
	blocks []block // in the order of the text, each before those in it
	tops   []uint32
	half   bool // some brackets are open at the end
}

// A block is a part of a text that another need not know.
type block struct {
	span
	after int // the number of the first block behind it
	kind  blockKind
}

type blockKind uint8

const (
	statement blockKind = iota // up to the next one
	fixed                      // one that what follows needs: it begins with a case
	braces                     // what stands between them, of no other kind
	body                       // of a function at the top
	value                      // what stands between braces in a variable at the top
	comment                    // up to the end of a line
)

// maxNesting is how deep brackets may be for a layout.
const maxNesting = 1000

// A bracket is one that is open, or the whole text.
type bracket struct {
	closing   byte
	block     int  // the one between braces; -1 for other brackets
	statement int  // the last one in it, or -1
	begins    bool // what comes next is a statement
}

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
// fit, or a quote or a comment does not end: such a text is parsed as it is.
func layoutOf(text []byte) (l layout, ok bool) {
	open := append(make([]bracket, 0, 32), bracket{block: -1, statement: -1, begins: true})
	l.blocks = make([]block, 0, 16+len(text)/32)
	in := &open[0]
	end := 0                      // of what was not white nor a comment
	inHead, inVar := false, false // of a function at the top, and in a variable there but not in braces
	for i := 0; i < len(text); i++ {
		c := text[i]
		kind := layoutBytes[c]
		if kind == isWhite {
			in.begins = in.begins || c == '\n' && endsStatement(text[:end])
			continue
		}
		if c == '/' && i+1 < len(text) && (text[i+1] == '/' || text[i+1] == '*') {
			n := commentEnd(text[i:])
			if n < 0 {
				return l, false
			}
			if text[i+1] == '/' {
				l.blocks = append(l.blocks, block{span{uint32(i), uint32(i + n)}, len(l.blocks) + 1, comment})
			}
			i += n - 1
			continue
		}
		if in.begins && c != in.closing {
			l.begin(in, text, i)
			if len(open) == 1 {
				l.tops = append(l.tops, uint32(i))
				inHead, inVar = beginsWith(text[i:], "func"), beginsWith(text[i:], "var")
			}
		}
		if kind == 0 {
			for i+1 < len(text) && layoutBytes[text[i+1]] == 0 {
				i++
			}
			end = i + 1
			continue
		}
		code := text[:end]
		end = i + 1
		switch c {
		case '"', '\'', '`':
			n := quoteEnd(text[i:])
			if n < 0 {
				return l, false
			}
			i += n - 1
			end = i + 1
		case '(', '[':
			closing := byte(')')
			if c == '[' {
				closing = ']'
			}
			open = append(open, bracket{closing: closing, block: -1, statement: -1})
		case '{':
			kind, isType := braces, endsWithType(code)
			switch {
			case inHead && len(open) == 1 && !isType:
				kind, inHead = body, false
			case inVar && !isType:
				kind = value // if it does not lie in another one
			}
			open = append(open, bracket{closing: '}', block: len(l.blocks), statement: -1, begins: true})
			l.blocks = append(l.blocks, block{span: span{start: uint32(i) + 1}, kind: kind})
		case ')', ']', '}':
			if c != in.closing {
				return l, false
			}
			l.end(in.statement, i)
			l.end(in.block, i)
			open = open[:len(open)-1]
		}
		if in = &open[len(open)-1]; len(open) > maxNesting {
			return l, false
		}
	}
	l.half = len(open) > 1
	for _, in := range open {
		for _, number := range []int{in.statement, in.block} {
			if l.end(number, len(text)); l.half && number >= 0 {
				l.blocks[number].kind = fixed // nobody knows what belongs to it
			}
		}
	}
	return l, true
}

// begin takes note of a statement in a bracket.
func (l *layout) begin(in *bracket, text []byte, at int) {
	l.end(in.statement, at)
	in.begins, in.statement = false, len(l.blocks)
	kind := statement
	if beginsWith(text[at:], "case") || beginsWith(text[at:], "default") {
		kind = fixed
	}
	l.blocks = append(l.blocks, block{span: span{start: uint32(at)}, kind: kind})
}

// end takes note of where a block ends, if it is one.
func (l *layout) end(number, at int) {
	if number >= 0 {
		l.blocks[number].end, l.blocks[number].after = uint32(at), len(l.blocks)
	}
}

// beginsWith reports whether a text begins with a word.
func beginsWith(text []byte, word string) bool {
	return len(text) >= len(word) && string(text[:len(word)]) == word && !isWordByte(text, len(word))
}

// endsStatement reports whether a statement may end with some code: not with a keyword that
// something has to follow.
func endsStatement(code []byte) bool {
	n := len(code)
	if n == 0 {
		return true
	}
	if c := code[n-1]; !isWordByte(code, n-1) {
		return c == ')' || c == ']' || c == '}' || c == '"' || c == '\'' || c == '`'
	}
	for n > 0 && n > len(code)-10 && isWordByte(code, n-1) {
		n--
	}
	switch string(code[n:]) {
	case "case", "chan", "const", "default", "defer", "else", "for", "func", "go", "goto", "if", "import", "interface", "map", "package", "range", "select", "struct", "switch", "type", "var":
		return false
	}
	return true
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

// declarations returns a text without what has no symbols in it: the bodies of functions,
// the values of variables, and comments. It returns nil where the text has to be parsed as
// it is; half says that the text does not parse.
func (l *language) declarations(text []byte) (_ *excerpt, half bool) {
	if !l.laidOut {
		return nil, false
	}
	all, ok := layoutOf(text)
	if !ok {
		return nil, false
	}
	return all.without(text, func(b block) bool {
		switch b.kind {
		case body: // types, and the methods of interfaces
			return !mayHave(text[b.start:b.end], "type", "interface")
		case value:
			return !mayHave(text[b.start:b.end], "type", "interface", "struct", "var", "const")
		}
		return b.kind == comment
	}), all.half
}

// mayHave reports whether some code may declare something after one of some words.
func mayHave(code []byte, words ...string) bool {
	for _, word := range words {
		for rest := code; ; {
			i := bytes.Index(rest, []byte(word))
			if i < 0 {
				break
			}
			behind := rest[i+len(word):]
			if !isWordByte(rest, i-1) && !isWordByte(behind, 0) {
				behind = bytes.TrimLeft(behind, " \t\r\n")
				isSwitch, isEmpty := bytes.HasPrefix(behind, []byte(")")), bytes.HasPrefix(bytes.TrimLeft(behind, "{ \t\r\n"), []byte("}"))
				if !isSwitch && !isEmpty {
					return true
				}
			}
			rest = behind
		}
	}
	return false
}

// around returns of a text the statements that have one of the places in them, without
// other statements, braces and comments in these. Places are in order.
func (l layout) around(text []byte, places []uint32) *excerpt {
	return l.without(text, func(b block) bool { return b.kind == comment || b.kind != fixed && !hasPlace(places, b.span) })
}

// without returns a text without blocks.
func (l layout) without(text []byte, leave func(block) bool) *excerpt {
	var x excerpt
	at := uint32(0)
	for i := 0; i < len(l.blocks); i++ {
		if b := l.blocks[i]; leave(b) {
			x.add(text, at, b.start)
			at, i = b.end, b.after-1
		}
	}
	x.add(text, at, uint32(len(text)))
	return &x
}

// topsAround returns of a text what stands at its top and has one of the places in it.
func topsAround(text []byte, tops, places []uint32) *excerpt {
	var x excerpt
	for k, from := range tops {
		to := uint32(len(text))
		if k+1 < len(tops) {
			to = tops[k+1]
		}
		if !hasPlace(places, span{from, to}) {
			continue
		}
		if x.add(text, from, to); text[to-1] != '\n' { // the next may have stood on the same line
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
