// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/toolserver/toolserver/internal/tools"
)

// maxJudged is how many bytes of an input conditions look at.
const maxJudged = 1 << 20

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
	call   Subject
	effect tools.Effect
	byPath bool // the path was looked at
}

// Parent implements cel.Activation.
func (j *judged) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (j *judged) ResolveName(name string) (any, bool) {
	switch name {
	case "input":
		if !j.facts.read {
			j.facts.input, j.facts.err = readInput(j.call.Input)
			j.facts.read = true
		}
		if j.facts.err != nil {
			return types.WrapErr(j.facts.err), true
		}
		return j.facts.input, true
	case "tool.name":
		return j.call.Spec.Name, true
	case "tool.kind":
		return j.call.Spec.Kind.String(), true
	case "tool.server":
		return j.call.Spec.Server, true
	case "tool.level":
		return j.call.Spec.Level.String(), true
	case "effect.kind":
		return j.effect.Kind.String(), true
	case "effect.path":
		j.byPath = true
		return j.effect.Path, true
	case "effect.named":
		j.byPath = true
		return cmp.Or(j.effect.Named, j.effect.Path), true
	case "effect.program":
		return j.effect.Program, true
	case "effect.argv":
		return j.effect.Argv, true
	case "effect.host":
		return j.effect.Host, true
	case "effect.port":
		return int64(j.effect.Port), true
	case "effect.tool":
		return j.effect.Tool, true
	case "effect.mode":
		return j.effect.Mode.String(), true
	case "effect.unclear":
		return j.effect.Unclear != "", true
	case "principal":
		return j.call.Principal, true
	case "tenant":
		return tenantName(j.call.Tenant), true
	case "on_behalf_of":
		return j.call.OnBehalfOf, true
	case "session.id":
		return j.call.SessionID, true
	case "session.labels":
		return j.call.Labels, true
	case "session.level":
		return j.call.Level.String(), true
	case "session.mode":
		return j.call.Mode.String(), true
	case "session.network":
		return j.call.network().String(), true
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
