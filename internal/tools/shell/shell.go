// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package shell has the tools that run commands.
package shell

import (
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/tools"
)

const category = "shell"

// Tools returns the tools that run commands.
func Tools(runners *command.Runners, companions *companion.Set) []tools.Tool {
	return []tools.Tool{
		Bash(runners, companions), Powershell(runners), Repl(companions),
		ProcessList(companions), ProcessOutput(companions), ProcessInput(companions), ProcessSignal(companions),
	}
}
