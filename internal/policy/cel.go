// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of one evaluation. The cost is what decides, on every machine alike;
// the time is there for the case that the cost of something is not known well.
const (
	maxCost      = 100_000
	maxTime      = time.Second
	maxCondition = 4096    // bytes of an expression
	maxJudged    = 1 << 20 // bytes of an input that conditions look at
	maxRegexp    = 1000    // instructions
	maxMemory    = 1 << 19 // elements, of which 10 bytes of a string are one
)

var sizes = types.NewSizeCalculator(types.SizeCalculatorMaxTraversal(maxMemory), types.SizeCalculatorMaxDepth(100))

// A condition is a compiled CEL expression over a call and one of its effects.
type condition struct{ program cel.Program }

// celEnv returns what expressions may speak of. It is made for the first
// condition that is compiled, so that a policy without any does not pay.
var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("tool.name", cel.StringType),
		cel.Variable("tool.kind", cel.StringType),
		cel.Variable("tool.server", cel.StringType),
		cel.Variable("tool.level", cel.StringType),
		cel.Variable("input", cel.DynType),
		cel.Variable("effect.kind", cel.StringType),
		cel.Variable("effect.path", cel.StringType),
		cel.Variable("effect.named", cel.StringType),
		cel.Variable("effect.program", cel.StringType),
		cel.Variable("effect.argv", cel.ListType(cel.StringType)),
		cel.Variable("effect.host", cel.StringType),
		cel.Variable("effect.port", cel.IntType),
		cel.Variable("effect.tool", cel.StringType),
		cel.Variable("effect.mode", cel.StringType),
		cel.Variable("effect.unclear", cel.BoolType),
		cel.Variable("principal", cel.StringType),
		cel.Variable("session.id", cel.StringType),
		cel.Variable("session.labels", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("session.level", cel.StringType),
		cel.Variable("session.mode", cel.StringType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(64),
		cel.ParserExpressionSizeLimit(maxCondition),
		cel.RegexProgramSizeLimit(maxRegexp),
	)
})

// compileCondition compiles an expression that is true or false.
func compileCondition(text string) (*condition, error) {
	if len(text) > maxCondition {
		return nil, fmt.Errorf("has %d bytes: at most %d", len(text), maxCondition)
	}
	env, err := celEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		var problems []string
		for _, problem := range issues.Errors() {
			problems = append(problems, fmt.Sprintf("column %d: %s", problem.Location.Column()+1, problem.Message))
		}
		return nil, errors.New(strings.Join(problems, "; "))
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("gives %s: want true or false", out)
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(64),
		// The cost of what is done with values of unknown type is not known: this
		// bounds what they can grow to.
		cel.MemoryLimit(maxMemory), cel.MemoryTracking(types.MemoryTrackerSizeCalculator(sizes)))
	if err != nil {
		return nil, err
	}
	return &condition{program}, nil
}

// holds evaluates the condition for one effect of a call. An error says that
// there is no answer.
func (c *condition) holds(facts *facts, call Call, effect tools.Effect) (bool, error) {
	// There is no caller to stop for: the bound is the same for every call.
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	out, _, err := c.program.ContextEval(ctx, &activation{facts: facts, call: &call, effect: &effect})
	if err != nil {
		return false, cmp.Or(facts.err, err)
	}
	if out != types.True && out != types.False {
		return false, fmt.Errorf("it gives %s, which is neither true nor false", out.Type().TypeName())
	}
	return out == types.True, nil
}

// facts are what conditions on one call share.
type facts struct {
	read  bool
	input any
	err   error
}

// activation tells CEL the values of variables when it asks for them.
type activation struct {
	facts  *facts
	call   *Call
	effect *tools.Effect
}

func (a *activation) Parent() cel.Activation { return nil }

func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "input":
		if !a.facts.read {
			a.facts.input, a.facts.err = readInput(a.call.Input)
			a.facts.read = true
		}
		return a.facts.input, a.facts.err == nil
	case "tool.name":
		return a.call.Spec.Name, true
	case "tool.kind":
		return a.call.Spec.Kind.String(), true
	case "tool.server":
		return a.call.Spec.Server, true
	case "tool.level":
		return a.call.Spec.Level.String(), true
	case "effect.kind":
		return a.effect.Kind.String(), true
	case "effect.path":
		return a.effect.Path, true
	case "effect.named":
		if a.effect.Named == "" {
			return a.effect.Path, true
		}
		return a.effect.Named, true
	case "effect.program":
		return a.effect.Program, true
	case "effect.argv":
		return a.effect.Argv, true
	case "effect.host":
		return a.effect.Host, true
	case "effect.port":
		return a.effect.Port, true
	case "effect.tool":
		return a.effect.Tool, true
	case "effect.mode":
		return a.effect.Mode.String(), true
	case "effect.unclear":
		return a.effect.Unclear != "", true
	case "principal":
		return a.call.Principal, true
	case "session.id":
		return a.call.SessionID, true
	case "session.labels":
		return a.call.Labels, true
	case "session.level":
		return a.call.Level.String(), true
	case "session.mode":
		return a.call.Mode.String(), true
	}
	return nil, false
}

// readInput returns the input of a call as CEL sees it: whole numbers as ints.
func readInput(input json.RawMessage) (any, error) {
	if len(input) > maxJudged {
		return nil, fmt.Errorf("the input has %d bytes, and conditions look at %d at most", len(input), maxJudged)
	}
	if len(input) == 0 {
		return map[string]any{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	return withInts(value), nil
}

func withInts(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, part := range value {
			value[key] = withInts(part)
		}
	case []any:
		for i, part := range value {
			value[i] = withInts(part)
		}
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		f, _ := value.Float64()
		return f
	}
	return value
}
