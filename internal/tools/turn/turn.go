// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package turn is the family of tools about the agent's own turn: waiting,
// telling the user something, asking, planning, help, handing over the answer; and about
// what of it a session keeps: todos, its plan, notes, settings.
package turn

import "github.com/toolserver/toolserver/internal/tools"

// category is the family's name in specs.
const category = "turn"

// Tools returns the family.
func Tools() []tools.Tool {
	return []tools.Tool{
		AskUser(),
		Brief(),
		Config(),
		EnterPlanMode(),
		ExitPlanMode(),
		Help(),
		Plan(),
		SendUserMessage(),
		Sleep(),
		StructuredOutput(),
		TodoRead(),
		TodoWrite(),
	}
}
