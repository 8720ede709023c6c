// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// differs tells why bash may read a script in another way than the parser did;
// "" where no such reason is known. What it finds is not understood, whatever the
// tree says: the tree may lack a command that bash runs. Each reason below tells
// the two readings; the fuzzer of differs_test.go looks for more of them.
func differs(text string, file *syntax.File) string {
	d := differ{text: text}
	syntax.Walk(file, d.node)
	if d.why == "" {
		d.continued()
	}
	if strings.HasSuffix(text, `\`) {
		// bash takes it for a character; the parser drops it.
		d.doubt("a backslash at the end is read in two ways")
	}
	return d.why
}

// A differ looks for constructs that are read in two ways. It walks a tree and
// keeps what is around the node at hand.
type differ struct {
	text  string
	why   string
	nodes []syntax.Node

	quotes int // double quotes and here-documents around
	params int // ${…} around
	tests  int // [[ … ]] around
	substs int // $(…), `…` and <(…) around

	spans []span
}

// A span is a part of the text in which a backslash before the end of a line is
// no plain continuation; or in which, being quoted, it is nothing at all.
type span struct {
	from, to uint
	inert    bool
	end      string // the line that ends it, of a here-document
}

func (d *differ) doubt(why string) {
	if d.why == "" {
		d.why = why
	}
}

func (d *differ) node(n syntax.Node) bool {
	if n == nil {
		last := d.nodes[len(d.nodes)-1]
		d.nodes = d.nodes[:len(d.nodes)-1]
		d.count(last, -1)
		return true
	}
	d.visit(n)
	d.count(n, 1)
	d.nodes = append(d.nodes, n)
	return true
}

func (d *differ) count(n syntax.Node, by int) {
	switch n := n.(type) {
	case *syntax.DblQuoted:
		d.quotes += by
	case *syntax.ParamExp:
		d.params += by
	case *syntax.TestClause:
		d.tests += by
	case *syntax.CmdSubst, *syntax.ProcSubst:
		d.substs += by
	case *syntax.Redirect:
		if n.Hdoc != nil {
			d.quotes += by
		}
	}
}

func (d *differ) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Comment:
		d.comment(n)
	case *syntax.CoprocClause:
		// `coproc bash <<< x`: bash runs bash, and takes a word for a name only
		// before a compound command; the parser takes it for a name.
		d.doubt("which word of a coproc is its name is read in two ways")
	case *syntax.CallExpr:
		if len(n.Args) > 0 && n.Args[0].Lit() == "coproc" {
			d.doubt("which word of a coproc is its name is read in two ways")
		}
	case *syntax.DblQuoted:
		if n.Dollar {
			// bash looks the text up in a catalogue that variables name, and
			// expands what it finds there; the parser expands the text itself.
			d.doubt(`$"…" is translated before it is expanded`)
		}
	case *syntax.SglQuoted:
		if d.params > 0 && d.quotes > 0 {
			// `"${x:-'$(y)'}"`: to bash, quotes within double quotes are
			// characters, and y runs; the parser takes them for quotes.
			d.doubt("a single quote inside a quoted expansion is read in two ways")
		}
		d.mark(n, !n.Dollar && d.params == 0)
	case *syntax.CmdSubst:
		if source := d.source(n); n.Backquotes && strings.Count(source, "`") > 2 {
			// bash looks for the closing backquote before it reads what is inside;
			// the parser does not see one in a here-document or in quotes.
			d.doubt("where a backquoted command ends is read in two ways")
		}
	case *syntax.ExtGlob:
		if d.tests == 0 {
			// `@(a|b)` is a mistake to bash unless extglob is set, and it goes on
			// with the next line, be that still inside of what the mistake is in.
			d.doubt("an extended pattern is read in two ways")
		}
	case *syntax.ParamExp:
		if source := d.source(n); strings.Contains(source, "<(") || strings.Contains(source, ">(") {
			// `${x:-<(y)}`: bash runs y; the parser takes it for characters.
			d.doubt("a process substitution inside an expansion is read in two ways")
		}
		d.mark(n, false)
	case *syntax.Word:
		d.word(n)
		d.mark(n, false)
	case *syntax.Redirect:
		if n.Hdoc != nil {
			// One that is quoted is read twice inside a substitution. The parser does
			// not see its end behind a backslash.
			d.mark(n.Hdoc, hasQuotes(n.Word) && d.substs == 0)
			end, plain := staticText(n.Word)
			d.spans[len(d.spans)-1].end = end
			if d.substs > 0 && (!plain || strings.Trim(end, plainLetters) != "" || strings.HasPrefix(end, "-")) {
				// `<< -E` inside a substitution is `<<-E` when bash reads it again.
				d.doubt("the end of a here-document inside a substitution is read in two ways")
			}
		}
	case *syntax.LetClause:
		if strings.ContainsAny(d.source(n), "<>&|;()") {
			// `let x=1>y`: bash writes y, the parser compares.
			d.doubt("a character in the words of let is read in two ways")
		}
		d.mark(n, false)
	case *syntax.ArithmCmd, *syntax.TestClause, *syntax.ArrayExpr, *syntax.CaseItem:
		d.mark(n, false)
	}
}

// mark notes a part of the text.
func (d *differ) mark(n syntax.Node, inert bool) {
	d.spans = append(d.spans, span{from: n.Pos().Offset(), to: n.End().Offset(), inert: inert})
}

// source is the text of a node.
func (d *differ) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(d.text)) {
		d.doubt("where an expansion ends is not known")
		return ""
	}
	return d.text[from:to]
}

// comment looks at what the parser takes for a comment. To bash a # begins one
// only where it begins a word: behind `a=(x)` it is a part of the word, and what
// follows is run. It ends at the end of the line, also behind a backslash.
func (d *differ) comment(c *syntax.Comment) {
	at := c.Hash.Offset()
	if strings.Contains(c.Text, "\\\n") || strings.HasSuffix(c.Text, `\`) {
		d.doubt("a comment that ends in a backslash is read in two ways")
	}
	if at > 0 && (at > uint(len(d.text)) || !strings.ContainsRune(" \t\n;&|(", rune(d.text[at-1]))) {
		d.doubt("whether # begins a comment is read in two ways")
	}
}

// word looks at what the parser takes for plain characters of a word.
func (d *differ) word(w *syntax.Word) {
	for i, part := range w.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok || d.quotes > 0 {
			continue
		}
		if i == 0 && d.params == 0 && strings.HasPrefix(l.Value, "#") {
			// To bash, a # that begins a word begins a comment.
			d.doubt("whether # begins a comment is read in two ways")
		}
		if strings.Contains(l.Value, "<(") || strings.Contains(l.Value, ">(") {
			// `[[ x =~ a(<(y)) ]]`: bash runs y.
			d.doubt("a process substitution inside a pattern is read in two ways")
		}
	}
}

// continued looks at every backslash before the end of a line. bash takes both
// away before it looks at anything, unless they are in single quotes, a comment or
// a quoted here-document: `"$\⏎(x)"` runs x, and `E\⏎` does not end a
// here-document. The parser does so between words and here and there. So only one
// between words is plain: behind a blank, outside of everything that has an end of
// its own.
func (d *differ) continued() {
	for at := strings.Index(d.text, "\\\n"); at >= 0; {
		if !d.plain(uint(at)) {
			d.doubt("a backslash before the end of a line is read in two ways")
			return
		}
		next := strings.Index(d.text[at+2:], "\\\n")
		if next < 0 {
			return
		}
		at += 2 + next
	}
}

// plain reports whether the backslash at a place only continues a line.
func (d *differ) plain(at uint) bool {
	inside := span{}
	for _, s := range d.spans {
		if s.from <= at && at < s.to {
			inside = s
			if s.inert {
				next, _, _ := strings.Cut(d.text[at+2:], "\n")
				return s.end == "" || strings.TrimLeft(next, "\t") != s.end
			}
		}
	}
	if inside.to > 0 || at == 0 || d.text[at-1] != ' ' && d.text[at-1] != '\t' {
		return false
	}
	line := d.text[strings.LastIndexByte(d.text[:at], '\n')+1 : at]
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || strings.IndexByte(" \t;&|()<>", line[i-1]) >= 0) {
			return false // it may be a comment
		}
	}
	return true
}
