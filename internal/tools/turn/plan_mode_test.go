// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

func inMode(s tools.Session) tools.Env { return tools.Env{Session: s} }

func decode(t *testing.T, tool tools.Tool, s tools.Session, input string) tools.Call {
	t.Helper()
	call, err := tool.Decode(new(inMode(s)), json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func changes(to tools.Mode) []tools.Effect {
	return []tools.Effect{{Kind: tools.ChangesMode, Mode: to}}
}

// TestPlanMode goes there and back.
func TestPlanMode(t *testing.T) {
	s := toolstest.NewSession(tools.ModeAcceptEdits)
	for _, step := range []struct {
		tool    tools.Tool
		input   string
		effects []tools.Effect
		mode    tools.Mode
		says    string
	}{
		{turn.EnterPlanMode(), `{}`, changes(tools.ModePlan), tools.ModePlan, "in plan mode now"},
		{turn.EnterPlanMode(), ``, changes(tools.ModePlan), tools.ModePlan, "in plan mode already"},
		{turn.ExitPlanMode(), `{"plan":"do it"}`, changes(tools.ModeAcceptEdits), tools.ModeAcceptEdits, "in mode accept_edits now"},
	} {
		call := decode(t, step.tool, s, step.input)
		if got := call.Effects(); !reflect.DeepEqual(got, step.effects) {
			t.Errorf("effects %+v, want %+v", got, step.effects)
		}
		result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
		if err != nil || s.Mode() != step.mode || !strings.Contains(toolstest.Text(result), step.says) {
			t.Errorf("%q in mode %s: %v; want %s and %q", toolstest.Text(result), s.Mode(), err, step.mode, step.says)
		}
		if want := `{"mode":"` + step.mode.String() + `"}`; string(result.Details) != want {
			t.Errorf("details %s, want %s", result.Details, want)
		}
	}
}

func TestPlanIsShown(t *testing.T) {
	call := decode(t, turn.ExitPlanMode(), toolstest.NewSession(tools.ModePlan), `{"plan":"1. **do** it"}`)
	shown, ok := call.(tools.Previewer)
	if !ok {
		t.Fatal("a plan cannot be shown")
	}
	if got := shown.Preview(t.Context()); got != (tools.Preview{Kind: tools.PreviewText, Text: "1. **do** it"}) {
		t.Errorf("preview %+v", got)
	}
}

// TestPlanModeRefusals proves that a call changes what it was judged by, or
// nothing.
func TestPlanModeRefusals(t *testing.T) {
	plan := `{"plan":"do it"}`
	for _, test := range []struct {
		name      string
		tool      tools.Tool
		input     string
		begin     tools.Mode
		meanwhile []tools.Mode // what others make of the session after it was judged
		forbidden []tools.Mode
		code      string
		end       tools.Mode
	}{
		{"leave what it is not in", turn.ExitPlanMode(), plan, tools.ModeAllow, nil, nil, "not_in_plan_mode", tools.ModeAllow},
		{"it became plan mode meanwhile", turn.ExitPlanMode(), plan, tools.ModeAsk, []tools.Mode{tools.ModePlan}, nil, "not_in_plan_mode", tools.ModePlan},
		{"it was left meanwhile", turn.ExitPlanMode(), plan, tools.ModePlan, []tools.Mode{tools.ModeDeny}, nil, "mode_changed", tools.ModeDeny},
		{"leave for what is not permitted", turn.ExitPlanMode(), plan, tools.ModePlan, nil, []tools.Mode{tools.ModeAsk}, "mode_not_permitted", tools.ModePlan},
		{"enter what is not permitted", turn.EnterPlanMode(), `{}`, tools.ModeAsk, nil, []tools.Mode{tools.ModePlan}, "mode_not_permitted", tools.ModeAsk},
		{"it became deny meanwhile", turn.EnterPlanMode(), `{}`, tools.ModeAsk, []tools.Mode{tools.ModeDeny}, nil, "mode_changed", tools.ModeDeny},
	} {
		s := toolstest.NewSession(test.begin)
		s.Forbidden = test.forbidden
		call := decode(t, test.tool, s, test.input)
		for _, mode := range test.meanwhile {
			if err := s.ChangeMode(s.Mode(), mode); err != nil {
				t.Fatal(err)
			}
		}
		_, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
		if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != test.code || s.Mode() != test.end {
			t.Errorf("%s: %v, in mode %s; want %s and %s", test.name, err, s.Mode(), test.code, test.end)
		}
	}
}

// TestPlanEndIsWhatWasJudged proves that the mode that was approved counts, also
// where the session would go to another one by now.
func TestPlanEndIsWhatWasJudged(t *testing.T) {
	s := toolstest.NewSession(tools.ModeAsk)
	to := func(mode tools.Mode) {
		t.Helper()
		if err := s.ChangeMode(s.Mode(), mode); err != nil {
			t.Fatal(err)
		}
	}
	to(tools.ModePlan)
	call := decode(t, turn.ExitPlanMode(), s, `{"plan":"do it"}`)
	to(tools.ModeAllow)
	to(tools.ModePlan)
	if got := call.Effects(); !reflect.DeepEqual(got, changes(tools.ModeAsk)) {
		t.Errorf("effects %+v, want those of when it was decoded", got)
	}
	if _, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder)); err != nil || s.Mode() != tools.ModeAsk {
		t.Errorf("it left for %s: %v; ask was approved", s.Mode(), err)
	}
}

func TestPlanModeWithoutASession(t *testing.T) {
	for _, c := range []struct {
		tool        tools.Tool
		input, code string
	}{{turn.EnterPlanMode(), `{}`, "no_session"}, {turn.ExitPlanMode(), `{"plan":"x"}`, "not_in_plan_mode"}} {
		_, _, err := toolstest.Run(t, c.tool, tools.Env{}, c.input)
		if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != c.code {
			t.Errorf("%v, want %s", err, c.code)
		}
	}
}

func TestPlanBounds(t *testing.T) {
	for _, test := range []struct{ input, says string }{
		{`{"plan":"` + strings.Repeat("x", 32769) + `"}`, "/plan: too many characters"},
	} {
		_, err := turn.ExitPlanMode().Decode(&tools.Env{}, json.RawMessage(test.input))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.30s: %v, want %q", test.input, err, test.says)
		}
	}
}
