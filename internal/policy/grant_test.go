// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func grantOf(c *policy.Subject, action policy.Action, tier policy.Tier) policy.Grant {
	return policy.Grant{ID: "7f3", Action: action, Tool: c.Spec.Name, Tier: tier}
}

func parseEffects(t *testing.T, text string) []tools.Effect {
	t.Helper()
	var list []tools.Effect
	for part := range strings.SplitSeq(text, "; ") {
		if part != "" {
			list = append(list, parseEffect(t, part))
		}
	}
	return list
}

const grantPolicy = `
version: 1
protected: [locked/]
rules:
  - {name: deny, action: deny, paths: [secret/], commands: [git push]}
  - {name: ask, action: ask, paths: [config/], commands: [git fetch]}
  - {name: narrow, action: ask, paths: [.token]}
`

func TestTiers(t *testing.T) {
	p := must(grantPolicy)
	for effect, want := range map[string]string{
		"writes src/api/a.go":                         "this exact call|writing src/api/a.go|writing everything below src/api/",
		"writes a.go":                                 "this exact call|writing a.go",
		"reads config/a":                              "this exact call|reading config/a|reading everything below config/",
		"reads config/a; writes config/b":             "this exact call|writing everything below config/",
		"writes src/x/a; writes src/y/b":              "this exact call|writing everything below src/",
		"writes a/b; writes c/d":                      "this exact call",
		"tree writes src/gen":                         "this exact call",
		"tree writes build":                           "this exact call",
		"reads /etc/hosts":                            "this exact call|reading /etc/hosts",
		"reads /etc/nginx/x.conf":                     "this exact call|reading /etc/nginx/x.conf",
		"reads /etc/nginx/conf.d/x.conf":              "this exact call|reading /etc/nginx/conf.d/x.conf|reading everything below /etc/nginx/conf.d/",
		"reads /root/x/y":                             "this exact call|reading /root/x/y",
		"reads /home/bob/x":                           "this exact call|reading /home/bob/x",
		"reads /home/bob/notes/x":                     "this exact call|reading /home/bob/notes/x|reading everything below /home/bob/notes/",
		"reads /work/x":                               "this exact call|reading /work/x",
		"glob writes src/a?.go":                       "this exact call|writing everything below src/",
		"runs git pull origin":                        "this exact call|git pull *|git *",
		"runs git fetch":                              "this exact call|git fetch *", // git is more than the rule asks about
		"runs git -C x pull":                          "this exact call|git *",
		"runs npm run build":                          "this exact call|npm run build *",
		"runs npm run":                                "this exact call",
		"runs npm exec x":                             "this exact call",
		"runs npm install left-pad":                   "this exact call|npm install *",
		"runs go test ./...":                          "this exact call|go test *",
		"runs go run x":                               "this exact call",
		"runs touch x":                                "this exact call|touch *",
		"runs touch x; writes x":                      "this exact call",
		"runs touch x; looks ls":                      "this exact call|touch *",
		"runs git pull; runs git fetch":               "this exact call",
		"runs bash -c x":                              "this exact call",
		"runs python3.12 x.py":                        "this exact call",
		"runs sudo ls":                                "this exact call",
		"runs env ls":                                 "this exact call",
		"runs xargs rm":                               "this exact call",
		"runs ./script":                               "this exact call",
		"runs /usr/bin/git pull":                      "this exact call",
		"unclear runs git pull $?":                    "this exact call",
		"runs $? pull":                                "this exact call",
		"reaches example.com 443":                     "this exact call",
		"":                                            "this exact call|every call of tool",
		"uses other":                                  "this exact call",
		"changes allow":                               "this exact call",
		"glob writes *":                               "",
		"writes src/a; glob writes src/../loc*/x":     "",
		"glob reads s*/a":                             "this exact call",
		"unclear reads a":                             "this exact call",
		"writes secret/a":                             "",
		"reads a":                                     "",
		"writes src/a as linked":                      "this exact call|writing src/a|writing everything below src/",
		"reads /var/data/x/y.txt; writes config/f.go": "this exact call",
	} {
		t.Run(effect, func(t *testing.T) {
			c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, parseEffects(t, effect))
			d := p.Decide(c, nil)
			var labels []string
			for _, tier := range p.Tiers(c, d) {
				labels = append(labels, tier.Label)
				check(t, p.Decide(c, []policy.Grant{grantOf(c, policy.Allow, tier)}), "allow")
			}
			if got := strings.Join(labels, "|"); got != want {
				t.Errorf("%s is offered, want %s (%v)", got, want, d.Verdict)
			}
		})
	}
}

// TestGrants has what a grant allows or denies besides the call it was given for.
func TestGrants(t *testing.T) {
	p := must(grantPolicy)
	for _, test := range []struct {
		action policy.Action
		tier   policy.Tier
		cases  []ruleCase
	}{
		{policy.Allow, policy.Tier{Kind: policy.TierCommand, Pattern: "git pull"}, []ruleCase{
			{"runs git pull --rebase", "allow: grant 7f3"},
			{"runs /usr/bin/git pull", "allow"},
			{"runs git -C x pull", "ask"}, {"runs git pullx", "ask"}, {"runs ./git pull", "ask"}, {"runs git", "ask"},
			{"unclear runs git pull $?", "ask"},
			{"runs git pull; runs touch x", "ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierProgram, Pattern: "git"}, []ruleCase{
			{"runs git commit", "allow"}, {"runs git fetch", "ask: rule ask"}, // it says nothing about what the rule asks
			{"runs git push", "deny: rule deny"}, // a deny rule beats it
			{"runs gitk", "ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierCommand, Pattern: "git fetch"}, []ruleCase{
			{"runs git fetch --all", "allow: grant 7f3"}, // satisfies an ask rule
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierDirectory, Pattern: "src", Effect: tools.WritesPath}, []ruleCase{
			{"reads src/x", "allow: read_only"}, {"reads src/.token", "ask: rule narrow"}, {"writes src/.token", "ask: rule narrow"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierFile, Pattern: "src/.token", Effect: tools.WritesPath}, []ruleCase{
			{"reads src/.token", "allow: grant 7f3"}, {"writes src/.token", "allow: grant 7f3"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierDirectory, Pattern: "config/sub", Effect: tools.WritesPath}, []ruleCase{
			{"writes config/sub/a", "allow: grant 7f3"}, {"writes config/a", "ask: rule ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierTool}, []ruleCase{{"runs git fetch", "ask: rule ask"}, {"writes config/a", "ask: rule ask"}}},
		{policy.Deny, policy.Tier{Kind: policy.TierCommand, Pattern: "git pull"}, []ruleCase{
			{"runs git pull", "deny: grant 7f3"}, {"runs git -C x pull", "deny"}, {"runs ./git pull", "deny"},
			{"looks git pull", "deny"}, {"runs git fetch", "ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierFile, Pattern: "src/a", Effect: tools.WritesPath}, []ruleCase{
			{"writes src/a", "allow: grant 7f3"}, {"writes ./src/a", "allow"}, {"writes src/b", "ask"}, {"writes src/a/b", "ask"},
			{"tree writes src/a", "ask"}, {"writes b as src/a", "ask"}, {"writes /work/ws/src/a", "allow"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierFile, Pattern: "config/a", Effect: tools.ReadsPath}, []ruleCase{
			{"reads config/a", "allow: grant 7f3"}, {"writes config/a", "ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierDirectory, Pattern: "src", Effect: tools.WritesPath}, []ruleCase{
			{"writes src/a", "allow"}, {"tree writes src/sub", "ask: rule deny"}, {"writes src", "allow"}, {"writes srcx", "ask"}, {"writes src/../b", "ask"},
			{"writes src/.git/config", "deny: protected .git/"}, {"writes src/secret/x", "deny: rule deny"},
			{"unclear writes src/a", "ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierDirectory, Pattern: "/var/data", Effect: tools.ReadsPath}, []ruleCase{
			{"reads /var/data/x", "allow"}, {"reads /var/database", "ask"}, {"reads ../../var/data/x", "allow"},
		}},
		{policy.Deny, policy.Tier{Kind: policy.TierFile, Pattern: "src/a", Effect: tools.WritesPath}, []ruleCase{
			{"writes src/a", "deny: grant 7f3"}, {"writes src/A", "deny"}, {"writes b as src/a", "deny"}, {"tree writes src", "deny"},
			{"glob writes src/?", "deny"}, {"glob writes src/??", "ask"}, {"reads src/a", "allow"}, {"writes src/b", "ask"},
		}},
		{policy.Deny, policy.Tier{Kind: policy.TierDirectory, Pattern: "/var/data", Effect: tools.ReadsPath}, []ruleCase{
			{"reads /var/data/x", "deny"}, {"tree reads /var", "deny"}, {"glob reads /var/*/x", "deny"}, {"reads /var/log", "ask"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierTool}, []ruleCase{
			{"writes x", "allow"}, {"runs x", "allow"}, {"unclear runs x", "ask"}, {"writes .git/x", "deny"}, {"writes /tmp/x", "deny: level"},
		}},
		{policy.Allow, policy.Tier{Kind: policy.TierCall, Pattern: strings.Repeat("00", 32)}, []ruleCase{{"writes x", "ask"}}},
		{policy.Allow, policy.Tier{Kind: policy.TierCall, Pattern: "01" + strings.Repeat("00", 31)}, []ruleCase{
			{"writes x", "allow"}, {"unclear runs $?", "allow"}, {"glob writes *", "ask"}, {"runs git push", "deny"},
		}},
		{policy.Allow, policy.Tier{}, []ruleCase{{"writes x", "ask"}}},
		{policy.Ask, policy.Tier{Kind: policy.TierTool}, []ruleCase{{"writes x", "ask: mode ask"}}},
	} {
		for _, one := range test.cases {
			t.Run(test.action.String()+" "+test.tier.Pattern+"/"+one.effect, func(t *testing.T) {
				c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, parseEffects(t, one.effect))
				got := p.Decide(c, []policy.Grant{grantOf(c, test.action, test.tier)})
				action, rule, named := strings.Cut(one.want, ": ")
				check(t, got, action)
				if named && got.Rule != rule {
					t.Errorf("by %q, want %q", got.Rule, rule)
				}
			})
		}
	}
}

// What is allowed is allowed to the tool it was asked for. What is refused is
// refused to all, but for a call and a tool, which are one tool's.
func TestGrantsOfOtherTools(t *testing.T) {
	for _, test := range []struct {
		tier        policy.Tier
		effect      string
		allow, deny string
	}{
		{policy.Tier{Kind: policy.TierCall, Pattern: "01" + strings.Repeat("00", 31)}, "writes a", "ask", "ask"},
		{policy.Tier{Kind: policy.TierFile, Pattern: "a", Effect: tools.WritesPath}, "writes a", "ask", "deny"},
		{policy.Tier{Kind: policy.TierDirectory, Pattern: "a", Effect: tools.WritesPath}, "writes a/b", "ask", "deny"},
		{policy.Tier{Kind: policy.TierCommand, Pattern: "git pull"}, "runs git pull", "ask", "deny"},
		{policy.Tier{Kind: policy.TierProgram, Pattern: "git"}, "runs git pull", "ask", "deny"},
		{policy.Tier{Kind: policy.TierTool}, "writes a", "ask", "ask"},
	} {
		c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, parseEffects(t, test.effect))
		for action, want := range map[policy.Action]string{policy.Allow: test.allow, policy.Deny: test.deny} {
			g := grantOf(c, action, test.tier)
			check(t, empty.Decide(c, []policy.Grant{g}), action.String())
			g.Tool = "other"
			check(t, empty.Decide(c, []policy.Grant{g}), want)
		}
	}
}

// A grant that was given for one file of a home does not open what a rule asks
// about beside it.
func TestGrantsAndSecrets(t *testing.T) {
	p := policy.Builtin()
	for _, file := range []string{"/home/bob/notes.txt", "/home/alice/docs/notes.txt", "/srv/data/x/notes.txt", "/root/a", "/tmp/a", "/Users/bob/a"} {
		c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, toolstest.Reads(file))
		for _, tier := range p.Tiers(c, p.Decide(c, nil)) {
			if tier.Kind == policy.TierCall {
				continue
			}
			grants := []policy.Grant{grantOf(c, policy.Allow, tier)}
			for _, secret := range []string{"/home/alice/.ssh/id_rsa", "/home/alice/docs/.env", "/srv/data/x/y/server.pem", "/root/.ssh/x", "/tmp/.env"} {
				c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, toolstest.Reads(secret))
				if d := p.Decide(c, grants); d.Action != policy.Ask {
					t.Errorf("%q lets %s be read: %+v", tier.Label, secret, d.Verdict)
				}
			}
		}
	}
}

// A grant for a directory says nothing about a condition.
func TestGrantsAndConditions(t *testing.T) {
	p := must("version: 1\nrules:\n- {name: c, action: ask, when: 'effect.path.contains(\"x\")'}\n")
	c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, toolstest.Writes("src/x"))
	grant := func(kind policy.TierKind, pattern string) []policy.Grant {
		return []policy.Grant{grantOf(c, policy.Allow, policy.Tier{Kind: kind, Pattern: pattern, Effect: tools.WritesPath})}
	}
	check(t, p.Decide(c, grant(policy.TierDirectory, "src")), "ask")
	check(t, p.Decide(c, grant(policy.TierFile, "src/x")), "allow")
}

// A grant is for working: plan mode stays plan mode.
func TestGrantsInPlanMode(t *testing.T) {
	p := must(grantPolicy)
	c := call(tools.WorkspaceWrite, tools.ModePlan, tools.WorkspaceWrite, toolstest.Writes("src/a"))
	check(t, p.Decide(c, []policy.Grant{grantOf(c, policy.Allow, policy.Tier{Kind: policy.TierTool})}), "deny")
	c.Effects = toolstest.Reads("/etc/hosts")
	check(t, p.Decide(c, []policy.Grant{grantOf(c, policy.Allow, policy.Tier{Kind: policy.TierTool})}), "allow")
}

// Whatever is offered allows the call it is offered for, and whatever it allows
// is nothing that is denied without it.
func TestTiersAllowWhatTheyAreFor(t *testing.T) {
	p := must(grantPolicy)
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	path := func() string {
		return pick("src", "a", "config", "secret", "/etc", "/home/bob/x", "/work", "~", ".git", "locked") + pick("", "/b", "/b/c", "/../d", "/*.go", "/.env")
	}
	effect := func() string {
		switch random.IntN(5) {
		case 0:
			return pick("", "tree ", "glob ", "unclear ") + "reads " + path()
		case 1, 2:
			return pick("", "tree ", "glob ", "unclear ") + "writes " + path()
		case 3:
			return pick("", "", "unclear ") + "runs " + pick("git", "npm", "touch", "bash", "./x", "/usr/bin/git") + " " + pick("pull", "push", "run x", "-C d pull", "a/b")
		}
		return pick("reaches example.com 1", "uses other", "changes plan", "changes allow", "looks ls")
	}
	offered := 0
	for range soaktest.Times(1_000, 50_000) {
		var list []string
		for range random.IntN(4) {
			list = append(list, effect())
		}
		mode := tools.Mode(1 + random.IntN(5))
		c := call(tools.Level(1+random.IntN(3)), mode, tools.WorkspaceWrite, parseEffects(t, strings.Join(list, "; ")))
		d := p.Decide(c, nil)
		for _, tier := range p.Tiers(c, d) {
			offered++
			if got := p.Decide(c, []policy.Grant{grantOf(c, policy.Allow, tier)}); got.Action != policy.Allow {
				t.Fatalf("%q: %+v is offered and gives %+v", list, tier, got.Verdict)
			}
			if got := p.Decide(c, []policy.Grant{grantOf(c, policy.Deny, tier)}); got.Action != policy.Deny {
				t.Fatalf("%q: never %+v gives %+v", list, tier, got.Verdict)
			}
		}
	}
	if offered == 0 {
		t.Error("nothing was offered")
	}
}

// TestTiersOfToolsFromElsewhere: "always" can mean the tool, and then nothing but that it is
// called.
func TestTiersOfToolsFromElsewhere(t *testing.T) {
	p := must(`{version: 1, rules: [{name: ask, action: ask, commands: [git push]}]}`)
	const name = "files__write"
	own := tools.Effect{Kind: tools.UsesTool, Tool: name}
	program := tools.Effect{Kind: tools.RunsProgram, Program: "./deploy", Argv: []string{"./deploy"}}
	outside := tools.Effect{Kind: tools.ReadsPath, Path: "/etc/hosts"}
	push := tools.Effect{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", "push"}}
	for what, c := range map[string]struct {
		kind    tools.Kind
		effects []tools.Effect
		want    string
	}{
		"mcp":                {tools.MCP, []tools.Effect{own}, "this exact call|every call of files__write"},
		"mcp, a file beside": {tools.MCP, []tools.Effect{own, outside}, "this exact call"},
		"another tool":       {tools.MCP, []tools.Effect{{Kind: tools.UsesTool, Tool: "files__read"}}, "this exact call"},
		"openapi": {tools.OpenAPI, []tools.Effect{{Kind: tools.ReachesHost, Host: "api.example.com", Port: 443, Configured: true}, own},
			"this exact call|every call of files__write"},
		"script":           {tools.Script, []tools.Effect{program}, "this exact call|every call of files__write"},
		"script of a rule": {tools.Script, []tools.Effect{program, push}, "this exact call"},
	} {
		t.Run(what, func(t *testing.T) {
			subject := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, c.effects)
			subject.Spec = &tools.Spec{Name: name, Server: "files", Kind: c.kind, Level: tools.WorkspaceWrite}
			d := p.Decide(subject, nil)
			var labels []string
			for _, tier := range p.Tiers(subject, d) {
				labels = append(labels, tier.Label)
				grants := []policy.Grant{grantOf(subject, policy.Allow, tier)}
				check(t, p.Decide(subject, grants), "allow")
				if tier.Kind == policy.TierTool {
					other := *subject
					other.Effects = append(c.effects[:len(c.effects):len(c.effects)], outside)
					check(t, p.Decide(&other, grants), "ask")
				}
			}
			if got := strings.Join(labels, "|"); got != c.want {
				t.Errorf("%s is offered, want %s (%v)", got, c.want, d.Verdict)
			}
		})
	}
}

// TestRulesAboutToolsThatAreMade: a rule about all tools that agents make is about making
// one.
func TestRulesAboutToolsThatAreMade(t *testing.T) {
	for pattern, want := range map[string]string{
		"@dynamic": "deny", "@dynamic/deploy*": "deny", "dynamic__deploy*": "deny",
		"@dynamic/other": "ask", "@builtin/dynamic__x": "ask", "@mcp": "ask",
	} {
		p := must(`{version: 1, rules: [{name: made, action: deny, uses: ["` + pattern + `"]}]}`)
		c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, []tools.Effect{{Kind: tools.UsesTool, Tool: "dynamic__deploy_it"}})
		c.Spec = &tools.Spec{Name: "tool_create", Level: tools.WorkspaceWrite}
		t.Run(pattern, func(t *testing.T) { check(t, p.Decide(c, nil), want) })
	}
}
