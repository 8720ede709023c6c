// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed process_list.md
var processListDoc string

//go:embed process_list_help.md
var processListHelp string

type processListInput struct {
	RunningOnly bool `json:"running_only,omitempty" jsonschema:"leave out those that have ended"`
}

// ProcessList returns the tool that lists background processes.
func ProcessList(companions *companion.Set) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "process_list",
			Aliases: []string{"list_processes"},
			Label:   "List background processes",
			Summary: "List the background processes of this session.",

			Description:          processListDoc,
			Help:                 processListHelp,
			Category:             category,
			Level:                tools.ReadOnly,
			ConcurrencySafe:      true,
			RequiredCapabilities: []string{command.Capability},
			Examples: []tools.Example{
				{Summary: "Those that still run", Input: json.RawMessage(`{"running_only":true}`)},
			},
		},
		nil,
		func(_ context.Context, env tools.Env, in processListInput, _ tools.Sink) (tools.Result, error) {
			details := []processDetails{}
			var text strings.Builder
			for _, b := range companions.Processes(env.Session) {
				b.Examine()
				state := b.State()
				if in.RunningOnly && !state.Running {
					continue
				}
				d := detailsOf(b)
				d.Command = b.Text
				details = append(details, d)
				fmt.Fprintf(&text, "%s %s, %s, %d bytes of output: %s\n", b.ID, state, b.Ran().Round(time.Millisecond), state.Output, output.Line(b.Text, 200))
			}
			if len(details) == 0 {
				text.WriteString("There is no background process.")
			}
			return withDetails(map[string]any{"processes": details}, text.String()), nil
		})
}
