// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

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
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	value, err := t.decode(text)
	if err != nil {
		return Call{}, err
	}
	t.mustCompile()
	value = settle(t.shape, value, 0)
	if err := t.schema.Validate(value); err != nil {
		return Call{}, problemsOf(err)
	}
	input := value.(map[string]any) // as the schema says
	call := Call{}
	if key := t.System.Purpose; key != "" {
		call.Purpose, _ = input[key].(string)
		delete(input, key)
	}
	for i := range t.Means {
		m := &t.Means[i]
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
	if err := tools.CheckJSON(text); err != nil {
		if t.Freeform == "" || bytes.ContainsAny(bytes.TrimSpace(text)[:1], `{["`) {
			return nil, err
		}
		return map[string]any{t.Freeform: strings.ToValidUTF8(string(text), "\uFFFD")}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, problem("", "%v", err)
	}
	if plain, ok := value.(string); ok && t.Freeform != "" {
		if _, object := unquoted("object", plain); !object {
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
		return json.Marshal(input)
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

// settle returns a value as its schema wants it, where there is one reading: numbers and
// booleans that came as text, objects and arrays that came as a string with their JSON,
// one value in place of a list. Numbers become those of expressions.
func settle(schema map[string]any, value any, depth int) any {
	want, _ := schema["type"].(string)
	if text, ok := value.(string); ok && depth < tools.MaxDepth {
		if inner, ok := unquoted(want, text); ok {
			return settle(schema, inner, depth+1)
		}
	}
	switch v := value.(type) {
	case json.Number:
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
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for key, item := range v {
			inner, _ := properties[key].(map[string]any)
			v[key] = settle(inner, item, depth+1)
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			v[i] = settle(items, item, depth+1)
		}
		return v
	}
	if want == "array" && value != nil {
		items, _ := schema["items"].(map[string]any)
		return []any{settle(items, value, depth+1)}
	}
	return value
}

// unquoted returns the value that a text spells where something else than a text is
// wanted.
func unquoted(want, text string) (any, bool) {
	text = strings.TrimSpace(text)
	switch want {
	case "integer", "number":
		if _, err := strconv.ParseFloat(text, 64); err != nil || strings.ContainsAny(text, "xXnNpP_") {
			return nil, false
		}
		return json.Number(text), true
	case "boolean":
		switch strings.ToLower(text) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	case "object", "array":
		begin := map[string]string{"object": "{", "array": "["}[want]
		if !strings.HasPrefix(text, begin) || tools.CheckJSON([]byte(text)) != nil {
			return nil, false
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var inner any
		return inner, decoder.Decode(&inner) == nil && inner != nil
	}
	return nil, false
}

// problemsOf returns what a schema has found wrong, for a model to correct.
func problemsOf(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return problem("", "%v", err)
	}
	wrong := new(tools.InputError)
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			collect(cause)
		}
		if len(e.Causes) == 0 && len(wrong.Problems) < 20 {
			wrong.Problems = append(wrong.Problems, problemOf(e))
		}
	}
	collect(invalid)
	slices.SortStableFunc(wrong.Problems, func(a, b tools.Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	return wrong
}

// joined names some keys, and how many there are more.
func joined(keys []string) string {
	const most = 10
	text := strings.Join(keys[:min(most, len(keys))], ", /")
	if n := len(keys) - most; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

var english = message.NewPrinter(language.English)

func problemOf(e *jsonschema.ValidationError) tools.Problem {
	at := ""
	for _, key := range e.InstanceLocation {
		at += "/" + key
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return tools.Problem{Pointer: at + "/" + joined(k.Missing), Message: "is required"}
	case *kind.AdditionalProperties:
		return tools.Problem{Pointer: at + "/" + joined(k.Properties), Message: "unknown key"}
	case *kind.Type:
		return tools.Problem{Pointer: at, Message: fmt.Sprintf("want %s, got %s", strings.Join(k.Want, " or "), k.Got)}
	}
	return tools.Problem{Pointer: at, Message: e.ErrorKind.LocalizedString(english)}
}
