// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/toolserver/toolserver/internal/tools"
)

// A condition comes from an operator and its input from a model, so one evaluation
// is bounded: by a cost, which is the same on every machine, by the work of a single
// function (see condition_bounds.go) and, for what the cost does not see, by time.
const (
	maxCost      = 1_250_000        // of one evaluation, as cel-go counts it: an input of a mebibyte, in lower case and searched
	maxCosts     = 4 * maxCost      // of all evaluations for one call, which may have thousands of effects
	maxTime      = 10 * time.Second // of one evaluation that has a loop
	maxCondition = 4096             // bytes of an expression
)

// errCost says that an evaluation was given up.
var errCost = errors.New("the condition costs more than the limit")

// A condition is a compiled CEL expression over a call and one of its effects.
// It is safe for concurrent use.
type condition struct {
	program cel.Program
	paths   bool // it looks at paths
	loops   bool // only loops can be interrupted
}

// variables are what expressions may speak of.
var variables = []struct {
	name string
	typ  *cel.Type
}{
	{"tool.name", cel.StringType},
	{"tool.kind", cel.StringType},
	{"tool.server", cel.StringType},
	{"tool.level", cel.StringType},
	{"input", cel.DynType},
	{"effect.kind", cel.StringType},
	{"effect.path", cel.StringType},
	{"effect.named", cel.StringType},
	{"effect.program", cel.StringType},
	{"effect.argv", cel.ListType(cel.StringType)},
	{"effect.host", cel.StringType},
	{"effect.port", cel.IntType},
	{"effect.tool", cel.StringType},
	{"effect.mode", cel.StringType},
	{"effect.unclear", cel.BoolType},
	{"principal", cel.StringType},
	{"tenant", cel.StringType},
	{"on_behalf_of", cel.StringType},
	{"session.id", cel.StringType},
	{"session.labels", cel.MapType(cel.StringType, cel.StringType)},
	{"session.level", cel.StringType},
	{"session.mode", cel.StringType},
	{"session.network", cel.StringType},
}

// conditionEnv is made for the first condition that is compiled, so that a policy
// without any does not pay.
var conditionEnv = sync.OnceValues(func() (*cel.Env, error) {
	options := conditionOptions()
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.typ))
	}
	return cel.NewEnv(options...)
})

// conditionOptions are the extensions that expressions have, and what bounds them before
// they are evaluated.
func conditionOptions() []cel.EnvOption {
	return []cel.EnvOption{
		ext.Strings(), ext.Math(), ext.Sets(), ext.Network(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.ParserRecursionLimit(64),
		cel.ParserExpressionSizeLimit(maxCondition),
		cel.RegexProgramSizeLimit(maxRegexp),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateComprehensionNestingLimit(4),
		),
	}
}

// boundedProgram makes a program whose evaluation is bounded.
func boundedProgram(env *cel.Env, checked *cel.Ast) (cel.Program, error) {
	return env.Program(checked,
		cel.EvalOptions(cel.OptOptimize), cel.OptimizeRegex(constantPatterns...), cel.CustomDecoratorV2(bounded(env)),
		cel.CostLimit(maxCost), cel.CostTracking(byValue{}), cel.InterruptCheckFrequency(64))
}

// compileCondition compiles an expression that is true or false, or whose type is
// not known before. An error says what is wrong, where, and what would be right.
func compileCondition(text string) (*condition, error) {
	if len(text) > maxCondition {
		return nil, fmt.Errorf("has %d bytes: at most %d", len(text), maxCondition)
	}
	env, err := conditionEnv()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, mistakes(issues)
	}
	switch checked.OutputType().Kind() {
	case types.BoolKind, types.DynKind, types.TypeParamKind:
	default:
		return nil, fmt.Errorf("gives %s: want true or false", checked.OutputType())
	}
	program, err := boundedProgram(env, checked)
	if err != nil {
		return nil, fmt.Errorf("can never be evaluated: %w", err)
	}
	c := &condition{
		program: program,
		paths:   strings.Contains(text, "effect.path") || strings.Contains(text, "effect.named"),
	}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		c.loops = c.loops || e.Kind() == ast.ComprehensionKind
	}))
	return c, nil
}

// mistakes joins what is wrong with an expression into one error.
func mistakes(issues *cel.Issues) error {
	var list []string
	for _, issue := range issues.Errors() {
		line, column := issue.Location.Line(), max(issue.Location.Column()+1, 1)
		message := strings.TrimSuffix(issue.Message, " (in container '')")
		if line > 1 {
			message = fmt.Sprintf("line %d, column %d: %s", line, column, message)
		} else {
			message = fmt.Sprintf("column %d: %s", column, message)
		}
		list = append(list, message)
	}
	return errors.New(strings.Join(list, "; "))
}

// holds evaluates the condition for one effect of a call, and reports whether the
// answer might be another for another path. An error says that there is no answer.
func (c *condition) holds(facts *facts, call *Subject, effect *tools.Effect) (holds, byPath bool, err error) {
	if facts.spent >= maxCosts {
		return false, false, fmt.Errorf("%w of %d for all conditions on a call", errCost, maxCosts)
	}
	about := judged{facts: facts, call: *call, effect: *effect}
	ctx := context.Background() // no caller waits less: the bound is the same for every call
	if c.loops {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxTime)
		defer cancel()
	}
	out, details, err := c.program.ContextEval(ctx, &about)
	if cost := details.ActualCost(); cost != nil {
		facts.spent += int(*cost)
	}
	_, cancelled := errors.AsType[interpreter.EvalCancelledError](err)
	switch {
	case ctx.Err() != nil: // also where the result does not seem to depend on it
		err = fmt.Errorf("%w of %s", errCost, maxTime)
	case cancelled:
		err = fmt.Errorf("%w of %d", errCost, maxCost)
	case err == nil && out != types.True && out != types.False:
		err = fmt.Errorf("it gives %s, which is neither true nor false", out.Type().TypeName())
	}
	return err == nil && out == types.True, about.byPath, err
}
