// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

// TestSchemasOfReplacedTools: what was compiled for a tool goes when the tool does.
func TestSchemasOfReplacedTools(t *testing.T) {
	registry := new(tools.Registry)
	a := New(Config{Registry: registry})
	for range 20 { // as a source that changes its tools does
		err := registry.Replace("x", tools.NewForeign(tools.Foreign{
			Spec:   tools.Spec{Name: "y", Summary: "Says y.", Kind: tools.Script, Level: tools.ReadOnly, ResultSchema: json.RawMessage(`{"type":"object"}`)},
			Schema: json.RawMessage(`{"type":"object"}`),
			Check:  func(input json.RawMessage) (json.RawMessage, error) { return input, nil },
			Run: func(context.Context, tools.Env, json.RawMessage, tools.Sink) (tools.Result, error) {
				return tools.Result{}, nil
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		entry, ok := registry.Lookup("x__y", nil)
		if !ok {
			t.Fatal("the tool is not there")
		}
		call, err := entry.Tool.Decode(&tools.Env{}, json.RawMessage(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		a.results.promised(entry, call)
	}
	kept := 0
	a.results.compiled.Range(func(any, any) bool { kept++; return true })
	if kept != 1 {
		t.Errorf("%d schemas are kept for one tool", kept)
	}
}
