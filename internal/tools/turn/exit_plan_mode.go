// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed exit_plan_mode.md
var exitPlanModeDoc string

//go:embed exit_plan_mode_help.md
var exitPlanModeHelp string

type exitPlanModeInput struct {
	Plan string `json:"plan,omitempty" check:"max=32768" jsonschema:"Markdown: what will be done, in order, and how it is checked; default: what the tool plan keeps"`
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
			Examples: []tools.Example{
				{Summary: "A short plan", Input: json.RawMessage(`{"plan":"1. Write a test that shows the bug.\n2. Fix it in ` + "`parse.go`" + `."}`)},
				{Summary: "The plan that is kept", Input: json.RawMessage(`{}`)},
			},
		},
		func(env tools.Env, in exitPlanModeInput) []tools.Effect {
			if env.Session.Mode() != tools.ModePlan || in.shown(env) == "" {
				return nil // there is nothing to leave, or to approve, and Run says so
			}
			return changesMode(env.Session.PlanEnd())
		},
		func(_ context.Context, env tools.Env, in exitPlanModeInput, out tools.Sink) (tools.Result, error) {
			if mode := env.Session.Mode(); mode != tools.ModePlan {
				return tools.Result{}, tools.Failf("not_in_plan_mode", "The session is in mode %s, not in plan mode: there is no plan to approve.", mode)
			}
			shown := in.shown(env)
			if shown == "" {
				return tools.Result{}, tools.Failf("no_plan", "Nobody was asked, for there is no plan to approve: give it as %s, or make one with the tool %s first.",
					env.Words.Key("exit_plan_mode", "plan"), env.Words.Tool("plan"))
			}
			next := env.Session.PlanEnd()
			p, err := in.approved(env, shown, next)
			if err != nil {
				return tools.Result{}, err
			}
			text := fmt.Sprintf("The plan was approved. The session is in mode %s now: carry the plan out.", next)
			if len(p.Steps) > 0 {
				out.Emit(p.tally().progress("steps"))
				text += fmt.Sprintf(" Mark its %d steps with %s as you go.", len(p.Steps), env.Words.Tool("plan"))
			}
			return modeResult(next, text), nil
		})
	return pinned{tools.WithPreview(tool, func(_ context.Context, env tools.Env, in exitPlanModeInput) tools.Preview {
		return tools.Preview{Kind: tools.PreviewText, Text: cmp.Or(in.shown(env), "There is no plan.")}
	})}
}

// shown returns the plan that a person is asked about: the one that is given or, without
// one, the one that is kept when this is first asked.
func (in exitPlanModeInput) shown(env tools.Env) string {
	if in.Plan != "" {
		return in.Plan
	}
	if kept, ok := env.Pinned(planDocument); ok {
		return kept
	}
	p, err := load[plan](env, planDocument)
	if err != nil {
		return ""
	}
	env.Pin(planDocument, p.proposal())
	return p.proposal()
}

// approved notes that a person approved what was shown, and leaves plan mode: both or
// nothing. A plan that was changed since it was shown is not approved.
func (in exitPlanModeInput) approved(env tools.Env, shown string, next tools.Mode) (plan, error) {
	if env.Documents == nil {
		return plan{}, env.Session.ChangeMode(tools.ModePlan, next)
	}
	left := false
	p, err := change(env, planDocument, func(p *plan) error {
		if in.Plan == "" && p.proposal() != shown {
			return &tools.Failure{Code: "plan_changed", Retryable: true,
				Message: "The plan was changed after it was shown to the user: the session stays in plan mode. Call again to show it as it is."}
		}
		p.approve(shown)
		err := env.Session.ChangeMode(tools.ModePlan, next)
		left = err == nil
		return err
	})
	if err != nil && left { // the plan could not be kept
		err = errors.Join(err, env.Session.ChangeMode(next, tools.ModePlan))
	}
	return p, err
}
