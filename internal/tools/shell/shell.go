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

// Tools returns the tools that run commands in rooms.
func Tools(rooms *command.Rooms, companions *companion.Set) []tools.Tool {
	return []tools.Tool{
		Bash(rooms, companions), Powershell(rooms), Repl(companions),
		ProcessList(companions), ProcessOutput(companions), ProcessInput(companions), ProcessSignal(companions),
	}
}
