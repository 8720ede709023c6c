// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package glob is the one grammar of patterns for names and paths:
//
//   - any characters of a name, or none
//     **     between slashes: any number of directories, or none
//     ?      one character of a name
//     [a-z]  one of some characters; [!a-z] and [^a-z]: one that is not among them
//     {a,b}  either of two patterns
//     \      takes what follows as it is
//
// docs/patterns.md tells users the same, and where patterns are matched with
// what. Git and shells have grammars of their own: [Ignore] is git's, and what a
// shell will expand is up to internal/tools and internal/policy.
//
// There are two ways to match, of one reading: a [Path] is an automaton, quick
// on many paths, and a [Name] can be compared with other patterns.
package glob

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is one character of a pattern, or one wildcard.
type token struct {
	kind tokenKind
	char rune
	set  *charset
}

type tokenKind uint8

const (
	oneChar tokenKind = iota // this character
	anyChar                  // ?
	someSet                  // [...]
	star                     // *
)

// lex reads the first token of a UTF-8 text, and returns the rest of the text. The caller decides what
// braces and slashes mean.
func lex(text string) (t token, rest string, err error) {
	c, size := utf8.DecodeRuneInString(text)
	rest = text[size:]
	switch c {
	case '*':
		return token{kind: star}, rest, nil
	case '?':
		return token{kind: anyChar}, rest, nil
	case '[':
		set, rest, err := lexSet(rest)
		return token{kind: someSet, set: set}, rest, err
	case '\\':
		if rest == "" {
			return t, "", errors.New(`ends with a backslash: write \\ for the character`)
		}
		c, size = utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	return token{char: c}, rest, nil
}

var errNotUTF8 = errors.New("is not UTF-8")

// noChar is a byte that is no character. Wildcards match it, and nothing else.
const noChar = -1

// decode returns the character that text begins with, and its size.
func decode(text string) (c rune, size int) {
	c, size = utf8.DecodeRuneInString(text)
	if c == utf8.RuneError && size == 1 {
		c = noChar
	}
	return c, size
}

// lexSet reads what follows an opening bracket.
func lexSet(text string) (*charset, string, error) {
	unclosed := errors.New(`has a [ without its ]: write \[ for the character`)
	set := new(charset)
	if strings.HasPrefix(text, "!") || strings.HasPrefix(text, "^") {
		set.not, text = true, text[1:]
	}
	next := func() (rune, bool) {
		text, _ = strings.CutPrefix(text, `\`)
		c, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		return c, size > 0 && c != '/'
	}
	for first := true; first || !strings.HasPrefix(text, "]"); first = false {
		low, ok := next()
		if !ok {
			return nil, "", unclosed
		}
		high := low
		if len(text) > 1 && text[0] == '-' && text[1] != ']' {
			text = text[1:]
			if high, ok = next(); !ok {
				return nil, "", unclosed
			}
		}
		if high < low {
			return nil, "", fmt.Errorf("has a range from %q back to %q", low, high)
		}
		set.ranges = append(set.ranges, [2]rune{low, high})
	}
	return set, text[1:], nil
}

// A charset is the characters between brackets.
type charset struct {
	ranges [][2]rune
	not    bool
	fold   bool // either case counts
}

func (s *charset) has(c rune) bool {
	if s.fold {
		return s.hasExactly(c) || s.hasExactly(unicode.ToLower(c)) || s.hasExactly(unicode.ToUpper(c))
	}
	return s.hasExactly(c)
}

func (s *charset) hasExactly(c rune) bool {
	for _, r := range s.ranges {
		if r[0] <= c && c <= r[1] {
			return !s.not
		}
	}
	return s.not
}

// hasEither reports whether the set has the character in either case.
func (s *charset) hasEither(c rune) bool {
	either := charset{ranges: s.ranges, not: s.not, fold: true}
	return either.has(c)
}

// single is the set of one character.
func single(c rune) *charset { return &charset{ranges: [][2]rune{{c, c}}} }

var (
	anything = &charset{not: true}
	notSlash = &charset{ranges: [][2]rune{{'/', '/'}}, not: true}
	slash    = single('/')
)

// MaxAlternatives is how many alternatives braces may have in all, where they
// are written out.
const MaxAlternatives = 256

// Expand returns the alternatives of a pattern, without braces.
func Expand(text string) ([]string, error) {
	if !utf8.ValidString(text) {
		return nil, errNotUTF8
	}
	done, todo := []string(nil), []string{text}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		before, options, after, err := cutBraces(next)
		if err != nil {
			return nil, err
		}
		if options == nil {
			done = append(done, next)
			continue
		}
		var more []string
		for _, option := range options {
			more = append(more, before+option+after)
		}
		todo = append(more, todo...)
		if len(done)+len(todo) > MaxAlternatives {
			return nil, fmt.Errorf("has more than %d alternatives", MaxAlternatives)
		}
	}
	return done, nil
}

var (
	errUnopened = errors.New(`has a } without its {: write \} for the character`)
	errUnclosed = errors.New(`has a { without its }: write \{ for the character`)
)

// cutBraces cuts a pattern around its first braces; options is nil where there
// are none.
func cutBraces(text string) (before string, options []string, after string, err error) {
	open, depth, start := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			if _, rest, err := lexSet(text[i+1:]); err == nil {
				i = len(text) - len(rest) - 1
			}
		case '{':
			if depth++; depth == 1 {
				open, start = i, i+1
			}
		case ',':
			if depth == 1 {
				options, start = append(options, text[start:i]), i+1
			}
		case '}':
			if depth--; depth < 0 {
				return "", nil, "", errUnopened
			}
			if depth == 0 {
				return text[:open], append(options, text[start:i]), text[i+1:], nil
			}
		}
	}
	if depth > 0 {
		return "", nil, "", errUnclosed
	}
	return "", nil, "", nil
}

// Split splits a pattern without braces at its slashes.
func Split(text string) ([]string, error) {
	var names []string
	start := 0
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i < len(text) && text[i] == '/' {
				return nil, errors.New(`has a \ before a /`)
			}
		case '[':
			_, rest, err := lexSet(text[i+1:])
			if err != nil {
				return nil, err
			}
			i = len(text) - len(rest) - 1
		case '/':
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return names, nil
}
