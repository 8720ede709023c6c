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

// TestNetwork: what the sandbox cannot give is refused, and never asked about.
func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		session, server tools.Network
		effects         string
		want, says      string
	}{
		{tools.NetworkLoopback, tools.NetworkLoopback, "runs curl; reaches example.com 443", "deny: network loopback", "This server has no network: commands reach only what the session itself serves on loopback."},
		{tools.NetworkOpen, tools.NetworkLoopback, "runs curl; reaches example.com 443", "deny: network loopback", "This server has no network"},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches example.com 443", "deny: network loopback", "This session has no network"},
		{0, 0, "runs curl; reaches example.com 443", "deny: network none", "not even loopback"},
		{tools.NetworkNone, tools.NetworkOpen, "runs curl; reaches localhost 80", "deny: network none", "This session has no network: commands reach nothing, not even loopback."},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches localhost 80", "allow | session loopback", ""},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches app.localhost. 80", "allow", ""},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches ::1 80", "allow", ""},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches 0.0.0.0 80", "allow", ""},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches 127.8.9.1 80", "allow", ""},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches localhost.example.com 80", "deny", ""},
		{tools.NetworkLoopback, tools.NetworkOpen, "runs curl; reaches 128.0.0.1 80", "deny", ""},
		{tools.NetworkHosts, tools.NetworkOpen, "runs x; reaches example.com 443", "ask: network | session hosts h:example.com:443", "another machine"},
		{tools.NetworkOpen, tools.NetworkOpen, "told runs x; reaches example.com; reaches Example.com", "ask: network | named h:example.com:0", ""},
		{tools.NetworkOpen, tools.NetworkOpen, "runs x; reaches localhost 80", "allow | session open", ""},
		{tools.NetworkOpen, tools.NetworkOpen, "unclear runs x; unclear reaches ", "allow: contained | session open", ""},
		{tools.NetworkNone, tools.NetworkOpen, "unclear runs x; unclear reaches ", "allow: contained | session", ""},
	} {
		t.Run(fmt.Sprint(test.session, test.server, test.effects), func(t *testing.T) {
			c := contained(t, tools.ModeAllow, test.effects)
			c.Network, c.Offer.Network = test.session, test.server
			decided(t, empty, c, test.want)
			if got := empty.Decide(c, nil); !strings.Contains(got.Reason, test.says) {
				t.Errorf("%q does not say %q", got.Reason, test.says)
			}
		})
	}
	p := must(`version: 1
rules:
- {name: ours, action: allow, hosts: [example.com]}
- {name: far, action: ask, commands: [git push], network: [hosts, open]}
- {name: near, action: deny, commands: [serve], network: [none]}
- {name: cel, action: deny, commands: [cel], when: 'session.network == "loopback"'}
`)
	for effects, want := range map[string]string{
		"runs x; reaches example.com 443": "deny, allow, allow",
		"runs git push":                   "allow, ask: rule far, ask: rule far",
		"runs serve":                      "allow, allow, allow",
		"runs cel":                        "deny: rule cel, allow, allow",
	} {
		for i, want := range strings.Split(want, ", ") {
			c := contained(t, tools.ModeAllow, effects)
			c.Network = []tools.Network{tools.NetworkLoopback, tools.NetworkHosts, tools.NetworkOpen}[i]
			decided(t, p, c, want)
		}
	}
	none := contained(t, tools.ModeAllow, "runs serve")
	none.Network = 0
	decided(t, p, none, "deny: rule near")
	builtin := policy.Builtin()
	decided(t, builtin, contained(t, tools.ModeAllow, "runs git push -u origin HEAD"), "allow | session loopback")
	decided(t, builtin, contained(t, tools.ModeAllow, "runs curl; reaches localhost 80"), "allow | session loopback")
}

// TestLooksInPlan: a tool that only reads may ask to reach a host in every mode.
func TestLooksInPlan(t *testing.T) {
	for _, test := range []struct {
		level tools.Level
		mode  tools.Mode
		want  string
	}{
		{tools.ReadOnly, tools.ModePlan, "ask: network"}, {tools.ReadOnly, tools.ModeAsk, "ask: network"}, {tools.ReadOnly, tools.ModeAllow, "ask: network"},
		{tools.WorkspaceWrite, tools.ModePlan, "deny: mode plan"}, {tools.WorkspaceWrite, tools.ModeAllow, "ask: network"},
	} {
		spec := &tools.Spec{Name: "web_fetch", Level: test.level}
		effects := []tools.Effect{{Kind: tools.ReachesHost, Host: "example.com", Port: 443}}
		got := policy.Builtin().Decide(&policy.Subject{Spec: spec, Level: tools.WorkspaceWrite, Mode: test.mode, Effects: effects, Workspace: "/work"}, nil)
		if text := fmt.Sprintf("%s: %s", got.Action, got.Rule); text != test.want {
			t.Errorf("level %s, mode %s: %s, want %s", test.level, test.mode, text, test.want)
		}
	}
}

// TestConfiguredHost: what the operator configured for a tool is reached without a
// question where the call changes nothing; rules have their say all the same.
func TestConfiguredHost(t *testing.T) {
	deny := must("version: 1\nrules: [{name: not-there, action: deny, hosts: [api.example.com]}]")
	ask := must("version: 1\nrules: [{name: first, action: ask, hosts: ['*.example.com']}]")
	allow := must("version: 1\nrules: [{name: orders, action: allow, tools: ['@shop/create_*']}]")
	for _, test := range []struct {
		policy *policy.Policy
		level  tools.Level
		mode   tools.Mode
		want   string
	}{
		{policy.Builtin(), tools.ReadOnly, tools.ModeAsk, "allow: configured"},
		{policy.Builtin(), tools.ReadOnly, tools.ModePlan, "allow: configured"},
		{policy.Builtin(), tools.ReadOnly, tools.ModeDeny, "deny: mode deny"},
		{policy.Builtin(), tools.WorkspaceWrite, tools.ModeAsk, "ask: mode ask"},
		{policy.Builtin(), tools.WorkspaceWrite, tools.ModeAcceptEdits, "ask: mode accept_edits"},
		{policy.Builtin(), tools.WorkspaceWrite, tools.ModePlan, "deny: mode plan"},
		{policy.Builtin(), tools.WorkspaceWrite, tools.ModeAllow, "allow: mode allow"},
		{deny, tools.ReadOnly, tools.ModeAllow, "deny: rule not-there"},
		{ask, tools.ReadOnly, tools.ModeAsk, "ask: rule first"},
		{allow, tools.WorkspaceWrite, tools.ModeAsk, "allow: rule orders"},
	} {
		spec := &tools.Spec{Name: "shop__create_order", Server: "shop", Kind: tools.OpenAPI, Level: test.level}
		effects := []tools.Effect{{Kind: tools.ReachesHost, Host: "api.example.com", Port: 443, Configured: true}}
		if test.level > tools.ReadOnly {
			effects = append(effects, tools.Effect{Kind: tools.UsesTool, Tool: spec.Name})
		}
		got := test.policy.Decide(&policy.Subject{Spec: spec, Level: tools.WorkspaceWrite, Mode: test.mode, Effects: effects, Workspace: "/work"}, nil)
		if text := fmt.Sprintf("%s: %s", got.Action, got.Rule); text != test.want {
			t.Errorf("level %s, mode %s: %s, want %s", test.level, test.mode, text, test.want)
		}
	}
}

// TestOwnLoopback: what the session itself serves is used without a question, but for
// plans; rules have their say all the same.
func TestOwnLoopback(t *testing.T) {
	deny := must("version: 1\nrules: [{name: not-there, action: deny, hosts: [localhost]}]")
	for _, test := range []struct {
		policy *policy.Policy
		mode   tools.Mode
		own    bool
		want   string
	}{
		{policy.Builtin(), tools.ModeAsk, true, "allow: own loopback"},
		{policy.Builtin(), tools.ModeAcceptEdits, true, "allow: own loopback"},
		{policy.Builtin(), tools.ModePlan, true, "deny: mode plan"},
		{policy.Builtin(), tools.ModeDeny, true, "deny: mode deny"},
		{policy.Builtin(), tools.ModeAsk, false, "ask: mode ask"},
		{deny, tools.ModeAllow, true, "deny: rule not-there"},
	} {
		spec := &tools.Spec{Name: "browser", Level: tools.WorkspaceWrite, LeastLevel: tools.ReadOnly}
		effects := []tools.Effect{{Kind: tools.ReachesHost, Host: "localhost", Port: 3000, Own: test.own}}
		got := test.policy.Decide(&policy.Subject{Spec: spec, Level: tools.WorkspaceWrite, Mode: test.mode, Effects: effects, Workspace: "/work"}, nil)
		if text := fmt.Sprintf("%s: %s", got.Action, got.Rule); text != test.want {
			t.Errorf("own %t, mode %s: %s, want %s", test.own, test.mode, text, test.want)
		}
	}
}
