// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// inDirectory is a call in a session that works in a directory of the workspace of the one
// above it.
func inDirectory(dir string, effects ...tools.Effect) *policy.Subject {
	spec := &tools.Spec{Name: "bash", Level: tools.WorkspaceWrite, LeastLevel: tools.ReadOnly, RequiredCapabilities: []string{"commands"}}
	at := policy.Subject{Principal: "alice", SessionID: "main", Level: tools.WorkspaceWrite, Mode: tools.ModeAcceptEdits, Workspace: "/w", Spec: spec,
		Network: tools.NetworkOpen, Offer: &tools.Offer{Holds: true, Covers: true, Network: tools.NetworkOpen}}
	below := at
	below.SessionID, below.Workspace, below.Effects, below.Above = "child", "/w/"+dir, effects, &at
	return &below
}

// TestAboveSeesItsOwnPaths: rules that begin at the workspace count below it too, for calls,
// for what commands may read, and for what tools leave out.
func TestAboveSeesItsOwnPaths(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte(`version: 1
protected: [sub/kept/]
rules:
  - {name: no, action: deny, reads: [sub/secrets/]}
  - {name: host, action: deny, hosts: [example.com], labels: {team: red}}
  - {name: hosts, action: allow, hosts: [example.com]}
`))
	if err != nil {
		t.Fatal(err)
	}
	reads := func(path string) tools.Effect { return tools.Effect{Kind: tools.ReadsPath, Path: path, Rooted: true} }
	for path, want := range map[string]policy.Action{"secrets/a": policy.Deny, "/w/sub/secrets/a": policy.Deny, "other/a": policy.Allow} {
		if d := p.Decide(inDirectory("sub", reads(path)), nil); d.Action != want {
			t.Errorf("%s: %v", path, d.Verdict)
		}
	}
	if d := p.Decide(inDirectory("sub", tools.Effect{Kind: tools.WritesPath, Path: "kept/a", Rooted: true}), nil); d.Action != policy.Deny {
		t.Errorf("what is protected above: %v", d.Verdict)
	}
	call := inDirectory("sub", tools.Effect{Kind: tools.RunsProgram, Program: "make", Argv: []string{"make"}})
	if deny := p.Decide(call, nil).Rights.Deny; deny == nil || !deny.Denies("secrets/a") || deny.Denies("other") {
		t.Errorf("commands may not read: %v", deny)
	}
	limits := p.Restrictions(call)
	if hidden := limits.Withheld(".", false); hidden == nil || !hidden("secrets/a") || hidden("other") {
		t.Error("what tools leave out is not what is denied above")
	}
	if !limits.Cares(tools.ReadsPath, "secrets/a") || !limits.Protection().Protects("kept/a") {
		t.Error("what rules above are about is not judged by itself")
	}
	if err := limits.Reaches("example.com", 443); err != nil {
		t.Error(err)
	}
	call.Above.Labels = map[string]string{"team": "red"}
	if err := limits.Reaches("example.com", 443); err == nil {
		t.Error("a host is reached that is denied above")
	}
}

// TestAboveBounds: mode, level and network of the session above count, and a grant has to
// answer both.
func TestAboveBounds(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("version: 1\nrules:\n  - {name: ask, action: ask, writes: [sub/asked/]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	writes := func() *policy.Subject {
		return inDirectory("sub", tools.Effect{Kind: tools.WritesPath, Path: "asked/a", Rooted: true})
	}
	call := writes()
	asked := p.Decide(call, nil)
	if asked.Action != policy.Ask || asked.Rule != "rule ask" {
		t.Errorf("what is asked about above: %v", asked.Verdict)
	}
	tiers := p.Tiers(call, asked)
	for _, tier := range tiers {
		grant := policy.Grant{Action: policy.Allow, Tool: "bash", Tier: tier}
		if d := p.Decide(call, []policy.Grant{grant}); d.Action != policy.Allow && tier.Kind != policy.TierCall {
			t.Errorf("%s was offered and does not answer: %v", tier.Label, d.Verdict)
		}
	}
	if len(tiers) == 0 {
		t.Error("nothing was offered")
	}
	above := policy.Reseat([]policy.Grant{{Action: policy.Allow, Tool: "bash", Tier: policy.Tier{Kind: policy.TierDirectory, Pattern: "sub", Effect: tools.WritesPath}}}, "/w", "/w/sub")
	if d := p.Decide(inDirectory("sub", tools.Effect{Kind: tools.WritesPath, Path: "a", Rooted: true}), above); d.Action != policy.Allow {
		t.Errorf("with a grant above: %v", d.Verdict)
	}
	for name, change := range map[string]func(*policy.Subject){
		"mode":  func(s *policy.Subject) { s.Mode = tools.ModePlan },
		"level": func(s *policy.Subject) { s.Level = tools.ReadOnly },
	} {
		call := inDirectory("sub", tools.Effect{Kind: tools.WritesPath, Path: "a", Rooted: true})
		change(call.Above)
		if d := p.Decide(call, nil); d.Action != policy.Deny {
			t.Errorf("%s: %v", name, d.Verdict)
		}
	}
	call = inDirectory("sub", tools.Effect{Kind: tools.RunsProgram, Program: "make", Argv: []string{"make"}, Unclear: "what it does"})
	call.Mode, call.Above.Mode, call.Above.Network = tools.ModeAllow, tools.ModeAllow, tools.NetworkLoopback
	if d := p.Decide(call, nil); d.Action != policy.Allow || d.Rights.Network != tools.NetworkLoopback {
		t.Errorf("a command has %v, %v", d.Verdict, d.Rights)
	}
}
