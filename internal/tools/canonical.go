// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// Canonical returns a JSON text in the one form that all texts of the same value
// have: no space, and keys in order. Numbers stay as they are written. What is no
// JSON has no other form.
func Canonical(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return text
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// appendCanonical appends a value of shape s, as the decoder made it, in the one
// form that all its spellings have: keys in order, without what is absent or, for a
// field that may be absent, has the value that absence gives. So two inputs have the
// same form if and only if the tool cannot tell them apart, but for the spelling of
// what no shape knows.
func (s *shape) appendCanonical(b []byte, v reflect.Value) []byte {
	if s.pointer {
		if v.IsNil() {
			return append(b, "null"...)
		}
		v = v.Elem()
	}
	switch s.kind {
	case stringType:
		return appendJSONString(b, v.String())
	case boolType:
		return strconv.AppendBool(b, v.Bool())
	case intType:
		return strconv.AppendInt(b, v.Int(), 10)
	case uintType:
		return strconv.AppendUint(b, v.Uint(), 10)
	case floatType:
		return appendFloat(b, v.Float(), s.typ.Bits())
	case listType:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = s.item.appendCanonical(b, v.Index(i))
		}
		return append(b, ']')
	case mapType:
		return s.appendEntries(b, v)
	case structType:
		return s.appendFields(b, v)
	}
	return append(b, Canonical(v.Bytes())...)
}

func (s *shape) appendEntries(b []byte, v reflect.Value) []byte {
	items := make(map[string]reflect.Value, v.Len())
	for entry := v.MapRange(); entry.Next(); {
		items[entry.Key().String()] = entry.Value()
	}
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(items)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, key), ':')
		b = s.item.appendCanonical(b, items[key])
	}
	return append(b, '}')
}

func (s *shape) appendFields(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	first := true
	for _, i := range s.inOrder {
		f := &s.fields[i]
		value := v.FieldByIndex(f.index)
		if f.shape.optional && value.IsZero() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendJSONString(b, f.name), ':')
		b = f.shape.appendCanonical(b, value)
	}
	return append(b, '}')
}

// appendFloat writes a number as JSON does: with an exponent only where it is very
// large or small.
func appendFloat(b []byte, f float64, bits int) []byte {
	size := math.Abs(f)
	switch {
	case f == 0:
		return append(b, '0') // also for -0
	case size < 1e-6 || size >= 1e21:
		return strconv.AppendFloat(b, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(b, f, 'f', -1, bits)
}

// appendJSONString writes a string with as few escapes as there can be.
func appendJSONString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(slices.Grow(b, len(text)+2), '"')
	copied := 0 // of the text
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[copied:i]...)
		copied = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(b, text[copied:]...), '"')
}
