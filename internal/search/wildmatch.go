// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import "bytes"

// wildmatch adds to b the pattern of an ignore rule as git reads it; paths says
// that it is matched against a path, where only ** matches a slash. It returns
// the beginning, and false for a pattern that matches nothing.
func (b *builder) wildmatch(pattern string, paths bool) (start int, ok bool) {
	inside := anyByte
	if paths {
		inside = notSlash
	}
	var parts []part
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '\\':
			if i++; i == len(pattern) {
				return 0, false
			}
			parts = append(parts, part{kind: one, set: single(pattern[i])})
		case '?':
			parts = append(parts, part{kind: one, set: inside})
		case '*':
			first := i
			for i+1 < len(pattern) && pattern[i+1] == '*' {
				i++
			}
			rest := pattern[i+1:]
			whole := i > first && (first == 0 || pattern[first-1] == '/')
			switch {
			case !paths:
				parts = append(parts, part{kind: deep})
			case whole && rest != "" && rest[0] == '/':
				parts = append(parts, part{kind: above})
				i++ // the slash
			case whole && (rest == "" || len(rest) > 1 && rest[:2] == `\/`):
				parts = append(parts, part{kind: deep})
			default:
				parts = append(parts, part{kind: star})
			}
		case '[':
			set, length := bracket(pattern[i:])
			if length == 0 {
				return 0, false
			}
			if paths {
				set.remove('/')
			}
			parts = append(parts, part{kind: one, set: set})
			i += length - 1
		default:
			parts = append(parts, part{kind: one, set: single(c)})
		}
	}
	return b.parts(parts, accept), true
}

// classes are the names between [: and :].
var classes = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return c >= 'a' && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' && c != '\v' && c != '\f' },
	"upper":  func(c byte) bool { return c >= 'A' && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// bracket reads a bracket expression at the beginning of text. It returns the
// set and the length, or 0 for one that does not end or is not understood.
func bracket(text string) (set byteSet, length int) {
	i := 1
	at := func(i int) byte { // 0 at the end, as NUL is in no pattern
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	negated := at(i) == '!' || at(i) == '^'
	if negated {
		i++
	}
	before := byte(0) // where a range may begin
	for {
		c := at(i)
		switch {
		case c == 0:
			return set, 0
		case c == '\\':
			i++
			if c = at(i); c == 0 {
				return set, 0
			}
			set.add(c)
		case c == '-' && before != 0 && at(i+1) != 0 && at(i+1) != ']':
			i++
			if c = at(i); c == '\\' {
				i++
				if c = at(i); c == 0 {
					return set, 0
				}
			}
			if before <= c {
				set.addRange(before, c)
			}
			c = 0
		case c == '[' && at(i+1) == ':':
			end := bytes.IndexByte([]byte(text[i+2:]), ']')
			if end < 0 {
				return set, 0
			}
			name := text[i+2 : i+2+end]
			if end == 0 || name[end-1] != ':' { // no class after all
				set.add('[')
				break
			}
			class, ok := classes[name[:end-1]]
			if !ok {
				return set, 0
			}
			for b := range 256 {
				if class(byte(b)) {
					set.add(byte(b))
				}
			}
			i += 2 + end
			c = 0
		default:
			set.add(c)
		}
		before = c
		if i++; at(i) == ']' {
			break
		}
	}
	if negated {
		set.invert()
	}
	return set, i + 1
}
