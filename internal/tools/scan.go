// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLinearKeys is the number of keys up to which looking at each is quicker
// than a map.
const maxLinearKeys = 16

// skip reads a value of any type and checks what needs no shape: the syntax,
// the depth, keys that appear twice.
func (d *decoder) skip() bool {
	switch c := d.peek(); {
	case c == '{':
		return d.skipObject()
	case c == '[':
		return d.skipList()
	case c == '"':
		_, _, ok := d.scanString()
		return ok
	case c == '-' || isDigit(c):
		token, ok := d.scanNumber()
		if ok && !IsNumber(json.Number(token)) {
			return d.problemf("%s does not fit a 64-bit floating-point number", cut(token))
		}
		return ok
	case c == 't':
		return d.literal("true")
	case c == 'f':
		return d.literal("false")
	case c == 'n':
		return d.literal("null")
	}
	return d.syntaxError(d.pos, "a JSON value")
}

func (d *decoder) skipList() bool {
	if !d.open() {
		return false
	}
	for n := 0; ; n++ {
		more, ok := d.nextItem(n == 0)
		if !ok || !more {
			return ok
		}
		before := len(d.problems)
		ok = d.skip()
		if len(d.problems) > before {
			d.within(before, strconv.Itoa(n))
		}
		if !ok {
			return false
		}
	}
}

func (d *decoder) skipObject() bool {
	if !d.open() {
		return false
	}
	outer := len(d.keys)
	var many map[string]bool // the keys, once there are many
	for first := true; ; first = false {
		name, more, ok := d.nextKey(first)
		if !ok {
			return false
		}
		if !more {
			d.keys = d.keys[:outer]
			return true
		}
		before := len(d.problems)
		if many[name] || many == nil && slices.Contains(d.keys[outer:], name) {
			ok = d.problemf("key appears twice")
		}
		switch {
		case many != nil:
			many[name] = true
		case len(d.keys)-outer < maxLinearKeys:
			d.keys = append(d.keys, name)
		default:
			many = map[string]bool{name: true}
			for _, k := range d.keys[outer:] {
				many[k] = true
			}
		}
		ok = ok && d.skip()
		d.within(before, name)
		if !ok {
			return false
		}
	}
}

// peek skips white space and returns the byte that follows, or 0 at the end.
func (d *decoder) peek() byte {
	for d.pos < len(d.text) {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing follows.
func (d *decoder) end() bool {
	d.peek()
	if d.pos < len(d.text) {
		return d.syntaxError(d.pos, "nothing after the value")
	}
	return true
}

// open reads the { or [ that is next; nextKey and nextItem read the other end.
func (d *decoder) open() bool {
	if d.depth == MaxDepth {
		d.problemf("nested too deeply: the maximum is %d levels of objects and arrays", MaxDepth)
		return false
	}
	d.pos++
	d.depth++
	return true
}

// nextItem moves to the next item of an array. At the end there is no more.
func (d *decoder) nextItem(first bool) (more, ok bool) {
	switch c := d.peek(); {
	case c == ']':
		d.pos++
		d.depth--
		return false, true
	case first:
		return true, true
	case c == ',':
		d.pos++
		return true, true
	}
	return false, d.syntaxError(d.pos, `"," or "]"`)
}

// nextKey reads the next key of an object and the colon behind it. At the end
// there is no more.
func (d *decoder) nextKey(first bool) (key string, more, ok bool) {
	c := d.peek()
	if c == '}' {
		d.pos++
		d.depth--
		return "", false, true
	}
	if !first {
		if c != ',' {
			return "", false, d.syntaxError(d.pos, `"," or "}"`)
		}
		d.pos++
		c = d.peek()
	}
	if c != '"' {
		return "", false, d.syntaxError(d.pos, "a key in double quotes")
	}
	key, escaped, ok := d.scanString()
	if !ok {
		return "", false, false
	}
	if escaped {
		key = unescape(key)
	}
	if d.peek() != ':' {
		return "", false, d.syntaxError(d.pos, `":" after a key`)
	}
	d.pos++
	return key, true, true
}

func (d *decoder) literal(word string) bool {
	if !strings.HasPrefix(d.text[d.pos:], word) {
		return d.syntaxError(d.pos, word)
	}
	d.pos += len(word)
	return true
}

// scanString reads the string that is next and returns what is between its
// quotes, and whether that has escapes.
func (d *decoder) scanString() (body string, escaped, ok bool) {
	text, start := d.text, d.pos+1
	fault := ""
	for i := start; i < len(text); {
		c := text[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		switch {
		case c == '"':
			d.pos = i + 1
			body, ok = text[start:i], true
			if fault != "" {
				ok = d.problemf("the string %s has %s: leave it out", quote(unescape(body)), fault)
			}
			return body, escaped, ok
		case c == '\\':
			r, size := readEscape(text[i:])
			if size == 0 {
				return "", false, d.syntaxError(i, `an escape, one of \" \\ \/ \b \f \n \r \t \uXXXX`)
			}
			if r == 0 {
				fault = `a NUL character (\u0000)`
			}
			if utf16.IsSurrogate(r) {
				fault = `half of a surrogate pair (` + text[i:i+size] + `)`
			}
			escaped = true
			i += size
		case c < ' ':
			return "", false, d.syntaxError(i, `control characters in a string to be escaped, such as \n or \t`)
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && size == 1 {
				return "", false, d.syntaxError(i, "valid UTF-8")
			}
			i += size
		}
	}
	return "", false, d.syntaxError(len(text), "the closing quote of a string")
}

// readEscape reads the escape at the beginning of text: one character, which
// may be half of a surrogate pair where the other half is missing. The size is
// 0 if there is no escape.
func readEscape(text string) (r rune, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch c := text[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, ok := readHex(text[2:])
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) || !strings.HasPrefix(text[6:], `\u`) {
			return r, 6
		}
		if low, ok := readHex(text[8:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return r, 6
	}
	return 0, 0
}

func readHex(text string) (r rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:4], 16, 16)
	return rune(n), err == nil
}

// unescape returns the string that body spells; body was scanned before.
func unescape(body string) string {
	i := strings.IndexByte(body, '\\')
	if i < 0 {
		return body
	}
	var b strings.Builder
	b.Grow(len(body))
	for i >= 0 {
		b.WriteString(body[:i])
		r, size := readEscape(body[i:])
		b.WriteRune(r)
		body = body[i+size:]
		i = strings.IndexByte(body, '\\')
	}
	b.WriteString(body)
	return b.String()
}

// keep returns what body spells, fit to be part of the decoded value.
func (d *decoder) keep(body string, escaped bool) string {
	switch {
	case escaped:
		return unescape(body)
	case d.share:
		return body
	}
	return strings.Clone(body)
}

// scanNumber reads the number that is next.
func (d *decoder) scanNumber() (token string, ok bool) {
	start := d.pos
	d.take("-")
	if d.take("0") {
		if d.pos < len(d.text) && isDigit(d.text[d.pos]) {
			return "", d.syntaxError(start, "a number without leading zeros")
		}
	} else if !d.takeDigits() {
		return "", d.syntaxError(d.pos, "a digit")
	}
	if d.take(".") && !d.takeDigits() {
		return "", d.syntaxError(d.pos, "a digit")
	}
	if d.take("eE") {
		d.take("+-")
		if !d.takeDigits() {
			return "", d.syntaxError(d.pos, "a digit")
		}
	}
	return d.text[start:d.pos], true
}

// take reads the next byte if it is one of set.
func (d *decoder) take(set string) bool {
	if d.pos == len(d.text) || strings.IndexByte(set, d.text[d.pos]) < 0 {
		return false
	}
	d.pos++
	return true
}

func (d *decoder) takeDigits() bool {
	start := d.pos
	for d.pos < len(d.text) && isDigit(d.text[d.pos]) {
		d.pos++
	}
	return d.pos > start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// wholeNumber returns the digits of the integer that token spells, which may
// be in a form such as 5.0 or 1e3.
func wholeNumber(token string) (digits string, negative, ok bool) {
	digits, negative = strings.CutPrefix(token, "-")
	if !strings.ContainsAny(digits, ".eE") {
		return digits, negative, true
	}
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		n, _ := strconv.Atoi(digits[i+1:]) // out of range gives the nearest
		exponent = min(max(n, -MaxInputBytes), MaxInputBytes)
		digits = digits[:i]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	switch {
	case significant == "":
		return "0", negative, true
	case exponent < 0:
		return "", false, false
	}
	// 20 zeros make any number too large for 64 bits; more need not be written.
	return significant + strings.Repeat("0", min(exponent, 20)), negative, true
}

// syntaxError notes that the text is no JSON at a place, and what would be.
func (d *decoder) syntaxError(at int, want string) bool {
	what := "invalid JSON"
	if d.quoted {
		what = "the string holds invalid JSON"
	}
	before := d.text[:at]
	line := 1 + strings.Count(before, "\n")
	column := at - strings.LastIndexByte(before, '\n')
	after := ""
	if at > 0 {
		from := max(0, at-20)
		for from < at && !utf8.RuneStart(d.text[from]) {
			from++
		}
		after = fmt.Sprintf(" after %#q", before[from:])
	}
	got := "the end"
	if at < len(d.text) {
		got = fmt.Sprintf("%#q", cutTo(d.text[at:], 10))
	}
	d.problemf("%s at line %d, byte %d%s: want %s, got %s", what, line, column, after, want, got)
	return false
}
