// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestHome judges paths in the home of the session, in those of users, and beside
// them.
func TestHome(t *testing.T) {
	p := must(`version: 1
rules:
- {name: cache, action: allow, writes: [~/.cache/]}
- {name: locked, action: deny, paths: [~/locked/]}
- {name: docker, action: ask, reads: [~/.docker/]}
`)
	home := "/var/run/s1/home"
	call := &policy.Subject{
		Principal: "alice", SessionID: "s", Workspace: "/work/ws", Home: func() string { return home },
		Spec: &tools.Spec{Name: "bash", Level: tools.ReadOnly},
	}
	const reads, writes = tools.ReadsPath, tools.WritesPath
	for _, test := range []struct {
		level tools.Level
		mode  tools.Mode
		kind  tools.EffectKind
		path  string
		want  policy.Action
	}{
		{tools.WorkspaceWrite, tools.ModeAsk, reads, home, policy.Allow},
		{tools.WorkspaceWrite, tools.ModeAsk, reads, home + "/x", policy.Allow},
		{tools.WorkspaceWrite, tools.ModeAsk, reads, home + "2/x", policy.Ask},
		{tools.WorkspaceWrite, tools.ModeAsk, reads, "/var/run/s1", policy.Ask},
		{tools.WorkspaceWrite, tools.ModeAllow, reads, home + "/.docker/config.json", policy.Ask},
		{tools.WorkspaceWrite, tools.ModeAllow, reads, "/home/bob/.docker/config.json", policy.Ask},
		{tools.WorkspaceWrite, tools.ModeAllow, reads, home + "/locked/x", policy.Deny},
		{tools.WorkspaceWrite, tools.ModeAllow, writes, home + "/x", policy.Allow},
		{tools.WorkspaceWrite, tools.ModeAsk, writes, home + "/x", policy.Ask},
		{tools.WorkspaceWrite, tools.ModeAcceptEdits, writes, home + "/x", policy.Allow},
		{tools.WorkspaceWrite, tools.ModePlan, writes, home + "/x", policy.Deny},
		{tools.ReadOnly, tools.ModeAllow, writes, home + "/x", policy.Deny},
		{tools.WorkspaceWrite, tools.ModeAsk, writes, home + "/.cache/x", policy.Allow},
		{tools.WorkspaceWrite, tools.ModeAllow, writes, "/home/bob/.cache/x", policy.Deny},
		{tools.WorkspaceWrite, tools.ModeAllow, writes, home + "/x/.git/config", policy.Deny},
	} {
		call.Level, call.Mode = test.level, test.mode
		call.Effects = []tools.Effect{{Kind: test.kind, Path: test.path}}
		if got := p.Decide(call, nil); got.Action != test.want {
			t.Errorf("%v %v %v %s: %v, want %v", test.level, test.mode, test.kind, test.path, got.Verdict, test.want)
		}
	}
	restrictions := p.Restrictions(call)
	if !restrictions.Cares(reads, home+"/.docker/x") || restrictions.Cares(reads, home+"/x") {
		t.Error("the restrictions do not know the home")
	}
	home = "" // not made yet
	if restrictions.Cares(reads, "/var/run/s1/home/.docker/x") {
		t.Error("the restrictions know a home that is not there")
	}
}
