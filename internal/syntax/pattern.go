// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/toolserver/toolserver/internal/search/index"
)

// A pattern is code with metavariables: $A is one node, and the same one wherever
// it stands; $_ is any; $$$A and $$$ are any number of nodes in a row.
type pattern struct {
	language *language
	nodes    []*part // several stand in a row
	literals []string
	chains   []chain
	names    map[string]int // how often each is there
	branches int            // how many parts stand for any number of nodes
	levels   uint32         // of nodes that a match is told by
	wide     bool           // it may match statements beside each other, or what stands in braces
	spent    atomic.Int64   // steps of the whole call
}

// A part is a node of a pattern.
type part struct {
	kind     string
	named    bool
	text     string // of a leaf
	children []*part
	variable string // its metavariable: "" for none, "_" for one that is not kept
	several  bool   // it stands for any number of nodes
	free     bool   // what came before does not matter for it and for those behind it
}

const (
	maxPattern      = 10_000 // bytes
	maxPatternDepth = 200
)

// metavariable is how one is written. Only capitals are meant: $x is a variable
// in some languages.
var metavariable = regexp.MustCompile(`\$\$\$(?:[A-Z_][A-Z0-9_]*)?|\$[A-Z_][A-Z0-9_]*`)

// stand-ins are names that take the place of metavariables while a pattern is
// parsed.
const standIn = "zqv"

// wide is code of Go that may have statements, declarations or comments in it.
var wide = regexp.MustCompile(`\{|//|/\*|\b(?:var|const|type|import)\b`)

// alone is a stand-in where a statement begins.
var alone = regexp.MustCompile(`[{};]\s*` + standIn + `\d+q`)

// errPattern says why a pattern is none.
type errPattern struct{ text string }

func (e errPattern) Error() string { return e.text }

// compile parses a pattern as code of a language.
func (p *parsers) compile(ctx context.Context, l *language, text string) (*pattern, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxPattern {
		return nil, errPattern{fmt.Sprintf("a pattern has at most %d bytes", maxPattern)}
	}
	variables := make(map[string]string)
	code := metavariable.ReplaceAllStringFunc(text, func(v string) string {
		name := fmt.Sprintf("%s%dq", standIn, len(variables))
		if l.name == "json" {
			name = `"` + name + `"`
		}
		variables[name] = v
		return name
	})
	t, at, err := p.placed(ctx, l, code)
	if errors.As(err, new(errPattern)) { // perhaps statements end with a semicolon
		stated := alone.ReplaceAllStringFunc(code, func(statement string) string {
			if name := strings.TrimLeft(statement, "{};\n\t "); strings.HasPrefix(variables[name], "$$$") {
				variables[name+";"] = variables[name]
				return statement + ";"
			}
			return statement
		})
		if stated != code {
			t, at, err = p.placed(ctx, l, stated)
		}
	}
	if err != nil {
		return nil, err
	}
	c := &pattern{language: l, names: make(map[string]int), wide: wide.MatchString(code)}
	for _, i := range t.cover(at) {
		part, err := c.part(t, i, variables, 0)
		if err != nil {
			return nil, err
		}
		if part != nil {
			c.nodes = append(c.nodes, part)
			c.levels = max(c.levels, 1+part.levels())
		}
	}
	anything := !slices.ContainsFunc(c.nodes, func(n *part) bool { return n.variable == "" && !n.several })
	if len(c.nodes) == 0 || anything {
		return nil, errPattern{"it would match anything: write some code beside the metavariables"}
	}
	c.setFree(c.nodes)
	slices.SortStableFunc(c.literals, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	c.literals = slices.Compact(c.literals)
	slices.SortStableFunc(c.chains, func(a, b chain) int { return cmp.Compare(len(b.second), len(a.second)) })
	return c, nil
}

// placed parses code in the first of the surroundings of its language in which it
// parses, and returns where it is. Tokens may be missing, such as a semicolon.
func (p *parsers) placed(ctx context.Context, l *language, code string) (*tree, span, error) {
	var second *tree
	var secondAt span
	for _, around := range l.around {
		before, after, _ := strings.Cut(around, "$")
		t, err := p.parse(ctx, l, []byte(before+code+after+"\n"))
		if err != nil {
			return nil, span{}, err
		}
		at := span{uint32(len(before)), uint32(len(before) + len(code))}
		if !t.flawed() {
			return t, at, nil
		}
		if second == nil && !slices.ContainsFunc(t.nodes, func(n node) bool { return n.flags&isError != 0 }) {
			second, secondAt = t, at
		}
	}
	if second == nil {
		return nil, span{}, errPattern{fmt.Sprintf("it does not parse as %s. A pattern is code, with $NAME for one expression, name or statement and $$$ for any number of them", l.name)}
	}
	return second, secondAt, nil
}

// cover returns the node that a part of the text is; the innermost one where
// several are, and several in a row where none is.
func (t *tree) cover(at span) []int {
	i := 0
	for {
		next := -1
		for c := range t.children(i) {
			if n := &t.nodes[c]; n.start <= at.start && n.end >= at.end {
				next = c
				break
			}
		}
		if next < 0 {
			break
		}
		i = next
	}
	if i > 0 && t.nodes[i].span == at {
		return []int{i}
	}
	var list []int
	for c := range t.children(i) {
		if n := &t.nodes[c]; n.start >= at.start && n.end <= at.end && n.start < n.end {
			list = append(list, c)
		}
	}
	return list
}

// part makes the part of a node. It returns nil for one that is not in the text.
func (c *pattern) part(t *tree, i int, variables map[string]string, depth int) (*part, error) {
	n := &t.nodes[i]
	if depth > maxPatternDepth {
		return nil, errPattern{fmt.Sprintf("it is nested deeper than %d levels", maxPatternDepth)}
	}
	if n.start == n.end {
		return nil, nil
	}
	p := &part{kind: t.kindOf(i), named: n.flags&isNamed != 0}
	text := string(t.of(i))
	if v, ok := variables[text]; ok {
		name := strings.TrimLeft(v, "$")
		if p.several = strings.HasPrefix(v, "$$$"); p.several {
			c.branches++
		}
		if p.variable = cmp.Or(name, "_"); p.variable != "_" {
			c.names[p.variable]++
		}
		return p, nil
	}
	if n.size == 1 {
		for name, v := range variables {
			text = strings.ReplaceAll(text, name, v)
		}
		p.text = text
		if strings.ContainsFunc(text, unicode.IsLetter) { // others may be left out, as a comma is
			c.literals = append(c.literals, text)
		}
		return p, nil
	}
	for child := range t.children(i) {
		sub, err := c.part(t, child, variables, depth+1)
		if err != nil {
			return nil, err
		}
		if sub != nil {
			p.children = append(p.children, sub)
		}
	}
	if chain, ok := p.chain(); ok {
		c.chains = append(c.chains, chain)
	}
	return p, nil
}

// setFree sets what is free of parts in a row, and reports whether all are: no name
// of them is anywhere else.
func (c *pattern) setFree(row []*part) bool {
	free := true
	for _, p := range slices.Backward(row) {
		free = c.setFree(p.children) && c.names[p.variable] <= 1 && free
		p.free = free
	}
	return free
}

// A chain is two names with a dot between them.
type chain struct{ first, dot, second []byte }

// chain returns the chain that a part is; false for other parts. It tells calls from
// long tables that have the same words.
func (p *part) chain() (c chain, ok bool) {
	if len(p.children) != 3 || p.children[0].text == "" || p.children[2].text == "" || !p.children[0].named || !p.children[2].named {
		return c, false
	}
	c = chain{[]byte(p.children[0].text), []byte(p.children[1].text), []byte(p.children[2].text)}
	return c, slices.Contains([]string{".", "::", "->"}, string(c.dot))
}

// mayEnd reports whether a chain may end with its second name, which is in a text at some
// place. There may be comments between names: what is behind one counts.
func (c *chain) mayEnd(text []byte, at uint32) bool {
	before := text[:at]
	for _, part := range [...][]byte{c.dot, c.first} {
		code := bytes.TrimRight(before, " \t\r\n")
		if bytes.HasSuffix(code, []byte("*/")) || bytes.IndexByte(before[len(code):], '\n') >= 0 {
			return true
		}
		if before = bytes.TrimSuffix(code, part); len(before) == len(code) {
			return false
		}
	}
	return true
}

// in returns where a text has a chain, by its second name.
func (c *chain) in(text []byte) []uint32 {
	list := placesOf(text, c.second, []index.Span{{End: len(text)}})
	return slices.DeleteFunc(list, func(at uint32) bool { return !c.mayEnd(text, at) })
}

// placesOf returns where parts of a text have another.
func placesOf(text, other []byte, parts []index.Span) (list []uint32) {
	for _, part := range parts {
		for i := part.Start; ; i++ {
			k := bytes.Index(text[i:part.End], other)
			if k < 0 {
				break
			}
			i += k
			list = append(list, uint32(i))
		}
	}
	return list
}

// levels is how many levels of parts there are, with this one.
func (p *part) levels() uint32 {
	most := uint32(0)
	for _, child := range p.children {
		most = max(most, child.levels())
	}
	return most + 1
}

// places returns where a text has what every match has in it: the longest of the chains
// or, without one, of the literals. Without either there are none, and matches may be
// anywhere. It reports false where something of the pattern is nowhere in the text. parts
// are those that may have the longest literal, if that is known.
func (c *pattern) places(text []byte, parts []index.Span) (list []uint32, ok bool) {
	if len(c.literals) == 0 {
		return nil, true
	}
	if len(parts) == 0 {
		parts = []index.Span{{End: len(text)}}
	}
	if len(c.chains) > 0 {
		list = c.chains[0].in(text)
	} else {
		list = placesOf(text, []byte(c.literals[0]), parts)
	}
	if len(list) == 0 {
		return nil, false
	}
	for _, literal := range c.literals {
		if !bytes.Contains(text, []byte(literal)) {
			return nil, false
		}
	}
	for i := 1; i < len(c.chains); i++ {
		if len(c.chains[i].in(text)) == 0 {
			return nil, false
		}
	}
	return list, true
}

// A capture is what a metavariable stands for.
type capture struct {
	name string
	span
}

// A match is where a pattern matches.
type match struct {
	span
	captures []capture
}

// Patterns with many $$$ have many ways to match, and a text may have many places to
// try them. What a plain pattern takes, freeSteps for each node, is not counted.
const (
	freeSteps = 8
	fileSteps = 20_000_000  // in a file
	callSteps = 500_000_000 // in all files of a call
	checked   = 1000        // steps until somebody looks whether to go on
	maxFailed = 1 << 16     // failures that are remembered
	maxKept   = 1 << 18     // spans that the matches of a file have
)

// A matcher tries a pattern on a tree.
type matcher struct {
	*tree
	ctx      context.Context
	pattern  *pattern
	places   []uint32 // of the pattern in the text
	captures []capture
	steps    int
	looked   int // the steps when it was last looked whether to go on
	err      error
	failed   map[attempt]bool // rows that do not match
	last     int              // the node that the last part of a row matched
}

// An attempt is where a row of parts is tried: by the first of the nodes, -1 for none,
// and of the parts.
type attempt struct {
	node int
	part *part
}

// matches returns where a pattern, which has places in the text, matches in a tree, in
// order, and the first ones where there are more than most.
func (t *tree) matches(ctx context.Context, c *pattern, places []uint32, most int) ([]match, error) {
	m := &matcher{tree: t, ctx: ctx, pattern: c, places: places, failed: make(map[attempt]bool)}
	return m.all(most)
}

func (m *matcher) all(most int) ([]match, error) {
	var found []match
	c, kept := m.pattern, 0
	add := func(at span) bool {
		found = append(found, match{at, slices.Clone(m.captures)})
		if kept += 1 + len(m.captures); kept > maxKept {
			m.err = errPattern{"too many places of one file have this shape. Write more code in the pattern, or name other files with path"}
		}
		return len(found) < most
	}
	for i := range m.nodes {
		n := &m.nodes[i]
		if n.flags&isNamed == 0 && c.nodes[0].named || len(c.literals) > 0 && !hasPlace(m.places, n.span) {
			continue
		}
		on := true
		if len(c.nodes) > 1 {
			on = m.rows(i, add)
		} else if m.captures = m.captures[:0]; m.one(i, c.nodes[0]) {
			on = add(n.span)
		}
		if m.err != nil {
			return nil, m.err
		}
		if !on {
			break
		}
	}
	return found, nil
}

// rows adds where parts in a row match among the children of a node, until add
// returns false.
func (m *matcher) rows(i int, add func(span) bool) bool {
	list := m.solid(i)
	for k := range list {
		m.captures = m.captures[:0]
		if m.row(list[k:], m.pattern.nodes, true) && !add(span{m.nodes[list[k]].start, m.nodes[m.last].end}) {
			return false
		}
		if m.err != nil {
			return false
		}
	}
	return true
}

// step counts n steps, and reports whether to go on.
func (m *matcher) step(n int) bool {
	m.steps += n
	if m.err != nil || m.steps-m.looked < checked {
		return m.err == nil
	}
	over := m.steps - freeSteps*len(m.nodes)
	spent := m.pattern.spent.Add(int64(max(0, min(over, m.steps-m.looked))))
	m.looked = m.steps
	switch {
	case m.ctx.Err() != nil:
		m.err = context.Cause(m.ctx)
	case over > fileSteps || spent > callSteps:
		m.err = errPattern{"it has too many ways to match, and trying them takes too long: each $$$ in a row multiplies them. Use fewer $$$, or name a directory or other files with path"}
	}
	return m.err == nil
}

// solid returns the children of a node without comments.
func (m *matcher) solid(i int) []int {
	var list []int
	for c := range m.children(i) {
		if m.nodes[c].flags&isExtra == 0 {
			list = append(list, c)
		}
	}
	m.step(len(list))
	return list
}

// one reports whether a node is what a part says.
func (m *matcher) one(i int, p *part) bool {
	if !m.step(1) {
		return false
	}
	if p.variable != "" {
		return m.nodes[i].flags&isNamed != 0 && m.bind(p.variable, m.nodes[i].span)
	}
	if m.kindOf(i) != p.kind {
		return false
	}
	if p.children == nil {
		return !p.named || string(m.of(i)) == p.text
	}
	return m.row(m.solid(i), p.children, false)
}

// bind keeps what a metavariable stands for; it must be the same everywhere.
func (m *matcher) bind(name string, at span) bool {
	if name == "_" {
		return true
	}
	for _, c := range m.captures {
		if c.name == name {
			m.step(int(at.end-at.start) / 64)
			return bytes.Equal(m.text[c.start:c.end], m.text[at.start:at.end])
		}
	}
	m.captures = append(m.captures, capture{name, at})
	return true
}

// row reports whether nodes in a row are what parts say. Tokens that the parts do
// not name may stand between, such as a last comma. With more, other nodes may
// follow.
func (m *matcher) row(list []int, parts []*part, more bool) bool {
	if !m.step(1) {
		return false
	}
	if len(parts) == 0 {
		return more || !slices.ContainsFunc(list, func(i int) bool { return m.nodes[i].flags&isNamed != 0 })
	}
	if m.pattern.branches < 2 || !parts[0].free {
		return m.tried(list, parts, more)
	}
	at := attempt{-1, parts[0]}
	if len(list) > 0 {
		at.node = list[0]
	}
	if m.failed[at] {
		return false
	}
	ok := m.tried(list, parts, more)
	if !ok && len(m.failed) < maxFailed {
		m.failed[at] = true
	}
	return ok
}

// tried is row where it is not known that it fails.
func (m *matcher) tried(list []int, parts []*part, more bool) bool {
	kept := len(m.captures)
	p := parts[0]
	if p.several {
		for k := 0; k <= len(list); k++ {
			if m.several(list[:k], p) && m.row(list[k:], parts[1:], more) {
				return true
			}
			m.captures = m.captures[:kept]
		}
		// Nothing stands for it, and so does nothing for the comma behind it.
		return len(parts) > 1 && !parts[1].named && m.several(nil, p) && m.row(list, parts[2:], more)
	}
	if len(list) > 0 {
		if m.one(list[0], p) {
			m.last = list[0]
			if m.row(list[1:], parts[1:], more) {
				return true
			}
		}
		m.captures = m.captures[:kept]
		if m.nodes[list[0]].flags&isNamed == 0 && m.row(list[1:], parts, more) {
			return true
		}
		m.captures = m.captures[:kept]
	}
	// A comma before what nothing stands for.
	return !p.named && len(parts) > 1 && parts[1].several && (p.text == "," || p.text == ";") &&
		m.several(nil, parts[1]) && m.row(list, parts[2:], more)
}

// several keeps the nodes that a part stands for.
func (m *matcher) several(list []int, p *part) bool {
	if len(list) == 0 {
		return p.variable == "_" || m.bind(p.variable, span{})
	}
	m.last = list[len(list)-1]
	return m.bind(p.variable, span{m.nodes[list[0]].start, m.nodes[m.last].end})
}

// replaced returns a replacement with what metavariables stand for in a match. Where
// one stands for nothing, the comma before it goes too. It ends when it is longer than
// most.
func (m match) replaced(text []byte, replacement string, most int) string {
	var b strings.Builder
	at := 0
	for _, place := range metavariable.FindAllStringIndex(replacement, -1) {
		before, v := replacement[at:place[0]], replacement[place[0]:place[1]]
		at = place[1]
		for _, c := range m.captures {
			if c.name != strings.TrimLeft(v, "$") {
				continue
			}
			if v = string(text[c.start:c.end]); v == "" {
				before = strings.TrimSuffix(strings.TrimRight(before, " \t\n"), ",")
			}
			break
		}
		b.WriteString(before)
		b.WriteString(v)
		if b.Len() > most {
			break
		}
	}
	return b.String() + replacement[at:]
}

// checkReplacement returns why a replacement cannot be made for a pattern.
func (c *pattern) checkReplacement(replacement string) error {
	for _, v := range metavariable.FindAllString(replacement, -1) {
		name := strings.TrimLeft(v, "$")
		if name == "" {
			return errPattern{"the replacement has $$$ without a name: write $$$NAME in the pattern and in the replacement"}
		}
		if c.names[name] == 0 {
			return errPattern{fmt.Sprintf("the replacement has %s, which the pattern does not", v)}
		}
	}
	return nil
}
