// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed process_input.md
var processInputDoc string

//go:embed process_input_help.md
var processInputHelp string

type processInputInput struct {
	ID     string `json:"id" check:"min=1,max=100" jsonschema:"such as p1"`
	Text   string `json:"text,omitempty" check:"max=1048576" jsonschema:"what to write; end lines with a line feed"`
	Offset *int64 `json:"offset,omitempty" check:"min=0" jsonschema:"bytes of input before this text, so that nothing is written twice; default: add"`
	End    bool   `json:"end,omitempty" jsonschema:"close the input after the text"`
	WaitMS int64  `json:"wait_ms,omitempty" check:"min=1,max=600000" jsonschema:"then wait, and show the output"`
}

// writeTime is how long a call waits for a process that does not read.
const writeTime = 10 * time.Second

// Timeout is how long the call may run.
func (in processInputInput) Timeout() time.Duration { return writeTime + milliseconds(in.WaitMS) }

// Check finds what the schema cannot tell.
func (in processInputInput) Check() []tools.Problem {
	if in.Text == "" && !in.End {
		return []tools.Problem{{Pointer: "/text", Message: "is empty: give what to write, or end"}}
	}
	return nil
}

// ProcessInput returns the tool that writes to a background process.
func ProcessInput(companions *companion.Set) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "process_input",
			Aliases: []string{"write_stdin"},
			Keys: []tools.Key{
				{Other: "process_id", Name: "id"}, {Other: "task_id", Name: "id"}, {Other: "bash_id", Name: "id"},
				{Other: "shell_id", Name: "id"}, {Other: "input", Name: "text"}, {Other: "chars", Name: "text"},
			},
			Label:   "Write to a background process",
			Summary: "Write to the input of a background process.",

			Description:          processInputDoc,
			Help:                 processInputHelp,
			Category:             category,
			Level:                tools.WorkspaceWrite,
			ConcurrencySafe:      true,
			RequiredCapabilities: []string{command.Capability},
			DefaultTimeout:       writeTime,
			Examples: []tools.Example{
				{Summary: "Answer a question", Input: json.RawMessage(`{"id":"p1","text":"yes\n"}`)},
				{Summary: "End the input", Input: json.RawMessage(`{"id":"p1","end":true}`)},
			},
		},
		nil,
		func(ctx context.Context, env tools.Env, in processInputInput, _ tools.Sink) (tools.Result, error) {
			b, err := companions.Process(env, in.ID)
			if err != nil {
				return tools.Result{}, err
			}
			total, err := b.Write(ctx, []byte(in.Text), in.Offset, in.End)
			d := detailsOf(b)
			d.Input = &total
			if err != nil {
				return withDetails(d), err
			}
			if in.WaitMS > 0 {
				return processOutput(ctx, companions, env, processOutputInput{ID: in.ID, WaitMS: in.WaitMS})
			}
			return withDetails(d, fmt.Sprintf("Written. %s has taken %d bytes of input in all.", b.ID, total)), nil
		})
}
