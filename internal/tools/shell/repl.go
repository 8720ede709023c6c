// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed repl.md
var replDoc string

//go:embed repl_help.md
var replHelp string

type replInput struct {
	Language  string `json:"language" jsonschema:"whose interpreter runs the code"`
	Code      string `json:"code" check:"min=1,max=1048576" jsonschema:"what to run"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" check:"min=1,max=86400000" jsonschema:"default 120000"`
	Restart   bool   `json:"restart,omitempty" jsonschema:"begin with a new interpreter"`
}

// Timeout is how long the call may run.
func (in replInput) Timeout() time.Duration { return milliseconds(in.TimeoutMS) }

// Check finds what the schema cannot tell.
func (in replInput) Check() []tools.Problem {
	if strings.ContainsRune(in.Code, 0) {
		return []tools.Problem{{Pointer: "/code", Message: `contains a NUL character, which no code can: write it as \x00 in a string`}}
	}
	return nil
}

// Repl returns the tool that runs code and keeps what it defines.
func Repl(companions *companion.Set) tools.Tool {
	all := companions.Languages()
	languages := make(map[string]companion.Language, len(all))
	names := make([]string, len(all))
	for i, l := range all {
		languages[l.Name], names[i] = l, l.Name
	}
	tool := tools.New(
		tools.Spec{
			Name:    "repl",
			Aliases: []string{"REPL", "execute_code", "run_code"},
			Keys:    []tools.Key{{Other: "timeout", Name: "timeout_ms"}},
			Label:   "Run code",
			Summary: "Run Python, JavaScript, bash or other code in an interpreter that keeps its state.",

			Description:          replDoc,
			Help:                 replHelp,
			Category:             category,
			Level:                tools.DangerFullAccess,
			LeastLevel:           tools.ReadOnly,
			Dangerous:            true,
			RunsCode:             true,
			RequiredCapabilities: []string{command.Capability},
			DefaultTimeout:       defaultTimeout,
			Examples: []tools.Example{
				{Summary: "Define, and compute", Input: json.RawMessage(`{"language":"python","code":"import statistics\nxs = [1, 2, 4]\nstatistics.mean(xs)"}`)},
				{Summary: "Begin anew", Input: json.RawMessage(`{"language":"node","code":"1 + 1","restart":true}`)},
			},
		},
		func(env tools.Env, in replInput) []tools.Effect { return replEffects(env, in, languages[in.Language]) },
		func(ctx context.Context, env tools.Env, in replInput, out tools.Sink) (tools.Result, error) {
			return companions.Evaluate(ctx, env, languages[in.Language], in.Code, in.Restart, out)
		})
	tool = tools.WithChoices(tool, "language", names...)
	return tools.WithPreview(tool, func(_ context.Context, _ tools.Env, in replInput) tools.Preview {
		return tools.Preview{Kind: tools.PreviewText, Text: tools.Fenced(in.Language, in.Code)}
	})
}

// replEffects tells that code runs of which nobody knows what it does: what ran
// before may have given its words another meaning, in bash too.
func replEffects(env tools.Env, in replInput, language companion.Language) []tools.Effect {
	program := language.Program
	list := []tools.Effect{{
		Kind: tools.RunsProgram, Program: program, Argv: []string{program, tools.UnknownWord},
		Unclear: "it runs code in an interpreter that remembers earlier code",
	}}
	if in.Language == "bash" { // as far as it can be told, for rules that deny
		list = append(list, effects.Resolve(env, shell.Effects(in.Code, shell.PlaceOf(env, "")))...)
	}
	return list
}
