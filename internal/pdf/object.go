// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// An object is what PDF files are made of: nil, bool, float64, text, name,
// array, dict, ref, stream, or a keyword where a program is read.
type object any

type (
	text    string // the bytes of a string
	name    string
	keyword string
	array   []object
	dict    map[name]object
	ref     struct{ num, gen int }
)

// A stream is a dictionary with data, which stays in the file.
type stream struct {
	dict
	ref    ref
	offset int64 // of the data
}

const (
	maxNesting = 64       // arrays and dictionaries inside each other
	maxObject  = 2 << 20  // bytes that one object takes in memory, about
	objectCost = 32       // bytes of an object without what it holds
	maxNumber  = 1e15     // larger ones are no numbers of a document
	lexerBuf   = 2 << 10  // bytes read ahead
	contentBuf = 16 << 10 // the same, where most of it will be needed
)

// A lexer reads objects, and counts what they take.
type lexer struct {
	in   *bufio.Reader
	pos  int64 // bytes taken
	room int   // bytes that the objects may still take
	word []byte
}

func newLexer(in io.Reader, buffer int) *lexer {
	return &lexer{in: bufio.NewReaderSize(in, buffer), room: maxObject}
}

// take returns the next byte.
func (l *lexer) take() (byte, error) {
	c, err := l.in.ReadByte()
	if err == nil {
		l.pos++
	}
	return c, err
}

func (l *lexer) back() {
	_ = l.in.UnreadByte() // the last operation was a take
	l.pos--
}

// pay takes n bytes of the room.
func (l *lexer) pay(n int) error {
	if l.room -= n; l.room < 0 {
		return fmt.Errorf("%w: an object takes more than %d bytes", ErrLimit, maxObject)
	}
	return nil
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

// skipSpace passes over white space and comments and returns what follows.
func (l *lexer) skipSpace() (byte, error) {
	comment := false
	for {
		if _, err := l.in.Peek(1); err != nil {
			return 0, err
		}
		ahead, _ := l.in.Peek(l.in.Buffered())
		n := 0
		for ; n < len(ahead) && (comment || isSpace(ahead[n]) || ahead[n] == '%'); n++ {
			comment = ahead[n] == '%' || comment && ahead[n] != '\n' && ahead[n] != '\r'
		}
		_, _ = l.in.Discard(n) // all of it was peeked at
		l.pos += int64(n)
		if n < len(ahead) {
			return l.take()
		}
	}
}

// token returns the next token: an object that holds no others, or a keyword.
func (l *lexer) token() (object, error) {
	c, err := l.skipSpace()
	if err != nil {
		return nil, err
	}
	if err := l.pay(objectCost); err != nil {
		return nil, err
	}
	switch {
	case c == '(':
		return l.literal()
	case c == '/':
		return l.name()
	case c == '<' || c == '>':
		next, err := l.take()
		switch {
		case err == nil && next == c:
			return keyword([]byte{c, c}), nil
		case err == nil:
			l.back()
		}
		if c == '<' {
			return l.hex()
		}
		return keyword(">"), nil
	case isDelimiter(c):
		return keyword([]byte{c}), nil
	}
	l.word = l.word[:0]
	for err == nil && !isSpace(c) && !isDelimiter(c) {
		if len(l.word) < 128 { // nothing that has a meaning is longer
			l.word = append(l.word, c)
		}
		c, err = l.take()
	}
	if err == nil {
		l.back()
	}
	switch string(l.word) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	}
	if n, ok := number(l.word); ok {
		return n, nil
	}
	return keyword(l.word), nil
}

// number reads a number as leniently as others do: "--5", "5-3" and "1.2.3"
// are written by programs that are in use.
func number(word []byte) (float64, bool) {
	n, scale, negative := 0.0, 0.0, false
	for i, c := range word {
		switch {
		case c >= '0' && c <= '9' && scale == 0:
			n = n*10 + float64(c-'0')
		case c >= '0' && c <= '9':
			n += float64(c-'0') * scale
			scale /= 10
		case c == '.' && scale == 0:
			scale = 0.1
		case c == '.' || (c == '-' && i > 0 && word[i-1] != '-'):
			return signed(n, negative), true
		case c == '-':
			negative = true
		case c == '+' && i == 0:
		default:
			return 0, false
		}
	}
	return signed(n, negative), true
}

func signed(n float64, negative bool) float64 {
	if n = min(n, maxNumber); negative {
		return -n
	}
	return n
}

func (l *lexer) name() (object, error) {
	l.word = l.word[:0]
	for {
		c, err := l.take()
		if err != nil || isSpace(c) || isDelimiter(c) {
			if err == nil {
				l.back()
			}
			return name(l.word), nil
		}
		if c == '#' {
			if code, err := l.in.Peek(2); err == nil && unhex(code[0]) >= 0 && unhex(code[1]) >= 0 {
				c = byte(unhex(code[0])<<4 | unhex(code[1]))
				_, _ = l.in.Discard(2) // both were peeked at
				l.pos += 2
			}
		}
		if err := l.pay(1); err != nil {
			return nil, err
		}
		l.word = append(l.word, c)
	}
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// hex reads a string in hexadecimal, after its bracket.
func (l *lexer) hex() (object, error) {
	l.word = l.word[:0]
	high := -1
	for {
		c, err := l.take()
		if err != nil || c == '>' {
			if high >= 0 {
				l.word = append(l.word, byte(high<<4))
			}
			return text(l.word), nil
		}
		switch digit := unhex(c); {
		case digit < 0: // white space, or nothing that can be understood
		case high < 0:
			high = digit
		default:
			if err := l.pay(1); err != nil {
				return nil, err
			}
			l.word = append(l.word, byte(high<<4|digit))
			high = -1
		}
	}
}

// literal reads a string, after its parenthesis.
func (l *lexer) literal() (object, error) {
	l.word = l.word[:0]
	for open := 1; ; {
		c, err := l.take()
		if err != nil {
			return text(l.word), nil
		}
		switch c {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return text(l.word), nil
			}
		case '\\':
			var keep bool
			if c, keep = l.escape(); !keep {
				continue
			}
		}
		if err := l.pay(1); err != nil {
			return nil, err
		}
		l.word = append(l.word, c)
	}
}

// escape reads what follows a backslash, and tells whether it is a character.
func (l *lexer) escape() (byte, bool) {
	c, err := l.take()
	if err != nil {
		return 0, false
	}
	switch c {
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case '\n':
		return 0, false
	case '\r':
		if next, err := l.take(); err == nil && next != '\n' {
			l.back()
		}
		return 0, false
	}
	if c < '0' || c > '7' {
		return c, true
	}
	code := c - '0'
	for range 2 {
		next, err := l.take()
		if err != nil {
			break
		}
		if next < '0' || next > '7' {
			l.back()
			break
		}
		code = code<<3 | (next - '0')
	}
	return code, true
}

// value returns the object that begins with a token. Keywords are returned as
// they are.
func (l *lexer) value(token object, depth int) (object, error) {
	word, ok := token.(keyword)
	if !ok || word != "[" && word != "<<" {
		return token, nil
	}
	if depth >= maxNesting {
		return nil, fmt.Errorf("%w: more than %d objects inside each other", ErrLimit, maxNesting)
	}
	items, _, err := l.items(depth + 1)
	if err != nil || word == "[" {
		return array(items), err
	}
	d := make(dict, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		key, ok := items[i].(name)
		if !ok { // something is missing or too much: look for the next key
			i--
			continue
		}
		d[key] = items[i+1]
	}
	return d, nil
}

// items returns the objects up to the end of what holds them, and the keyword
// that was the end. Inside an array or a dictionary each bracket is an end,
// outside each keyword is.
func (l *lexer) items(depth int) ([]object, keyword, error) {
	var items []object
	for {
		token, err := l.token()
		if err == io.EOF {
			return items, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		o, err := l.value(token, depth)
		if err != nil {
			return nil, "", err
		}
		word, ok := o.(keyword)
		switch {
		case !ok:
			items = append(items, o)
		case word == "R" && len(items) >= 2:
			num, ok1 := integer(items[len(items)-2])
			gen, ok2 := integer(items[len(items)-1])
			items = items[:len(items)-2]
			if ok1 && ok2 {
				items = append(items, ref{num, gen})
			} else {
				items = append(items, nil)
			}
		case word == "]", word == ">>", word == "endobj", word == "stream", depth == 0:
			return items, word, nil
		}
	}
}

// integer returns a number that fits everywhere and has no fraction.
func integer(o object) (int, bool) {
	n, ok := o.(float64)
	if !ok || math.Trunc(n) != n || math.Abs(n) > math.MaxInt32 {
		return 0, false
	}
	return int(n), true
}

// decimal returns a number, or 0.
func decimal(o object) float64 {
	n, _ := o.(float64)
	return n
}
