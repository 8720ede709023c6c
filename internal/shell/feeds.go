// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Fed is a text that a command line gives to a program.
type Fed struct {
	Dir  string // where the program runs; empty: where the line does
	Text string
}

// Feeds returns the text of a line that does nothing but give it to a program, as its
// only argument or by a here-document, which may be behind cd DIR &&. It reports false
// for all other lines. The text of a here-document is taken as it is written: models
// that leave out the quotes do not mean their text to be expanded.
func Feeds(line, program string) (Fed, bool) {
	if !strings.Contains(line, program) {
		return Fed{}, false // most lines are not parsed
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil || len(file.Stmts) != 1 {
		return Fed{}, false
	}
	stmt, fed := file.Stmts[0], Fed{}
	if both, ok := stmt.Cmd.(*syntax.BinaryCmd); ok && both.Op == syntax.AndStmt && plainStmt(stmt) && len(stmt.Redirs) == 0 {
		words, ok := wordsOf(both.X)
		if !ok || len(both.X.Redirs) > 0 || len(words) != 2 || words[0] != "cd" || words[1] == "" || words[1] == "-" {
			return Fed{}, false
		}
		fed.Dir, stmt = path.Clean(words[1]), both.Y
	}
	words, ok := wordsOf(stmt)
	switch {
	case !ok || len(words) == 0 || words[0] != program:
		return Fed{}, false
	case len(words) == 2 && len(stmt.Redirs) == 0:
		fed.Text = words[1]
		return fed, true
	case len(words) != 1 || len(stmt.Redirs) != 1:
		return Fed{}, false
	}
	redirect := stmt.Redirs[0]
	if redirect.Op != syntax.Hdoc || redirect.N != nil || redirect.Hdoc == nil {
		return Fed{}, false
	}
	end, ok := plainWord(redirect.Word)
	for text := range strings.Lines(line[redirect.Hdoc.Pos().Offset():]) {
		if strings.TrimSuffix(text, "\n") == end {
			return fed, ok
		}
		fed.Text += text
	}
	return Fed{}, false
}

// plainStmt reports whether a statement is run, waited for, and taken as it ends.
func plainStmt(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && !s.Coprocess && !s.Disown
}

// wordsOf returns the words of a simple command; false where one of them is not known
// before it runs.
func wordsOf(s *syntax.Stmt) ([]string, bool) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || !plainStmt(s) {
		return nil, false
	}
	var words []string
	for _, word := range call.Args {
		text, ok := plainWord(word)
		if !ok {
			return nil, false
		}
		words = append(words, text)
	}
	return words, true
}

// unescaped takes away the backslashes that count between double quotes.
var unescaped = strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`", `\"`, `"`, "\\\n", "")

// plainWord returns the text of a word in which nothing is expanded.
func plainWord(word *syntax.Word) (string, bool) {
	text := ""
	for _, part := range word.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, `\*?[{~`) {
				return "", false
			}
			text += part.Value
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			text += part.Value
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				literal, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				text += unescaped.Replace(literal.Value)
			}
		default:
			return "", false
		}
	}
	return text, true
}
