// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"strings"
)

// Settle returns an input of a tool with numbers and booleans in place of texts
// that spell them, where its schema allows nothing but a number or a boolean:
// "10" where an integer is wanted, "true" where true or false is. Whoever looks at
// the input after that sees one value: rules, digests, approvals, the tool. Of an
// object or array that came as a string, what it holds is settled, and stands there
// itself. A whole number is the string that spells it, where the tool says so. What has
// another reading, or is no valid input, stays what it is.
func Settle(tool Tool, input []byte) []byte {
	t, ok := tool.(shaped)
	if !ok || len(input) > MaxInputBytes || !mayNeedSettling(input) && !(t.inputShape().numeral && hasNumber(input)) {
		return input
	}
	s := settler{decoder: newDecoder(string(input))}
	if !s.value(t.inputShape()) || s.out == nil {
		return input // what is wrong is for the decoder to tell
	}
	return append(s.out, s.text[s.copied:]...)
}

// nextQuote returns where the next quote after i is; -1 where there is none.
func nextQuote(input []byte, i int) int {
	if next := bytes.IndexByte(input[i+1:], '"'); next >= 0 {
		return i + 1 + next
	}
	return -1
}

// mayNeedSettling reports whether a value of the input begins as a text does that
// spells a number or a boolean. Nearly all inputs have none.
func mayNeedSettling(input []byte) bool {
	for i := bytes.IndexByte(input, '"'); i >= 0 && i+1 < len(input); i = nextQuote(input, i) {
		if !strings.ContainsRune("-0123456789tfTF", rune(input[i+1])) {
			continue
		}
		if i > 0 && input[i-1] == '\\' {
			return true // in a string, which may hold an object or array
		}
		before := i - 1
		for before >= 0 && strings.ContainsRune(" \t\r\n", rune(input[before])) {
			before--
		}
		if before >= 0 && strings.ContainsRune(":[,", rune(input[before])) {
			return true
		}
	}
	return false
}

// hasNumber reports whether something in the input begins as a number does.
func hasNumber(input []byte) bool {
	colon := false
	for _, c := range input {
		switch {
		case c == ':':
			colon = true
		case colon && (c == '-' || c >= '0' && c <= '9'):
			return true
		case !strings.ContainsRune(" \t\r\n", rune(c)):
			colon = false
		}
	}
	return false
}

// A settler copies an input, with what it settles.
type settler struct {
	decoder
	out    []byte
	copied int // of the text
}

// value reads a value of shape s. It reports whether to go on.
func (s *settler) value(shape *shape) bool {
	c := s.peek()
	switch shape.kind {
	case boolType, intType, uintType, floatType:
		if c == '"' {
			return s.settle(shape.kind)
		}
	case stringType:
		if shape.numeral && (c == '-' || c >= '0' && c <= '9') {
			return s.spell()
		}
	case listType:
		switch c {
		case '[':
			return s.list(shape)
		case '"':
			return s.unwrap(shape, '[')
		}
	case mapType, structType:
		switch c {
		case '{':
			return s.object(shape)
		case '"':
			return s.unwrap(shape, '{')
		}
	}
	return s.skip()
}

func (s *settler) list(shape *shape) bool {
	if !s.open() {
		return false
	}
	for first := true; ; first = false {
		more, ok := s.nextItem(first)
		if !ok || !more {
			return ok
		}
		if !s.value(shape.item) {
			return false
		}
	}
}

func (s *settler) object(shape *shape) bool {
	if !s.open() {
		return false
	}
	for first := true; ; first = false {
		name, more, ok := s.nextKey(first)
		if !ok || !more {
			return ok
		}
		item := shape.item
		if shape.kind == structType {
			if i := shape.find(name, 0); i >= 0 {
				item = shape.fields[i].shape
			}
		}
		if item == nil {
			ok = s.skip()
		} else {
			ok = s.value(item)
		}
		if !ok {
			return false
		}
	}
}

// unwrap reads a string and writes the object or array, which begins with the byte
// open, that it holds, if something in it was settled.
func (s *settler) unwrap(shape *shape, open byte) bool {
	start := s.pos
	body, escaped, ok := s.scanString()
	if !ok || !escaped { // what has no quotes has nothing to settle
		return ok
	}
	inner := settler{decoder: newDecoder(unescape(body))}
	inner.depth = s.depth
	if inner.peek() != open {
		return true
	}
	read := inner.object
	if open == '[' {
		read = inner.list
	}
	if read(shape) && inner.end() && inner.out != nil {
		s.out = append(append(append(s.out, s.text[s.copied:start]...), inner.out...), inner.text[inner.copied:]...)
		s.copied = s.pos
	}
	return true
}

// spell reads a number and writes a whole one as a string.
func (s *settler) spell() bool {
	start := s.pos
	token, ok := s.scanNumber()
	if ok && !strings.ContainsAny(token, ".eE") {
		s.out = append(append(append(append(s.out, s.text[s.copied:start]...), '"'), token...), '"')
		s.copied = s.pos
	}
	return ok
}

// settle reads a text and writes what it spells.
func (s *settler) settle(kind valueType) bool {
	start := s.pos
	body, escaped, ok := s.scanString()
	if !ok || escaped {
		return ok
	}
	value := ""
	if kind == boolType {
		if lower := strings.ToLower(body); lower == "true" || lower == "false" {
			value = lower
		}
	} else {
		number := newDecoder(body)
		if token, ok := number.scanNumber(); ok && token == body && body != "" {
			value = body
		}
	}
	if value != "" {
		s.out = append(append(s.out, s.text[s.copied:start]...), value...)
		s.copied = s.pos
	}
	return true
}
