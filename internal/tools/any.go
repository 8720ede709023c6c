// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DecodeJSON returns the value of a JSON text as encoding/json does, numbers as
// [json.Number]. The error is an [*InputError]: what is wrong with the syntax, the size
// or the depth, or a key that comes twice.
func DecodeJSON(text []byte) (any, error) {
	if err := tooLarge(text); err != nil {
		return nil, err
	}
	d := newDecoder(string(text))
	value, ok := d.any()
	if ok {
		d.end()
	}
	return value, d.wrong()
}

// any reads a value that no shape is known of.
func (d *decoder) any() (value any, ok bool) {
	switch c := d.peek(); c {
	case '{':
		return d.anyObject()
	case '[':
		return d.anyList()
	case '"':
		body, escaped, ok := d.scanString()
		if !ok {
			return nil, false
		}
		return d.keep(body, escaped), true
	case 't', 'f':
		return c == 't', d.skip()
	case 'n':
		return nil, d.skip()
	default:
		start := d.pos
		ok = d.skip()
		return json.Number(d.text[start:d.pos]), ok
	}
}

// maxNumber is how many characters a number has at most that no shape knows.
const maxNumber = 1000

// IsNumber reports whether a number of a JSON text is one that programs compute with: neither
// too large for 64 bits of floating point, nor so small that it would be zero there. Others
// are read by some as nothing at all, and take long to compare.
func IsNumber(n json.Number) bool {
	if len(n) > maxNumber {
		return false
	}
	f, err := n.Float64()
	if err != nil || f != 0 {
		return err == nil
	}
	digits, _, _ := strings.Cut(strings.ToLower(string(n)), "e")
	return strings.Trim(digits, "-0.") == ""
}

func (d *decoder) anyList() (_ []any, ok bool) {
	if !d.open() {
		return nil, false
	}
	list := []any{}
	for {
		more, ok := d.nextItem(len(list) == 0)
		if !ok || !more {
			return list, ok
		}
		before := len(d.problems)
		item, ok := d.any()
		if len(d.problems) > before {
			d.within(before, strconv.Itoa(len(list)))
		}
		if !ok {
			return nil, false
		}
		list = append(list, item)
	}
}

func (d *decoder) anyObject() (_ map[string]any, ok bool) {
	if !d.open() {
		return nil, false
	}
	object := make(map[string]any)
	for first := true; ; first = false {
		key, more, ok := d.nextKey(first)
		if !ok || !more {
			return object, ok
		}
		before := len(d.problems)
		if _, twice := object[key]; twice {
			ok = d.problemf("key appears twice")
		}
		if ok {
			object[d.keep(key, false)], ok = d.any()
		}
		d.within(before, key)
		if !ok {
			return nil, false
		}
	}
}

// An Object is an object in an input whose keys another schema tells: what another tool is
// called with, say. Unlike a [json.RawMessage], it is the same when it comes as a string.
type Object map[string]json.RawMessage

// JSON returns the canonical text of the object.
func (o Object) JSON() json.RawMessage {
	if o == nil {
		return json.RawMessage("{}")
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // the values are texts that were decoded
	}
	return Canonical(text)
}

// AppendJSON appends a value that is made of nil, bool, int64, float64, [json.Number],
// string, []any and map[string]any as JSON text, keys in order.
func AppendJSON(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v, 64)
	case json.Number:
		return append(b, v...)
	case string:
		return appendJSONString(b, v)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendJSON(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONString(b, key), ':')
			b = AppendJSON(b, v[key])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("tools: a value of type %T has no JSON text here", value)) // a mistake in the program
}
