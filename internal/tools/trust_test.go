// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"encoding"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
)

func TestLevelNames(t *testing.T) {
	for level, name := range map[tools.Level]string{
		tools.ReadOnly: "read_only", tools.WorkspaceWrite: "workspace_write", tools.DangerFullAccess: "danger_full_access",
	} {
		var back tools.Level
		roundTrip(t, level, &back, name)
		if back != level {
			t.Errorf("%s came back as %s", level, back)
		}
	}
	if tools.ReadOnly >= tools.WorkspaceWrite || tools.WorkspaceWrite >= tools.DangerFullAccess {
		t.Error("levels do not rise")
	}
	if got := tools.Level(0).String(); got != "none" {
		t.Errorf("the zero level is %q", got)
	}
}

func TestModeNames(t *testing.T) {
	for mode, name := range map[tools.Mode]string{
		tools.ModeAsk: "ask", tools.ModeAllow: "allow", tools.ModeDeny: "deny",
		tools.ModePlan: "plan", tools.ModeAcceptEdits: "accept_edits",
	} {
		var back tools.Mode
		roundTrip(t, mode, &back, name)
		if back != mode {
			t.Errorf("%s came back as %s", mode, back)
		}
	}
	if got := tools.Mode(0).String(); got != "none" {
		t.Errorf("the zero mode is %q", got)
	}
}

func roundTrip(t *testing.T, value encoding.TextMarshaler, back encoding.TextUnmarshaler, name string) {
	t.Helper()
	text, err := value.MarshalText()
	if err != nil || string(text) != name {
		t.Errorf("%q, %v, want %q", text, err, name)
	}
	if err := back.UnmarshalText(text); err != nil {
		t.Error(err)
	}
}

// TestUnknownNames proves that what is not a name gives nothing, and says what
// would be one: a setting with a typing error must not trust anybody.
func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"", "none", "ALLOW", "allow ", "Read_Only", "readonly", "0", "2", "\xff", strings.Repeat("x", 100)} {
		level, mode := tools.DangerFullAccess, tools.ModeAllow
		err := level.UnmarshalText([]byte(name))
		if err == nil || level != 0 || !strings.Contains(err.Error(), "want one of read_only, workspace_write, danger_full_access") {
			t.Errorf("level %q is %d: %v", name, level, err)
		}
		err = mode.UnmarshalText([]byte(name))
		if err == nil || mode != 0 || !strings.Contains(err.Error(), "want one of ask, allow, deny, plan, accept_edits") {
			t.Errorf("mode %q is %d: %v", name, mode, err)
		}
	}
}
