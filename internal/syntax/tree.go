// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sort"
)

// A span is a part of a text, in bytes.
type span struct{ start, end uint32 }

// A node is one of a tree. Its children follow it, each with those below it.
type node struct {
	span
	size  uint32 // nodes of its subtree, itself among them
	kind  uint16
	field uint8 // which part of its parent it is; 0 for none
	flags uint8
}

const (
	isNamed = 1 << iota // by the grammar; others are tokens
	isExtra             // a comment, which may be anywhere
	isError
	isMissing // it is not in the text
	isFlawed  // of the top: some of the text fits nowhere
)

// nodeSize is how many bytes a node has in an answer.
const nodeSize = 16

// errorKind is the kind of a node of text that fits nowhere.
const errorKind = 0xFFFF

// A tree is what a text is made of, in preorder. One of an excerpt tells where things
// are in the whole text.
type tree struct {
	*grammar
	text  []byte
	nodes []node
}

// newTree reads an answer about a text or an excerpt of it. The process that sent it is
// in the hands of the text: nothing in it leads outside of the text or the tree.
func newTree(g *grammar, text []byte, only *excerpt, body []byte) (*tree, error) {
	parsed := len(text)
	if only != nil {
		parsed = len(only.text)
	}
	n := len(body) / nodeSize
	if n == 0 || len(body)%nodeSize != 0 {
		return nil, fmt.Errorf("%w: a tree of %d bytes", ErrCrashed, len(body))
	}
	t := &tree{grammar: g, text: text, nodes: make([]node, n)}
	open := make([]int, 0, 64) // where the subtrees end that the node lies in
	for i := range t.nodes {
		b := body[i*nodeSize : (i+1)*nodeSize]
		x := node{
			span: span{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])},
			size: binary.LittleEndian.Uint32(b[8:]), kind: binary.LittleEndian.Uint16(b[12:]), field: b[14], flags: b[15],
		}
		for len(open) > 0 && open[len(open)-1] == i {
			open = open[:len(open)-1]
		}
		end := i + int(x.size)
		outer := n
		if len(open) > 0 {
			outer = open[len(open)-1]
		}
		fits := x.start <= x.end && int(x.end) <= parsed && x.size > 0 && end <= outer && (i > 0) == (len(open) > 0) &&
			(int(x.kind) < len(g.kinds) || x.kind == errorKind) && int(x.field) < len(g.fields)
		if !fits {
			return nil, fmt.Errorf("%w: a node that leads outside", ErrCrashed)
		}
		open = append(open, end)
		if only != nil {
			x.span = only.back(x.span)
		}
		t.nodes[i] = x
	}
	if int(t.nodes[0].size) != n {
		return nil, fmt.Errorf("%w: nodes outside of the tree", ErrCrashed)
	}
	return t, nil
}

// children calls yield with the children of a node until it returns false.
func (t *tree) children(i int) func(yield func(child int) bool) {
	return func(yield func(int) bool) {
		for c, end := i+1, i+int(t.nodes[i].size); c < end; c += int(t.nodes[c].size) {
			if !yield(c) {
				return
			}
		}
	}
}

// child returns the first child of a node that is a field; -1 where there is none.
func (t *tree) child(i int, field uint8) int {
	if field == 0 {
		return -1
	}
	for c := range t.children(i) {
		if t.nodes[c].field == field {
			return c
		}
	}
	return -1
}

// of returns the text of a node.
func (t *tree) of(i int) []byte { return t.text[t.nodes[i].start:t.nodes[i].end] }

// kindOf returns the name of the kind of a node.
func (t *tree) kindOf(i int) string {
	if t.nodes[i].kind == errorKind {
		return "ERROR"
	}
	return t.kinds[t.nodes[i].kind]
}

// flawed reports whether some of the text fits nowhere.
func (t *tree) flawed() bool { return t.nodes[0].flags&isFlawed != 0 }

// A grammar is the kinds and fields of a language by their numbers, and what is
// made of them.
type grammar struct {
	*language
	kinds, fields []string
	rules         []*symbolRule // by kind; nil for what is no symbol
	fieldOf       map[string]uint8
}

func newGrammar(l *language, body []byte) (*grammar, error) {
	var names struct{ Kinds, Fields []string }
	if err := json.Unmarshal(body, &names); err != nil || len(names.Fields) > 256 || len(names.Kinds) > errorKind {
		return nil, fmt.Errorf("%w: a grammar that is none", ErrCrashed)
	}
	g := &grammar{language: l, kinds: names.Kinds, fields: names.Fields, rules: make([]*symbolRule, len(names.Kinds)), fieldOf: make(map[string]uint8)}
	for i, name := range names.Kinds {
		g.rules[i] = l.rules[name]
	}
	for i, name := range names.Fields {
		if name != "" {
			g.fieldOf[name] = uint8(i)
		}
	}
	return g, nil
}

// lines knows where the lines of a text begin.
type lines []uint32

func linesOf(text []byte) lines {
	l := make(lines, 1, 1+len(text)/32)
	for i := 0; ; {
		k := bytes.IndexByte(text[i:], '\n')
		if k < 0 {
			return l
		}
		i += k + 1
		l = append(l, uint32(i))
	}
}

// at returns the number of the line that a byte is in, from 1.
func (l lines) at(offset uint32) int {
	return sort.Search(len(l), func(i int) bool { return l[i] > offset })
}

// text returns a line, by its number, without its end.
func (l lines) text(text []byte, number int) []byte {
	if number < 1 || number > len(l) {
		return nil
	}
	end := len(text)
	if number < len(l) {
		end = int(l[number]) - 1
	}
	return bytes.TrimSuffix(text[l[number-1]:end], []byte("\r"))
}
