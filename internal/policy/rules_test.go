// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// ruleCase is a call and what a policy says of it.
type ruleCase struct {
	effect string // as parseEffect reads it
	want   string // action, and the rule if it matters
}

// parseEffect reads an effect such as "reads src/a", "runs git push" or
// "reaches example.com:443". Words before the verb are flags.
func parseEffect(t *testing.T, text string) tools.Effect {
	t.Helper()
	var e tools.Effect
	words := strings.Fields(text)
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		rest := strings.Join(words, " ")
		switch word {
		case "tree":
			e.Tree = true
		case "stored":
			e.Stored = true
		case "glob":
			e.Glob = true
		case "looked":
			e.Examined = true
		case "rooted":
			e.Rooted = true
		case "unclear":
			e.Unclear = "of the test"
		case "malformed":
			e.Malformed, e.Unclear = true, "it does not parse"
		case "removes":
			e.Kind, e.Removes, e.Tree, e.Path = tools.WritesPath, true, true, rest
			return e
		case "told":
			e.Complete = true
		case "somewhere": // writes a file of which nothing is known
			e.Kind, e.Unclear = tools.WritesPath, "which file is meant is not known"
			return e
		case "looks":
			e.ReadOnly, e.Kind, e.Program, e.Argv = true, tools.RunsProgram, words[0], words
			return e
		case "runs":
			e.Kind = tools.RunsProgram
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], "$?", tools.UnknownWord)
			}
			e.Program, e.Argv = words[0], words
			return e
		case "reads", "writes":
			e.Kind = tools.ReadsPath
			if word == "writes" {
				e.Kind = tools.WritesPath
			}
			e.Path, e.Named, _ = strings.Cut(rest, " as ")
			return e
		case "reaches":
			e.Kind, e.Host = tools.ReachesHost, rest
			if i := strings.LastIndexByte(rest, ' '); i >= 0 {
				e.Host = rest[:i]
				fmt.Sscan(rest[i:], &e.Port)
			}
			return e
		case "uses":
			e.Kind, e.Tool = tools.UsesTool, rest
			return e
		case "changes":
			e.Kind, e.Mode = tools.ChangesMode, modes[rest]
			return e
		default:
			t.Fatalf("no effect is written %q", text)
		}
	}
	t.Fatalf("no effect is written %q", text)
	return e
}

// verify judges one effect after the other.
func verify(t *testing.T, p *policy.Policy, mode tools.Mode, cases []ruleCase) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.effect, func(t *testing.T) {
			var list []tools.Effect
			for part := range strings.SplitSeq(test.effect, "; ") {
				list = append(list, parseEffect(t, part))
			}
			got := p.Decide(call(tools.WorkspaceWrite, mode, tools.WorkspaceWrite, list), nil)
			action, rule, named := strings.Cut(test.want, ": ")
			check(t, got, action)
			if named && got.Rule != rule {
				t.Errorf("by %q (%s), want %q", got.Rule, got.Reason, rule)
			}
		})
	}
}

func TestProtected(t *testing.T) {
	p := must("version: 1\nprotected: [infra/prod/, '*.lock', Makefile.d]\nrules:\n- {name: all, action: allow, paths: ['**'], commands: ['*']}\n")
	verify(t, p, tools.ModeAllow, []ruleCase{
		{"writes .git/hooks/pre-commit", "deny: protected .git/"},   // P-085
		{"writes .git/../.git/info/attributes", "deny"},             // P-086
		{"writes .git/hooks/pre-commit as g/hooks/x", "deny"},       // P-087
		{"writes elsewhere as .git/hooks/x", "deny"},                // named
		{"reads evil.sh; writes .git/hooks/post-checkout", "deny"},  // P-088
		{"writes .GIT/config", "deny: protected .git/"},             // P-090
		{"writes \uff0egit/config", "deny: protected .git/"},        // P-091
		{"writes .git./config", "deny: protected .git/"},            // P-092
		{"writes .git /config", "deny"},                             //
		{"writes .g\u200dit/config", "deny"},                        // invisible characters
		{"writes git~1/config", "deny"},                             // a short name
		{"writes .git::$INDEX_ALLOCATION/config", "deny"},           //
		{`writes .git\config`, "deny"},                              //
		{"writes .husky/pre-push", "deny: protected .husky/"},       // P-093
		{"writes sub/.git", "deny"},                                 // P-094
		{"writes node_modules/left-pad/index.js", "deny"},           // P-095
		{"writes a/b/node_modules/x", "deny"},                       //
		{"writes /other/repo/.git/config", "deny: protected .git/"}, // outside
		{"writes /work/ws/.git/config", "deny: protected .git/"},    // absolute inside
		{"writes infra/prod/main.tf", "deny: protected infra/prod/"},
		{"writes INFRA/Prod", "deny: protected infra/prod/"},
		{"writes go.LOCK", "deny: protected *.lock"},
		{"writes sub/makefile.D/x", "deny: protected Makefile.d"},
		{"reads .git/config", "allow"},
		{"runs git commit", "allow"},
		{"writes .gitignore", "allow: rule all"}, // P-203
		{"writes .github/CODEOWNERS", "allow"},
		{"writes .gitattributes", "allow"},
		{"writes git/config", "allow"},
		{"writes infra/production/x", "allow"},
		{"writes u\u0308mlaut-\u65e5\u672c.txt", "allow"}, // P-204
		{"tree writes .", "deny: protected .git/"},
		{"tree writes infra", "deny: protected infra/prod/"},
		{"tree writes /", "deny"},
		{"tree writes /work", "deny"},
		{"tree writes vendor", "allow"},
		{"tree writes infra/dev", "allow"},
		{"glob writes .git/*", "deny"},
		{"glob writes .g*", "deny"},
		{"glob writes .*", "deny"},
		{"glob writes .g[i]t/config", "deny"},
		{"glob writes a/n*_modules/x", "deny"},
		{"glob writes {src,.git}/x", "deny"},
		{"glob writes *.lock", "ask: protected *.lock"},
		{"glob writes infra/p*/x", "ask: protected infra/prod/"},
		{"glob writes *.go", "ask: protected node_modules/"},
		{"glob writes src/*git/x", "allow"}, // a wildcard is no leading dot
		{"looked glob writes *.go", "allow"},
		{"looked glob writes .g*", "deny"},
		{"glob writes *", "ask"},
		{"glob writes [", "ask"},
		{"glob tree writes *", "ask"},
	})
	for path, want := range map[string]bool{
		".git": true, ".GIT/x": true, "a/.git/b": true, "infra/prod": true, "x.lock": true, "a/node_modules": true,
		".": false, ".gitignore": false, "infra": false, "src/a.go": false, "/tmp/x": false,
	} {
		if p.Protected(path) != want {
			t.Errorf("Protected(%q) is %t", path, !want)
		}
	}
	// Nothing lifts it.
	c := call(tools.DangerFullAccess, tools.ModeAllow, tools.WorkspaceWrite, toolstest.Writes(".git/config"))
	check(t, p.Decide(c, []policy.Grant{grantOf(c, policy.Allow, policy.Tier{Kind: policy.TierTool})}), "deny")
}

func TestRules(t *testing.T) {
	p := must(`
version: 1
rules:
  - {name: fine, action: allow, reads: [secrets/public/, /etc/hosts], writes: [docs/, ./top, 'gen/**/*.go', '~/notes/']}
  - {name: secrets, action: deny, paths: [secrets/, .env, /etc/shadow, ~/.ssh, /work/ws/abs/]}
  - {name: careful, action: ask, writes: [config/], reads: ['*.pem'], commands: [make install]}
  - {name: nopush, action: deny, commands: [git push, npm publish, rm]}
  - {name: tests, action: allow, commands: [go test, /opt/tool, "make 'a b'"]}
  - {name: net, action: allow, hosts: [example.com, '*.go.dev:443', 10.0.0.0/8, '[2001:db8::1]:80']}
  - {name: nonet, action: deny, hosts: [evil.example, '*.evil.example', 127.0.0.0/8, '169.254.169.254']}
  - {name: nested, action: deny, uses: [other_*]}
`)
	cases := []ruleCase{
		{"reads secrets/a", "deny: rule secrets"}, // P-161
		{"writes secrets", "deny: rule secrets"},  // P-161
		{"writes sub/secrets/a", "deny: rule secrets"},
		{"reads secrets/public/a", "allow: rule fine"},
		{"reads secrets/public/a as secrets/x", "allow: rule fine"}, // first match
		{"reads secretsx", "allow: read_only"},
		{"reads b.txt as .env", "deny: rule secrets"}, // by a link
		{"reads .ENV", "deny: rule secrets"},
		{"reads .env; writes a.txt", "deny: rule secrets"}, // P-162
		{"reads .environment", "allow"},
		{"reads /root/.env", "deny: rule secrets"}, // anywhere
		{"reads /etc/shadow", "deny: rule secrets"},
		{"reads ../../etc/shadow", "deny: rule secrets"},
		{"reads /etc/hosts", "allow: rule fine"},
		{"reads /etc/hostname", "ask: outside"},
		{"reads /home/alice/.ssh/id", "deny: rule secrets"},
		{"reads /home/bob/.ssh/id", "deny: rule secrets"},
		{"reads /root/.ssh", "deny: rule secrets"},
		{"reads abs/x", "deny: rule secrets"}, // by its absolute path
		{"reads absx", "allow: read_only"},
		{"writes docs/a", "allow: rule fine"},
		{"writes sub/docs/a", "allow: rule fine"},
		{"writes /tmp/docs/a", "deny: level"}, // not anywhere
		{"writes top/a", "allow: rule fine"},
		{"writes sub/top/a", "ask: mode ask"},
		{"writes gen/a.go", "allow: rule fine"},
		{"writes gen/x/y/a.go", "allow: rule fine"},
		{"writes gen/x/y/a.txt", "ask"},
		{"writes /home/alice/notes/a", "allow: rule fine"},
		{"writes /home/bob/notes/a", "deny: level"},
		{"writes DOCS/a", "ask: mode ask"}, // to allow, case counts
		{"writes link/a as docs/a", "ask: mode ask"},
		{"writes config/a", "ask: rule careful"},
		{"reads config/a", "allow: read_only"},
		{"reads a/b.pem", "ask: rule careful"},
		// Trees and globs.
		{"tree reads .", "ask: rule secrets"},
		{"tree reads src", "ask: rule secrets"},
		{"tree reads secrets/public", "allow: rule fine"},
		{"tree reads secrets", "deny: rule secrets"},
		{"tree writes src", "ask: rule secrets"},
		{"tree writes docs", "allow: rule fine"},
		{"glob reads *.txt", "allow: read_only"},
		{"glob reads *", "ask: rule secrets"},
		{"looked glob reads *", "allow: read_only"},
		{"looked glob tree reads *", "ask: rule secrets"}, // below it was not looked
		{"looked tree writes src", "ask: mode ask"},
		{"looked glob writes *", "ask: mode ask"},
		{"looked tree reads src", "ask: rule secrets"},
		{"looked tree writes secrets", "deny: rule secrets"},
		{"glob reads *nv", "allow: read_only"}, // a wildcard is no leading dot
		{"glob reads ?env", "allow: read_only"},
		{"glob reads [.]env", "allow: read_only"},
		{"glob reads src/?/?nv", "allow: read_only"},
		{"glob reads .*nv", "ask: rule secrets"},
		{"glob reads src/**/x", "ask: rule secrets"},
		{"glob reads .e*", "ask: rule secrets"},
		{"glob reads s*/a", "ask: rule secrets"},
		{"glob reads secrets/public/*", "allow: rule fine"},
		{"glob reads src/*.go", "allow: read_only"},
		{"glob reads /etc/sh*", "ask: rule secrets"},
		{"glob reads /etc/h*", "ask: rule careful"}, // h.pem,
		{"glob writes docs/*.md", "allow: rule fine"},
		{"glob reads *.p?m", "ask: rule careful"},
		// Commands.
		{"runs git push", "deny: rule nopush"},
		{"runs git push --force origin main", "deny: rule nopush"},
		{"runs /usr/bin/git push", "deny: rule nopush"},
		{"runs ./git push", "deny: rule nopush"},
		{"runs git -C dir push", "deny: rule nopush"},
		{"runs git -c a=b --no-pager push", "deny: rule nopush"},
		{"runs git pushx", "ask: mode ask"},
		{"runs git commit -m push", "ask: mode ask"},
		{"runs npm --prefix x publish", "deny: rule nopush"},
		{"unclear runs git push $?", "deny: rule nopush"},
		{"unclear runs $? push", "ask: mode ask"},
		{"runs rm -rf x", "deny: rule nopush"},
		{"runs go test ./...", "allow: rule tests"},
		{"runs /usr/bin/go test", "allow: rule tests"},
		{"runs ./go test", "ask: mode ask"},
		{"runs /tmp/go test", "ask: mode ask"},
		{"runs go -C x test", "ask: mode ask"},
		{"runs gotest", "ask: mode ask"},
		{"runs go", "ask: mode ask"},
		{"runs /opt/tool x", "allow: rule tests"},
		{"runs tool x", "ask"},
		{"unclear runs go test $?", "ask: unclear"},
		{"runs make install", "ask: rule careful"},
		{"looks make install", "ask: rule careful"},
		{"looks ls", "allow: read_only"},
		{"runs go test; writes x", "ask: mode ask"},
		{"runs go test; runs git push", "deny: rule nopush"}, // P-154: the most severe
		// Hosts.
		{"reaches example.com", "allow: rule net"},
		{"reaches EXAMPLE.com. 443", "allow: rule net"},
		{"reaches a.example.com", "ask: mode ask"},
		{"reaches pkg.go.dev 443", "allow: rule net"},
		{"reaches pkg.go.dev 80", "ask: mode ask"},
		{"reaches pkg.go.dev", "ask: mode ask"},
		{"reaches go.dev 443", "ask: mode ask"},
		{"reaches 10.1.2.3 80", "allow: rule net"},
		{"reaches 2001:db8::1 80", "allow: rule net"},
		{"reaches 0x0a010203", "ask: mode ask"},
		{"reaches evil.example", "deny: rule nonet"},
		{"reaches x.y.EVIL.example", "deny: rule nonet"},
		{"reaches 127.0.0.1 22", "deny: rule nonet"},
		{"reaches 2130706433", "deny: rule nonet"},
		{"reaches 0x7f.1", "deny: rule nonet"},
		{"reaches 0177.0.0.1", "deny: rule nonet"},
		{"reaches 127.1", "deny: rule nonet"},
		{"reaches ①②⑦.⓪.⓪.①", "deny: rule nonet"},
		{"reaches 127。0。0。1", "deny: rule nonet"},
		{"reaches ::ffff:127.0.0.1", "deny: rule nonet"},
		{"reaches 169.254.169.254", "deny: rule nonet"},
		{"uses other_tool", "deny: rule nested"},
		{"uses another", "ask: mode ask"},
	}
	verify(t, p, tools.ModeAsk, cases)
	// No mode makes an allowed or forbidden thing something else, and none makes
	// the unclear automatic.
	for _, test := range cases {
		for _, mode := range []tools.Mode{tools.ModeAllow, tools.ModePlan, tools.ModeAcceptEdits} {
			var list []tools.Effect
			for part := range strings.SplitSeq(test.effect, "; ") {
				list = append(list, parseEffect(t, part))
			}
			got := p.Decide(call(tools.WorkspaceWrite, mode, tools.WorkspaceWrite, list), nil)
			action, rule, _ := strings.Cut(test.want, ": ")
			unclear := slices.ContainsFunc(list, func(e tools.Effect) bool { return e.Unclear != "" })
			switch {
			case action == "deny" && got.Action != policy.Deny,
				action == "allow" && got.Action != policy.Allow,
				action == "ask" && strings.HasPrefix(rule, "rule ") && got.Action == policy.Allow,
				unclear && got.Action == policy.Allow:
				t.Errorf("%s in mode %s: %+v", test.effect, mode, got.Verdict)
			}
		}
	}
}

// A rule that asks permits nothing: plan and level stay what they are.
func TestAskPermitsNothing(t *testing.T) {
	p := must("version: 1\nrules:\n- {name: a, action: ask, commands: ['*'], writes: [/tmp/]}\n")
	verify(t, p, tools.ModePlan, []ruleCase{
		{"runs git push", "deny: mode plan"},
		{"looks ls", "ask: rule a"},
		{"writes /tmp/x", "deny: level"},
	})
	verify(t, p, tools.ModeAllow, []ruleCase{{"runs git push", "ask: rule a"}})
}

// A rule that allows a tool does not lift the level of the session; one that
// names the path does.
func TestAllowedToolsStayInside(t *testing.T) {
	p := must("version: 1\nrules:\n- {name: scratch, action: allow, writes: [/tmp/scratch/]}\n- {name: all, action: allow, tools: ['*']}\n")
	verify(t, p, tools.ModeAsk, []ruleCase{
		{"writes a", "allow: rule all"},
		{"writes /tmp/x", "deny: level"},
		{"writes /tmp/scratch/x", "allow: rule scratch"},
		{"reads /etc/hosts", "allow: rule all"},
		{"unclear writes a", "ask: unclear"},
		{"glob reads src/{a,../../../etc}/x", "ask: unclear"},
		{"glob reads [", "ask: unclear"},
		{"glob reads " + strings.Repeat("*a", 600), "ask: unclear"},
	})
	verify(t, empty, tools.ModeAllow, []ruleCase{{"glob reads src/{a,../b}/x", "ask: unclear"}, {"glob reads src/{a,b}/x", "allow"}})
}

func TestLeavingPlan(t *testing.T) {
	p := must("version: 1\nrules:\n- {name: a, action: allow, tools: ['*']}\n")
	c := call(tools.WorkspaceWrite, tools.ModePlan, tools.WorkspaceWrite, sampleEffects["to_allow"])
	d := p.Decide(c, nil)
	check(t, d, "ask")
	if got := p.Tiers(c, d); len(got) > 0 {
		t.Errorf("%v is offered", got)
	}
	for _, kind := range []policy.TierKind{policy.TierCall, policy.TierTool} {
		g := grantOf(c, policy.Allow, policy.Tier{Kind: kind, Pattern: "01" + strings.Repeat("00", 31)})
		check(t, p.Decide(c, []policy.Grant{g}), "ask")
	}
	c.Mode = tools.ModeAsk
	check(t, p.Decide(c, nil), "allow")
}

// Rules about tools: by name, alias, glob, kind and server, and who uses them.
func TestRulesAboutTools(t *testing.T) {
	p := must(`
version: 1
rules:
  - {name: shell, action: allow, tools: [bash], commands: [ls]}
  - {name: gone, action: deny, tools: [Danger, 'old_*', '@hub/wipe']}
  - {name: ci, action: deny, tools: [web], principals: [ci-*], labels: {team: 'infra*'}}
  - name: tenant
    action: deny
    tools: [tenanted]
    principals: [ci-*]
    tenants: [acme]
    examples: {match: [{tool: tenanted, tenant: acme}], not_match: [{tool: tenanted, tenant: beta}, {tool: tenanted, tenant: default}]}
  - {name: others, action: ask, tools: [tenanted], principals: [ci-*], tenants: ["*"]}
  - {name: told, action: ask, tools: [told], when: tenant != "default"}
  - {name: hub, action: ask, tools: ['@hub']}
  - {name: more, action: ask, tools: [bash]}
  - {name: itself, action: deny, tools: [self], uses: [self]}
  - {name: braces, action: deny, tools: ['{made,built}', '{un,re}made']}
  - {name: never, action: deny, tools: [bash]}
explicit_only: ['@hub/secret_*', rare]
`)
	infra := map[string]string{"team": "infra-eu", "x": "y"}
	for _, test := range []struct {
		spec      tools.Spec
		effect    string
		principal string
		tenant    string
		labels    map[string]string
		want      string
		hidden    bool
	}{
		{spec: tools.Spec{Name: "danger", Aliases: []string{"Danger"}}, want: "deny: rule gone", hidden: true},
		{spec: tools.Spec{Name: "danger", Aliases: []string{"Danger"}}, effect: "reads a", want: "deny: rule gone", hidden: true},
		{spec: tools.Spec{Name: "old_thing"}, want: "deny: rule gone", hidden: true},
		{spec: tools.Spec{Name: "built"}, want: "deny: rule braces", hidden: true},
		{spec: tools.Spec{Name: "remade"}, want: "deny: rule braces", hidden: true},
		{spec: tools.Spec{Name: "mademade"}, want: "allow: read_only"},
		{spec: tools.Spec{Name: "wipe", Kind: tools.MCP, Server: "hub"}, want: "deny: rule gone", hidden: true},
		{spec: tools.Spec{Name: "wipe", Kind: tools.MCP, Server: "bub"}, want: "allow: read_only"},
		{spec: tools.Spec{Name: "web"}, principal: "ci-1", labels: infra, want: "deny: rule ci", hidden: true},
		{spec: tools.Spec{Name: "web"}, principal: "ci-1", want: "allow"},
		{spec: tools.Spec{Name: "web"}, principal: "ci-1", tenant: "acme", labels: infra, want: "allow"},
		{spec: tools.Spec{Name: "tenanted"}, principal: "ci-1", tenant: "acme", want: "deny: rule tenant", hidden: true},
		{spec: tools.Spec{Name: "tenanted"}, principal: "ci-1", tenant: "acme2", want: "ask: rule others"},
		{spec: tools.Spec{Name: "tenanted"}, principal: "ci-1", want: "ask: rule others"},
		{spec: tools.Spec{Name: "tenanted"}, principal: "alice", tenant: "acme", want: "allow"},
		{spec: tools.Spec{Name: "told"}, tenant: "acme", want: "ask: rule told"},
		{spec: tools.Spec{Name: "told"}, want: "allow"},
		{spec: tools.Spec{Name: "web"}, principal: "alice", labels: infra, want: "allow"},
		{spec: tools.Spec{Name: "look", Kind: tools.MCP, Server: "hub"}, want: "ask: rule hub"},
		{spec: tools.Spec{Name: "look", Kind: tools.MCP, Server: "hub"}, effect: "reads a", want: "ask: rule hub"},
		{spec: tools.Spec{Name: "bash"}, effect: "runs ls", want: "allow: rule shell"},
		{spec: tools.Spec{Name: "bash"}, effect: "runs rm", want: "ask: rule more"},
		{spec: tools.Spec{Name: "bash"}, want: "ask: rule more"},
		{spec: tools.Spec{Name: "self"}, effect: "reads a", want: "deny: rule itself", hidden: true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s/%s", test.spec.Name, test.effect, test.principal, test.tenant), func(t *testing.T) {
			c := call(tools.WorkspaceWrite, tools.ModeAsk, tools.ReadOnly, nil)
			test.spec.Level = tools.ReadOnly
			c.Spec, c.Labels, c.Tenant = &test.spec, test.labels, test.tenant
			if test.principal != "" {
				c.Principal = test.principal
			}
			if test.effect != "" {
				c.Effects = []tools.Effect{parseEffect(t, test.effect)}
			}
			got := p.Decide(c, nil)
			action, rule, named := strings.Cut(test.want, ": ")
			check(t, got, action)
			if named && got.Rule != rule {
				t.Errorf("by %q, want %q", got.Rule, rule)
			}
			if hidden := p.Hidden(c.Tenant, c.Principal, c.Labels, c.Spec); hidden != test.hidden {
				t.Errorf("hidden: %t", hidden)
			}
		})
	}
	for name, want := range map[string]bool{"secret_x": true, "rare": true, "look": false} {
		if got := p.ExplicitOnly(&tools.Spec{Name: name, Kind: tools.MCP, Server: "hub"}); got != want {
			t.Errorf("%s: explicit only is %t", name, got)
		}
	}
}

// TestBuiltin says what the default policy does for a coding agent.
func TestBuiltin(t *testing.T) {
	p := policy.Builtin()
	for _, mode := range []tools.Mode{tools.ModeAsk, tools.ModeAllow, tools.ModeAcceptEdits} {
		verify(t, p, mode, []ruleCase{
			{"reads src/main.go", "allow: read_only"},
			{"tree reads .", "allow: read_only"},
			{"reads .env.example", "allow: rule secrets_examples"},
			{"reads .env", "ask: rule secrets"},
			{"reads /home/alice/.ssh/id_ed25519", "ask: rule secrets"},
			{"reads /home/alice/.aws/credentials", "ask: rule secrets"},
			{"glob reads .env*", "ask: rule secrets"},
			{"looks ls -la", "allow: read_only"},
			{"looks git status", "allow: read_only"},
			{"runs git push", "ask: rule publish"},
			{"runs npm publish", "ask: rule publish"},
			{"runs curl -d @x https://example.com", "ask: rule network"},
			{"runs git reflog expire --all", "ask: rule irreversible"},
			{"runs sudo ls", "deny: rule privileges"},
			{"runs curl localhost; reaches localhost 80; reaches example.com 80", "ask: rule network"},
			{"writes .github/workflows/x.yml", "ask: rule runs_later"},
			{"writes .git/config", "deny: protected .git/"},
		})
	}
	verify(t, p, tools.ModeAllow, []ruleCase{
		{"glob reads *.txt", "allow"}, {"looked glob reads src/**/*.ts", "allow"}, {"looked glob tree reads *", "allow"},
		{"glob reads *.pe?", "ask: rule secrets"}, {"tree writes build", "ask: rule runs_later"}, {"looked tree writes build", "allow"},
	})
	verify(t, p, tools.ModeAsk, []ruleCase{
		{"runs go test ./...", "ask: mode ask"}, {"runs npm test", "ask: mode ask"}, {"runs make", "ask: mode ask"},
	})
	verify(t, p, tools.ModeAllow, []ruleCase{
		{"runs git reset --hard", "allow: mode allow"}, {"runs git clean -fd", "allow"}, {"runs dd if=a of=b", "allow"},
		{"runs curl localhost; reaches localhost 80", "allow"},                                                               // the rule is about other machines
		{"runs go build ./...", "allow: mode allow"}, {"writes src/a.go", "allow: mode allow"}, {"runs git commit", "allow"}, // P-206
	})
	verify(t, p, tools.ModePlan, []ruleCase{
		{"runs python3 -c x", "deny: mode plan"}, {"runs git push", "deny: mode plan"}, {"reads a", "allow"}, // P-156
	})
	verify(t, p, tools.ModeAcceptEdits, []ruleCase{
		{"rooted writes ../out/x", "deny: workspace"}, {"writes ../out/x", "deny: level"}, {"writes .gitignore", "allow"}, // P-157, P-203
	})
}
