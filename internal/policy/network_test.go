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
