// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"

	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
)

// A Call is what a call of another system's tool means here.
type Call struct {
	Tool    string // ours
	Input   json.RawMessage
	Purpose string // that the input has said; may be empty
	Form    Form   // of its result
}

// Translate returns the call of ours that an input of theirs asks for. The error, an
// [*tools.InputError], names keys of theirs.
func (t *Tool) Translate(text []byte) (Call, error) {
	value, err := t.decode(text)
	if err != nil {
		return Call{}, err
	}
	t.mustCompile()
	value = settle(t.shape, value)
	if err := t.schema.Validate(value); err != nil {
		return Call{}, schema.Problems(err)
	}
	input := value.(map[string]any) // as the schema says
	call := Call{}
	if key := t.System.Purpose; key != "" {
		call.Purpose, _ = input[key].(string)
		delete(input, key)
	}
	for i, m := range t.Means {
		applies, err := m.applies(input)
		if err != nil {
			return Call{}, err
		}
		if applies {
			call.Tool, call.Form = m.Tool, Form{System: t.System.Name, Tool: t.Name, Meaning: i}
			call.Input, err = m.translate(input)
			return call, err
		}
	}
	return Call{}, problem("", "no form of %s has these keys together: %s", t.Name, strings.Join(conditions(t), "; "))
}

// decode returns the value that an input has. Where a text is enough it need not be JSON.
func (t *Tool) decode(text []byte) (value any, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	if value, err = tools.DecodeJSON(text); err != nil {
		if t.Freeform == "" || bytes.ContainsAny(bytes.TrimSpace(text)[:1], `{["`) {
			return nil, err
		}
		return map[string]any{t.Freeform: strings.ToValidUTF8(string(text), "\uFFFD")}, nil
	}
	if plain, ok := value.(string); ok && t.Freeform != "" {
		if _, object := schema.Unquoted("object", plain); !object {
			value = map[string]any{t.Freeform: plain}
		}
	}
	return value, nil
}

func conditions(t *Tool) (list []string) {
	for _, m := range t.Means {
		list = append(list, m.When)
	}
	return list
}

func (m *Meaning) applies(input map[string]any) (bool, error) {
	if m.when == nil {
		return true, nil
	}
	value, _, err := m.when.Eval(map[string]any{"input": input})
	if err != nil {
		return false, problem("", "%v", err)
	}
	return value == types.True, nil
}

func (m *Meaning) translate(input map[string]any) (json.RawMessage, error) {
	if m.input == nil {
		return tools.AppendJSON(nil, input), nil
	}
	value, _, err := m.input.Eval(map[string]any{"input": input})
	if err != nil {
		return nil, keyProblem(err)
	}
	return appendJSON(nil, value)
}

// keyProblem tells what an expression could not do: nearly always a key that this form
// of the call needs.
func keyProblem(err error) error {
	if _, key, ok := strings.Cut(err.Error(), "no such key: "); ok {
		return problem("/"+key, "is required for this")
	}
	return problem("", "%v", err)
}

func problem(pointer, format string, args ...any) error {
	return &tools.InputError{Problems: []tools.Problem{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}}}
}

// settle is [schema.Settle] with numbers as expressions have them.
func settle(shape map[string]any, value any) any {
	return schema.Settle(shape, value, func(want string, v json.Number) any {
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String() // which is no number for anybody
		}
		if want == "integer" && f == float64(int64(f)) {
			return int64(f)
		}
		return f
	})
}
