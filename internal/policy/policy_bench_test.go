// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// hundred is a policy of 100 rules of which none matches.
func hundred() *policy.Policy {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range 100 {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "- {name: r%d, action: deny, paths: [secrets%d/, '*.key%d']}\n", i, i, i)
		case 1:
			fmt.Fprintf(&b, "- {name: r%d, action: ask, writes: [config/x%d/, /etc/x%d, ~/.x%d]}\n", i, i, i, i)
		case 2:
			fmt.Fprintf(&b, "- {name: r%d, action: deny, commands: [git x%d, prog%d]}\n", i, i, i)
		default:
			fmt.Fprintf(&b, "- {name: r%d, action: allow, tools: [tool_%d], reads: ['gen%d/**/*.go']}\n", i, i, i)
		}
	}
	return must(b.String())
}

func BenchmarkDecide(b *testing.B) {
	read := []tools.Effect{{Kind: tools.ReadsPath, Path: "internal/service/admit.go", Rooted: true}}
	write := []tools.Effect{{Kind: tools.WritesPath, Path: "internal/service/admit.go", Rooted: true}}
	pipe := []tools.Effect{
		{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", "log", "--oneline"}, ReadOnly: true},
		{Kind: tools.RunsProgram, Program: "grep", Argv: []string{"grep", "-v", "fix"}, ReadOnly: true},
		{Kind: tools.RunsProgram, Program: "head", Argv: []string{"head", "-5"}, ReadOnly: true},
	}
	when := must("version: 1\nrules:\n- {name: c, action: deny, tools: [tool], when: 'input.path.startsWith(\"x\")'}\n")
	for _, bench := range []struct {
		name    string
		policy  *policy.Policy
		effects []tools.Effect
	}{
		{"no effects, no rules", empty, nil},
		{"no effects, built-in", policy.Builtin(), nil},
		{"read, built-in", policy.Builtin(), read},
		{"read, 100 rules", hundred(), read},
		{"write, 100 rules", hundred(), write},
		{"pipe, built-in", policy.Builtin(), pipe},
		{"pipe, 100 rules", hundred(), pipe},
		{"condition", when, nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := call(tools.WorkspaceWrite, tools.ModeAcceptEdits, tools.ReadOnly, bench.effects)
			c.Input = []byte(`{"path":"internal/service/admit.go"}`)
			b.ReportAllocs()
			for b.Loop() {
				if bench.policy.Decide(c, nil).Action != policy.Allow {
					b.Fatal("not allowed")
				}
			}
		})
	}
}
