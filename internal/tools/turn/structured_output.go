// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed structured_output.md
var structuredOutputDoc string

type structuredOutputInput struct {
	Data   json.RawMessage `json:"data" jsonschema:"the answer, as any JSON value"`
	Schema json.RawMessage `json:"schema,omitempty" jsonschema:"a JSON Schema that data must fit"`
}

// StructuredOutput returns the tool that hands over an answer as data.
func StructuredOutput() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "structured_output",
			Aliases:         []string{"StructuredOutput"},
			Label:           "Structured output",
			Summary:         "Hand over the answer as JSON, checked against a schema.",
			Description:     structuredOutputDoc,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			ResultSchema:    json.RawMessage(`true`),
			Examples: []tools.Example{
				{Summary: "An object", Input: json.RawMessage(`{"data":{"answer":42}}`)},
				{Summary: "Checked", Input: json.RawMessage(`{"data":[1,2],"schema":{"type":"array","items":{"type":"integer"}}}`)},
			},
		},
		nil,
		func(_ context.Context, _ tools.Env, in structuredOutputInput, _ tools.Sink) (tools.Result, error) {
			if in.Schema != nil {
				if err := fits(in.Data, in.Schema); err != nil {
					return tools.Result{}, err
				}
			}
			return tools.JSONResult(in.Data), nil
		})
}

// fits checks data against a schema that came with the call.
func fits(data, schema json.RawMessage) error {
	wanted, err := compile(schema)
	if err != nil {
		return tools.Failf("invalid_schema", "The schema is not a valid JSON Schema: %v", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if number, ok := monstrous(value); ok {
		return tools.Failf("number_too_large", "The data has the number %.40s, which cannot be checked: use exponents from -400 to 400.", number)
	}
	mismatch, ok := errors.AsType[*jsonschema.ValidationError](wanted.Validate(value))
	if !ok {
		return nil
	}
	return tools.Failf("schema_mismatch", "The data does not fit the schema. Correct it and call again:\n%s",
		strings.Join(places(mismatch, nil), "\n"))
}

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	if number, ok := monstrous(document); ok {
		return nil, fmt.Errorf("the number %.40s is too large", number)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, err
	}
	return compiler.Compile(schemaURL)
}

// monstrous finds a number whose exponent alone would take the check for ever:
// the library compares numbers exactly, with all their digits.
func monstrous(value any) (json.Number, bool) {
	switch v := value.(type) {
	case json.Number:
		if _, exponent, ok := strings.Cut(strings.ToLower(v.String()), "e"); ok {
			n, err := strconv.Atoi(exponent)
			return v, err != nil || n < -400 || n > 400
		}
	case []any:
		for _, item := range v {
			if number, ok := monstrous(item); ok {
				return number, true
			}
		}
	case map[string]any:
		for _, item := range v {
			if number, ok := monstrous(item); ok {
				return number, true
			}
		}
	}
	return "", false
}

const schemaURL = "call:schema"

// noLoader keeps a schema from opening files and addresses.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer to itself only", url)
}

const maxPlaces = 20

// places lists where data does not fit, innermost causes only.
func places(mismatch *jsonschema.ValidationError, list []string) []string {
	if len(mismatch.Causes) == 0 && len(list) < maxPlaces {
		printer := message.NewPrinter(language.English)
		pointer := "/data"
		for _, step := range mismatch.InstanceLocation {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
		}
		return append(list, pointer+": "+mismatch.ErrorKind.LocalizedString(printer))
	}
	for _, cause := range mismatch.Causes {
		list = places(cause, list)
	}
	return list
}
