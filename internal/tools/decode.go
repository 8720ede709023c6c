// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/nearest"
)

const (
	// MaxInputBytes is the size of the largest input that is decoded.
	MaxInputBytes = 2 << 20

	// MaxDepth is how deep objects and arrays may be nested in an input.
	MaxDepth = 64
)

const (
	maxProblems = 20

	// maxSharedInput is the size up to which the strings of a decoded value are
	// parts of one copy of the input. Those of a larger input are copied one by
	// one, so that a path kept in some log does not keep a whole file.
	maxSharedInput = 4 << 10
)

// decode reads input, strictly and once, into the value that into points to,
// which must be zero and of the type that s was compiled from. An empty input
// is an empty object. The error is an [*InputError] with every problem found;
// the value is then of no use.
//
// An object or array may come as a string that holds its JSON, for models tend to
// quote once too often; and one string or object in place of a list of such.
func (s *shape) decode(input []byte, into any) error {
	if err := tooLarge(input); err != nil {
		return err
	}
	d := newDecoder(string(input))
	d.peek()
	if d.pos == len(d.text) {
		d = newDecoder("{}")
	}
	if d.value(s, reflect.ValueOf(into).Elem()) {
		d.end()
	}
	return d.wrong()
}

func tooLarge(input []byte) error {
	if len(input) <= MaxInputBytes {
		return nil
	}
	message := fmt.Sprintf("the input has %d bytes: the maximum is %d", len(input), MaxInputBytes)
	return &InputError{Problems: []Problem{{Message: message}}}
}

// wrong returns what was found wrong, once all was read.
func (d *decoder) wrong() error {
	if len(d.problems) == 0 {
		return nil
	}
	if d.full {
		d.problems = append(d.problems, Problem{Message: "and more: correct these first"})
	}
	return &InputError{Problems: d.problems}
}

// A decoder reads one JSON text. Its methods that return a bool say whether to
// go on: a problem with a value does not end decoding, one with the syntax does.
type decoder struct {
	text   string
	pos    int  // of the next byte of text
	depth  int  // of the object or array being read
	share  bool // decoded strings may be parts of text
	quoted bool // text came as a string of another text

	// problems have pointers relative to the value being read; whoever reads
	// the value around it puts its own key in front.
	problems []Problem
	full     bool // there was one problem more than may be kept

	// keys are those read so far of the objects that no shape knows, inner
	// objects after outer ones.
	keys []string
}

func newDecoder(text string) decoder {
	return decoder{text: text, share: len(text) <= maxSharedInput}
}

// value reads a value of shape s into v.
func (d *decoder) value(s *shape, v reflect.Value) bool {
	c := d.peek()
	if (s.pointer || s.optional) && s.kind != rawType && strings.HasPrefix(d.text[d.pos:], "null") {
		return d.literal("null")
	}
	if s.pointer {
		p := reflect.New(s.typ)
		v.Set(p)
		v = p.Elem()
	}
	switch s.kind {
	case rawType:
		return d.raw(v)
	case stringType:
		if c == '"' {
			return d.string(s, v)
		}
	case boolType:
		switch c {
		case 't':
			v.SetBool(true)
			return d.literal("true")
		case 'f':
			return d.literal("false")
		}
	case intType, uintType:
		if c == '-' || isDigit(c) {
			return d.integer(s, v)
		}
	case floatType:
		if c == '-' || isDigit(c) {
			return d.float(s, v)
		}
	case listType:
		switch {
		case c == '[':
			return d.list(s, v)
		case c == '"' && (s.item.kind != stringType || d.quotes('[')):
			return d.unwrap(s, v, '[')
		case c == '"', c == '{' && s.item.kind == structType:
			return d.single(s, v)
		}
	case mapType, structType:
		switch c {
		case '{':
			return d.object(s, v)
		case '"':
			return d.unwrap(s, v, '{')
		}
	}
	return d.mismatch(s)
}

// mismatch skips a value of another type than s.
func (d *decoder) mismatch(s *shape) bool {
	c, start := d.peek(), d.pos
	if !d.skip() {
		return false
	}
	got := d.text[start:d.pos]
	switch c {
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case '"':
		got = "string " + quote(unescape(got[1:len(got)-1]))
	default:
		got = cut(got)
	}
	return d.problemf("want %s, got %s", valueTypes[s.kind].want, got)
}

func (d *decoder) raw(v reflect.Value) bool {
	start := d.pos
	if !d.skip() {
		return false
	}
	v.SetBytes([]byte(d.text[start:d.pos]))
	return true
}

func (d *decoder) string(s *shape, v reflect.Value) bool {
	body, escaped, ok := d.scanString()
	if !ok {
		return false
	}
	text := d.keep(body, escaped)
	v.SetString(text)
	if s.enum != nil && !slices.Contains(s.enum, text) {
		return d.problemf("%s is not allowed: want one of %s", quote(text), quoteAll(s.enum))
	}
	// A character has one to four bytes, so that most texts need no counting.
	if float64(len(text)) <= s.max && float64(len(text)/utf8.UTFMax) >= s.min {
		return true
	}
	return d.checkCount(s, utf8.RuneCountInString(text))
}

func (d *decoder) list(s *shape, v reflect.Value) bool {
	if !d.open() {
		return false
	}
	n := 0
	for ; ; n++ {
		more, ok := d.nextItem(n == 0)
		if !ok {
			return false
		}
		if !more {
			break
		}
		before := len(d.problems)
		if float64(n) < s.max {
			if n == v.Cap() {
				v.Grow(max(4, n))
			}
			v.SetLen(n + 1)
			ok = d.value(s.item, v.Index(n))
		} else {
			ok = d.skip() // nothing is kept of what is too much
		}
		if len(d.problems) > before {
			d.within(before, strconv.Itoa(n))
		}
		if !ok {
			return false
		}
	}
	if n == 0 {
		v.Set(reflect.MakeSlice(s.typ, 0, 0)) // not nil, which would be null
	}
	return d.checkCount(s, n)
}

// single reads one value where a list of such is wanted.
func (d *decoder) single(s *shape, v reflect.Value) bool {
	v.Grow(1)
	v.SetLen(1)
	return d.value(s.item, v.Index(0)) && d.checkCount(s, 1)
}

// quotes reports whether the string that comes next begins with a byte, after spaces.
func (d *decoder) quotes(open byte) bool {
	rest := strings.TrimLeft(d.text[d.pos+1:], " \t\r\n")
	return rest != "" && rest[0] == open
}

func (d *decoder) object(s *shape, v reflect.Value) bool {
	if !d.open() {
		return false
	}
	if s.kind == mapType {
		return d.entries(s, v)
	}
	return d.fields(s, v)
}

// entries reads the members of an object into a map.
func (d *decoder) entries(s *shape, v reflect.Value) bool {
	v.Set(reflect.MakeMap(s.typ))
	key := reflect.New(s.typ.Key()).Elem()
	item := reflect.New(s.typ.Elem()).Elem()
	for first := true; ; first = false {
		name, more, ok := d.nextKey(first)
		if !ok {
			return false
		}
		if !more {
			return d.checkCount(s, v.Len())
		}
		before := len(d.problems)
		key.SetString(d.keep(name, false))
		if v.MapIndex(key).IsValid() {
			ok = d.refuseKey("key appears twice")
		} else {
			item.SetZero()
			ok = d.value(s.item, item)
			v.SetMapIndex(key, item)
		}
		d.within(before, name)
		if !ok {
			return false
		}
	}
}

// fields reads the members of an object into a struct.
func (d *decoder) fields(s *shape, v reflect.Value) bool {
	var seen uint64 // bit i: s.fields[i]
	next := 0
	for first := true; ; first = false {
		name, more, ok := d.nextKey(first)
		if !ok {
			return false
		}
		if !more {
			break
		}
		before := len(d.problems)
		i := s.find(name, next)
		switch {
		case i < 0:
			ok = d.refuseKey(UnknownKey(name, s.names()))
		case seen&(1<<i) != 0:
			ok = d.refuseKey("key appears twice")
		default:
			seen |= 1 << i
			next = i + 1
			f := &s.fields[i]
			ok = d.value(f.shape, v.FieldByIndex(f.index))
		}
		d.within(before, name)
		if !ok {
			return false
		}
	}
	for missing := s.required &^ seen; missing != 0; missing &= missing - 1 {
		before, f := len(d.problems), &s.fields[bits.TrailingZeros64(missing)]
		what := ""
		if f.shape.description != "" {
			what = fmt.Sprintf(" (%s: %s)", valueTypes[f.shape.kind].want, f.shape.description)
		}
		if !d.problemf("is required%s", what) {
			return false
		}
		d.within(before, f.name)
	}
	return true
}

// refuseKey skips the value of a key that cannot be taken.
func (d *decoder) refuseKey(message string) bool {
	return d.problemf("%s", message) && d.skip()
}

// UnknownKey tells of a key that an object does not take, whose keys have these names.
func UnknownKey(name string, names []string) string {
	if len(names) == 0 {
		return "unknown key: this object takes no keys"
	}
	near := nearest.Names(name, names)
	if near == nil {
		return "unknown key: want one of " + quoteAll(names)
	}
	for i, n := range near {
		near[i] = strconv.Quote(n)
	}
	return "unknown key, did you mean " + strings.Join(near, " or ") + "?"
}

// unwrap reads an object or array, which begins with the byte open, out of a
// string.
func (d *decoder) unwrap(s *shape, v reflect.Value, open byte) bool {
	body, escaped, ok := d.scanString()
	if !ok {
		return false
	}
	if escaped {
		body = unescape(body)
	}
	inner := newDecoder(body)
	if inner.peek() != open {
		return d.problemf("want %s, got string %s", valueTypes[s.kind].want, quote(body))
	}
	inner.depth, inner.quoted, inner.problems = d.depth, true, d.problems
	read := inner.object
	if open == '[' {
		read = inner.list
	}
	if read(s, v) {
		inner.end()
	}
	d.problems, d.full = inner.problems, inner.full
	return !d.full // bad syntax in the string is none around it
}

func (d *decoder) integer(s *shape, v reflect.Value) bool {
	token, ok := d.scanNumber()
	if !ok {
		return false
	}
	digits, negative, whole := wholeNumber(token)
	if !whole {
		return d.problemf("want an integer, got %s", cut(token))
	}
	// Out of range gives the largest, which no bound reaches.
	size, err := strconv.ParseUint(digits, 10, 64)
	n := float64(size)
	if negative {
		n = -n
	}
	switch {
	case n < s.min || n > s.max:
		return d.refuseNumber(s, token, n)
	case s.kind == uintType:
		if err != nil {
			return d.problemf("%s does not fit an unsigned 64-bit integer", cut(token))
		}
		v.SetUint(size)
	case negative:
		if size > 1<<63 {
			return d.problemf("%s does not fit a 64-bit integer", cut(token))
		}
		v.SetInt(-int64(size))
	default:
		if size > math.MaxInt64 {
			return d.problemf("%s does not fit a 64-bit integer", cut(token))
		}
		v.SetInt(int64(size))
	}
	return true
}

func (d *decoder) float(s *shape, v reflect.Value) bool {
	token, ok := d.scanNumber()
	if !ok {
		return false
	}
	n, err := strconv.ParseFloat(token, s.typ.Bits())
	if n < s.min || n > s.max {
		return d.refuseNumber(s, token, n)
	}
	if err != nil {
		return d.problemf("%s does not fit a %d-bit floating-point number", cut(token), s.typ.Bits())
	}
	v.SetFloat(n)
	return true
}

func (d *decoder) refuseNumber(s *shape, token string, n float64) bool {
	if n < s.min {
		return d.problemf("%s is too small: the minimum is %s", cut(token), formatBound(s.min))
	}
	return d.problemf("%s is too big: the maximum is %s", cut(token), formatBound(s.max))
}

// checkCount checks the number of characters, items or keys.
func (d *decoder) checkCount(s *shape, n int) bool {
	if float64(n) < s.min {
		return d.problemf("too few %s: %d, the minimum is %s", valueTypes[s.kind].unit, n, formatBound(s.min))
	}
	if float64(n) > s.max {
		return d.problemf("too many %s: %d, the maximum is %s", valueTypes[s.kind].unit, n, formatBound(s.max))
	}
	return true
}

func formatBound(bound float64) string { return strconv.FormatFloat(bound, 'f', -1, 64) }

// problemf notes what is wrong with the value being read. It reports whether
// to go on, which is so until there are too many problems.
func (d *decoder) problemf(format string, args ...any) bool {
	if len(d.problems) == maxProblems {
		d.full = true
		return false
	}
	d.problems = append(d.problems, Problem{Message: fmt.Sprintf(format, args...)})
	return true
}

// within puts key in front of the pointers of all problems but the first few,
// as many as there were before the member called key was read.
func (d *decoder) within(before int, key string) {
	if len(d.problems) == before {
		return
	}
	key = strings.ReplaceAll(cut(key), "~", "~0")
	key = "/" + strings.ReplaceAll(key, "/", "~1")
	for i := range d.problems[before:] {
		p := &d.problems[before+i]
		p.Pointer = key + p.Pointer
	}
}

// cut shortens what comes from the input, which may be long, for a message.
func cut(text string) string { return cutTo(text, 60) }

func cutTo(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size] + "..."
}

func quote(text string) string { return strconv.Quote(cut(text)) }

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = strconv.Quote(text)
	}
	return strings.Join(quoted, ", ")
}
