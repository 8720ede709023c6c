// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"math"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/toolserver/toolserver/internal/tools"
)

// Most of what the files say is a choice of keys and constants. That is evaluated here,
// over the values of an input as they are: the evaluator of CEL takes ten times as long,
// most of it to wrap them. Whatever else an expression has, and whatever is unusual about
// an input, is left to CEL, so that there is one meaning: a test compares the two.

// A part of an expression.
type part func(s *scope) outcome

// A scope is what names stand for: input, and what was bound around.
type scope struct {
	input map[string]any
	name  string
	bound outcome
	outer *scope
}

// An outcome is a value, or the absence of an optional one. It is not known where CEL has
// to say.
type outcome struct {
	value         any
	known, absent bool
}

func known(value any) outcome { return outcome{value: value, known: true} }

var absent = outcome{known: true, absent: true}

func unknown(*scope) outcome { return outcome{} }

// An entry is one of our keys, and what it is made of.
type entry struct {
	key      string
	value    part
	optional bool
}

// plainCondition returns a condition; nil where CEL has to evaluate it.
func plainCondition(e *ast.AST) part {
	if e == nil || !simple(e.Expr()) {
		return nil
	}
	return plainly(e.Expr())
}

// plainInput returns the keys of an input, in order; nil where CEL has to make it.
func plainInput(e *ast.AST) []entry {
	if e == nil || e.Expr().Kind() != ast.MapKind {
		return nil
	}
	var entries []entry
	for _, each := range e.Expr().AsMap().Entries() {
		member := each.AsMapEntry()
		if member.Key().Kind() != ast.LiteralKind || !simple(member.Value()) {
			return nil
		}
		key, ok := member.Key().AsLiteral().(types.String)
		if !ok {
			return nil
		}
		entries = append(entries, entry{string(key), plainly(member.Value()), member.IsOptional()})
	}
	return entries
}

// appendTo appends the input that entries make of theirs, as JSON text; false where CEL
// has to say what it is.
func appendTo(b []byte, entries []entry, input map[string]any) ([]byte, bool) {
	s := scope{input: input}
	b = append(b, '{')
	first := true
	for _, e := range entries {
		got := e.value(&s)
		if !got.known || got.absent && !e.optional {
			return nil, false
		}
		if got.absent {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(tools.AppendJSON(b, e.key), ':')
		b = tools.AppendJSON(b, got.value)
	}
	return append(b, '}'), true
}

// simple reports whether there is anything to gain: an expression that comes to nothing
// but CEL's word at its top is better left to it at once.
func simple(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind, ast.SelectKind, ast.CallKind, ast.ComprehensionKind:
		return true
	}
	return false
}

// plainly returns how an expression is evaluated. Parts that CEL has to say are unknown.
func plainly(e ast.Expr) part {
	switch e.Kind() {
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			return constant(string(v))
		case types.Bool:
			return constant(bool(v))
		case types.Int:
			return constant(int64(v))
		}
	case ast.IdentKind:
		return bound(e.AsIdent())
	case ast.SelectKind:
		if selected := e.AsSelect(); isInput(selected.Operand()) {
			return member(selected.FieldName(), selected.IsTestOnly())
		}
	case ast.ComprehensionKind:
		return binding(e.AsComprehension())
	case ast.CallKind:
		return called(e.AsCall())
	}
	return unknown
}

func constant(value any) part {
	always := known(value)
	return func(*scope) outcome { return always }
}

// bound is a name that an expression around has given to a value.
func bound(name string) part {
	return func(s *scope) outcome {
		for ; s != nil; s = s.outer {
			if s.name == name && name != "" {
				return s.bound
			}
		}
		return outcome{}
	}
}

// member is input.key, or has(input.key).
func member(key string, test bool) part {
	return func(s *scope) outcome {
		value, ok := s.input[key]
		switch {
		case test:
			return known(ok)
		case ok:
			return known(value)
		}
		return outcome{} // an error, in CEL's words
	}
}

// binding is what optMap, optFlatMap and cel.bind become: a loop over nothing, which
// names a value.
func binding(c ast.ComprehensionExpr) part {
	if c.IterRange().Kind() != ast.ListKind || c.IterRange().AsList().Size() != 0 {
		return unknown
	}
	name, value, result := c.AccuVar(), plainly(c.AccuInit()), plainly(c.Result())
	return func(s *scope) outcome {
		named := value(s)
		if !named.known {
			return named
		}
		return result(&scope{input: s.input, name: name, bound: named, outer: s})
	}
}

// called is a call of an operator or a function.
func called(c ast.CallExpr) part {
	var parts []part
	name := c.FunctionName()
	if c.IsMemberFunction() {
		if target := c.Target(); target.Kind() == ast.IdentKind && (target.AsIdent() == "optional" || target.AsIdent() == "math") {
			name = target.AsIdent() + "." + name
		} else {
			name = "." + name
			parts = append(parts, plainly(target))
		}
	}
	if (name == operators.OptSelect || name == operators.OptIndex) && isInput(c.Args()[0]) && c.Args()[1].Kind() == ast.LiteralKind {
		if key, ok := c.Args()[1].AsLiteral().(types.String); ok {
			return func(s *scope) outcome {
				if value, ok := s.input[string(key)]; ok {
					return known(value)
				}
				return absent
			}
		}
	}
	for _, arg := range c.Args() {
		parts = append(parts, plainly(arg))
	}
	switch len(parts) {
	case 0:
		if name == "optional.none" {
			return func(*scope) outcome { return absent }
		}
	case 1:
		return unary(name, parts[0])
	case 2:
		return binary(name, parts[0], parts[1])
	case 3:
		if name == operators.Conditional {
			return choice(parts[0], parts[1], parts[2])
		}
	}
	return unknown
}

func unary(name string, of part) part {
	switch name {
	case operators.LogicalNot:
		return func(s *scope) outcome {
			if truth, ok := of(s).value.(bool); ok {
				return known(!truth)
			}
			return outcome{}
		}
	case "optional.of":
		return func(s *scope) outcome {
			if got := of(s); !got.absent {
				return got
			}
			return outcome{}
		}
	case ".hasValue":
		return func(s *scope) outcome {
			if got := of(s); got.known {
				return known(!got.absent)
			}
			return outcome{}
		}
	case ".value":
		return func(s *scope) outcome {
			if got := of(s); !got.absent {
				return got
			}
			return outcome{}
		}
	}
	return unknown
}

func choice(condition, yes, no part) part {
	return func(s *scope) outcome {
		truth, ok := condition(s).value.(bool)
		switch {
		case !ok:
			return outcome{}
		case truth:
			return yes(s)
		}
		return no(s)
	}
}

func binary(name string, a, b part) part {
	switch name {
	case ".or", ".orValue":
		return func(s *scope) outcome {
			if got := a(s); !got.known || !got.absent {
				return got
			}
			return b(s)
		}
	case operators.LogicalAnd, operators.LogicalOr:
		decides := name == operators.LogicalOr // what the first part decides alone
		return func(s *scope) outcome {
			first, ok := a(s).value.(bool)
			if !ok {
				return outcome{}
			}
			if first == decides {
				return known(first)
			}
			if second, ok := b(s).value.(bool); ok {
				return known(second)
			}
			return outcome{}
		}
	case operators.Equals, operators.NotEquals:
		return func(s *scope) outcome {
			same, ok := equal(a(s).value, b(s).value)
			if !ok {
				return outcome{}
			}
			return known(same == (name == operators.Equals))
		}
	}
	return func(s *scope) outcome {
		x, ok := a(s).value.(int64)
		y, also := b(s).value.(int64)
		if !ok || !also {
			return outcome{}
		}
		return counted(name, x, y)
	}
}

// equal compares values of the kinds that are compared here.
func equal(a, b any) (same, ok bool) {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return a == b, ok
	case bool:
		b, ok := b.(bool)
		return a == b, ok
	case int64:
		b, ok := b.(int64)
		return a == b, ok
	}
	return false, false
}

// counted is an operator of whole numbers. Large ones are left to CEL, which knows when
// they are too large.
func counted(name string, x, y int64) outcome {
	if max(x, y) > math.MaxInt32 || min(x, y) < math.MinInt32 {
		return outcome{}
	}
	switch name {
	case operators.Add:
		return known(x + y)
	case operators.Subtract:
		return known(x - y)
	case operators.Multiply:
		return known(x * y)
	case operators.Greater:
		return known(x > y)
	case operators.GreaterEquals:
		return known(x >= y)
	case operators.Less:
		return known(x < y)
	case operators.LessEquals:
		return known(x <= y)
	case "math.@max":
		return known(max(x, y))
	case "math.@min":
		return known(min(x, y))
	}
	return outcome{}
}
