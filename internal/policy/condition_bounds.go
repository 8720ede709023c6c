// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// cel-go counts what a function costs when it is done, and cannot interrupt it. So
// functions whose work is a product of two inputs are refused before they begin.
const (
	maxRegexp = 1000    // instructions of a regular expression
	maxWork   = 1 << 20 // bytes looked at or made by one function
)

// bounded returns a decorator that bounds the functions of works.
func bounded(env *cel.Env) interpreter.InterpretableDecoratorV2 {
	return func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := node.(interpreter.InterpretableCall)
		if !ok {
			return node, nil
		}
		if call.OverloadID() == overloads.InList && isEmptyList(call.Args()[1]) {
			// Optimized, it would be false even where what is looked for is an error.
			return interpreter.NewCall(call.ID(), call.Function(), "", call.Args(), func(...ref.Val) ref.Val { return types.False }), nil
		}
		work := works[call.Function()]
		if work == nil {
			return node, nil
		}
		apply, err := implementation(env, call)
		if err != nil {
			return nil, err
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			if work(args) > maxWork {
				return types.WrapErr(fmt.Errorf("%w: %s would work on more than %d bytes", errCost, call.Function(), maxWork))
			}
			return apply(args...)
		}), nil
	}
}

func isEmptyList(node interpreter.InterpretableV2) bool {
	constant, ok := node.(interpreter.InterpretableConst)
	return ok && length(constant.Value()) == 0
}

// implementation returns what a call does with its arguments.
func implementation(env *cel.Env, call interpreter.InterpretableCall) (functions.FunctionOp, error) {
	bindings, err := env.Functions()[call.Function()].Bindings()
	if err != nil {
		return nil, err
	}
	for _, overload := range bindings {
		if overload.Operator != call.OverloadID() && overload.Operator != call.Function() { // one for all overloads
			continue
		}
		switch {
		case overload.Function != nil:
			return overload.Function, nil
		case overload.Unary != nil:
			return func(args ...ref.Val) ref.Val { return overload.Unary(args[0]) }, nil
		case overload.Binary != nil:
			return func(args ...ref.Val) ref.Val { return overload.Binary(args[0], args[1]) }, nil
		}
	}
	return nil, fmt.Errorf("%s has no overload %s", call.Function(), call.OverloadID())
}

// works tells the bytes that a function would look at or make.
var works = map[string]func(args []ref.Val) int{
	overloads.Matches: func(args []ref.Val) int {
		size, err := types.RegexProgramSize(text(args[1]))
		if err != nil {
			return 0 // which its implementation tells
		}
		return (len(text(args[0])) + 1) * size
	},
	"replace": func(args []ref.Val) int {
		from := text(args[0])
		return len(from) + strings.Count(from, text(args[1]))*len(text(args[2]))
	},
	"join": func(args []ref.Val) int {
		if len(args) < 2 {
			return 0
		}
		return length(args[0]) * len(text(args[1]))
	},
	"indexOf":         quadratic,
	"lastIndexOf":     quadratic,
	"sets.contains":   quadratic,
	"sets.equivalent": quadratic,
	"sets.intersects": quadratic,
}

func quadratic(args []ref.Val) int { return length(args[0]) * length(args[1]) }

func text(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// length returns the bytes of a string or the elements of a list or map.
func length(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case traits.Sizer:
		n, _ := v.Size().(types.Int)
		return int(n)
	}
	return 1
}

// constantPatterns has a regular expression that is constant compiled once.
var constantPatterns = []*interpreter.RegexOptimization{
	{Function: overloads.Matches, OverloadID: overloads.Matches, RegexIndex: 1, Factory: constantPattern},
	{Function: overloads.Matches, OverloadID: overloads.MatchesString, RegexIndex: 1, Factory: constantPattern},
}

func constantPattern(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	size, err := types.RegexProgramSize(pattern)
	if err != nil {
		return nil, err
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		in, ok := args[0].(types.String)
		if !ok {
			return types.NoSuchOverloadErr()
		}
		if (len(in)+1)*size > maxWork {
			return types.WrapErr(fmt.Errorf("%w: a regular expression of %d instructions on %d bytes", errCost, size, len(in)))
		}
		return types.Bool(re.MatchString(string(in)))
	}), nil
}

// byValue tells what regular expressions cost, which cel-go takes to be cheap, and
// what operators cost whose overload is known only once there are values, as with
// most of what a condition does with input: cel-go takes them to cost 1.
type byValue struct{}

var prices = cost.StandardOverloadTrackers()

// CallCost implements cost.ActualCostEstimator.
func (byValue) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if len(args) != 2 {
		return nil
	}
	if function == overloads.Matches {
		price := 1 + uint64(len(text(args[0]))+1)*uint64(len(text(args[1])))/8
		return &price
	}
	if overload != "" {
		return nil
	}
	switch function {
	case operators.Add:
		if _, ok := args[0].(types.String); ok {
			overload = overloads.AddString
		}
	case operators.In:
		if _, ok := args[1].(traits.Lister); ok {
			overload = overloads.InList
		}
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		if _, ok := args[0].(types.String); ok {
			overload = overloads.LessString
		}
	}
	if price := prices[overload]; price != nil {
		return price(args, result)
	}
	return nil
}
