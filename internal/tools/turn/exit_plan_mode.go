// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed exit_plan_mode.md
var exitPlanModeDoc string

//go:embed exit_plan_mode_help.md
var exitPlanModeHelp string

type exitPlanModeInput struct {
	Plan string `json:"plan" check:"min=1,max=32768" jsonschema:"Markdown: what will be done, in order, and how it is checked"`
}

// ExitPlanMode returns the tool that has a plan approved and leaves plan mode.
func ExitPlanMode() tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:        "exit_plan_mode",
			Aliases:     []string{"ExitPlanMode", "switch_to_execution"},
			Label:       "Exit plan mode",
			Summary:     "Have the user approve a plan, then carry it out.",
			Description: exitPlanModeDoc,
			Help:        exitPlanModeHelp,
			Category:    category,
			Level:       tools.ReadOnly,
			Examples: []tools.Example{{Summary: "A short plan",
				Input: json.RawMessage(`{"plan":"1. Write a test that shows the bug.\n2. Fix it in ` + "`parse.go`" + `."}`)}},
		},
		func(env tools.Env, _ exitPlanModeInput) []tools.Effect {
			if env.Session.Mode() != tools.ModePlan {
				return nil // there is nothing to leave, and Run says so
			}
			return changesMode(env.Session.PlanEnd())
		},
		func(_ context.Context, env tools.Env, _ exitPlanModeInput, _ tools.Sink) (tools.Result, error) {
			if mode := env.Session.Mode(); mode != tools.ModePlan {
				return tools.Result{}, tools.Failf("not_in_plan_mode", "The session is in mode %s, not in plan mode: there is no plan to approve.", mode)
			}
			next := env.Session.PlanEnd()
			if err := env.Session.ChangeMode(tools.ModePlan, next); err != nil {
				return tools.Result{}, err
			}
			return modeResult(next, fmt.Sprintf("The plan was approved. The session is in mode %s now: carry the plan out.", next)), nil
		})
	return pinned{tools.WithPreview(tool, func(_ context.Context, _ tools.Env, in exitPlanModeInput) tools.Preview {
		return tools.Preview{Kind: tools.PreviewText, Text: in.Plan}
	})}
}
