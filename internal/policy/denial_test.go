// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestDeniedReads: what a rule denies is kept from commands, or they ask.
func TestDeniedReads(t *testing.T) {
	p := must(`version: 1
rules:
- {name: fine, action: allow, reads: [keys/public/]}
- {name: asks, action: ask, reads: [.env]}
- {name: keys, action: deny, reads: [keys/, '*.pem'], writes: [locked/]}
- {name: odd, action: deny, reads: [odd/], when: 'effect.path.contains("large") && has(input.x)'}
- {name: bob, action: deny, principals: [bob], reads: [mine/]}
`)
	c := contained(t, tools.ModeAllow, "runs make")
	denied := p.Decide(c, nil).Rights.Deny
	for path, want := range map[string]bool{
		"keys": true, "keys/a": true, "KEYS/a": true, "keys/public": false, "keys/public/x": false, "a/b.pem": true,
		".env": false, "src": false, ".": false, "mine/x": false, "odd/x": false, "odd/large": false, "locked/x": false,
	} {
		if got := denied.Denies(path); got != want {
			t.Errorf("%s is denied: %t", path, got)
		}
	}
	c.Input = []byte(`{"x": 1}`)
	if !p.Decide(c, nil).Rights.Deny.Denies("odd/large") || p.Decide(c, nil).Rights.Deny.Denies("odd/small") {
		t.Error("a rule does not count by its condition")
	}
	for text, want := range map[string]bool{
		"version: 1\n": false,
		"version: 1\nrules: [{name: a, action: ask, reads: [x]}]\n":                           false,
		"version: 1\nrules: [{name: a, action: deny, writes: [x]}]\n":                         false,
		"version: 1\nrules: [{name: a, action: deny, tools: [other], reads: [x]}]\n":          false,
		"version: 1\nrules: [{name: a, action: deny, network: [open], reads: [x]}]\n":         false,
		"version: 1\nrules: [{name: a, action: deny, when: 'effect.program == \"x\"'}]\n":     false,
		"version: 1\nrules: [{name: a, action: deny, when: 'effect.path.contains(\"x\")'}]\n": true,
		"version: 1\nrules: [{name: a, action: deny, reads: [x]}]\n":                          true,
	} {
		p := must(text)
		first, again := p.Decide(c, nil).Rights.Deny, p.Decide(c, nil).Rights.Deny
		if got := first != nil; got != want {
			t.Errorf("%s denies something: %t", text, got)
		}
		if strings.Contains(text, "when:") == (first == again) && want {
			t.Errorf("%s: equal is %t", text, first == again)
		}
	}
	// Where it is kept, nobody is asked; where it is not, only about what is there.
	for effects, want := range map[string]string{
		"runs make":                       "allow: mode allow, ask: denied files, allow: mode allow",
		"unclear runs python3 -c x":       "allow: contained, ask: unclear, allow: contained",
		"malformed runs echo":             "allow: malformed, ask: unclear, allow: malformed",
		"looks grep; tree reads .":        "allow: read_only, ask: rule keys, ask: rule keys",
		"looks cat; glob reads *":         "allow: read_only, ask: rule keys, ask: rule keys",
		"looks cat; reads keys/a":         "deny: rule keys, deny: rule keys, deny: rule keys",
		"looks cat; reads a":              "allow: read_only, allow: read_only, allow: read_only",
		"rooted tree reads .":             "ask: rule keys, ask: rule keys, ask: rule keys",
		"looks grep; tree reads /usr":     "ask: rule keys, ask: rule keys, ask: rule keys",
		"looks git; stored tree reads .":  "ask: rule keys, ask: rule keys, ask: rule keys", // no jail hides that
		"looks git; stored reads a":       "allow: read_only, allow: read_only, allow: read_only",
		"looks git; stored reads .env":    "ask: rule asks, ask: rule asks, ask: rule asks",
		"told runs touch; writes a":       "allow: mode allow, allow: mode allow, allow: mode allow",
		"told runs cp; tree writes build": "ask: rule keys, ask: rule keys, ask: rule keys",
	} {
		for i, want := range strings.Split(want, ", ") {
			t.Run(fmt.Sprint(effects, i), func(t *testing.T) {
				c := contained(t, tools.ModeAllow, effects)
				c.Offer.Covers = i == 0
				c.DeniedThere = func(d tools.Denial) bool { return i == 1 && d.Denies("keys") }
				decided(t, p, c, want)
			})
		}
	}
	c = contained(t, tools.ModeAllow, "runs make")
	c.Offer.Covers = false
	check(t, p.Decide(c, nil), "ask") // nobody knows what is there
	check(t, must("version: 1\nrules:\n- {name: k, action: deny, reads: [x]}\n- {name: m, action: allow, commands: [make]}\n").Decide(c, nil), "allow")
}

// TestDenyingNeverLoosens adds a rule that denies to random policies: no verdict
// is milder for it, and no jail wider, whatever the sandbox offers.
func TestDenyingNeverLoosens(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	path := func() string {
		return pick("src", "keys", "node_modules", ".git", "/etc", "/tmp", "/usr", "locked") + pick("", "/a", "/b.pem", "/*")
	}
	effect := func() string {
		switch random.IntN(6) {
		case 0:
			return pick("", "tree ", "stored tree ", "glob ", "unclear ", "rooted ") + "reads " + path()
		case 1:
			return pick("", "tree ", "glob ", "unclear ", "rooted ", "looked tree ") + "writes " + path()
		case 2:
			return "removes " + path()
		case 3:
			return pick("", "told ", "unclear ", "malformed ") + "runs " + pick("git push", "make", "python3 -c x", "rm -rf x")
		case 4:
			return pick("", "unclear ") + "reaches " + pick("localhost 80", "example.com 443")
		}
		return pick("looks ls", "uses other", "somewhere")
	}
	rule := func(name, action string) string {
		about := pick("reads: [keys/]", "reads: ['*.pem']", "writes: [src/]", "paths: [locked/]", "commands: [git push]", "commands: [python3]",
			"hosts: [example.com]", "hosts: ['*']", "reads: [src/], when: 'effect.path.contains(\"a\")'", "tools: ['*'], network: [open]")
		if action == "allow" && strings.HasPrefix(about, "commands") {
			about += ", unclear: " + pick("contained", "ask", "deny")
		}
		return "- {name: " + name + ", action: " + action + ", " + about + "}\n"
	}
	for range soaktest.Times(500, 50_000) {
		head := "version: 1\n" + pick("", "unclear: contained\n", "unclear: ask\n", "unclear: deny\n") + pick("", "protected: [locked/]\n") + "rules:\n"
		var rules []string
		for i := range 1 + random.IntN(3) {
			rules = append(rules, rule(fmt.Sprint("r", i), pick("allow", "ask")))
		}
		before := must(head + strings.Join(rules, ""))
		at := random.IntN(len(rules) + 1)
		after := must(head + strings.Join(slices.Insert(rules, at, rule("deny", "deny")), ""))
		var list []string
		for range 1 + random.IntN(3) {
			list = append(list, effect())
		}
		c := contained(t, tools.Mode(1+random.IntN(5)), strings.Join(list, "; "))
		c.Level, c.Network = tools.Level(1+random.IntN(3)), tools.Network(random.IntN(5))
		c.Offer.Holds, c.Offer.Covers = random.IntN(3) > 0, random.IntN(2) > 0
		first, then := before.Decide(c, nil), after.Decide(c, nil)
		if then.Action > first.Action || then.Action == first.Action && then.Action != policy.Deny && jail(then.Rights) != jail(first.Rights) {
			t.Fatalf("%q: %+v %s became %+v %s by %q before %d of %q", list, first.Verdict, jail(first.Rights), then.Verdict, jail(then.Rights), rules, at, head)
		}
	}
}

// TestHookDenial: what commands of hooks do not read. What is denied to one tool is denied to
// them, what is allowed to one is not, and what a person would be asked about is kept from
// them unless unclear commands run unasked.
func TestHookDenial(t *testing.T) {
	p := must(`version: 1
rules:
- {name: fine, action: allow, reads: [keys/public/]}
- {name: one, action: allow, tools: [read_file], reads: [keys/one/]}
- {name: asks, action: ask, reads: [.env]}
- {name: keys, action: deny, reads: [keys/]}
- {name: tool, action: deny, tools: [read_file], reads: [tool/]}
- {name: bob, action: deny, principals: [bob], reads: [mine/]}
- {name: writes, action: deny, writes: [locked/]}
`)
	for _, test := range []struct {
		mode  tools.Mode
		path  string
		wants bool
	}{
		{tools.ModeAllow, "keys/a", true}, {tools.ModeAllow, "keys/public/x", false}, {tools.ModeAllow, "keys/one/x", true},
		{tools.ModeAllow, "tool/x", true}, {tools.ModeAllow, "mine/x", false}, {tools.ModeAllow, "locked/x", false}, {tools.ModeAllow, "src/x", false},
		{tools.ModeAllow, ".env", false}, {tools.ModeAsk, ".env", true}, {tools.ModeAsk, "keys/a", true}, {tools.ModeAsk, "src/x", false},
	} {
		c := contained(t, test.mode, "runs make")
		denial := p.HookDenial(c)
		if got := denial != nil && denial.Denies(test.path); got != test.wants {
			t.Errorf("mode %s: %s is denied: %t", test.mode, test.path, got)
		}
	}
	c := contained(t, tools.ModeAllow, "runs make")
	if must("version: 1\n").HookDenial(c) != nil || (*policy.Policy)(nil).HookDenial(c) != nil {
		t.Error("something is denied where no rule says so")
	}
}
