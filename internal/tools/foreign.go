// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"encoding/json"
	"sync"
)

// Foreign is a tool whose input no Go type describes: it comes from elsewhere, with a
// schema that somebody else wrote.
type Foreign struct {
	Spec Spec

	// Schema is the JSON Schema of the input; Check returns the input as the schema
	// wants it, or an [*InputError].
	Schema json.RawMessage
	Check  func(input json.RawMessage) (json.RawMessage, error)

	// Effects tells what a call would touch; nil where that is only its own use.
	Effects func(env Env, input json.RawMessage) []Effect

	Run func(ctx context.Context, env Env, input json.RawMessage, out Sink) (Result, error)

	// Unavailable says why the tool cannot be called for now; empty when it can.
	Unavailable string

	// Preview shows a call to the person who is asked; nil where the input is enough.
	Preview func(ctx context.Context, env Env, input json.RawMessage) Preview
}

// NewForeign returns the tool.
func NewForeign(f Foreign) Tool {
	return &foreign{
		typed: typed[json.RawMessage]{
			spec: f.Spec, effects: f.Effects, run: f.Run, preview: f.Preview, unavailable: f.Unavailable,
			shape: sync.OnceValue(func() *shape { return &shape{kind: rawType} }),
		},
		schema: f.Schema, check: f.Check,
	}
}

type foreign struct {
	typed[json.RawMessage]
	schema json.RawMessage
	check  func(json.RawMessage) (json.RawMessage, error)
}

func (t *foreign) InputSchema() json.RawMessage { return t.schema }

func (t *foreign) Decode(env *Env, input json.RawMessage) (Call, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	input, err := t.check(input)
	if err != nil {
		return nil, err
	}
	return t.typed.Decode(env, input)
}
