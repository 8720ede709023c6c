// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fileTests are the operators of test that look at a file.
const fileTests = "abcdefghkprsuwxGLNOS"

// test looks at files, and -v evaluates the subscript of a name.
func test(c *invocation) {
	words := c.words[1:]
	if n := len(words); n > 0 && c.words[0].is("[") && words[n-1].is("]") {
		words = words[:n-1]
	}
	for i, w := range words {
		if w.many && !w.number {
			c.doubt("test may get operators it cannot be seen to get")
		}
		if i+1 == len(words) {
			break
		}
		next := words[i+1]
		if operator := w.unknown && !w.number || w.is("-v") || w.is("-R"); operator && !(i > 0 && isBinary(words[i-1])) {
			if next.unknown && !next.number || next.known() && strings.Contains(next.text, "[") && !plainElement(next.text) {
				c.doubt("test -v evaluates the subscript of what it is given")
			}
		}
		isUnary := w.known() && len(w.text) == 2 && w.text[0] == '-' && strings.Contains(fileTests, w.text[1:])
		switch {
		case isUnary && !(len(words) > i+2 && isBinary(next)) && !(i > 0 && isBinary(w)):
			c.reads(next, false)
		case w.is("-nt") || w.is("-ot") || w.is("-ef"):
			c.reads(next, false)
			if i > 0 {
				c.reads(words[i-1], false)
			}
		}
	}
}

// isBinary reports whether a word is an operator of test between two words.
func isBinary(w word) bool {
	switch w.arg() {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o":
		return true
	}
	return false
}

// test follows [[ … ]].
func (a *analysis) test(x syntax.TestExpr, s *state) {
	switch x := x.(type) {
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					a.operand(w, s)
				} else {
					a.test(side, s)
				}
			}
			return
		}
		a.test(x.X, s)
		a.test(x.Y, s)
	case *syntax.UnaryTest:
		w, ok := x.X.(*syntax.Word)
		if !ok {
			a.test(x.X, s)
			return
		}
		value := a.single(w, s)
		switch x.Op {
		case syntax.TsVarSet, syntax.TsRefVar:
			if !value.known() || !isName(value.text) && !plainElement(value.text) {
				a.unclear("-v evaluates the subscript of what it is given")
			}
		case syntax.TsNot, syntax.TsParen, syntax.TsEmpStr, syntax.TsNempStr, syntax.TsOptSet, syntax.TsFdTerm:
		default:
			paths{a, s}.reads(value, false)
		}
	case *syntax.ParenTest:
		a.test(x.X, s)
	case *syntax.Word:
		a.single(x, s)
	}
}
