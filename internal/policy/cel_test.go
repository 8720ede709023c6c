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

// TestConditionsShareACost has a condition that is dear judge thousands of effects:
// the call is refused before that takes long.
func TestConditionsShareACost(t *testing.T) {
	for _, test := range []struct {
		effects int
		want    policy.Action
	}{{100, policy.Allow}, {20_000, policy.Deny}} {
		p := must(`version: 1
rules: [{name: dear, action: deny, when: 'effect.kind == "runs" && input.command.matches("(a|b)*c.*d")'}]
`)
		c := call(tools.DangerFullAccess, tools.ModeAllow, tools.WorkspaceWrite, nil)
		c.Input = []byte(`{"command":"` + strings.Repeat("ab ", 1<<10) + `"}`)
		for i := range test.effects {
			c.Effects = append(c.Effects, tools.Effect{Kind: tools.RunsProgram, Program: fmt.Sprint("p", i)})
		}
		got := p.Decide(c, nil)
		if got.Action != test.want || test.want == policy.Deny && !strings.Contains(got.Reason, "costs more than the limit") {
			t.Errorf("%d effects: %v", test.effects, got.Verdict)
		}
	}
}

func TestConditions(t *testing.T) {
	for _, test := range []struct {
		when, input, effect string
		want                string // holds, not, or a part of the reason of the refusal
	}{
		{`input.path.startsWith("x")`, `{"path":"xy"}`, "", "holds"},
		{`input.path.startsWith("x")`, `{"path":"y"}`, "", "not"},
		{`input.n > 5`, `{"n":6}`, "", "holds"},
		{`input.n > 5`, `{"n":5.5}`, "", "holds"},
		{`input.n == 9007199254740993`, `{"n":9007199254740993}`, "", "holds"},
		{`input.list.exists(x, x == "b")`, `{"list":["a","b"]}`, "", "holds"},
		{`has(input.path) && input.path == "x"`, `{}`, "", "not"},
		{`tool.name == "tool" && tool.kind == "builtin" && tool.level == "workspace_write" && tool.server == ""`, `{}`, "", "holds"},
		{`principal == "alice" && session.id == "s" && session.mode == "allow" && session.level == "danger_full_access"`, `{}`, "", "holds"},
		{`session.labels.team == "infra"`, `{}`, "", "holds"},
		{`"x" in session.labels`, `{}`, "", "not"},
		{`effect.kind == "writes" && effect.path == "a" && effect.named == "b"`, `{}`, "writes a as b", "holds"},
		{`effect.kind == "runs" && effect.program == "git" && effect.argv.exists(w, w == "--force")`, `{}`, "runs git push --force", "holds"},
		{`effect.host == "h" && effect.port == 443`, `{}`, "reaches h 443", "holds"},
		{`effect.kind == "uses" && effect.tool == "tool" && !effect.unclear`, `{}`, "", "holds"},
		{`effect.mode != "x" && effect.program == "" && size(effect.argv) == 0`, `{}`, "", "holds"},
		// What gives no answer is a refusal, for every action.
		{`input.path == "x"`, `{}`, "", "no such key: path"},
		{`input.path == "x"`, ``, "", "no such key: path"},
		{`input.path.startsWith("x")`, `{"path":5}`, "", "no such overload"},
		{`session.labels.nope == "x"`, `{}`, "", "no such key: nope"},
		{`input.x`, `{"x":"text"}`, "", "neither true nor false"},
		{`1 / input.n == 1`, `{"n":0}`, "", "division by zero"},
		{`input.x == 1`, `{"x":`, "", "not JSON"},
		{`input.list.all(a, input.list.all(b, input.list.all(c, a + b + c >= 0)))`, `{"list":[` + strings.Repeat("1,", 300) + `1]}`, "", "limit"},
		{`input.s.matches("(x+x+)+y")`, `{"s":"` + strings.Repeat("x", 1<<19) + `"}`, "", "limit"},
		{`"x".matches(input.s)`, `{"s":"` + strings.Repeat("(a|b?){9}", 1000) + `"}`, "", ""},
		{`input.list.map(x, input.s + x).size() > 0`, `{"s":"` + strings.Repeat("x", 1<<19) + `","list":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`, "", "limit"},
		{`input.s.contains("xy")`, `{"s":"` + strings.Repeat("x", 1<<20) + `"}`, "", "at most"},
	} {
		for _, action := range []string{"allow", "ask", "deny"} {
			t.Run(action+"/"+test.when, func(t *testing.T) {
				p := must(fmt.Sprintf("version: 1\nrules:\n- {name: c, action: %s, when: '%s'}\n", action, test.when))
				c := call(tools.DangerFullAccess, tools.ModeAllow, tools.WorkspaceWrite, nil)
				c.Input, c.Labels = []byte(test.input), map[string]string{"team": "infra"}
				if test.effect != "" {
					c.Effects = parseEffects(t, test.effect)
				}
				got := p.Decide(c, nil).Effects[0].Verdict
				switch test.want {
				case "holds":
					if got.Rule != "rule c" || got.Action != actions[action] {
						t.Errorf("%+v", got)
					}
				case "not":
					if got.Rule != "mode allow" || got.Action != policy.Allow {
						t.Errorf("%+v", got)
					}
				default:
					if got.Rule != "rule c" || got.Action != policy.Deny || !strings.Contains(got.Reason, test.want) {
						t.Errorf("%+v", got)
					}
				}
			})
		}
	}
}

// A condition is looked at only where everything else of its rule matches.
func TestConditionIsLast(t *testing.T) {
	p := must("version: 1\nrules:\n- {name: c, action: deny, tools: [other], when: 'input.path == \"x\"'}\n")
	check(t, p.Decide(call(tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, nil), nil), "allow")
	if p.Hidden("", "alice", nil, &tools.Spec{Name: "other"}) {
		t.Error("a tool is hidden that is denied on a condition only")
	}
}
