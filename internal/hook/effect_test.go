// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestEffectsOfCommands: a hook is about a command that does what it is about, and about
// one that may.
func TestEffectsOfCommands(t *testing.T) {
	for _, test := range []struct {
		effect, command string
		want            bool
	}{
		{"runs whoami", "whoami", true},
		{"runs whoami", "/usr/bin/whoami", true},
		{"runs whoami", "sh x.sh", true},
		{"runs whoami", `awk 'BEGIN{system("whoami")}'`, true},
		{"runs whoami", "$X", true},
		{"runs whoami", "make", true},
		{"runs whoami", "ls", false},
		{"reads secrets/**", "cat secrets/a", true},
		{"reads secrets/**", "cat $(echo secrets/a)", true},
		{"reads secrets/**", "cat s*/a", true},
		{"reads secrets/**", `cat "$X"`, true},
		{"reads secrets/**", "python3 -c 'print(1)'", true},
		{"reads secrets/**", "cat notes.txt", false},
		{"reads secrets/**", "echo hello", false},
		{"writes src/**", "touch src/a.go", true},
		{"writes src/**", `touch "$X"`, true},
		{"writes src/**", "sh x.sh", true},
		{"writes src/**", "touch notes.txt", false},
		{"writes src/**", "cat src/a.go", false},
		{"writes", "cat $(echo secrets/a)", false},
		{"reaches *.example.com", "python3 x.py", true},
		{"reaches *.example.com", "ls", false},
	} {
		hooks, err := hook.New(hook.Config{{On: hook.Points{hook.BeforeCall}, Effects: []string{test.effect}, Run: hook.Command{"true"}}}, hook.Options{})
		if err != nil {
			t.Fatal(err)
		}
		effects := shell.Effects(test.command, shell.Place{Workspace: "/w"})
		if got := hooks.At(hook.BeforeCall)[0].IsAbout(&tools.Spec{Name: "bash"}, effects); got != test.want {
			t.Errorf("%s, and %s: %v\n%+v", test.effect, test.command, got, effects)
		}
		hooks.Close()
	}
}
