// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package turn is the family of tools about the agent's own turn: waiting,
// telling the user something, asking, planning, help, handing over the answer.
package turn

import "github.com/toolserver/toolserver/internal/tools"

// category is the family's name in specs.
const category = "turn"

// Tools returns the family.
func Tools() []tools.Tool {
	return []tools.Tool{
		AskUser(),
		EnterPlanMode(),
		ExitPlanMode(),
		Help(),
		SendUserMessage(),
		Sleep(),
		StructuredOutput(),
	}
}
