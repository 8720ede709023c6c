// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package glob

import "bytes"

// An Ignore is the pattern of a rule of .gitignore, in git's own grammar: there
// are no braces, every byte is a character, and [:alpha:] is known.
type Ignore struct{ automaton *automaton }

// Match reports whether the pattern matches the whole of text.
func (g *Ignore) Match(text string) bool { return g.automaton.match(text) }

// CompileIgnore compiles a pattern as git reads it; paths says that it is matched
// with paths, where only ** matches a slash. It returns false for a pattern that
// matches nothing.
func CompileIgnore(pattern string, paths bool) (*Ignore, bool) {
	inside := anything
	if paths {
		inside = notSlash
	}
	var parts []part
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '\\':
			if i++; i == len(pattern) {
				return nil, false
			}
			parts = append(parts, part{kind: one, set: single(rune(pattern[i]))})
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
				parts = append(parts, part{kind: stars})
			}
		case '[':
			set, length := bracket(pattern[i:])
			if length == 0 {
				return nil, false
			}
			if paths {
				set['/'] = false
			}
			parts = append(parts, part{kind: one, set: set.chars()})
			i += length - 1
		default:
			parts = append(parts, part{kind: one, set: single(rune(c))})
		}
	}
	b := newBuilder()
	return &Ignore{b.automaton(b.parts(parts, accept), true)}, true
}

// A byteSet is a set of bytes.
type byteSet [256]bool

func (s *byteSet) addRange(low, high byte) {
	for b := int(low); b <= int(high); b++ {
		s[b] = true
	}
}

// chars returns the same set, of characters that are bytes.
func (s *byteSet) chars() *charset {
	set := new(charset)
	for c, in := range s {
		if in {
			set.ranges = append(set.ranges, [2]rune{rune(c), rune(c)})
		}
	}
	return set
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
			set[c] = true
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
				set['['] = true
				break
			}
			class, ok := classes[name[:end-1]]
			if !ok {
				return set, 0
			}
			for b := range 256 {
				if class(byte(b)) {
					set[b] = true
				}
			}
			i += 2 + end
			c = 0
		default:
			set[c] = true
		}
		before = c
		if i++; at(i) == ']' {
			break
		}
	}
	if negated {
		for b := range set {
			set[b] = !set[b]
		}
	}
	return set, i + 1
}
