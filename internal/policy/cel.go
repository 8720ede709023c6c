// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/cel"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	maxCost   = 100_000      // steps of one evaluation: some milliseconds at most
	maxCosts  = 50 * maxCost // of all evaluations for one call, which may have thousands of effects
	maxJudged = 1 << 20      // bytes of an input that conditions look at
)

// A condition is a compiled CEL expression over a call and one of its effects.
type condition struct {
	program *cel.Program
	paths   bool // it looks at paths
}

// compileCondition compiles an expression that is true or false.
func compileCondition(text string) (*condition, error) {
	env := cel.Env{MaxCost: maxCost, Variables: []cel.Variable{
		{Name: "tool.name", Type: cel.StringType},
		{Name: "tool.kind", Type: cel.StringType},
		{Name: "tool.server", Type: cel.StringType},
		{Name: "tool.level", Type: cel.StringType},
		{Name: "input", Type: cel.DynType},
		{Name: "effect.kind", Type: cel.StringType},
		{Name: "effect.path", Type: cel.StringType},
		{Name: "effect.named", Type: cel.StringType},
		{Name: "effect.program", Type: cel.StringType},
		{Name: "effect.argv", Type: cel.ListType(cel.StringType)},
		{Name: "effect.host", Type: cel.StringType},
		{Name: "effect.port", Type: cel.IntType},
		{Name: "effect.tool", Type: cel.StringType},
		{Name: "effect.mode", Type: cel.StringType},
		{Name: "effect.unclear", Type: cel.BoolType},
		{Name: "principal", Type: cel.StringType},
		{Name: "session.id", Type: cel.StringType},
		{Name: "session.labels", Type: cel.MapType(cel.StringType, cel.StringType)},
		{Name: "session.level", Type: cel.StringType},
		{Name: "session.mode", Type: cel.StringType},
		{Name: "session.network", Type: cel.StringType},
	}}
	program, err := env.Compile(text)
	if err != nil {
		return nil, err
	}
	return &condition{program, strings.Contains(text, "effect.path") || strings.Contains(text, "effect.named")}, nil
}

// holds evaluates the condition for one effect of a call, and reports whether the
// answer might be another for another path. An error says that there is no answer.
func (c *condition) holds(facts *facts, call Call, effect tools.Effect) (holds, byPath bool, err error) {
	about := judged{facts: facts, call: call, effect: effect}
	left := maxCosts - facts.spent
	holds, err = c.program.EvalWithin(&about, &left)
	facts.spent = maxCosts - left
	return holds, about.byPath, err
}

// facts are what conditions on one call share.
type facts struct {
	read  bool
	input any
	err   error
	spent int // on conditions, up to now
}

// judged is what a condition is asked about.
type judged struct {
	facts  *facts
	call   Call
	effect tools.Effect
	byPath bool // the path was looked at
}

// Variable implements cel.Variables.
func (j *judged) Variable(name string) (cel.Value, error) {
	switch name {
	case "input":
		if !j.facts.read {
			j.facts.input, j.facts.err = readInput(j.call.Input)
			j.facts.read = true
		}
		return cel.Of(j.facts.input), j.facts.err
	case "tool.name":
		return cel.String(j.call.Spec.Name), nil
	case "tool.kind":
		return cel.String(j.call.Spec.Kind.String()), nil
	case "tool.server":
		return cel.String(j.call.Spec.Server), nil
	case "tool.level":
		return cel.String(j.call.Spec.Level.String()), nil
	case "effect.kind":
		return cel.String(j.effect.Kind.String()), nil
	case "effect.path":
		j.byPath = true
		return cel.String(j.effect.Path), nil
	case "effect.named":
		j.byPath = true
		return cel.String(cmp.Or(j.effect.Named, j.effect.Path)), nil
	case "effect.program":
		return cel.String(j.effect.Program), nil
	case "effect.argv":
		return cel.Of(j.effect.Argv), nil
	case "effect.host":
		return cel.String(j.effect.Host), nil
	case "effect.port":
		return cel.Int(int64(j.effect.Port)), nil
	case "effect.tool":
		return cel.String(j.effect.Tool), nil
	case "effect.mode":
		return cel.String(j.effect.Mode.String()), nil
	case "effect.unclear":
		return cel.Bool(j.effect.Unclear != ""), nil
	case "principal":
		return cel.String(j.call.Principal), nil
	case "session.id":
		return cel.String(j.call.SessionID), nil
	case "session.labels":
		return cel.Of(j.call.Labels), nil
	case "session.level":
		return cel.String(j.call.Level.String()), nil
	case "session.mode":
		return cel.String(j.call.Mode.String()), nil
	case "session.network":
		return cel.String(j.call.network().String()), nil
	}
	return cel.Value{}, fmt.Errorf("there is no variable %s", name)
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
