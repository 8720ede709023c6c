// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/output"
)

// A Symbol is something that a text declares.
type Symbol struct {
	Name      string
	Kind      string // function, method, class … as languages.txt has them
	Container string // the symbol it belongs to, where there is one
	Signature string // one line of how it is declared
	Doc       string // the first line of what is said about it
	Depth     int    // how many symbols it lies in
	Line      int    // from 1; with EndLine
	EndLine   int
}

const (
	maxName      = 200    // bytes of a name; longer ones are none that somebody looks for
	maxSignature = 160    // characters
	maxSymbols   = 50_000 // of a file
	maxDataDepth = 3      // of keys and elements
)

// isType are kinds that have members.
var isType = map[string]bool{"class": true, "struct": true, "interface": true, "trait": true, "impl": true, "enum": true, "type": true}

// isLocal are kinds that are left out of functions.
var isLocal = map[string]bool{"variable": true, "constant": true, "field": true}

func isFunction(kind string) bool { return kind == "function" || kind == "method" }

// outline returns the symbols of a tree in the order of the text. With prose, they
// have signatures and what is said about them.
func (t *tree) outline(prose bool) []Symbol {
	type enclosing struct {
		end    int // of the subtree
		symbol int // -1: a function whose symbol there is not
		inside bool
	}
	var symbols []Symbol
	var open []enclosing
	lines := linesOf(t.text)
	for i := range t.nodes {
		for len(open) > 0 && open[len(open)-1].end <= i {
			open = open[:len(open)-1]
		}
		kind := t.nodes[i].kind
		if kind == errorKind || t.rules[kind] == nil || t.nodes[i].flags&isNamed == 0 {
			continue
		}
		r := t.rules[kind]
		if r.has != "" && t.child(i, t.fieldOf[r.has]) < 0 {
			continue
		}
		outer, inFunction := -1, false
		if len(open) > 0 {
			outer, inFunction = open[len(open)-1].symbol, open[len(open)-1].inside
		}
		first := len(symbols)
		for _, n := range t.names(i, r) {
			s := t.symbol(i, n, r)
			if outer >= 0 {
				s.Depth = symbols[outer].Depth + 1
				s.Container = cmp.Or(s.Container, symbols[outer].Name)
				switch member := isType[symbols[outer].Kind]; {
				case member && s.Kind == "function":
					s.Kind = "method"
				case member && s.Kind == "variable":
					s.Kind = "field"
				}
			} else if s.Kind == "field" && !t.data {
				s.Kind = "variable"
			}
			if s.Name == "" || len(s.Name) > maxName || inFunction && isLocal[s.Kind] || t.data && s.Depth >= maxDataDepth {
				continue
			}
			at := i
			if r.each {
				at = n.node
			}
			s.Line, s.EndLine = lines.at(t.nodes[at].start), lines.at(max(t.nodes[at].start, t.nodes[at].end-min(t.nodes[at].end, 1)))
			if prose {
				s.Signature, s.Doc = t.signature(at, r), t.doc(at, lines)
			}
			if symbols = append(symbols, s); len(symbols) == maxSymbols {
				return symbols
			}
		}
		if len(symbols) > first && !r.each {
			s := &symbols[len(symbols)-1]
			open = append(open, enclosing{i + int(t.nodes[i].size), len(symbols) - 1, inFunction || isFunction(s.Kind)})
		}
	}
	return symbols
}

// symbol makes the symbol of a node, whose name is that of another.
func (t *tree) symbol(i int, n name, r *symbolRule) Symbol {
	s := Symbol{Name: n.text, Kind: r.kind, Container: n.container}
	for _, other := range r.other {
		if c := t.child(i, t.fieldOf[other.field]); c >= 0 && t.kindOf(c) == other.node {
			s.Kind = other.kind
		}
	}
	if n.function {
		s.Kind = "function"
		if s.Container != "" {
			s.Kind = "method"
		}
	}
	if receiver := t.child(i, t.fieldOf["receiver"]); receiver >= 0 && s.Kind == "method" {
		s.Container = t.receiver(receiver)
	}
	return s
}

// receiver returns the name of the type of a method of Go.
func (t *tree) receiver(i int) string {
	for c := i; c < i+int(t.nodes[i].size); c++ {
		if t.kindOf(c) == "type_identifier" {
			return string(t.of(c))
		}
	}
	return ""
}

// A name is what a symbol is called.
type name struct {
	node            int // where it is; 0 where that does not matter
	text, container string
	function        bool // its declarator is one of a function
}

// names returns the names of a node, as its rule finds them.
func (t *tree) names(i int, r *symbolRule) []name {
	switch r.name {
	case "(id)":
		return t.elementName(i)
	case "(head)":
		return []name{{text: oneLine(t.text[t.nodes[i].start:t.headEnd(i)])}}
	case "(heading)":
		return t.heading(i)
	}
	if field, ok := strings.CutSuffix(r.name, "*"); ok {
		return t.declared(i, t.fieldOf[field])
	}
	var found []name
	for path := range strings.SplitSeq(r.name, "|") {
		for _, c := range t.follow(i, path) {
			found = append(found, name{node: c, text: strings.Trim(oneLine(t.of(c)), "\"'`")})
		}
		if len(found) > 0 {
			return found
		}
	}
	if t.kindOf(i) == "companion_object" {
		return []name{{text: "Companion"}}
	}
	return nil
}

// follow returns the nodes that a path of fields and kinds leads to.
func (t *tree) follow(i int, path string) []int {
	at := []int{i}
	for part := range strings.SplitSeq(path, "/") {
		var next []int
		for _, i := range at {
			if kind, ok := strings.CutPrefix(part, "@"); ok { // it has to be of a kind itself
				if t.kindOf(i) == kind {
					next = append(next, i)
				}
				continue
			}
			kind, byKind := strings.CutPrefix(part, "#")
			for c := range t.children(i) {
				if byKind && t.kindOf(c) == kind {
					next = append(next, c)
					break
				}
				if !byKind && t.nodes[c].field != 0 && t.nodes[c].field == t.fieldOf[part] && t.nodes[c].flags&isNamed != 0 {
					next = append(next, c)
				}
			}
		}
		at = next
	}
	return at
}

// declared returns what the declarators of C declare.
func (t *tree) declared(i int, field uint8) []name {
	var found []name
	for c := range t.children(i) {
		if t.nodes[c].field != field || field == 0 {
			continue
		}
		at, function := c, false
		for depth := 0; depth < 100; depth++ {
			kind := t.kindOf(at)
			next := t.child(at, field)
			if next < 0 && (kind == "parenthesized_declarator" || kind == "reference_declarator" || kind == "attributed_declarator") {
				for inner := range t.children(at) {
					if t.nodes[inner].flags&isNamed != 0 {
						next = inner
						break
					}
				}
			}
			if next < 0 || kind == "operator_cast" {
				break
			}
			if kind == "function_declarator" {
				function = t.kindOf(next) != "parenthesized_declarator"
			}
			at = next
		}
		found = append(found, t.qualified(at, function))
	}
	return found
}

// qualified returns a name of C++ without the scopes before it, which are what it
// belongs to, and the arguments of a template behind it.
func (t *tree) qualified(i int, function bool) name {
	n := name{function: function}
	begin := t.nodes[i].start
	for depth := 0; depth < 100 && (t.kindOf(i) == "qualified_identifier" || t.kindOf(i) == "template_function"); depth++ {
		next := t.child(i, t.fieldOf["name"])
		if next < 0 {
			break
		}
		i = next
	}
	n.container = strings.TrimSuffix(oneLine(t.text[begin:t.nodes[i].start]), "::")
	n.text = oneLine(t.of(i))
	return n
}

// elementName returns the id of an element of HTML, or the text of a heading.
func (t *tree) elementName(i int) []name {
	tag := ""
	for c := i + 1; c < i+int(t.nodes[i].size); c++ {
		switch kind := t.kindOf(c); {
		case kind == "tag_name" && tag == "":
			tag = string(t.of(c))
		case kind == "attribute" && bytes.HasPrefix(t.of(c), []byte("id=")):
			return []name{{text: tag + "#" + strings.Trim(string(t.of(c)[3:]), `"'`)}}
		case kind == "element" || kind == "end_tag" || kind == "text":
			if len(tag) == 2 && tag[0] == 'h' && tag[1] >= '1' && tag[1] <= '6' && kind == "text" {
				return []name{{text: tag + " " + oneLine(t.of(c))}}
			}
			return nil
		}
	}
	return nil
}

// heading returns the heading of a section of Markdown.
func (t *tree) heading(i int) []name {
	for c := range t.children(i) {
		if t.kindOf(c) == "atx_heading" {
			return []name{{text: oneLine(bytes.Trim(t.of(c), "# \t\r\n"))}}
		}
		break
	}
	return nil
}

// bodies are kinds of nodes that begin what is not part of a signature.
var bodies = map[string]bool{"block": true, "class_body": true, "function_body": true, "enum_class_body": true, "declaration_list": true, "compound_statement": true}

// headEnd returns where that begins.
func (t *tree) headEnd(i int) uint32 {
	for c := range t.children(i) {
		if t.nodes[c].field != 0 && t.fields[t.nodes[c].field] == "body" || bodies[t.kindOf(c)] {
			return t.nodes[c].start
		}
	}
	return t.nodes[i].end
}

// signature returns how a symbol is declared, on one line.
func (t *tree) signature(i int, r *symbolRule) string {
	text := t.text[t.nodes[i].start:t.headEnd(i)]
	if int(t.nodes[i].start)+len(text) == int(t.nodes[i].end) { // it has no body: what follows is long
		text, _, _ = bytes.Cut(text, []byte("\n"))
	}
	if above, rest, ok := bytes.Cut(text, []byte("\n")); ok && isComment(bytes.TrimSpace(rest)) {
		text = above
	}
	return output.Line(r.before+strings.TrimRight(oneLine(text), " \t{:;="), maxSignature)
}

// doc returns the first line of the comment above a node, or of the text that
// Python has inside.
func (t *tree) doc(i int, lines lines) string {
	if body := t.child(i, t.fieldOf["body"]); body >= 0 {
		for c := body + 1; c < min(body+3, body+int(t.nodes[body].size)); c++ {
			if t.kindOf(c) == "string" && t.kindOf(body) == "block" {
				return firstLine(t.of(c))
			}
		}
	}
	number := lines.at(t.nodes[i].start) - 1
	line := bytes.TrimSpace(lines.text(t.text, number))
	if !isComment(line) {
		return ""
	}
	for number > 1 {
		above := bytes.TrimSpace(lines.text(t.text, number-1))
		if !isComment(above) && !(bytes.HasSuffix(line, []byte("*/")) && !bytes.HasPrefix(line, []byte("/*"))) {
			break
		}
		line = above
		if number--; bytes.HasPrefix(line, []byte("/*")) {
			break
		}
	}
	for ; number < lines.at(t.nodes[i].start); number++ {
		if text := firstLine(lines.text(t.text, number)); text != "" {
			return text
		}
	}
	return ""
}

// isComment reports whether a line looks like one.
func isComment(line []byte) bool {
	begins := func(marks ...string) bool {
		return slices.ContainsFunc(marks, func(mark string) bool { return bytes.HasPrefix(line, []byte(mark)) })
	}
	return begins("//", "*", "/*", "# ", "##") || len(line) == 1 && line[0] == '#'
}

// firstLine returns the first line of a comment that says something.
func firstLine(comment []byte) string {
	for line := range bytes.Lines(comment) {
		if text := strings.TrimSpace(strings.Trim(oneLine(line), "/*#!\"' \t")); text != "" {
			return output.Line(text, maxSignature)
		}
	}
	return ""
}

// oneLine returns a text with every white space as one blank.
func oneLine(text []byte) string {
	return strings.Join(strings.Fields(string(text[:min(len(text), 8*maxSignature)])), " ")
}
