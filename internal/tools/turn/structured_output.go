// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed structured_output.md
var structuredOutputDoc string

type structuredOutputInput struct {
	Data json.RawMessage `json:"data" jsonschema:"the answer, as any JSON value"`
}

// StructuredOutput returns the tool that hands over an answer as data.
func StructuredOutput() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "structured_output",
			Aliases:         []string{"StructuredOutput"},
			Label:           "Structured output",
			Summary:         "Hand over the answer as JSON.",
			Description:     structuredOutputDoc,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			ResultSchema:    json.RawMessage(`true`),
			Examples: []tools.Example{
				{Summary: "An object", Input: json.RawMessage(`{"data":{"answer":42}}`)},
				{Summary: "A list", Input: json.RawMessage(`{"data":["a","b"]}`)},
			},
		},
		nil,
		func(_ context.Context, _ tools.Env, in structuredOutputInput, _ tools.Sink) (tools.Result, error) {
			return tools.JSONResult(in.Data), nil
		})
}
