// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed enter_plan_mode.md
var enterPlanModeDoc string

// EnterPlanMode returns the tool that makes the session one where nothing is
// changed.
func EnterPlanMode() tools.Tool {
	return pinned{tools.New(
		tools.Spec{
			Name:        "enter_plan_mode",
			Aliases:     []string{"EnterPlanMode"},
			Label:       "Enter plan mode",
			Summary:     "Look and plan first: nothing can be changed until a plan is approved.",
			Description: enterPlanModeDoc,
			Category:    category,
			Level:       tools.ReadOnly,
			Examples:    []tools.Example{{Summary: "Plan first", Input: json.RawMessage(`{}`)}},
		},
		func(tools.Env, struct{}) []tools.Effect { return changesMode(tools.ModePlan) },
		func(_ context.Context, env tools.Env, _ struct{}, _ tools.Sink) (tools.Result, error) {
			before := env.Session.Mode()
			if before == tools.ModePlan {
				return modeResult(before, "The session is in plan mode already."), nil
			}
			if err := env.Session.ChangeMode(before, tools.ModePlan); err != nil {
				return tools.Result{}, err
			}
			return modeResult(tools.ModePlan,
				"The session is in plan mode now: look around, change nothing. When the plan is ready, call "+env.Words.Tool("exit_plan_mode")+" with it."), nil
		})}
}
