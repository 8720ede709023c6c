// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"go/scanner"
	"go/token"
	"strings"
)

// goOutline returns the declarations of a Go file. It looks at tokens alone: the
// parser of Go would make a tree of every expression, and this server larger.
func goOutline(text string) []outlineEntry {
	f := readGo(text)
	var entries []outlineEntry
	for len(f.tokens) > 0 {
		kind := f.tokens[0].kind
		decl := f.upTo(token.SEMICOLON)
		switch kind {
		case token.FUNC:
			signature := decl[:signatureEnd(decl)]
			entries = append(entries, f.entry(decl, f.source(signature)))
		case token.TYPE, token.VAR, token.CONST:
			for _, spec := range specs(decl[1:]) {
				if names := f.names(spec); kind == token.TYPE {
					entries = append(entries, f.entry(spec, "type "+names+" ("+typeKind(spec[1:])+")"))
				} else {
					entries = append(entries, f.entry(spec, kind.String()+" "+names))
				}
			}
		}
	}
	return entries
}

// goFile is what is left of a Go file to look at.
type goFile struct {
	text   string
	file   *token.File
	tokens []goToken
}

type goToken struct {
	kind       token.Token
	start, end int // in the text
}

// readGo returns the tokens of a file, without comments.
func readGo(text string) *goFile {
	f := &goFile{text: text, file: token.NewFileSet().AddFile("", -1, len(text))}
	var s scanner.Scanner
	s.Init(f.file, []byte(text), nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return f
		}
		t := goToken{kind: kind, start: f.file.Offset(pos)}
		switch {
		case kind == token.STRING && literal[0] == '`': // which lacks carriage returns
			t.end = len(text)
			if n := strings.IndexByte(text[t.start+1:], '`'); n >= 0 {
				t.end = t.start + n + 2
			}
		case literal == "" || kind == token.SEMICOLON:
			t.end = min(t.start+len(kind.String()), len(text))
		default:
			t.end = min(t.start+len(literal), len(text))
		}
		f.tokens = append(f.tokens, t)
	}
}

// upTo takes the tokens before one of a kind that is in no brackets, and drops
// that one.
func (f *goFile) upTo(kind token.Token) []goToken {
	n := find(f.tokens, func(t goToken) bool { return t.kind == kind })
	taken := f.tokens[:n]
	f.tokens = f.tokens[min(n+1, len(f.tokens)):]
	return taken
}

// find returns where the first token is that fits and is in no brackets.
func find(tokens []goToken, fits func(goToken) bool) int {
	depth := 0
	for i, t := range tokens {
		if depth == 0 && fits(t) {
			return i
		}
		switch t.kind {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth = max(depth-1, 0)
		}
	}
	return len(tokens)
}

// signatureEnd returns where the body of a function begins. A brace that is one
// of a type follows its keyword.
func signatureEnd(decl []goToken) int {
	before := token.ILLEGAL
	return find(decl, func(t goToken) bool {
		body := t.kind == token.LBRACE && before != token.STRUCT && before != token.INTERFACE
		before = t.kind
		return body
	})
}

// specs returns the parts of a declaration behind its keyword: one, or those in
// parentheses.
func specs(decl []goToken) [][]goToken {
	if len(decl) == 0 || decl[0].kind != token.LPAREN {
		return nonEmpty(nil, decl)
	}
	inner := &goFile{tokens: decl[1:]}
	if n := len(inner.tokens); n > 0 && inner.tokens[n-1].kind == token.RPAREN {
		inner.tokens = inner.tokens[:n-1]
	}
	var parts [][]goToken
	for len(inner.tokens) > 0 {
		parts = nonEmpty(parts, inner.upTo(token.SEMICOLON))
	}
	return parts
}

func nonEmpty(parts [][]goToken, part []goToken) [][]goToken {
	if len(part) == 0 || part[0].kind != token.IDENT {
		return parts
	}
	return append(parts, part)
}

// names returns the names that a part begins with.
func (f *goFile) names(spec []goToken) string {
	var names []string
	for i := 0; i < len(spec) && spec[i].kind == token.IDENT; i += 2 {
		names = append(names, f.text[spec[i].start:spec[i].end])
		if i+1 == len(spec) || spec[i+1].kind != token.COMMA {
			break
		}
	}
	return strings.Join(names, ", ")
}

// typeKind says what a type is that is declared with these tokens behind its name.
func typeKind(tokens []goToken) string {
	if hasParameters(tokens) {
		tokens = tokens[1+find(tokens[1:], func(t goToken) bool { return t.kind == token.RBRACK }):]
		tokens = tokens[min(1, len(tokens)):]
	}
	if len(tokens) > 0 && tokens[0].kind == token.ASSIGN {
		tokens = tokens[1:]
	}
	if len(tokens) > 0 && (tokens[0].kind == token.STRUCT || tokens[0].kind == token.INTERFACE) {
		return tokens[0].kind.String()
	}
	return "type"
}

// hasParameters tells type parameters from the length of an array: a name and
// what it is follow one another.
func hasParameters(tokens []goToken) bool {
	if len(tokens) < 3 || tokens[0].kind != token.LBRACK || tokens[1].kind != token.IDENT {
		return false
	}
	switch tokens[2].kind {
	case token.IDENT, token.COMMA, token.INTERFACE, token.TILDE, token.LBRACK, token.FUNC, token.MAP, token.CHAN, token.STRUCT, token.ARROW:
		return true
	case token.MUL: // a product, unless more than one name follows
		inside := tokens[3 : 1+find(tokens[1:], func(t goToken) bool { return t.kind == token.RBRACK })]
		return len(inside) > 1 && (inside[0].kind == token.STRUCT || inside[1].kind == token.COMMA || inside[1].kind == token.OR)
	}
	return false
}

// entry returns the entry of some tokens.
func (f *goFile) entry(tokens []goToken, text string) outlineEntry {
	last := tokens[len(tokens)-1]
	return outlineEntry{f.line(tokens[0].start), f.line(last.end), text}
}

// line returns the line of the file itself, whatever comments say of another.
func (f *goFile) line(offset int) int { return f.file.PositionFor(f.file.Pos(offset), false).Line }

// source returns some tokens as they are written, on one line.
func (f *goFile) source(tokens []goToken) string {
	text := f.text[tokens[0].start:tokens[len(tokens)-1].end]
	shown, _ := firstRunes([]byte(strings.Join(strings.Fields(text), " ")), 160)
	return string(shown)
}
