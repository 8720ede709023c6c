// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed help.md
var helpDoc string

type helpInput struct {
	Tool string `json:"tool" check:"min=1,max=128" jsonschema:"its name"`
}

// Help returns the tool that tells more of the tools that a session has.
func Help() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "help",
			Label:           "Help",
			Summary:         "Tell details and examples of a tool.",
			Description:     helpDoc,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "What patterns apply_patch takes", Input: json.RawMessage(`{"tool":"apply_patch"}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in helpInput, _ tools.Sink) (tools.Result, error) {
			if env.Help == nil {
				return tools.Result{}, tools.Failf("no_help", "There is no help here: the descriptions of the tools are all there is.")
			}
			page, err := env.Help(in.Tool)
			return tools.TextResult(page), err
		})
}
