// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// PowerShell is the program, and the capability, that powershell needs.
const PowerShell = "pwsh"

//go:embed powershell.md
var powershellDoc string

//go:embed powershell_help.md
var powershellHelp string

type powershellInput struct {
	Command     string `json:"command" check:"min=1,max=100000" jsonschema:"what to run"`
	Description string `json:"description,omitempty" check:"max=1000" jsonschema:"what it does, in five to ten words"`
	Workdir     string `json:"workdir,omitempty" jsonschema:"default the workspace"`
	TimeoutMS   int64  `json:"timeout_ms,omitempty" check:"min=1,max=86400000" jsonschema:"default 120000"`
}

// Timeout is how long the call may run.
func (in powershellInput) Timeout() time.Duration { return milliseconds(in.TimeoutMS) }

// Check finds what the schema cannot tell.
func (in powershellInput) Check() []tools.Problem {
	switch {
	case strings.TrimSpace(in.Command) == "":
		return []tools.Problem{{Pointer: "/command", Message: "is blank: give the command to run"}}
	case strings.ContainsRune(in.Command, 0):
		return []tools.Problem{{Pointer: "/command", Message: "contains a NUL character, which no command can: write it as `0"}}
	}
	return nil
}

func (in powershellInput) args() []string {
	return []string{"-NoProfile", "-NonInteractive", "-Command", in.Command}
}

// Powershell returns the tool that runs commands of PowerShell.
func Powershell(runners *command.Runners) tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name:    "powershell",
			Aliases: []string{"PowerShell", PowerShell},
			Keys:    []tools.Key{{Other: "working_dir", Name: "workdir"}, {Other: "timeout", Name: "timeout_ms"}},
			Label:   "Run a PowerShell command",
			Summary: "Run a command with PowerShell in the workspace.",

			Description:          powershellDoc,
			Help:                 powershellHelp,
			Category:             category,
			Level:                tools.DangerFullAccess,
			LeastLevel:           tools.ReadOnly,
			Dangerous:            true,
			RequiredCapabilities: []string{command.Capability, PowerShell},
			DefaultTimeout:       defaultTimeout,
			Examples: []tools.Example{
				{Summary: "The largest files", Input: json.RawMessage(`{"command":"Get-ChildItem -Recurse -File | Sort-Object Length -Descending | Select-Object -First 5"}`)},
			},
		},
		func(env tools.Env, in powershellInput) []tools.Effect {
			dir, inside := env.Workspace.Resolve(cmp.Or(in.Workdir, "."))
			if inside {
				env.Pin("workdir", dir)
			}
			return effects.Resolve(env, shell.Effects(in.judged(), placeOf(runners, env, dir)))
		},
		func(ctx context.Context, env tools.Env, in powershellInput, out tools.Sink) (tools.Result, error) {
			dir, inside := env.Pinned("workdir")
			if !inside {
				return tools.Result{}, tools.Failf("outside_workspace", "The command was not run: workdir %s is outside of the workspace.", in.Workdir)
			}
			runner, err := runners.Of(env)
			if err != nil {
				return tools.Result{}, err
			}
			return runner.Run(ctx, env, command.Command{Path: PowerShell, Args: in.args(), Dir: dir, Rights: env.Rights, Restrictions: env.Restrictions}, out)
		})
	return tools.WithPreview(tool, func(_ context.Context, _ tools.Env, in powershellInput) tools.Preview {
		return tools.Preview{Kind: tools.PreviewCommand, Text: in.judged()}
	})
}

// judged returns the command as bash would be given it.
func (in powershellInput) judged() string {
	words := []string{PowerShell}
	for _, arg := range in.args() {
		words = append(words, shell.Quote(arg))
	}
	return strings.Join(words, " ")
}
