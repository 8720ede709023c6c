// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package cel evaluates conditions in CEL, the Common Expression Language.
//
// It is the part of the language that conditions on calls need: all operators
// and macros, null, bool, int, uint, double, string, list and map, type(), the
// conversions between them, size, contains, startsWith, endsWith and matches. An
// expression that it compiles has the value that cel-go gives it; tests hold it
// to that. What it does not know does not compile: bytes, timestamps, durations,
// messages, optional values, extensions, names that begin with a dot, and maps
// with keys of mixed or unknown type.
//
// A condition comes from an operator and its input from a model, so the cost of
// an evaluation is bounded: every step counts, and every 64 bytes that are looked
// at or made, more where a regular expression is at work. Values take no more
// memory than their cost allows.
package cel

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	maxText   = 4096 // bytes of an expression
	maxDepth  = 64   // levels of an expression
	maxLocals = 4    // macros inside macros
)

// An Env is what expressions may use.
type Env struct {
	Variables []Variable
	MaxCost   int // of one evaluation, in steps
}

// A Variable is a name that expressions may use. It may have dots, as in
// tool.name; nothing else begins with tool then.
type Variable struct {
	Name string
	Type *Type
}

// Variables tells a program the values of variables, whenever it asks for one
// that the Env has. An error says that there is no value: it is the error of the
// evaluation, unless the result does not depend on it.
type Variables interface {
	Variable(name string) (Value, error)
}

// ErrCost says that an evaluation was given up.
var ErrCost = errors.New("the condition costs more than the limit")

// A Program is a compiled expression that is true or false. It is safe for
// concurrent use.
type Program struct {
	root    *expr
	maxCost int
}

// Compile compiles an expression that gives a bool, or something whose type is
// not known before. An error says what is wrong, where, and what would be right.
func (env *Env) Compile(text string) (*Program, error) {
	root, result, err := env.compile(text)
	if err != nil {
		return nil, err
	}
	switch result.kind {
	case kindBool, kindDyn, kindVar:
		return &Program{root, env.MaxCost}, nil
	}
	return nil, fmt.Errorf("gives %s: want true or false", result)
}

// compile compiles an expression of any type.
func (env *Env) compile(text string) (*expr, *Type, error) {
	if len(text) > maxText {
		return nil, nil, fmt.Errorf("has %d bytes: at most %d", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return nil, nil, errors.New("is not UTF-8")
	}
	p := parser{lexer: lexer{source: source{text: text}}}
	root := p.all()
	if p.err != nil {
		return nil, nil, p.err
	}
	c := checker{source: source{text: text}, env: env}
	result := c.program(root)
	return root, result, c.err
}

// Eval evaluates the program. An error says that there is no answer.
func (p *Program) Eval(vars Variables) (bool, error) {
	left := p.maxCost
	return p.EvalWithin(vars, &left)
}

// EvalWithin is Eval within a cost that several evaluations share: it takes from
// left what the evaluation costs.
func (p *Program) EvalWithin(vars Variables, left *int) (bool, error) {
	limit := min(p.maxCost, *left)
	r := run{vars: vars, left: limit}
	v := r.eval(p.root)
	*left -= limit - max(r.left, 0)
	switch {
	case r.left < 0:
		return false, fmt.Errorf("%w of %d", ErrCost, limit)
	case v.kind == kindError:
		return false, v.err()
	case v.kind != kindBool:
		return false, fmt.Errorf("it gives %s, which is neither true nor false", v.kind)
	}
	return v.bool(), nil
}
