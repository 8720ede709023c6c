// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// An Expression is CEL over values that others name, such as those of a workflow. It has the
// extensions and the bounds of conditions, and is safe for concurrent use.
type Expression struct {
	program cel.Program
	checked *ast.AST
}

// Expressions compiles expressions over variables of any type.
func Expressions(variables ...string) (compile func(text string) (*Expression, error), err error) {
	var declared []cel.EnvOption
	for _, name := range variables {
		declared = append(declared, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(slices.Concat(conditionOptions(), declared)...)
	if err != nil {
		return nil, err
	}
	return func(text string) (*Expression, error) {
		if len(text) > maxCondition {
			return nil, fmt.Errorf("has %d bytes: at most %d", len(text), maxCondition)
		}
		checked, issues := env.Compile(text)
		if issues.Err() != nil {
			return nil, mistakes(issues)
		}
		program, err := boundedProgram(env, checked)
		if err != nil {
			return nil, fmt.Errorf("can never be evaluated: %w", err)
		}
		return &Expression{program, checked.NativeRep()}, nil
	}, nil
}

// Selected returns the names that the expression selects from a variable, as in
// variable.name and variable["name"].
func (e *Expression) Selected(variable string) (names []string) {
	of := func(x ast.Expr) bool { return x.Kind() == ast.IdentKind && x.AsIdent() == variable }
	ast.PostOrderVisit(e.checked.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch {
		case x.Kind() == ast.SelectKind && of(x.AsSelect().Operand()):
			names = append(names, x.AsSelect().FieldName())
		case x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.Index && of(x.AsCall().Args()[0]):
			if key := x.AsCall().Args()[1]; key.Kind() == ast.LiteralKind {
				if name, ok := key.AsLiteral().Value().(string); ok {
					names = append(names, name)
				}
			}
		}
	}))
	return names
}

// Speaks reports whether the expression has one of some variables in it.
func (e *Expression) Speaks(variables ...string) (does bool) {
	ast.PostOrderVisit(e.checked.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		does = does || x.Kind() == ast.IdentKind && slices.Contains(variables, x.AsIdent())
	}))
	return does
}

// Value evaluates the expression. What it gives is what JSON has: maps by text, lists, text,
// numbers, truths and nil.
func (e *Expression) Value(values map[string]any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxExpressionTime) // as conditions: the bound is the same for every caller
	defer cancel()
	out, _, err := e.program.ContextEval(ctx, values)
	_, cancelled := errors.AsType[interpreter.EvalCancelledError](err)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w of %s", errCost, maxExpressionTime)
	case cancelled:
		return nil, fmt.Errorf("%w of %d", errCost, maxCost)
	case err != nil:
		return nil, err
	}
	return plain(out)
}

const maxExpressionTime = 2 * time.Second

// plain returns a value of an expression as JSON has it.
func plain(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return v.Value(), nil
	case traits.Mapper:
		all := make(map[string]any)
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.(types.String)
			if !ok {
				return nil, fmt.Errorf("a key is %v: want text", key.Value())
			}
			value, err := plain(v.Get(key))
			if err != nil {
				return nil, err
			}
			all[string(name)] = value
		}
		return all, nil
	case traits.Lister:
		all := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			value, err := plain(it.Next())
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		return all, nil
	case *types.Err:
		return nil, v
	}
	return nil, fmt.Errorf("%s has no form in JSON: make it text with string(…)", v.Type().TypeName())
}
