// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"slices"
	"strings"
)

// A glob is a pattern of paths as ripgrep reads them: * and ? match inside one
// part of a path, ** any number of parts, [a-z] one of some characters, {a,b}
// either of two patterns, and \ takes away the meaning of what follows.
type glob struct {
	automaton *automaton // nil if exact
	suffixes  []string   // one of which everything that matches ends with; nil: not known
	exact     bool       // matching is ending with a suffix, after a slash or not at all
}

// maxGlob is how long a glob may be.
const maxGlob = 4096

// maxGroups is how deep braces may be nested.
const maxGroups = 32

// A part is a piece of a glob.
type part struct {
	kind partKind
	set  byteSet  // of one
	alts [][]part // of either
}

type partKind uint8

const (
	one    partKind = iota // a byte of a set
	star                   // any bytes but slashes
	deep                   // any bytes
	above                  // nothing, or any directories and a slash
	middle                 // a slash, or one with any directories between two of them
	below                  // a slash and anything
	either                 // one of some sequences
)

// newGlob compiles a pattern that is matched against whole paths; source is how
// it was written.
func newGlob(pattern, source string) (*glob, error) {
	if len(pattern) > maxGlob {
		return nil, fmt.Errorf("the glob has %d bytes: at most %d are allowed", len(pattern), maxGlob)
	}
	p := globParser{text: pattern}
	parts, err := p.sequence(0)
	if err != nil {
		return nil, fmt.Errorf("glob %q: %w", source, err)
	}
	if len(parts) == 1 && parts[0].kind == above { // ** alone
		parts[0].kind = deep
	}
	g := new(glob)
	if g.suffixes, g.exact = suffixes(parts); !g.exact {
		b := newBuilder()
		g.automaton = b.automaton(b.parts(parts, accept))
	}
	return g, nil
}

// match reports whether the glob matches the whole of path.
func (g *glob) match(path string) bool {
	if g.suffixes == nil {
		return g.automaton.match(path)
	}
	for _, s := range g.suffixes {
		if strings.HasSuffix(path, s) {
			return g.exact || g.automaton.match(path)
		}
	}
	return false
}

func (b *builder) parts(parts []part, next int) int {
	for _, p := range slices.Backward(parts) {
		switch p.kind {
		case one:
			next = b.take(p.set, next)
		case star:
			next = b.any(notSlash, next)
		case deep:
			next = b.any(anyByte, next)
		case above:
			next = b.either(next, b.any(anyByte, b.take(slash, next)))
		case middle:
			next = b.take(slash, b.either(next, b.any(anyByte, b.take(slash, next))))
		case below:
			next = b.take(slash, b.any(anyByte, next))
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
		if b, ok := p.literal(); ok {
			heads = []string{string(b)}
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
	exact = at == 1 && parts[1].kind == star && parts[0].kind == above &&
		!slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "/") })
	return list, exact
}

// literal returns the byte that p is, if it is one.
func (p *part) literal() ([]byte, bool) {
	if p.kind != one {
		return nil, false
	}
	var only []byte
	for c := range 256 {
		if p.set.has(byte(c)) {
			if only != nil {
				return nil, false
			}
			only = []byte{byte(c)}
		}
	}
	return only, only != nil
}

func plainText(parts []part) (string, bool) {
	var text strings.Builder
	for i := range parts {
		b, ok := parts[i].literal()
		if !ok {
			return "", false
		}
		text.Write(b)
	}
	return text.String(), true
}

type globParser struct {
	text   string
	at     int
	noneIn bool // there is no ] ahead
}

// peek returns the next byte, or 0 at the end. A NUL is in no path.
func (p *globParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// sequence reads up to the end, or, inside braces, to what ends the
// alternative.
func (p *globParser) sequence(depth int) ([]part, error) {
	var parts []part
	begin := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		if depth > 0 && (c == ',' || c == '}') {
			return parts, nil
		}
		p.at++
		switch c {
		case '?':
			parts = append(parts, part{kind: one, set: notSlash})
		case '*':
			parts = p.star(parts, begin, depth)
		case '[':
			parts = append(parts, p.class())
		case '{':
			alts, err := p.braces(depth + 1)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part{kind: either, alts: alts})
		case '}':
			return nil, fmt.Errorf("there is a } without a {: write \\} for the character")
		case '\\':
			if p.at == len(p.text) {
				return nil, fmt.Errorf("it ends with a \\: write \\\\ for the character")
			}
			parts = append(parts, part{kind: one, set: single(p.text[p.at])})
			p.at++
		default:
			parts = append(parts, part{kind: one, set: single(c)})
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("there is a { without a }: write \\{ for the character")
	}
	return parts, nil
}

func (p *globParser) braces(depth int) ([][]part, error) {
	if depth > maxGroups {
		return nil, fmt.Errorf("its braces are nested more than %d deep", maxGroups)
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
func (p *globParser) star(parts []part, begin, depth int) []part {
	if p.peek() != '*' {
		return append(parts, part{kind: star})
	}
	first := p.at - 1
	p.at++
	next := p.peek()
	ends := p.at == len(p.text) || depth > 0 && (next == ',' || next == '}')
	atStart := first == begin && len(parts) == 0
	afterSlash := first > 0 && p.text[first-1] == '/' && len(parts) > 0
	switch {
	case !ends && next != '/', !atStart && !afterSlash:
		return append(parts, part{kind: star})
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
		return parts
	}
	return parts
}

// class reads what follows a [. Without a ] ahead it is a character.
func (p *globParser) class() part {
	literal := part{kind: one, set: single('[')}
	if p.noneIn {
		return literal
	}
	at := p.at
	var set byteSet
	negated := false
	if at < len(p.text) && (p.text[at] == '!' || p.text[at] == '^') {
		negated = true
		at++
	}
	for first := true; ; first = false {
		if at >= len(p.text) {
			p.noneIn = true
			return literal
		}
		low := p.text[at]
		at++
		if low == ']' && !first {
			break
		}
		high := low
		if at+1 < len(p.text) && p.text[at] == '-' && p.text[at+1] != ']' {
			high = p.text[at+1]
			at += 2
		}
		set.addRange(low, high)
	}
	if negated {
		set.invert()
	}
	p.at = at
	return part{kind: one, set: set}
}
