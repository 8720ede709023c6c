// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenEnd    tokenKind = iota
	tokenIdent            // a name
	tokenNumber           // text without sign
	tokenString           // text without quotes and escapes
	tokenSign             // an operator, a bracket or a keyword
)

type token struct {
	kind tokenKind
	text string
	pos  int
}

// source is the text of an expression and the first thing that is wrong with it.
type source struct {
	text string
	err  error
}

// fail notes an error at a byte of the text, unless there is one already.
func (s *source) fail(pos int, format string, args ...any) {
	if s.err != nil {
		return
	}
	before := s.text[:min(pos, len(s.text))]
	line := strings.Count(before, "\n") + 1
	place := fmt.Sprintf("column %d", utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1)
	if line > 1 {
		place = fmt.Sprintf("line %d, %s", line, place)
	}
	s.err = fmt.Errorf("%s: %s", place, fmt.Sprintf(format, args...))
}

// A lexer cuts a text into tokens. After an error there is only the end.
type lexer struct {
	source
	pos int
}

// signs are the tokens that are neither names nor literals, longest first.
const signs = "== != <= >= && || < > ! - + * / % ? : . , ( ) [ ] { }"

func (l *lexer) next() token {
	l.skipSpace()
	start, rest := l.pos, l.text[l.pos:]
	if rest == "" || l.err != nil {
		return token{pos: len(l.text)}
	}
	c := rest[0]
	switch {
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		l.pos += numberLength(rest)
		return token{tokenNumber, l.text[start:l.pos], start}
	case c == '"', c == '\'':
		return l.quoted(start, false)
	case prefixed(rest, "rR"):
		l.pos++
		return l.quoted(start, true)
	case prefixed(rest, "bB"), strings.IndexByte("bB", c) >= 0 && prefixed(rest[1:], "rR"):
		l.fail(start, "bytes are not supported: use a string")
	case isLetter(c):
		for l.pos < len(l.text) && (isLetter(l.text[l.pos]) || isDigit(l.text[l.pos])) {
			l.pos++
		}
		text := l.text[start:l.pos]
		switch text {
		case "in", "true", "false", "null":
			return token{tokenSign, text, start}
		}
		return token{tokenIdent, text, start}
	case c == '`':
		l.fail(start, `names in backquotes are not supported: write input["name"]`)
	default:
		for sign := range strings.SplitSeq(signs, " ") {
			if strings.HasPrefix(rest, sign) {
				l.pos += len(sign)
				return token{tokenSign, sign, start}
			}
		}
		r, _ := utf8.DecodeRuneInString(rest)
		hint := ""
		if strings.ContainsRune("=&|", r) {
			hint = ": write " + strings.Repeat(string(r), 2)
		}
		l.fail(start, "Syntax error: %q means nothing here%s", r, hint)
	}
	return token{pos: len(l.text)}
}

func (l *lexer) skipSpace() {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case strings.IndexByte(" \t\r\n\f", rest[0]) >= 0:
			l.pos++
		case strings.HasPrefix(rest, "//"):
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				l.pos += end
			} else {
				l.pos = len(l.text)
			}
		default:
			return
		}
	}
}

// prefixed reports whether text is a string after one of the letters.
func prefixed(text, letters string) bool {
	return len(text) > 1 && strings.IndexByte(letters, text[0]) >= 0 && (text[1] == '"' || text[1] == '\'')
}

// numberLength returns the length of the number that text begins with, with
// whatever letters follow it.
func numberLength(text string) int {
	for i := 1; i < len(text); i++ {
		c, before := text[i], text[i-1]|0x20
		switch {
		case isLetter(c), isDigit(c), c == '.' && i+1 < len(text) && isDigit(text[i+1]):
		case (c == '+' || c == '-') && before == 'e' && !strings.HasPrefix(text, "0x"):
		default:
			return i
		}
	}
	return len(text)
}

// quoted reads a string, from its first quote at l.pos.
func (l *lexer) quoted(start int, raw bool) token {
	quote := l.text[l.pos : l.pos+1]
	long := strings.HasPrefix(l.text[l.pos:], strings.Repeat(quote, 3))
	if long {
		quote = l.text[l.pos : l.pos+3]
	}
	l.pos += len(quote)
	var text strings.Builder
	for l.pos < len(l.text) && l.err == nil {
		rest := l.text[l.pos:]
		switch {
		case strings.HasPrefix(rest, quote):
			l.pos += len(quote)
			return token{tokenString, text.String(), start}
		case rest[0] == '\\' && !raw:
			l.escape(&text)
		case rest[0] == '\n' && !long, rest[0] == '\r' && !long:
			l.fail(start, "Syntax error: the string does not end on its line: close it, or begin and end it with %s", strings.Repeat(quote, 3))
		case rest[0] == '\r': // a line ends with \n, however the file was written
			l.pos++
			if !strings.HasPrefix(rest, "\r\n") {
				text.WriteByte('\n')
			}
		default:
			text.WriteByte(rest[0])
			l.pos++
		}
	}
	l.fail(start, "Syntax error: the string does not end: close it with %s", quote)
	return token{pos: len(l.text)}
}

// escape reads what follows a backslash at l.pos.
func (l *lexer) escape(text *strings.Builder) {
	const plain, means = "abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?"
	start, rest := l.pos, l.text[l.pos+1:]
	if rest == "" {
		l.pos = len(l.text)
		return
	}
	if i := strings.IndexByte(plain, rest[0]); i >= 0 {
		text.WriteByte(means[i])
		l.pos += 2
		return
	}
	length, base, skip := 0, 16, 2
	switch c := rest[0]; {
	case c == 'x', c == 'X':
		length = 2
	case c == 'u':
		length = 4
	case c == 'U':
		length = 8
	case c >= '0' && c <= '3':
		length, base, skip = 3, 8, 1
	}
	end := start + skip + length
	if length > 0 && end <= len(l.text) {
		if r, err := strconv.ParseUint(l.text[start+skip:end], base, 32); err == nil && r <= utf8.MaxRune && utf8.ValidRune(rune(r)) {
			text.WriteRune(rune(r))
			l.pos = end
			return
		}
	}
	l.fail(start, `Syntax error: no such escape: want \n, \t, \\, \", \x41, \u0041 or so, or a raw string r"…"`)
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
