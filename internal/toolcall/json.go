// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// encode returns JSON as providers are sent it: without escapes for HTML.
func encode(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("toolcall: %v", err)) // only values of this package are encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// objectOf returns text if it is a JSON object, and {} otherwise.
func objectOf(text json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed
	}
	return json.RawMessage("{}")
}

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

func (o object) get(keys ...string) json.RawMessage {
	for _, key := range keys {
		for _, m := range o {
			if m.key == key {
				return m.value
			}
		}
	}
	return nil
}

// text returns a member that is a string.
func (o object) text(keys ...string) string {
	var text string
	if json.Unmarshal(o.get(keys...), &text) != nil {
		return ""
	}
	return text
}

func (o *object) set(key string, value any) {
	*o = append(*o, member{key, encode(value)})
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

var errNoObject = errors.New("is not a JSON object")

// parseObject returns the members of a JSON object. Of a key that comes twice the
// members are kept both.
func parseObject(text []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errNoObject
	}
	o := object{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		o = append(o, member{key.(string), value})
	}
	_, err := decoder.Token()
	return o, err
}

// A jsonScan finds the end of a JSON value that comes in pieces. It takes strings in
// single quotes too, for some models write them.
type jsonScan struct {
	depth   int
	quote   byte // of the string it is in; 0 outside
	escaped bool
}

type jsonState int

const (
	jsonMore  jsonState = iota // the value goes on
	jsonEnded                  // it is complete
	jsonBad                    // a < came where none can be: a tag cut the value off
)

// scan reads on, and returns how far.
func (s *jsonScan) scan(b []byte) (int, jsonState) {
	for i, c := range b {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quote != 0:
			switch c {
			case '\\':
				s.escaped = true
			case s.quote:
				s.quote = 0
			}
		case c == '"' || c == '\'':
			s.quote = c
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, jsonEnded
			}
		case c == '<':
			return i, jsonBad
		}
	}
	return len(b), jsonMore
}

// repair returns valid JSON for what a model wrote that can only be read in one way:
// with commas too many, strings in single quotes or over several lines, keys without
// quotes, words of Python, escapes that JSON does not have, brackets that were not
// closed. The last is read only where the call itself was closed: otherwise more may
// have followed.
func repair(text string, closed bool) (string, error) {
	text = strings.TrimSpace(text)
	if json.Valid([]byte(text)) {
		return text, nil
	}
	r := repairer{text: text, closed: closed}
	if err := r.value(0); err != nil {
		return "", err
	}
	if rest := strings.Trim(text[r.at:], " \t\r\n}]"); rest != "" {
		return "", fmt.Errorf("after the JSON value comes %.40q", rest)
	}
	if fixed := r.out.String(); json.Valid([]byte(fixed)) {
		return fixed, nil
	}
	return "", errors.New("the JSON is not valid")
}

type repairer struct {
	text   string
	at     int
	closed bool
	out    strings.Builder
}

const maxDepth = 200 // of JSON that is repaired

var errCut = errors.New("the JSON ends before it is complete")

func (r *repairer) peek() byte {
	for r.at < len(r.text) {
		if c := r.text[r.at]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		r.at++
	}
	return 0
}

func (r *repairer) value(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the JSON is nested more than %d deep", maxDepth)
	}
	switch c := r.peek(); {
	case c == 0:
		return errCut
	case c == '{':
		return r.list('}', func() error {
			if err := r.key(); err != nil {
				return err
			}
			if r.peek() != ':' {
				return r.wrong("a colon after the key")
			}
			r.at++
			r.out.WriteByte(':')
			return r.value(depth + 1)
		})
	case c == '[':
		return r.list(']', func() error { return r.value(depth + 1) })
	case c == '"' || c == '\'':
		return r.str(c)
	}
	word := r.word()
	switch word {
	case "True":
		word = "true"
	case "False":
		word = "false"
	case "None":
		word = "null"
	}
	if word == "" || !json.Valid([]byte(word)) {
		return r.wrong("a value")
	}
	r.out.WriteString(word)
	return nil
}

// list reads items up to a closing bracket.
func (r *repairer) list(end byte, item func() error) error {
	r.out.WriteByte(r.text[r.at])
	r.at++
	for first := true; ; first = false {
		switch c := r.peek(); {
		case c == end:
			r.at++
			r.out.WriteByte(end)
			return nil
		case c == 0 && r.closed && !first:
			r.out.WriteByte(end)
			return nil
		case c == 0:
			return errCut
		case !first && c == ',':
			r.at++
			if c := r.peek(); c == end || c == 0 && r.closed {
				continue // a comma too many
			}
			r.out.WriteByte(',')
		case !first:
			return r.wrong("a comma or " + string(end))
		}
		if err := item(); err != nil {
			return err
		}
	}
}

func (r *repairer) key() error {
	if c := r.peek(); c == '"' || c == '\'' {
		return r.str(c)
	}
	word := r.word()
	if word == "" {
		return r.wrong("a key")
	}
	r.out.Write(encode(word))
	return nil
}

func (r *repairer) word() string {
	start := r.at
	for r.at < len(r.text) && isWord(r.text[r.at]) {
		r.at++
	}
	return r.text[start:r.at]
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '+'
}

func (r *repairer) str(quote byte) error {
	var value strings.Builder
	for r.at++; r.at < len(r.text); r.at++ {
		c := r.text[r.at]
		switch {
		case c == quote:
			r.at++
			r.out.Write(encode(value.String()))
			return nil
		case c == '\\' && r.at+1 < len(r.text):
			r.at += r.escape(&value) - 1
		default:
			value.WriteByte(c)
		}
	}
	return errCut
}

// escape reads what a backslash begins, and returns its length. One that JSON does not
// have stands for itself, but for that of a quote.
func (r *repairer) escape(value *strings.Builder) int {
	rest := r.text[r.at:]
	for _, size := range []int{12, 6, 2} { // a pair of surrogates, one character, a letter
		if len(rest) < size {
			continue
		}
		var text string
		if json.Unmarshal([]byte(`"`+rest[:size]+`"`), &text) == nil && (size < 12 || utf8.RuneCountInString(text) == 1) {
			if size == 2 || rest[1] == 'u' {
				value.WriteString(text)
				return size
			}
		}
	}
	if rest[1] == '\'' {
		value.WriteByte('\'')
		return 2
	}
	value.WriteByte('\\')
	return 1
}

func (r *repairer) wrong(want string) error {
	if r.peek() == 0 {
		return errCut
	}
	return fmt.Errorf("at %.20q of the JSON: want %s", r.text[r.at:], want)
}

// fields returns an object of keys and values. Those that are nil are left out.
func fields(pairs ...any) object {
	o := object{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != nil {
			o.set(pairs[i].(string), pairs[i+1])
		}
	}
	return o
}
