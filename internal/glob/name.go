// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Name matches one name: of a file, a tool, a principal. Where it is matched
// with a word that has slashes, they are characters as any other.
type Name struct {
	form   form
	text   string  // what to compare with, but for names that have tokens only
	tokens []token // always set
}

// form is the shape of a name. Most need no tokens to be matched.
type form uint8

const (
	isText   form = iota // text
	isAll                // *
	isPrefix             // text*
	isSuffix             // *text
	isTokens
)

// CompileName compiles a pattern without braces.
func CompileName(text string) (Name, error) {
	if !utf8.ValidString(text) {
		return Name{}, errNotUTF8
	}
	tokens := make([]token, 0, len(text))
	for rest := text; rest != ""; {
		t, after, err := lex(rest)
		if err != nil {
			return Name{}, err
		}
		if rest = after; t.kind != star || len(tokens) == 0 || tokens[len(tokens)-1].kind != star {
			tokens = append(tokens, t)
		}
	}
	return nameOf(tokens), nil
}

// Text returns the name that matches text alone.
func Text(text string) Name {
	var tokens []token
	for _, c := range text {
		tokens = append(tokens, token{char: c})
	}
	return nameOf(tokens)
}

// Fold returns the name with each character replaced, for words that were folded
// in the same way. Sets then match either case.
func (n Name) Fold(fold func(c rune) string) Name {
	var tokens []token
	for _, t := range n.tokens {
		switch t.kind {
		case oneChar:
			for _, c := range fold(t.char) {
				tokens = append(tokens, token{char: c})
			}
			continue
		case someSet:
			t.set = &charset{ranges: t.set.ranges, not: t.set.not, fold: true}
		}
		tokens = append(tokens, t)
	}
	return nameOf(tokens)
}

// nameOf finds the quickest way to match tokens.
func nameOf(tokens []token) Name {
	n := Name{form: isTokens, tokens: tokens}
	var text strings.Builder
	for _, t := range tokens {
		switch t.kind {
		case oneChar:
			text.WriteRune(t.char)
		case star:
		default:
			return n
		}
	}
	n.text = text.String()
	chars := utf8.RuneCountInString(n.text)
	switch {
	case len(tokens) == chars:
		n.form = isText
	case len(tokens) != chars+1:
		n.text = ""
	case chars == 0:
		n.form = isAll
	case tokens[0].kind == star:
		n.form = isSuffix
	case tokens[len(tokens)-1].kind == star:
		n.form = isPrefix
	default:
		n.text = ""
	}
	return n
}

// Literal returns the one word that the name matches, if it is no pattern.
func (n *Name) Literal() (text string, ok bool) { return n.text, n.form == isText }

// Vague reports whether the name says nothing but how many characters.
func (n *Name) Vague() bool {
	return !slices.ContainsFunc(n.tokens, func(t token) bool { return t.kind != star && t.kind != anyChar })
}

// Wild reports whether the name begins with a wildcard.
func (n *Name) Wild() bool { return len(n.tokens) > 0 && n.tokens[0].kind != oneChar }

// Len is how many characters and wildcards there are.
func (n *Name) Len() int { return len(n.tokens) }

// Match reports whether the name matches the whole of word.
func (n *Name) Match(word string) bool {
	switch n.form {
	case isText:
		return word == n.text
	case isAll:
		return true
	case isPrefix:
		return strings.HasPrefix(word, n.text)
	case isSuffix:
		return strings.HasSuffix(word, n.text)
	}
	return matchTokens(n.tokens, word)
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
			c, size := decode(word)
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

// Covers reports whether the name matches every word that another does. It may
// say no where it does.
func (n *Name) Covers(other *Name) bool {
	switch {
	case n.form == isAll:
		return true
	case other.form == isText:
		return n.Match(other.text)
	case n.form == isSuffix && other.form == isSuffix:
		return strings.HasSuffix(other.text, n.text)
	case n.form == isPrefix && other.form == isPrefix:
		return strings.HasPrefix(other.text, n.text)
	}
	return false
}

// MeetsShell reports whether some word could match both the name and one of a
// shell, whatever the case of its letters. It may say so where none does. The
// wildcards of a shell are not the dot that a word begins with. It takes time
// for the product of both lengths.
func (n *Name) MeetsShell(shell *Name) bool {
	if len(n.tokens) > 0 && shell.Wild() && n.tokens[0].kind == oneChar && n.tokens[0].char == '.' {
		return false
	}
	return Meet(len(n.tokens), len(shell.tokens),
		func(i int) bool { return n.tokens[i].kind == star },
		func(j int) bool { return shell.tokens[j].kind == star },
		func(i, j int) bool { return n.tokens[i].meets(&shell.tokens[j]) })
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

// Meet reports whether two sequences of n and m parts have a sequence in common
// that fits both. Parts that are wild stand for any number of elements, the
// others for one.
func Meet(n, m int, wildA, wildB func(int) bool, same func(i, j int) bool) bool {
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

// A Word is a pattern for words that are no paths: principals, labels, tools.
type Word []Name

// CompileWord compiles a pattern, which may have braces.
func CompileWord(text string) (Word, error) {
	alternatives, err := Expand(text)
	if err != nil {
		return nil, err
	}
	var w Word
	for _, alternative := range alternatives {
		n, err := CompileName(alternative)
		if err != nil {
			return nil, err
		}
		w = append(w, n)
	}
	return w, nil
}

// Match reports whether the pattern matches the whole of word.
func (w Word) Match(word string) bool {
	return slices.ContainsFunc(w, func(n Name) bool { return n.Match(word) })
}
