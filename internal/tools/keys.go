// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"slices"
	"strings"
)

// A Key is another name for a key of an input, as another agent system has it.
type Key struct {
	Other string
	Name  string // in the schema
	In    string // whose value has the key: an object, or a list of them; empty: the input itself
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
	r := renamer{decoder: newDecoder(string(input)), keys: s.Keys}
	if r.peek() != '{' || !r.object("") {
		return input // which the decoder will tell
	}
	return append(r.out, input[r.copied:]...)
}

// A renamer copies an input, with other names.
type renamer struct {
	decoder
	keys   []Key
	out    []byte
	copied int // of the input
}

// object renames the keys of the object that is next, which is the value of a key, or an
// item of it.
func (r *renamer) object(in string) bool {
	if !r.open() {
		return false
	}
	for first := true; ; first = false {
		before := r.pos
		name, more, ok := r.nextKey(first)
		if !ok || !more {
			return ok
		}
		for _, k := range r.keys {
			// Between here and there is nothing but the key, in one form of many.
			if at := strings.Index(r.text[before:r.pos], `"`+k.Other+`"`); k.In == in && k.Other == name && at >= 0 {
				start := before + at + 1
				r.out = append(append(r.out, r.text[r.copied:start]...), k.Name...)
				r.copied = start + len(k.Other)
			}
		}
		within := in == "" && slices.ContainsFunc(r.keys, func(k Key) bool { return k.In != "" && k.In == name })
		if within && !r.inside(name) || !within && !r.skip() {
			return false
		}
	}
}

// inside renames keys in the value that is next.
func (r *renamer) inside(name string) bool {
	switch r.peek() {
	case '{':
		return r.object(name)
	case '[':
		if !r.open() {
			return false
		}
		for first := true; ; first = false {
			more, ok := r.nextItem(first)
			if !ok || !more {
				return ok
			}
			if isObject := r.peek() == '{'; isObject && !r.object(name) || !isObject && !r.skip() {
				return false
			}
		}
	}
	return r.skip()
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
