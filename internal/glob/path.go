// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Path is a pattern of whole paths.
type Path struct {
	automaton *automaton // nil if exact
	suffixes  []string   // one of which everything that matches ends with; nil: not known
	exact     bool       // matching is ending with a suffix, after a slash or not at all
}

// MaxPath is how long a pattern may be.
const MaxPath = 4096

// maxGroups is how deep braces may be nested.
const maxGroups = 32

// A part is a piece of a pattern.
type part struct {
	kind partKind
	set  *charset // of one
	alts [][]part // of either
}

type partKind uint8

const (
	one    partKind = iota // a character of a set
	stars                  // any characters but slashes
	deep                   // any characters
	above                  // nothing, or any directories and a slash
	middle                 // a slash, or one with any directories between two of them
	below                  // a slash and anything
	either                 // one of some sequences
)

// Compile compiles a pattern that is matched with whole paths.
func Compile(pattern string) (*Path, error) {
	if len(pattern) > MaxPath {
		return nil, fmt.Errorf("has %d bytes: at most %d are allowed", len(pattern), MaxPath)
	}
	if !utf8.ValidString(pattern) {
		return nil, errNotUTF8
	}
	p := parser{text: pattern}
	parts, err := p.sequence(0)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && parts[0].kind == above { // ** alone
		parts[0].kind = deep
	}
	path := new(Path)
	if path.suffixes, path.exact = suffixes(parts); !path.exact {
		b := newBuilder()
		path.automaton = b.automaton(b.parts(parts, accept), false)
	}
	return path, nil
}

// CompileBelow compiles a pattern of what is below a directory: one without a
// slash is looked for at any depth, one with a slash begins at the top, as /a
// does. It does not tell files from directories: a slash at the end is left out.
func CompileBelow(pattern string) (*Path, error) {
	text, rooted := strings.CutPrefix(strings.TrimSuffix(pattern, "/"), "/")
	if text == "" {
		return nil, errors.New("names nothing")
	}
	if !rooted && !strings.Contains(text, "/") && text != "**" {
		text = "**/" + text
	}
	if strings.HasSuffix(text, "/**") {
		text += "/*" // what is below, not the directory
	}
	return Compile(text)
}

// Match reports whether the pattern matches the whole of path.
func (p *Path) Match(path string) bool {
	if p.suffixes == nil {
		return p.automaton.match(path)
	}
	for _, s := range p.suffixes {
		if strings.HasSuffix(path, s) {
			return p.exact || p.automaton.match(path)
		}
	}
	return false
}

// A List is patterns of what to leave out below a directory.
type List []*Path

// CompileList compiles patterns as [CompileBelow] does. The error names the
// pattern.
func CompileList(patterns []string) (List, error) {
	var list List
	for _, pattern := range patterns {
		p, err := CompileBelow(pattern)
		if err != nil {
			return nil, fmt.Errorf("%.80q %w", pattern, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// Match reports whether one of the patterns matches the whole of path.
func (l List) Match(path string) bool {
	return slices.ContainsFunc(l, func(p *Path) bool { return p.Match(path) })
}

func (b *builder) parts(parts []part, next int) int {
	for _, p := range slices.Backward(parts) {
		switch p.kind {
		case one:
			next = b.take(p.set, next)
		case stars:
			next = b.any(notSlash, next)
		case deep:
			next = b.any(anything, next)
		case above:
			next = b.either(next, b.any(anything, b.take(slash, next)))
		case middle:
			next = b.take(slash, b.either(next, b.any(anything, b.take(slash, next))))
		case below:
			next = b.take(slash, b.any(anything, next))
		case either:
			start := b.parts(p.alts[0], next)
			for _, alt := range p.alts[1:] {
				start = b.either(start, b.parts(alt, next))
			}
			next = start
		}
	}
	return next
}

// maxSuffixes is how many endings are looked for before the automaton runs.
const maxSuffixes = 8

// suffixes returns what the paths that match end with, and whether every path
// that ends so matches.
func suffixes(parts []part) (list []string, exact bool) {
	list = []string{""}
	at := len(parts) - 1
	for ; at >= 0; at-- {
		p := parts[at]
		var heads []string
		if c, ok := p.literal(); ok {
			heads = []string{string(c)}
		} else if p.kind == either {
			for _, alt := range p.alts {
				text, ok := plainText(alt)
				if !ok {
					heads = nil
					break
				}
				heads = append(heads, text)
			}
		}
		if heads == nil || len(heads)*len(list) > maxSuffixes {
			break
		}
		longer := make([]string, 0, len(heads)*len(list))
		for _, head := range heads {
			for _, tail := range list {
				longer = append(longer, head+tail)
			}
		}
		list = longer
	}
	if slices.Contains(list, "") {
		return nil, false
	}
	// **/*suffix, where the suffix has no slash in it.
	exact = at == 1 && parts[1].kind == stars && parts[0].kind == above &&
		!slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "/") })
	return list, exact
}

// literal returns the character that p is, if it is one.
func (p *part) literal() (rune, bool) {
	if p.kind != one || p.set.not || len(p.set.ranges) != 1 || p.set.ranges[0][0] != p.set.ranges[0][1] {
		return 0, false
	}
	return p.set.ranges[0][0], true
}

func plainText(parts []part) (string, bool) {
	var text strings.Builder
	for i := range parts {
		c, ok := parts[i].literal()
		if !ok {
			return "", false
		}
		text.WriteRune(c)
	}
	return text.String(), true
}

type parser struct {
	text string
	at   int
}

// sequence reads up to the end, or, inside braces, to what ends the
// alternative.
func (p *parser) sequence(depth int) ([]part, error) {
	var parts []part
	begin := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case depth > 0 && (c == ',' || c == '}'):
			return parts, nil
		case c == '}':
			return nil, errUnopened
		case c == '{':
			p.at++
			alts, err := p.braces(depth + 1)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part{kind: either, alts: alts})
			continue
		}
		t, rest, err := lex(p.text[p.at:])
		if err != nil {
			return nil, err
		}
		p.at = len(p.text) - len(rest)
		switch t.kind {
		case star:
			parts = p.star(parts, begin, depth)
		case anyChar:
			parts = append(parts, part{kind: one, set: notSlash})
		case someSet:
			if t.set.not {
				t.set.ranges = append(t.set.ranges, [2]rune{'/', '/'})
			}
			parts = append(parts, part{kind: one, set: t.set})
		default:
			parts = append(parts, part{kind: one, set: single(t.char)})
		}
	}
	if depth > 0 {
		return nil, errUnclosed
	}
	return parts, nil
}

func (p *parser) braces(depth int) ([][]part, error) {
	if depth > maxGroups {
		return nil, fmt.Errorf("has braces nested more than %d deep", maxGroups)
	}
	var alts [][]part
	for {
		alt, err := p.sequence(depth)
		if err != nil {
			return nil, err
		}
		alts = append(alts, alt)
		p.at++ // the comma or the brace
		if p.text[p.at-1] == '}' {
			return alts, nil
		}
	}
}

// star reads what follows a first asterisk: two of them are special where they
// stand for whole parts of a path.
func (p *parser) star(parts []part, begin, depth int) []part {
	if !strings.HasPrefix(p.text[p.at:], "*") {
		return append(parts, part{kind: stars})
	}
	first := p.at - 1
	p.at++
	ends, next := p.at == len(p.text), byte(0)
	if !ends {
		next = p.text[p.at]
		ends = depth > 0 && (next == ',' || next == '}')
	}
	atStart := first == begin && len(parts) == 0
	afterSlash := first > 0 && p.text[first-1] == '/' && len(parts) > 0
	switch {
	case !ends && next != '/', !atStart && !afterSlash:
		return append(parts, part{kind: stars})
	case atStart:
		if next == '/' {
			p.at++
		}
		return append(parts, part{kind: above})
	}
	kind := below
	if !ends {
		p.at++
		kind = middle
	}
	switch last := &parts[len(parts)-1]; last.kind {
	case above: // **/**: the same once more
	case below:
	default: // in place of the slash
		*last = part{kind: kind}
	}
	return parts
}
