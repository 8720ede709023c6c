// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestLasting: what other sessions will have is asked about, whatever a mode, a rule or a
// grant allows; what is refused stays so.
func TestLasting(t *testing.T) {
	allow := must("version: 1\nrules: [{name: a, action: allow, tools: [tool_create]}, {name: b, action: allow, uses: ['*']}]")
	deny := must("version: 1\nrules: [{name: d, action: deny, uses: ['dynamic__deploy*']}]")
	spec := &tools.Spec{Name: "tool_create", Level: tools.WorkspaceWrite}
	for _, test := range []struct {
		policy  *policy.Policy
		mode    tools.Mode
		lasting bool
		want    policy.Action
	}{
		{policy.Builtin(), tools.ModeAllow, false, policy.Allow},
		{policy.Builtin(), tools.ModeAsk, false, policy.Ask},
		{policy.Builtin(), tools.ModeAcceptEdits, false, policy.Ask},
		{policy.Builtin(), tools.ModePlan, false, policy.Deny},
		{policy.Builtin(), tools.ModeAllow, true, policy.Ask},
		{policy.Builtin(), tools.ModePlan, true, policy.Deny},
		{policy.Builtin(), tools.ModeDeny, true, policy.Deny},
		{allow, tools.ModeAsk, false, policy.Allow},
		{allow, tools.ModeAllow, true, policy.Ask},
		{deny, tools.ModeAllow, false, policy.Deny},
		{deny, tools.ModeAllow, true, policy.Deny},
	} {
		spec := spec
		if test.lasting && test.mode == tools.ModeAllow {
			spec = &tools.Spec{Name: "memory_store", Level: tools.ReadOnly}
		}
		call := &policy.Subject{
			Spec: spec, Level: tools.WorkspaceWrite, Mode: test.mode, Workspace: "/work", Digest: [32]byte{1},
			Effects: []tools.Effect{{Kind: tools.UsesTool, Tool: "dynamic__deploy_all", Lasting: test.lasting}},
		}
		got := test.policy.Decide(call, nil)
		if got.Action != test.want {
			t.Errorf("mode %s, lasting %t: %s by %s, want %s", test.mode, test.lasting, got.Action, got.Rule, test.want)
		}
		for _, effect := range got.Effects {
			if test.lasting && strings.Contains(effect.Verdict.Reason, "changes nothing") {
				t.Errorf("mode %s: %s", test.mode, effect.Verdict.Reason)
			}
		}
		tiers := test.policy.Tiers(call, got)
		if test.lasting && len(tiers) > 0 || got.Action == policy.Ask && !test.lasting && len(tiers) != 1 {
			t.Errorf("mode %s, lasting %t: tiers %v", test.mode, test.lasting, tiers)
		}
	}
}

// TestVersionsAreGrantedApart: who trusts a tool trusts what it is, and not what it will be.
func TestVersionsAreGrantedApart(t *testing.T) {
	call := &policy.Subject{
		Spec:  &tools.Spec{Name: "dynamic__x", Version: "1-aa", Kind: tools.Dynamic, Level: tools.DangerFullAccess, LeastLevel: tools.ReadOnly, RunsCode: true},
		Level: tools.WorkspaceWrite, Mode: tools.ModeAsk, Workspace: "/work", Offer: &tools.Offer{Holds: true, Covers: true},
		Effects: []tools.Effect{{Kind: tools.RunsProgram, Program: "python3", Argv: []string{"python3", tools.UnknownWord}, Unclear: "it is code"}},
	}
	p := policy.Builtin()
	decision := p.Decide(call, nil)
	var grants []policy.Grant
	for _, tier := range p.Tiers(call, decision) {
		if tier.Kind == policy.TierTool {
			grants = append(grants, policy.Grant{ID: "g", Action: policy.Allow, Tool: "dynamic__x", Tier: tier})
		}
	}
	if decision.Action != policy.Ask || len(grants) != 1 || grants[0].Tier.Label != "every call of dynamic__x" {
		t.Fatalf("%v, grants %v", decision.Verdict, grants)
	}
	if got := p.Decide(call, grants); got.Action != policy.Allow {
		t.Errorf("the version that was granted: %v", got.Verdict)
	}
	next := *call.Spec
	next.Version = "2-bb"
	call.Spec = &next
	if got := p.Decide(call, grants); got.Action != policy.Ask {
		t.Errorf("the next: %v", got.Verdict)
	}
	grants[0].Action = policy.Deny
	if got := p.Decide(call, grants); got.Action != policy.Deny {
		t.Errorf("one that was refused: %v", got.Verdict)
	}
}
