// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestWithheld tells what is left out of a directory that is read, from which
// top, and whether that is so where only what is denied counts.
func TestWithheld(t *testing.T) {
	p := must(`version: 1
rules:
- {name: example, action: allow, reads: [.env.example]}
- {name: env, action: ask, reads: [".env*"]}
- {name: keys, action: deny, reads: ["*.key", /work/ws/abs/]}
- {name: other, action: deny, tools: [glob], reads: [logs/]}
- {name: bob, action: deny, principals: [bob], reads: [mine/]}
- {name: large, action: deny, reads: [odd/], when: 'effect.path.contains("large")'}
- {name: broken, action: ask, reads: [broken/], when: 'input.missing == 1'}
- {name: certs, action: ask, reads: [certs/, "*.pem"]}
`)
	call := &policy.Subject{
		Principal: "alice", Level: tools.ReadOnly, Mode: tools.ModeAllow, Workspace: "/work/ws",
		Spec: &tools.Spec{Name: "grep", Level: tools.ReadOnly},
	}
	for _, test := range []struct {
		top, path string
		want      string // denied, asked or ""
	}{
		{".", "a.txt", ""},
		{".", "sub/a.key", "denied"},
		{".", "sub/A.KEY/x", "denied"},
		{".", "abs/x", "denied"},
		{".", ".env", "asked"},
		{".", ".env.example", ""},
		{".", "logs/x", ""},
		{".", "mine/x", ""},
		{".", "odd/small", ""},
		{".", "odd/large", "denied"},
		{".", "broken/x", "asked"}, // it cannot be told, so it is not shown
		{".", "certs", "asked"},
		{"certs", "certs/x", ""}, // whoever let the directory be read was asked
		{"certs", "certs/x.pem", ""},
		{"certs", "certs/.env", "asked"},
		{"certs", "certs/x.key", "denied"},
		{"sub", "sub/x.pem", "asked"},
	} {
		restrictions := p.Restrictions(call)
		if got := restrictions.Withheld(test.top, true)(test.path); got != (test.want != "") {
			t.Errorf("%s below %s: %t", test.path, test.top, got)
		}
		if got := restrictions.Withheld(test.top, false)(test.path); got != (test.want == "denied") {
			t.Errorf("%s below %s, denied: %t", test.path, test.top, got)
		}
	}
	for text, asked := range map[string]bool{
		"version: 1\n": true,
		"version: 1\nrules: [{name: a, action: ask, reads: [x]}]\n":              false,
		"version: 1\nrules: [{name: a, action: deny, writes: [x]}]\n":            true,
		"version: 1\nrules: [{name: a, action: deny, tools: [b], reads: [x]}]\n": true,
	} {
		if must(text).Restrictions(call).Withheld(".", asked) != nil {
			t.Errorf("something is withheld by %s", text)
		}
	}
}
