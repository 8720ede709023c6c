// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestFit holds the text of any tool to its budget. JSON and images do not count.
func TestFit(t *testing.T) {
	type size struct {
		Texts int `json:"texts"`
		Each  int `json:"each"`
	}
	tool := tools.New(tools.Spec{Name: "writes", Level: tools.ReadOnly}, nil,
		func(_ context.Context, env tools.Env, in size, _ tools.Sink) (tools.Result, error) {
			if env.Shown() >= env.Answer || env.Shown() < env.Answer/2 {
				t.Errorf("%d are shown of %d", env.Shown(), env.Answer)
			}
			result := tools.JSONResult([]byte(`"` + strings.Repeat("j", 5000) + `"`))
			for range in.Texts {
				result.Content = append(result.Content, tools.Text(strings.Repeat("x", in.Each-1)+"\n"))
			}
			return result, nil
		})
	for _, test := range []struct {
		input    string
		contents int
		want     string
	}{
		{`{"texts":1,"each":1000}`, 2, "x\n"},
		{`{"texts":10,"each":100}`, 11, "x\n"},
		{`{"texts":1,"each":1001}`, 2, "left out: this server keeps no more of it: ask for less at once …]\n"},
		{`{"texts":1001,"each":1}`, 2, "[… 401 lines, 401 bytes left out: this server"},
		{`{"texts":11,"each":100}`, 2, "[… 5 lines, 500 bytes left out: this server"},
	} {
		env := toolstest.Env(t, nil)
		env.Answer = 1000
		result, _, err := toolstest.Run(t, tool, env, test.input)
		if err != nil {
			t.Fatal(err)
		}
		text := 0
		var all strings.Builder
		for _, c := range result.Content {
			if piece, ok := c.(tools.Text); ok {
				text += len(piece)
				all.WriteString(string(piece))
			}
		}
		if text > env.Answer || len(result.Content) != test.contents || !strings.Contains(all.String(), test.want) {
			t.Errorf("%s: %d contents, %d bytes of text: %.1200q", test.input, len(result.Content), text, all.String())
		}
	}
}

// TestFitTokens holds the text of any tool to a budget in tokens, of texts that have many and
// few of them. One that pages is asked for less, and not cut.
func TestFitTokens(t *testing.T) {
	type line struct {
		Line string `json:"line"`
	}
	for _, pages := range []bool{false, true} {
		tool := tools.New(tools.Spec{Name: "writes", Level: tools.ReadOnly, Pages: pages}, nil,
			func(_ context.Context, env tools.Env, in line, _ tools.Sink) (tools.Result, error) {
				return tools.TextResult(strings.Repeat(in.Line+"\n", env.Shown()/(len(in.Line)+1))), nil
			})
		for _, line := range []string{"a line of plain words", "{}[]();;!!..,,", "日本語の文", "8 9 1 2 3 4"} {
			env := toolstest.Env(t, nil)
			env.Answer, env.Measure = 4_000, tools.Measure{Family: "mistral", Tokens: true}
			result, _, err := toolstest.Run(t, tool, env, `{"line":"`+line+`"}`)
			if err != nil {
				t.Fatal(err)
			}
			text := toolstest.Text(result)
			cost := env.Measure.Cost(text)
			cut := strings.Contains(text, "left out")
			if cost > 1000 || cost < 500 || pages && cut {
				t.Errorf("%q, paged %v: %d tokens, cut %v", line, pages, cost, cut)
			}
		}
	}
}

func TestBudget(t *testing.T) {
	for _, test := range []struct {
		budget tools.Budget
		size   int
		err    string
	}{
		{tools.Budget{}, 0, ""},
		{tools.Budget{Characters: 1000}, 1000, ""},
		{tools.Budget{Characters: 5000}, 5000, ""},
		{tools.Budget{Tokens: 250}, 1000, ""},
		{tools.Budget{Tokens: 1250}, 5000, ""},
		{tools.Budget{Characters: 5001}, 5001, "5001 characters is out of range: want 1000 to 5000"},
		{tools.Budget{Characters: -1}, 0, "want 1000 to 5000"},
		{tools.Budget{Tokens: 249}, 996, "249 tokens is out of range: want 250 to 1250"},
		{tools.Budget{Characters: 2000, Tokens: 500}, 2000, "give one of them"},
	} {
		err := test.budget.Check(5000)
		if test.budget.Size() != test.size || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%+v: %d, %v", test.budget, test.budget.Size(), err)
		}
	}
}

// TestGoOn writes calls as they are made, whatever is in them.
func TestGoOn(t *testing.T) {
	in := struct {
		Path string `json:"path"`
		At   int    `json:"at,omitempty"`
	}{"a <b> & \"c\"\n", 0}
	if got, want := tools.Written("read_file", in), `read_file {"path":"a <b> & \"c\"\n"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if tool, input := toolstest.GoOn("x\n(there is more: go on with " + tools.Written("read_file", in) + ")\n"); tool != "read_file" || input != `{"path":"a <b> & \"c\"\n"}` {
		t.Errorf("%s %s", tool, input)
	}
}
