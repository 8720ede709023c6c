// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arithmetic follows an expression. The shell evaluates the value of a variable
// as an expression again, and what is in a[…] is expanded on the way: a variable
// that holds a[$(touch x)] runs touch. So every value has to be known, or be a
// number.
func (a *analysis) arithmetic(x syntax.ArithmExpr, s *state) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		a.arithmetic(x.Y, s)
		if !assigning(x.Op) {
			a.arithmetic(x.X, s)
			return
		}
		if x.Op != syntax.Assgn {
			a.arithmetic(x.X, s)
		}
		a.arithmeticAssign(x.X, s)
	case *syntax.UnaryArithm:
		a.arithmetic(x.X, s)
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			a.arithmeticAssign(x.X, s)
		}
	case *syntax.ParenArithm:
		a.arithmetic(x.X, s)
	case *syntax.Word:
		a.operand(x, s)
	default:
		a.unclear("it has a form of arithmetic that is not known")
	}
}

func (a *analysis) arithmeticAssign(x syntax.ArithmExpr, s *state) {
	w, ok := x.(*syntax.Word)
	if !ok || len(w.Parts) != 1 {
		a.unclear("arithmetic assigns to something that is not a name")
		return
	}
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		if !isName(part.Value) {
			a.unclear("arithmetic assigns to something that is not a name")
			return
		}
		if reason := a.risk(part.Value, word{unknown: true, number: true}, s); reason != "" {
			a.unclear(reason)
		}
		a.assign(part.Value, word{unknown: true, number: true}, s)
	case *syntax.ParamExp: // a[i]
		a.parts(w.Parts, s)
		if part.Param != nil {
			s.forget(part.Param.Value)
			if reason := a.risk(part.Param.Value, word{unknown: true, number: true}, s); reason != "" {
				a.unclear(reason)
			}
		}
	default:
		a.unclear("arithmetic assigns to something that is not a name")
	}
}

// operand follows one word of an expression.
func (a *analysis) operand(w *syntax.Word, s *state) {
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			a.evaluated(unquoteIn(part.Value, ""), s)
		case *syntax.SglQuoted:
			a.evaluated(part.Value, s)
		case *syntax.DblQuoted:
			a.operand(&syntax.Word{Parts: part.Parts}, s)
		case *syntax.ParamExp:
			values, ok := a.param(part, s)
			if part.Index != nil && !part.Length && !isNumeric(values, ok) {
				a.unclear("arithmetic evaluates what " + part.Param.Value + " holds")
				continue
			}
			for _, value := range values {
				if value.known() {
					a.evaluated(value.text, s)
				} else {
					ok = ok && value.number
				}
			}
			if !ok {
				name := "a parameter"
				if part.Param != nil {
					name = "$" + part.Param.Value
				}
				a.unclear("arithmetic evaluates " + name + ", whose value is not known")
			}
		case *syntax.ArithmExp:
			a.arithmetic(part.X, s)
		case *syntax.CmdSubst:
			a.output = output{}
			a.substitution(part, s)
			if w, ok := a.printsOne(part, s); !s.counts(part) && !(ok && w.number) {
				a.unclear("arithmetic evaluates what a command prints")
			}
		default:
			a.parts([]syntax.WordPart{part}, s)
			a.unclear("arithmetic evaluates something that is not known")
		}
	}
}

func isNumeric(values []word, ok bool) bool {
	return ok && !slices.ContainsFunc(values, func(w word) bool { return !w.number && !(w.known() && isNumber(w.text)) })
}

// evaluated follows text that stands in an expression: numbers, and names whose
// values are evaluated in their turn.
func (a *analysis) evaluated(text string, s *state) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] >= '0' && text[0] <= '9' && !strings.ContainsAny(text, "[$`(=") {
		return // a number in some notation
	}
	if isName(text) {
		if values, ok := a.value(text, s); isNumeric(values, ok) || a.numberVariable(text) {
			return
		}
		a.unclear("arithmetic evaluates " + text + ", whose value is not known to be a number")
		return
	}
	if isNumber(text) {
		return
	}
	a.unclear("arithmetic evaluates the text " + clip(text))
}

// numberVariable reports whether the shell sets a variable to numbers only.
func (a *analysis) numberVariable(name string) bool {
	return slices.Contains(numbers, name) && !a.assigns(name)
}

// subscript follows the […] of a parameter. For an array without keys it is an
// expression.
func (a *analysis) subscript(x syntax.ArithmExpr, s *state) {
	if !isAll(x) {
		a.arithmetic(x, s)
	}
}

// plainElement reports whether text is an element of an array by number, such as
// a[3].
func plainElement(text string) bool {
	name, index, ok := strings.Cut(text, "[")
	index, closed := strings.CutSuffix(index, "]")
	return ok && closed && isName(name) && (isNumber(index) || index == "@" || index == "*")
}

// clip shortens text for a message.
func clip(text string) string {
	if len(text) > 40 {
		return strings.ToValidUTF8(text[:40], "") + "…"
	}
	return text
}
