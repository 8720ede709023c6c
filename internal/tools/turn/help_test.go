// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

func TestHelp(t *testing.T) {
	env := toolstest.Env(t, nil)
	if _, _, err := toolstest.Run(t, turn.Help(), env, `{"tool":"grep"}`); err == nil {
		t.Error("there is help where nobody gives any")
	}
	env.Help = func(tool string) (string, error) {
		if tool != "grep" {
			return "", tools.Failf("no_such_tool", "There is no tool %s.", tool)
		}
		return "all of grep", nil
	}
	if result, _, err := toolstest.Run(t, turn.Help(), env, `{"tool":"grep"}`); err != nil || toolstest.Text(result) != "all of grep" {
		t.Errorf("%v %v", result, err)
	}
	if _, _, err := toolstest.Run(t, turn.Help(), env, `{"tool":"grap"}`); err == nil {
		t.Error("help of a tool that is not there")
	}
}
