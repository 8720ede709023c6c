// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

func TestWithPreview(t *testing.T) {
	type input struct {
		Text string `json:"text"`
	}
	plain := tools.New(tools.Spec{Name: "say", Level: tools.ReadOnly}, nil,
		func(_ context.Context, _ tools.Env, in input, _ tools.Sink) (tools.Result, error) {
			return tools.TextResult(in.Text), nil
		})
	shown := tools.WithPreview(plain, func(_ context.Context, env tools.Env, in input) tools.Preview {
		return tools.Preview{Kind: tools.PreviewText, Text: env.CallID + " says " + in.Text}
	})
	decode := func(tool tools.Tool) tools.Call {
		call, err := tool.Decode(&tools.Env{CallID: "7"}, json.RawMessage(`{"text":"hello"}`))
		if err != nil {
			t.Fatal(err)
		}
		return call
	}
	if _, ok := decode(plain).(tools.Previewer); ok {
		t.Error("a tool without a preview has one")
	}
	call, ok := decode(shown).(tools.Previewer)
	if !ok {
		t.Fatal("a tool with a preview has none")
	}
	if got := call.Preview(t.Context()); got != (tools.Preview{Kind: tools.PreviewText, Text: "7 says hello"}) {
		t.Errorf("preview %+v", got)
	}
	if _, err := shown.Decode(&tools.Env{}, json.RawMessage(`{}`)); err == nil {
		t.Error("with a preview, anything is taken")
	}
	defer func() {
		if recover() == nil {
			t.Error("a preview of another input is taken")
		}
	}()
	tools.WithPreview(plain, func(context.Context, tools.Env, struct{}) tools.Preview { return tools.Preview{} })
}

func TestWithChoices(t *testing.T) {
	type input struct {
		Color string `json:"color" jsonschema:"of the sky"`
		Depth int    `json:"depth,omitempty"`
	}
	tool := tools.WithChoices(tools.New(tools.Spec{Name: "paint", Level: tools.ReadOnly}, nil,
		func(_ context.Context, _ tools.Env, in input, _ tools.Sink) (tools.Result, error) {
			return tools.TextResult(in.Color), nil
		}), "color", "blue", "grey")
	if got := string(tool.InputSchema()); !strings.Contains(got, `"color":{"type":"string","description":"of the sky","enum":["blue","grey"]}`) {
		t.Errorf("schema %s", got)
	}
	if _, err := tool.Decode(&tools.Env{}, json.RawMessage(`{"color":"grey"}`)); err != nil {
		t.Error(err)
	}
	if _, err := tool.Decode(&tools.Env{}, json.RawMessage(`{"color":"green"}`)); err == nil || !strings.Contains(err.Error(), `want one of "blue", "grey"`) {
		t.Errorf("what is no choice: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a number has choices")
		}
	}()
	tools.WithChoices(tool, "depth", "x").InputSchema()
}
