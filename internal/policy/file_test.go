// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestBadFiles(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"empty":          {"", "p.yaml?: version: want version: 1, the only one there is"},
		"no version":     {"rules: []\n", "version: want version: 1, the only one there is"},
		"later version":  {"version: 2\n", "p.yaml:1: version: want version: 1, the only one there is"},
		"not YAML":       {"version: [\n", "p.yaml:1: "},
		"unknown key":    {"version: 1\nrule: []\n", "p.yaml:2: rule: unknown key; did you mean rules?"},
		"duplicate key":  {"version: 1\nversion: 1\n", "p.yaml:2: version: duplicate key: it is on line 1 already"},
		"two documents":  {"version: 1\n---\nversion: 1\n", "p.yaml:2: a second document begins here: one is enough"},
		"anchors":        {"version: 1\nprotected: &a [x]\n", "p.yaml:2: protected: anchors, aliases and tags are not supported: write the value"},
		"a string":       {"version: 1\nprotected: x\n", "p.yaml:2: protected: want a list here"},
		"protected glob": {"version: 1\nprotected: ['[a']\n", `p.yaml:2: protected[0]: "[a" has a [ without its ]`},
		"typo in a rule": {"version: 1\nrules:\n- name: a\n  action: deny\n  tool: [x]\n  reads: [y]\n", "p.yaml:5: rules[0].tool: unknown key; did you mean tools?"},
		"no name":        {"version: 1\nrules:\n- action: deny\n  tools: [x]\n", "p.yaml:3: rules[0].name: a rule needs a name: every verdict names the rule behind it"},
		"no action":      {"version: 1\nrules:\n- name: a\n  tools: [x]\n", "p.yaml:3: rules[0].action: a rule needs an action: allow, ask or deny"},
		"action":         {"version: 1\nrules:\n- name: a\n  action: block\n  tools: [x]\n", `p.yaml:4: rules[0].action: "block" is no action: want allow, ask or deny`},
		"same name": {"version: 1\nrules:\n- {name: a, action: deny, tools: [x]}\n- {name: a, action: ask, tools: [x]}\n",
			"p.yaml:4: rules[1].name: another rule is called a, on line 3"},
		"empty rule": {"version: 1\nrules:\n- {name: a, action: deny}\n",
			`p.yaml:3: rules[0]: the rule says of nothing what it is about, so it would match every call: write tools: ["*"] if that is meant`},
		"empty list":      {"version: 1\nrules:\n- {name: a, action: deny, tools: [], reads: [x]}\n", "p.yaml:3: rules[0].tools: is empty: leave the key out"},
		"list of nothing": {"version: 1\nrules:\n- name: a\n  action: allow\n  tools: [x]\n  reads:\n", "p.yaml:6: rules[0].reads: is empty: leave the key out"},
		"tool pattern":    {"version: 1\nrules:\n- {name: a, action: deny, tools: ['[']}\n", `p.yaml:3: rules[0].tools[0]: tool pattern "[" has a [ without its ]`},
		"path":            {"version: 1\nrules:\n- name: a\n  action: deny\n  reads:\n  - x\n  - ../y\n", `p.yaml:7: rules[0].reads[1]: "../y" has .. in it: write the path from its beginning`},
		"command":         {"version: 1\nrules:\n- {name: a, action: deny, commands: ['ls | rm']}\n", `p.yaml:3: rules[0].commands[0]: "ls | rm" has a '|' that is not quoted: words are compared as they are`},
		"glob command":    {"version: 1\nrules:\n- {name: a, action: deny, commands: ['git * --force']}\n", `p.yaml:3: rules[0].commands[0]: "git * --force" has a * before its end: words are compared as they are`},
		"host":            {"version: 1\nrules:\n- {name: a, action: deny, hosts: ['https://example.com']}\n", `p.yaml:3: rules[0].hosts[0]: "https://example.com" has a / in it: want a host such as example.com`},
		"port":            {"version: 1\nrules:\n- {name: a, action: deny, hosts: ['example.com:99999']}\n", `p.yaml:3: rules[0].hosts[0]: "example.com:99999" has "99999" for a port: want 1 to 65535`},
		"principal":       {"version: 1\nrules:\n- {name: a, action: deny, principals: ['[']}\n", `p.yaml:3: rules[0].principals[0]: "[" has a [ without its ]`},
		"label":           {"version: 1\nrules:\n- {name: a, action: deny, labels: {team: '['}}\n", `p.yaml:3: rules[0].labels.team: "[" has a [ without its ]`},
		"condition":       {"version: 1\nrules:\n- name: a\n  action: deny\n  when: input.path ==\n", "p.yaml:5: rules[0].when: the condition does not compile: column 14: Syntax error"},
		"unknown variable": {"version: 1\nrules:\n- name: a\n  action: deny\n  when: tool.nme == 'x'\n",
			"p.yaml:5: rules[0].when: the condition does not compile: column 5: undeclared reference to 'tool.nme' (did you mean 'tool.name'?)"},
		"not a condition": {"version: 1\nrules:\n- name: a\n  action: deny\n  when: tool.name\n", "p.yaml:5: rules[0].when: the condition does not compile: gives string: want true or false"},
		"regexp":          {"version: 1\nrules:\n- name: a\n  action: deny\n  when: tool.name.matches('(')\n", "p.yaml:5: rules[0].when: the condition does not compile: "},
		"example": {"version: 1\nrules:\n- name: a\n  action: deny\n  reads: [x]\n  examples:\n    match:\n    - {reads: x}\n    - {reads: y}\n    not_match:\n    - {reads: x/z}\n",
			"p.yaml:9: rules[0].examples.match[1]: rule a does not match this example\np.yaml:11: rules[0].examples.not_match[0]: rule a matches this example, and should not"},
		"example that fails": {"version: 1\nrules:\n- name: a\n  action: deny\n  when: input.n > 3\n  examples: {match: [{input: {n: 4}}, {input: {m: 4}}]}\n",
			"p.yaml:6: rules[0].examples.match[1]: the condition of rule a cannot be evaluated for this example: no such key: n"},
		"limit":      {"version: 1\nlimits:\n- {tools: [x]}\n", "p.yaml:3: limits[0]: a limit needs a rate such as 10/s, or concurrent"},
		"rate":       {"version: 1\nlimits:\n- {tools: [x], rate: 10}\n", "p.yaml:3: limits[0].rate: \"10\" is not a rate: want calls in a second, minute or hour, such as 10/s, 100/m or 5/h\np.yaml:3: limits[0]: a limit needs a rate such as 10/s, or concurrent"},
		"scope":      {"version: 1\nlimits:\n- {rate: 1/s, per: tool}\n", `p.yaml:3: limits[0].per: "tool" is no scope: want session, principal or server`},
		"loop guard": {"version: 1\nloop_guard: {repeat: -1}\n", "p.yaml:2: loop_guard: want counts, or 0 for never"},
		"expiry":     {"version: 1\napprovals:\n  expire: 0s\n", "p.yaml:3: approvals.expire: 0s is out of bounds: want 1s to 24h"},
		"all at once": {"version: 1\nrules:\n- {name: a, action: dny, tools: [x]}\n- {name: b, action: deny, reads: ['{']}\nlimits:\n- {rate: x}\n",
			"p.yaml:3: rules[0].action: \"dny\" is no action: want allow, ask or deny\np.yaml:4: rules[1].reads[0]: \"{\" has a { without its }\np.yaml:6: limits[0].rate: \"x\" is not a rate"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Parse("p.yaml", []byte(test.file))
			if err == nil {
				t.Fatalf("%+v is accepted", p)
			}
			for want := range strings.Lines(test.want) {
				want = strings.TrimPrefix(strings.TrimSpace(want), "p.yaml?: ")
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in:\n%v", want, err)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	const text = `
version: 1
limits:
  - {name: web, tools: ['web_*', '@mcp'], rate: 30/m, burst: 10, concurrent: 4, per: principal, shadow: true}
  - {rate: 100/m}
  - {concurrent: 2, per: server}
loop_guard: {alternate: 3}
approvals: {self: true}
`
	p := must(text)
	want := []limit.Limit{
		{Name: "web", Tools: []string{"web_*", "@mcp"}, Rate: 0.5, Burst: 10, Concurrent: 4, Per: limit.Principal, Shadow: true},
		{Name: "limit 2", Tools: []string{"*"}, Rate: 100.0 / 60, Burst: 100},
		{Name: "limit 3", Tools: []string{"*"}, Concurrent: 2, Per: limit.Server},
	}
	if !reflect.DeepEqual(p.Limits(), want) {
		t.Errorf("got %+v\nwant %+v", p.Limits(), want)
	}
	if p.LoopGuard() != (limit.LoopLimit{Alternate: 3}) || p.Approvals() != (policy.Approvals{Expire: 2 * time.Minute, Self: true}) {
		t.Errorf("%+v %+v", p.LoopGuard(), p.Approvals())
	}
	if other := must(text + "\n"); other.Version() == p.Version() || len(p.Version()) != 12 || must(text).Version() != p.Version() {
		t.Errorf("versions %s and %s", p.Version(), other.Version())
	}
}

// The built-in policy is the example: it has every key, and its values are those
// of a file that leaves them out.
func TestBuiltinIsTheExample(t *testing.T) {
	p := policy.Builtin()
	if p.LoopGuard() != empty.LoopGuard() || p.Approvals() != empty.Approvals() {
		t.Errorf("%+v %+v", p.LoopGuard(), p.Approvals())
	}
	for _, key := range strings.Fields(`version protected rules name action tools principals labels reads writes paths commands hosts uses when
		reason examples match not_match explicit_only limits rate burst concurrent per shadow loop_guard repeat alternate approvals expire self`) {
		if !regexp.MustCompile(`(?m)^[ #-]*(- )?(` + key + `\b|.*, ` + key + `\b)`).MatchString(policy.BuiltinText()) {
			t.Errorf("the example has no %s", key)
		}
	}
	if err := p.Check(nil); err != nil {
		t.Errorf("it names tools: %v", err)
	}
}

func TestCheck(t *testing.T) {
	p := must(`version: 1
rules:
- name: a
  action: deny
  tools: [read_fil, Read, 'git_*', '@mcp', write_file]
- {name: b, action: deny, uses: [nope]}
limits:
- {tools: [wrte_file], rate: 1/s}
explicit_only: [read_file]
`)
	specs := []*tools.Spec{{Name: "read_file", Aliases: []string{"Read"}}, {Name: "write_file"}}
	const want = `the policy is not valid:
p.yaml:5: rules[0].tools[0]: there is no tool read_fil; did you mean read_file?
p.yaml:5: rules[0].tools[2]: there is no tool git_*
p.yaml:6: rules[1].uses[0]: there is no tool nope
p.yaml:8: limits[0].tools[0]: there is no tool wrte_file; did you mean write_file?`
	if err := p.Check(specs); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(policy.BuiltinText()))
	f.Add([]byte("version: 1\nrules:\n- {name: a, action: allow, tools: ['*'], when: 'input.x == 1', examples: {match: [{input: {x: 1}}]}}\n"))
	f.Add([]byte("version: 1\nlimits:\n- {rate: 1/s, burst: 3}\nprotected: ['{a,b}/**/[x-z]']\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("p.yaml", data)
		if (p == nil) == (err == nil) {
			t.Fatalf("%v and %v", p, err)
		}
		for _, list := range sampleEffects {
			p.Decide(call(tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, list), nil)
		}
	})
}
