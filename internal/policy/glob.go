// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A glob matches one word: the name of a file, a principal, the value of a
// label. * stands for any characters, ? for one, [a-z] and [!a-z] for one of
// some; a backslash takes what follows as it is.
type glob struct {
	form   globForm
	text   string  // what to compare with, but for globs that have tokens only
	tokens []token // always set
}

// globForm is the shape of a glob. Most need no tokens to be matched.
type globForm uint8

const (
	isText   globForm = iota // text
	isAll                    // *
	isPrefix                 // text*
	isSuffix                 // *text
	isGlob
)

// A token is one character of a glob, or one wildcard.
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

// compileGlob compiles the glob of one word. With folded, it matches words that
// were folded.
func compileGlob(text string, folded bool) (glob, error) {
	tokens := make([]token, 0, len(text))
	for rest := text; rest != ""; {
		c, size := utf8.DecodeRuneInString(rest)
		if c == utf8.RuneError && size == 1 {
			return glob{}, errors.New("is not UTF-8")
		}
		rest = rest[size:]
		switch c {
		case '*':
			if len(tokens) == 0 || tokens[len(tokens)-1].kind != star {
				tokens = append(tokens, token{kind: star})
			}
		case '?':
			tokens = append(tokens, token{kind: anyChar})
		case '[':
			set, after, err := compileSet(rest)
			if err != nil {
				return glob{}, err
			}
			set.fold = folded
			tokens, rest = append(tokens, token{kind: someSet, set: set}), after
		case '\\':
			if c, size = utf8.DecodeRuneInString(rest); size == 0 {
				return glob{}, errors.New("ends with a backslash")
			}
			rest = rest[size:]
			tokens = append(tokens, token{char: c})
		default:
			tokens = append(tokens, token{char: c})
		}
	}
	if folded {
		tokens = foldTokens(tokens)
	}
	return formOf(tokens), nil
}

// compileSet compiles what follows an opening bracket.
func compileSet(text string) (*charset, string, error) {
	unclosed := errors.New("has a [ without its ]")
	set := new(charset)
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		set.not, text = true, rest
	} else if rest, ok := strings.CutPrefix(text, "^"); ok {
		set.not, text = true, rest
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

// formOf finds the quickest way to match tokens.
func formOf(tokens []token) glob {
	g := glob{form: isGlob, tokens: tokens}
	var text strings.Builder
	for _, t := range tokens {
		switch t.kind {
		case oneChar:
			text.WriteRune(t.char)
		case star:
		default:
			return g
		}
	}
	g.text = text.String()
	chars := utf8.RuneCountInString(g.text)
	switch {
	case len(tokens) == chars:
		g.form = isText
	case len(tokens) != chars+1:
		g.text = ""
	case chars == 0:
		g.form = isAll
	case tokens[0].kind == star:
		g.form = isSuffix
	case tokens[len(tokens)-1].kind == star:
		g.form = isPrefix
	default:
		g.text = ""
	}
	return g
}

func (g *glob) match(word string) bool {
	switch g.form {
	case isText:
		return word == g.text
	case isAll:
		return true
	case isPrefix:
		return strings.HasPrefix(word, g.text)
	case isSuffix:
		return strings.HasSuffix(word, g.text)
	}
	return matchTokens(g.tokens, word)
}

// matchTokens needs time for at most len(tokens) × len(word): where a star took
// too little, only the last one can be to blame.
func matchTokens(tokens []token, word string) bool {
	at, lastStar, retry := 0, -1, ""
	for word != "" || at < len(tokens) {
		if at < len(tokens) && tokens[at].kind == star {
			at++
			lastStar, retry = at, word
			continue
		}
		if at < len(tokens) && word != "" {
			c, size := utf8.DecodeRuneInString(word)
			if tokens[at].matches(c) {
				at, word = at+1, word[size:]
				continue
			}
		}
		if lastStar < 0 || retry == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(retry)
		retry = retry[size:]
		at, word = lastStar, retry
	}
	return true
}

func (t *token) matches(c rune) bool {
	switch t.kind {
	case oneChar:
		return c == t.char
	case someSet:
		return t.set.has(c)
	}
	return true
}

// meetsShell reports whether some word could match both the glob and one of a
// shell, whatever the case of its letters. It may say so where none does. The
// wildcards of a shell are not the dot that a word begins with.
func (g *glob) meetsShell(h *glob, steps *steps) bool {
	if len(g.tokens) > 0 && len(h.tokens) > 0 && h.tokens[0].kind != oneChar &&
		g.tokens[0].kind == oneChar && g.tokens[0].char == '.' {
		return false
	}
	if !steps.take((len(g.tokens) + 1) * (len(h.tokens) + 1)) {
		return true
	}
	return meet(len(g.tokens), len(h.tokens),
		func(i int) bool { return g.tokens[i].kind == star },
		func(j int) bool { return h.tokens[j].kind == star },
		func(i, j int) bool { return g.tokens[i].meets(&h.tokens[j]) })
}

func (t *token) meets(u *token) bool {
	switch {
	case t.kind == oneChar && u.kind == oneChar:
		return t.char == u.char || unicode.ToLower(t.char) == unicode.ToLower(u.char)
	case t.kind == oneChar && u.kind == someSet:
		return u.set.hasEither(t.char)
	case t.kind == someSet && u.kind == oneChar:
		return t.set.hasEither(u.char)
	}
	return true
}

// steps counts what was done to compare patterns, of which a call may have many
// and a policy too.
type steps int

// maxSteps is how many steps one decision may take. Beyond them, patterns are
// taken to meet.
const maxSteps = 1 << 20

// take takes n steps, if there are as many left.
func (s *steps) take(n int) bool {
	if *s+steps(n) > maxSteps {
		return false
	}
	*s += steps(n)
	return true
}

// hasEither reports whether the set has the character in either case.
func (s *charset) hasEither(c rune) bool {
	either := charset{ranges: s.ranges, not: s.not, fold: true}
	return either.has(c)
}

// meet reports whether two sequences of n and m parts have a sequence in common
// that fits both. Parts that are wild stand for any number of elements, the
// others for one.
func meet(n, m int, wildA, wildB func(int) bool, same func(i, j int) bool) bool {
	// next[j] tells whether parts i+1… and j… meet, row[j] the same of i….
	next, row := make([]bool, m+1), make([]bool, m+1)
	for i := n; i >= 0; i-- {
		for j := m; j >= 0; j-- {
			switch {
			case i == n && j == m:
				row[j] = true
			case i < n && wildA(i):
				row[j] = next[j] || j < m && row[j+1]
			case j < m && wildB(j):
				row[j] = row[j+1] || i < n && next[j]
			default:
				row[j] = i < n && j < m && same(i, j) && next[j+1]
			}
		}
		next, row = row, next
	}
	return next[0]
}
