// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed process_signal.md
var processSignalDoc string

//go:embed process_signal_help.md
var processSignalHelp string

type processSignalInput struct {
	ID          string `json:"id" check:"min=1,max=100" jsonschema:"such as p1"`
	Signal      string `json:"signal,omitempty" check:"enum=INT|TERM|HUP|QUIT|KILL|USR1|USR2|WINCH|CONT|STOP|TSTP" jsonschema:"default TERM"`
	KillAfterMS int64  `json:"kill_after_ms,omitempty" check:"min=1,max=600000" jsonschema:"then wait so long for the end, and kill"`
}

// Timeout is how long the call may run.
func (in processSignalInput) Timeout() time.Duration { return milliseconds(in.KillAfterMS) + leeway }

// ProcessSignal returns the tool that signals and ends background processes.
func ProcessSignal(companions *companion.Set) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "process_signal",
			Aliases: []string{"KillShell", "KillBash", "kill_shell", "TaskStop"},
			Keys: []tools.Key{
				{Other: "process_id", Name: "id"}, {Other: "task_id", Name: "id"}, {Other: "bash_id", Name: "id"},
				{Other: "shell_id", Name: "id"},
			},
			Label:   "Signal a background process",
			Summary: "Send a signal to a background process, or end it.",

			Description:          processSignalDoc,
			Help:                 processSignalHelp,
			Category:             category,
			Level:                tools.WorkspaceWrite,
			ConcurrencySafe:      true,
			RequiredCapabilities: []string{command.Capability},
			Examples: []tools.Example{
				{Summary: "Interrupt it", Input: json.RawMessage(`{"id":"p1","signal":"INT"}`)},
				{Summary: "End it, kindly at first", Input: json.RawMessage(`{"id":"p1","signal":"TERM","kill_after_ms":5000}`)},
			},
		},
		nil,
		func(ctx context.Context, env tools.Env, in processSignalInput, _ tools.Sink) (tools.Result, error) {
			b, err := companions.Process(env, in.ID)
			if err != nil {
				return tools.Result{}, err
			}
			return processSignal(ctx, b, in)
		})
}

func processSignal(ctx context.Context, b *companion.Process, in processSignalInput) (tools.Result, error) {
	signal := cmp.Or(in.Signal, "TERM")
	if err := b.Signal(signal); err != nil {
		return withDetails(detailsOf(b)), err
	}
	if signal != "KILL" && in.KillAfterMS > 0 {
		waiting, cancel := context.WithTimeoutCause(ctx, milliseconds(in.KillAfterMS), errWaited)
		defer cancel()
		_, err := b.WaitFor(waiting, nil, nil)
		switch {
		case errors.Is(err, errWaited):
			signal = "KILL"
			if f, ok := errors.AsType[*tools.Failure](b.Signal(signal)); ok && f.Code != "process_ended" {
				return withDetails(detailsOf(b)), f
			}
		case err != nil:
			return withDetails(detailsOf(b)), err
		}
	}
	if signal == "KILL" {
		if _, err := b.WaitFor(ctx, nil, nil); err != nil {
			return withDetails(detailsOf(b)), err
		}
	}
	b.Examine()
	return b.Warn(withDetails(detailsOf(b), fmt.Sprintf("Signal %s was sent. %s %s.", cmp.Or(in.Signal, "TERM"), b.ID, b.State()))), nil
}
