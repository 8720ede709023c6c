// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"strings"
)

// A Key is another name for a key of an input, as another agent system has it.
type Key struct {
	Other string
	Name  string // in the schema
}

// Rename returns an input with the names of the schema in place of [Spec.Keys],
// so that whoever looks at it knows one name for a thing: rules, approvals, the
// tool. What is no object, nor a string that holds one, stays what it is.
func (s *Spec) Rename(input []byte) []byte {
	if len(s.Keys) == 0 {
		return input
	}
	if inner, ok := quotedObject(input); ok {
		if renamed := s.Rename(inner); !bytes.Equal(renamed, inner) {
			return renamed
		}
		return input
	}
	for _, k := range s.Keys {
		if bytes.Contains(input, []byte(`"`+k.Other+`"`)) {
			return s.rename(input)
		}
	}
	return input
}

func (s *Spec) rename(input []byte) []byte {
	if len(input) > MaxInputBytes {
		return input
	}
	d := newDecoder(string(input))
	if d.peek() != '{' || !d.open() {
		return input
	}
	var out []byte
	copied := 0 // of the input
	for first := true; ; first = false {
		before := d.pos
		name, more, ok := d.nextKey(first)
		if !ok {
			return input // which the decoder will tell
		}
		if !more {
			return append(out, input[copied:]...)
		}
		for _, k := range s.Keys {
			// Between here and there is nothing but the key, in one form of many.
			if at := strings.Index(d.text[before:d.pos], `"`+k.Other+`"`); k.Other == name && at >= 0 {
				start := before + at + 1
				out = append(append(out, input[copied:start]...), k.Name...)
				copied = start + len(k.Other)
			}
		}
		if !d.skip() {
			return input
		}
	}
}

// quotedObject returns the object that an input holds as a string.
func quotedObject(input []byte) (object []byte, ok bool) {
	if text := bytes.TrimLeft(input, " \t\r\n"); len(text) == 0 || text[0] != '"' || len(text) > MaxInputBytes {
		return nil, false
	}
	d := newDecoder(string(input))
	d.peek()
	body, _, ok := d.scanString()
	if !ok || len(d.problems) > 0 || !d.end() {
		return nil, false
	}
	body = unescape(body)
	inner := newDecoder(body)
	return []byte(body), inner.peek() == '{'
}
