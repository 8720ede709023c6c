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

// contained is a call in a session whose commands a sandbox confines, with a
// loopback of its own.
func contained(t *testing.T, mode tools.Mode, effects string) *policy.Subject {
	t.Helper()
	c := call(tools.WorkspaceWrite, mode, tools.ReadOnly, parseEffects(t, effects))
	c.Network = tools.NetworkLoopback
	c.Temp = func() string { return "/var/session/tmp" }
	c.Offer = &tools.Offer{
		Holds: true, Covers: true, Network: tools.NetworkOpen, Readable: []string{"/usr", "/etc/os-release"}, Temporary: []string{"/tmp"},
	}
	return c
}

// jail writes rights as the tables below do.
func jail(r tools.Rights) string {
	text := r.Confinement.String()
	if len(r.Write) > 0 {
		text += " w:" + strings.Join(r.Write, ",")
	}
	if len(r.Read) > 0 {
		text += " r:" + strings.Join(r.Read, ",")
	}
	if r.Network != tools.NetworkNone {
		text += " " + r.Network.String()
	}
	if len(r.Hosts) > 0 {
		text += " h:" + strings.Join(r.Hosts, ",")
	}
	return text
}

// decided compares a decision with an action and the rule that decided, and its
// rights with a jail, which are separated by " | ".
func decided(t *testing.T, p *policy.Policy, c *policy.Subject, want string) {
	t.Helper()
	got := p.Decide(c, nil)
	verdict, rights, _ := strings.Cut(want, " | ")
	action, rule, named := strings.Cut(verdict, ": ")
	check(t, got, action)
	if named && got.Rule != rule {
		t.Errorf("by %q (%s), want %q", got.Rule, got.Reason, rule)
	}
	if have := jail(got.Rights); rights != "" && have != rights {
		t.Errorf("the jail is %q, want %q", have, rights)
	}
	if got.Action == policy.Deny && (got.Rights.Confinement != 0 || got.Rights.Network != 0) {
		t.Errorf("a denied call has rights: %+v", got.Rights)
	}
}

// TestRights: the verdict makes the jail.
func TestRights(t *testing.T) {
	for effects, want := range map[string]string{
		"":                                      "allow: read_only | reading",
		"reads a":                               "allow: read_only | reading",
		"looks ls; reads .":                     "allow | reading",
		"looks cat; unclear reads ":             "allow: contained | reading", // it changes nothing, whatever it reads
		"looks cat; reads /usr/include/stdio.h": "allow | reading",
		"looks cat; reads /etc/os-release":      "allow | reading",
		"looks cat; reads /home/alice/x":        "allow | reading",
		"looks cat; reads /tmp/x":               "allow | reading",
		"looks cat; reads /var/session/tmp/x":   "allow | reading",
		"looks cat; reads /etc/hosts":           "ask: outside | reading r:/etc/hosts",
		"looks grep; tree reads /var/log; reads /var/log/x":    "ask | reading r:/var/log",
		"looks cat; glob reads /var/log/*.log":                 "ask | reading r:/var/log",
		"looks echo; writes a":                                 "allow | named w:.",
		"looks echo; writes src/a":                             "allow | named w:src",
		"told runs sed -i; reads src/a; writes src/a":          "allow | named w:src",
		"told runs touch; writes src/a; writes src/x/b":        "allow | named w:src",
		"told runs touch; writes src/a; writes docs/b":         "allow | named w:docs,src",
		"told runs touch; writes src; writes docs/b":           "allow | named w:.",
		"told runs gofmt; looked glob writes src/**":           "allow | named w:src",
		"told runs chmod; looked tree writes src/gen":          "allow | named w:src/gen",
		"told runs cp; reads a; looked tree writes src/gen":    "allow | named w:src",
		"told runs rm; looked removes build/out":               "allow | named w:build",
		"told runs touch; writes /tmp/x; writes /home/alice/y": "allow | named",
		"told runs touch; writes /var/session/tmp/x":           "allow | named",
		"told runs touch; writes /srv/x":                       "deny: level",
		"runs go test ./...":                                   "allow: mode allow | session loopback",
		"runs make; writes src/a":                              "allow | session loopback",
		"unclear runs python3 -c x":                            "allow: contained | session loopback",
		"looks echo; somewhere":                                "allow: contained | session loopback",
		"runs make; reads /etc/hosts":                          "ask: outside | session r:/etc/hosts loopback",
		"malformed runs echo":                                  "allow: malformed | reading",
		"runs curl; reaches localhost 80":                      "allow | session loopback",
		"told runs curl; reaches 127.0.0.1 80; writes x":       "allow | named w:. loopback",
		"looks ls; uses other":                                 "allow | reading",
	} {
		t.Run(effects, func(t *testing.T) { decided(t, empty, contained(t, tools.ModeAllow, effects), want) })
	}
	// What cannot be written in the session is not opened.
	for effects, want := range map[string]string{
		"runs make":                        "allow: contained | reading",
		"unclear runs python3 -c x":        "allow: contained | reading",
		"looks echo; somewhere":            "allow: contained | reading",
		"runs curl; reaches localhost 80":  "allow: contained | reading loopback",
		"told runs touch; writes a":        "deny",
		"looks echo; writes a":             "deny",
		"looks echo; writes /tmp/a":        "deny",
		"looks echo; glob writes x/*":      "deny",
		"malformed runs echo":              "allow: malformed | reading",
		"looks cat; reads a":               "allow | reading",
		"runs make; reads /etc/hosts":      "ask: outside | reading r:/etc/hosts",
		"told runs mktemp":                 "allow | reading",
		"unclear runs x; writes .git/x":    "deny: protected .git/",
		"unclear runs x; reaches host.com": "deny: network loopback",
	} {
		t.Run("plan/"+effects, func(t *testing.T) { decided(t, empty, contained(t, tools.ModePlan, effects), want) })
		t.Run("read_only/"+effects, func(t *testing.T) {
			for _, mode := range []tools.Mode{tools.ModeAllow, tools.ModeAsk, tools.ModeAcceptEdits} {
				c := contained(t, mode, effects)
				c.Level = tools.ReadOnly
				if mode != tools.ModeAllow && strings.Contains(effects, "reaches localhost") {
					continue // asked about
				}
				decided(t, empty, c, want)
			}
		})
	}
	// Level danger_full_access is real.
	for effects, want := range map[string]string{
		"looks cat; reads /etc/hosts":       "allow | unconfined loopback",
		"told runs touch; writes /srv/x":    "allow | unconfined loopback",
		"unclear runs python3 -c x":         "allow: danger_full_access | unconfined loopback",
		"runs make":                         "allow | unconfined loopback",
		"told runs touch; writes .git/x":    "deny: protected .git/",
		"runs curl; reaches example.com 80": "deny: network loopback",
	} {
		t.Run("danger/"+effects, func(t *testing.T) {
			c := contained(t, tools.ModeAllow, effects)
			c.Level = tools.DangerFullAccess
			decided(t, empty, c, want)
		})
	}
	asks := contained(t, tools.ModeAsk, "looks cat; reads /etc/hosts")
	asks.Level = tools.DangerFullAccess
	decided(t, empty, asks, "allow | reading r:/etc/hosts") // it ran unasked because it reads
	asks.Effects = parseEffects(t, "runs make")
	decided(t, empty, asks, "ask: mode ask | unconfined loopback")
	// What a rule opens outside is opened, and nothing beside it.
	p := must("version: 1\nrules:\n- {name: data, action: allow, writes: [/srv/data/], reads: [/srv/]}\n")
	decided(t, p, contained(t, tools.ModeAllow, "told runs cp; reads /srv/x; writes /srv/data/x; writes a"), "allow | named w:.,/srv/data/x r:/srv/x")
	decided(t, p, contained(t, tools.ModeAllow, "runs make; writes /srv/data/x"), "allow | session w:/srv/data/x loopback")
}

// TestUnclear: what is not understood is not a question by itself.
func TestUnclear(t *testing.T) {
	const code = "unclear runs python3 -c x"
	rule := func(unclear string) *policy.Policy {
		return must("version: 1\nrules:\n- {name: py, action: allow, commands: [python3], unclear: " + unclear + "}\n")
	}
	whole := func(unclear string) *policy.Policy { return must("version: 1\nunclear: " + unclear + "\n") }
	for _, test := range []struct {
		name    string
		policy  *policy.Policy
		effects string
		want    string // in the modes allow, ask, accept_edits and plan
	}{
		{"by mode", empty, code, "allow: contained, ask: mode ask, ask: mode accept_edits, allow: contained"},
		{"by mode, reading", empty, "looks cat; unclear reads ", "allow: contained, ask: unclear, ask: unclear, allow: contained"},
		{"by mode, without a reason", empty, "runs make", "allow: mode allow, ask: mode ask, ask: mode accept_edits, allow: contained"},
		{"contained", whole("contained"), code, "allow: contained, allow: contained, allow: contained, allow: contained"},
		{"contained, without a reason", whole("contained"), "runs make", "allow: mode allow, allow: contained, allow: contained, allow: contained"},
		{"contained, and a change", whole("contained"), code + "; writes a", "allow: contained, ask: mode ask, allow: contained, deny: mode plan"},
		{"contained, outside", whole("contained"), code + "; reads /etc/hosts", "ask: outside, ask: outside, ask: outside, ask: outside"},
		{"ask", whole("ask"), code, "ask: unclear, ask: mode ask, ask: mode accept_edits, ask: unclear"},
		{"ask, without a reason", whole("ask"), "runs make", "allow: mode allow, ask: mode ask, ask: mode accept_edits, ask: unclear"},
		{"deny", whole("deny"), code, "deny: unclear, deny: unclear, deny: unclear, deny: mode plan"},
		{"deny, without a reason", whole("deny"), "runs make", "allow: mode allow, ask: mode ask, ask: mode accept_edits, deny: mode plan"},
		{"a rule", rule("contained"), code, "allow: contained, allow: contained, allow: contained, allow: contained"},
		{"a rule, for others", rule("contained"), "unclear runs perl -e x", "allow: contained, ask: mode ask, ask: mode accept_edits, allow: contained"},
		{"a rule that asks", rule("ask"), code, "ask: unclear, ask: unclear, ask: unclear, ask: unclear"},
		{"a rule that refuses", rule("deny"), code, "deny: unclear, deny: unclear, deny: unclear, deny: unclear"},
		{"malformed", empty, "malformed runs echo", "allow: malformed, allow: malformed, allow: malformed, allow: malformed"},
		{"malformed, where all is refused", whole("deny"), "malformed runs echo", "allow: malformed, allow: malformed, allow: malformed, allow: malformed"},
		{"denied", must("version: 1\nunclear: contained\nrules:\n- {name: d, action: deny, commands: [python3]}\n"), code,
			"deny: rule d, deny: rule d, deny: rule d, deny: rule d"},
		{"asked about", must("version: 1\nrules:\n- {name: d, action: ask, commands: [python3]}\n"), code, "ask: rule d, ask: rule d, ask: rule d, ask: rule d"},
	} {
		for i, want := range strings.Split(test.want, ", ") {
			mode := []tools.Mode{tools.ModeAllow, tools.ModeAsk, tools.ModeAcceptEdits, tools.ModePlan}[i]
			t.Run(test.name+"/"+mode.String(), func(t *testing.T) { decided(t, test.policy, contained(t, mode, test.effects), want) })
		}
		for _, mode := range []tools.Mode{tools.ModeAllow, tools.ModeAsk, tools.ModePlan} {
			t.Run(test.name+"/no sandbox/"+mode.String(), func(t *testing.T) {
				c := contained(t, mode, test.effects)
				c.Offer.Holds = false
				if got := test.policy.Decide(c, nil); got.Action == policy.Allow && !strings.Contains(test.effects, "runs make") {
					t.Errorf("it runs without a jail: %+v", got.Verdict)
				}
			})
		}
	}
	c := contained(t, tools.ModeDeny, "malformed runs echo")
	check(t, empty.Decide(c, nil), "deny")
	for text, want := range map[string]string{
		"unclear: perhaps": "want contained, ask or deny",
		"rules: [{name: a, action: deny, commands: [x], unclear: ask}]":      "allows commands",
		"rules: [{name: a, action: allow, reads: [x], unclear: contained}]":  "allows commands",
		"rules: [{name: a, action: allow, commands: [x], network: [far]}]":   "want none, loopback, hosts or open",
		"rules: [{name: a, action: allow, commands: [x], network: []}]":      "is empty",
		"rules: [{name: a, action: allow, commands: [x], network: [unset]}]": "want none, loopback, hosts or open",
	} {
		if _, err := policy.Parse("p.yaml", []byte("version: 1\n"+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is contained is not what nobody runs in a jail.
func TestContainedIsJailed(t *testing.T) {
	c := contained(t, tools.ModeAllow, "unclear rooted tree writes a")
	check(t, empty.Decide(c, nil), "ask") // a tool that writes files itself
	c = contained(t, tools.ModeAllow, "unclear runs x")
	c.Spec = &tools.Spec{Name: "far", Level: tools.ReadOnly, Kind: tools.MCP, Server: "hub"}
	check(t, empty.Decide(c, nil), "ask")
	c = contained(t, tools.ModeAllow, "unclear uses other")
	c.Effects[0].Unclear = ""
	check(t, empty.Decide(c, nil), "allow")
}

// TestAcceptEdits: understood commands that write in the workspace are edits.
func TestAcceptEdits(t *testing.T) {
	for effects, want := range map[string]string{
		"told runs mkdir; writes a/b":                        "allow: mode accept_edits | named w:a",
		"told runs mv; reads a; writes a; writes b":          "allow | named w:.",
		"told runs touch; writes /tmp/x":                     "allow | named",
		"told runs touch; writes /home/alice/x":              "allow | named",
		"told runs gofmt; glob writes **":                    "allow | named w:.",
		"looks echo; writes a":                               "allow | named w:.",
		"told runs touch; writes /srv/x":                     "deny: level",
		"told runs touch; writes .git/x":                     "deny: protected .git/",
		"told runs touch; unclear writes a":                  "ask: unclear",
		"told runs touch; writes a; runs make":               "ask: mode accept_edits",
		"told runs touch; writes a; unclear runs python3 -c": "ask: mode accept_edits",
		"told runs curl; reaches localhost 80":               "ask: mode accept_edits",
	} {
		t.Run(effects, func(t *testing.T) { decided(t, empty, contained(t, tools.ModeAcceptEdits, effects), want) })
	}
	for effects, want := range map[string]string{
		"told runs mkdir; writes a/b": "ask: mode ask | named w:a",
		"looks ls; reads .":           "allow: read_only | reading",
	} {
		t.Run("ask/"+effects, func(t *testing.T) { decided(t, empty, contained(t, tools.ModeAsk, effects), want) })
	}
}

// TestOwnPlaces: what every command may read, tools that read files may read.
func TestOwnPlaces(t *testing.T) {
	for effects, want := range map[string]string{
		"rooted reads /usr/include/stdio.h": "allow: read_only",
		"rooted reads /etc/os-release":      "allow: read_only",
		"rooted reads /tmp/x":               "allow: read_only",
		"rooted reads /home/alice/x":        "allow: read_only",
		"rooted reads /etc/hosts":           "deny: workspace",
		"rooted reads /usrx":                "deny: workspace",
		"rooted writes /tmp/x":              "deny: workspace",
		"rooted writes /usr/x":              "deny: workspace",
		"writes /tmp/x":                     "allow: mode allow",
		"writes /tmp/../etc/x":              "deny: level",
		"glob reads /usr/{a,../etc/shadow}": "allow: contained", // kept by its jail
	} {
		t.Run(effects, func(t *testing.T) { decided(t, empty, contained(t, tools.ModeAllow, effects), want) })
	}
	p := must("version: 1\nrules:\n- {name: s, action: deny, reads: [/usr/secret/]}\n")
	decided(t, p, contained(t, tools.ModeAllow, "rooted reads /usr/secret/x"), "deny: rule s")
}

// TestPlanting: nothing is planted that runs later, and the repository of the
// workspace is not destroyed.
func TestPlanting(t *testing.T) {
	p := must("version: 1\nprotected: [infra/prod/]\n")
	for effects, want := range map[string]string{
		"told runs rm; removes node_modules":            "allow",
		"told runs rm; removes pkg/node_modules":        "allow",
		"told runs rm; removes node_modules/x/y":        "allow",
		"told runs rm; removes clone1":                  "allow",
		"told runs rm; removes clone1/.git":             "allow",
		"told runs rm; removes clone1/.git/hooks":       "deny: protected .git/",
		"told runs rm; removes .git":                    "deny: protected .git/",
		"told runs rm; removes .GIT":                    "deny: protected .git/",
		"told runs rm; removes .git/hooks":              "deny: protected .git/",
		"told runs rm; removes /work/ws/.git":           "deny: protected .git/",
		"told runs rm; removes .husky":                  "deny: protected .husky/",
		"told runs rm; removes .":                       "deny: protected .git/",
		"told runs rm; removes /work":                   "deny: protected .git/",
		"told runs rm; removes infra":                   "deny: protected infra/prod/",
		"told runs rm; removes infra/prod/x":            "deny: protected infra/prod/",
		"looks echo; writes node_modules/y.js":          "deny: protected node_modules/",
		"told runs cp; reads x; writes .git/hooks/x":    "deny: protected .git/",
		"told runs cp; reads x; writes clone1/.git/x":   "deny: protected .git/",
		"told runs cp; tree writes node_modules":        "deny: protected node_modules/",
		"runs chmod; tree writes .":                     "deny: protected infra/prod/",
		"told runs tee; glob writes .husky/*":           "deny: protected .husky/",
		"told runs gofmt; glob writes **":               "allow",
		"unclear runs tar; glob writes **":              "allow: contained",
		"unclear runs tar; glob writes infra/**":        "allow: contained",
		"runs git commit":                               "allow",
		"told runs rm; removes infra/../node_modules/x": "allow",
	} {
		t.Run(effects, func(t *testing.T) { decided(t, p, contained(t, tools.ModeAllow, effects), want) })
	}
	decided(t, empty, contained(t, tools.ModeAllow, "runs chmod; tree writes ."), "allow")
	for _, path := range []string{"node_modules", "clone1/.git", "pkg/node_modules/x"} {
		c := contained(t, tools.ModeAllow, "")
		c.Effects = []tools.Effect{{Kind: tools.WritesPath, Path: path, Tree: true, Removes: true, Rooted: true}}
		check(t, empty.Decide(c, nil), "deny") // tools that write files never do there
	}
	for _, workspace := range []string{"/work/ws/.git", "/work/ws/.git/hooks", "/work/.GIT/x"} {
		for effects, want := range map[string]string{
			"rooted writes a": "deny: workspace", "looks echo; writes a": "deny: workspace", "told runs rm; removes a": "deny: workspace",
			"reads a": "allow", "runs make": "allow: contained | reading", "looks ls": "allow",
		} {
			c := contained(t, tools.ModeAllow, effects)
			c.Workspace = workspace
			decided(t, empty, c, want)
			c.Level = tools.DangerFullAccess
			decided(t, empty, c, want)
		}
	}
}

// TestCodeTiers: whoever trusts code trusts any, and the jail stays what it was.
func TestCodeTiers(t *testing.T) {
	labels := func(c *policy.Subject) string {
		var list []string
		d := empty.Decide(c, nil)
		for _, tier := range empty.Tiers(c, d) {
			list = append(list, tier.Label)
			allowed := empty.Decide(c, []policy.Grant{grantOf(c, policy.Allow, tier)})
			check(t, allowed, "allow")
			if jail(allowed.Rights) != jail(d.Rights) {
				t.Errorf("%s: the jail is %s, and was %s", tier.Label, jail(allowed.Rights), jail(d.Rights))
			}
		}
		return strings.Join(list, "|")
	}
	for effects, want := range map[string]string{
		"unclear runs python3 -c x":                         "this exact call|python3 -c *",
		"unclear runs python3 - x":                          "this exact call|python3 - *",
		"unclear runs node -e x":                            "this exact call|node -e *",
		"unclear runs python3 -c x; looks ls":               "this exact call|python3 -c *",
		"unclear runs python3 -c x; writes a":               "this exact call",
		"unclear runs bash -c x":                            "this exact call",
		"unclear runs git pull $?":                          "this exact call",
		"unclear runs python3 $?":                           "this exact call",
		"unclear runs ./python3 -c x":                       "this exact call",
		"runs python3 x.py":                                 "this exact call",
		"unclear runs python3 -c x; unclear runs perl -e y": "this exact call",
	} {
		t.Run(effects, func(t *testing.T) {
			if got := labels(contained(t, tools.ModeAsk, effects)); got != want {
				t.Errorf("%s is offered, want %s", got, want)
			}
		})
	}
	c := contained(t, tools.ModeAsk, "unclear runs python3 $?")
	c.Spec = &tools.Spec{Name: "repl", Level: tools.ReadOnly, RunsCode: true}
	if got := labels(c); got != "this exact call|every call of repl" {
		t.Errorf("%s is offered for a REPL", got)
	}
	c.Offer.Holds = false
	if got := labels(c); got != "this exact call" {
		t.Errorf("%s is offered where nothing holds", got)
	}
	// Trust in code is no trust in the rest of a command.
	grant := policy.Tier{Kind: policy.TierCommand, Pattern: "python3 -c"}
	for effects, want := range map[string]string{
		"unclear runs python3 -c other": "allow", "unclear runs python3 x": "ask", "unclear runs python3 -c x; writes a": "ask",
		"unclear runs python3 -c x; reads /etc/hosts": "ask", "unclear runs ./python3 -c x": "ask",
	} {
		c := contained(t, tools.ModeAsk, effects)
		check(t, empty.Decide(c, []policy.Grant{grantOf(c, policy.Allow, grant)}), want)
	}
	c = contained(t, tools.ModeAsk, "unclear runs git pull $?")
	check(t, empty.Decide(c, []policy.Grant{grantOf(c, policy.Allow, policy.Tier{Kind: policy.TierCommand, Pattern: "git pull"})}), "ask")
}

// TestDeniedByAbsolutePaths: what a rule denies to read by its path from / is kept
// from commands where it lies in the workspace, and where it does not, a command
// that is not understood asks: nothing is covered there.
func TestDeniedByAbsolutePaths(t *testing.T) {
	for pattern, test := range map[string]struct{ want, denied string }{
		"/work/ws/secret/":       {"allow: contained", "secret/x"},
		"/work/ws/*.pem":         {"allow: contained", "key.pem"},
		"secret/":                {"allow: contained", "secret/x"},
		"/srv/data/key":          {"ask", ""},
		"/usr/share/secret/":     {"ask", ""},
		"/work/other/":           {"ask", ""},
		"/work/*/secret/":        {"ask", "secret/x"},
		"/**/secret/":            {"ask", "secret/x"},
		"{/work/ws,/srv}/secret": {"ask", "secret/x"},
	} {
		t.Run(pattern, func(t *testing.T) {
			p := must(fmt.Sprintf("version: 1\nrules:\n- {name: s, action: deny, reads: [%q]}\n", pattern))
			c := contained(t, tools.ModeAllow, "unclear runs python3 -c x")
			decided(t, p, c, test.want)
			denied := p.Decide(c, nil).Rights.Deny
			if denied == nil {
				t.Fatal("the jail knows nothing of it")
			}
			for _, path := range []string{"secret/x", "key.pem", "src/x"} {
				if got := denied.Denies(path); got != (path == test.denied) {
					t.Errorf("%s is kept from commands: %t, want %t", path, got, !got)
				}
			}
		})
	}
}
