// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// empty is a policy that says nothing.
var empty = must("version: 1\n")

func must(text string) *policy.Policy {
	p, err := policy.Parse("p.yaml", []byte(text))
	if err != nil {
		panic(err)
	}
	return p
}

// effects are those of the tables below, by column.
var sampleEffects = map[string][]tools.Effect{
	"nothing":        nil,
	"reads":          toolstest.Reads("a", "b"),
	"writes":         toolstest.Writes("a"),
	"edits":          append(toolstest.Reads("a"), toolstest.Writes("a")...),
	"looks":          {{Kind: tools.RunsProgram, Program: "ls", ReadOnly: true}},
	"runs":           {{Kind: tools.RunsProgram, Program: "ls"}},
	"reaches":        {{Kind: tools.ReachesHost, Host: "example.com", Port: 443}},
	"uses":           {{Kind: tools.UsesTool, Tool: "other"}},
	"unknown":        {{}},
	"reads,runs":     append(toolstest.Reads("a"), tools.Effect{Kind: tools.RunsProgram, Program: "ls"}),
	"edits,runs":     append(toolstest.Writes("a"), tools.Effect{Kind: tools.RunsProgram, Program: "ls"}),
	"reads_outside":  toolstest.Reads("/etc/hosts"),
	"writes_outside": toolstest.Writes("/tmp/x"),
	"leaves":         {{Kind: tools.WritesPath, Path: "../x", Rooted: true}},
	"protected":      toolstest.Writes(".git/config"),
	"unclear":        {{Kind: tools.RunsProgram, Program: "ls", ReadOnly: true, Unclear: "it has a variable in it"}},
	"unclear_read":   {{Kind: tools.ReadsPath, Path: "a", Unclear: "it has a variable in it"}},
	"to_plan":        {{Kind: tools.ChangesMode, Mode: tools.ModePlan}},
	"to_ask":         {{Kind: tools.ChangesMode, Mode: tools.ModeAsk}},
	"to_allow":       {{Kind: tools.ChangesMode, Mode: tools.ModeAllow}},
}

var modes = map[string]tools.Mode{
	"none": 0, "ask": tools.ModeAsk, "allow": tools.ModeAllow, "deny": tools.ModeDeny,
	"plan": tools.ModePlan, "accept_edits": tools.ModeAcceptEdits, "beyond": 99, "below": -1,
}

var levels = map[string]tools.Level{
	"none": 0, "read_only": tools.ReadOnly, "workspace_write": tools.WorkspaceWrite,
	"danger_full_access": tools.DangerFullAccess,
}

var actions = map[string]policy.Action{"deny": policy.Deny, "ask": policy.Ask, "allow": policy.Allow}

// table calls f for each cell of a table whose first line and first column are
// names.
func table(t *testing.T, text string, f func(row, column, cell string)) {
	t.Helper()
	var columns []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		words := strings.Fields(line)
		if columns == nil {
			columns = words
			continue
		}
		if len(words) != len(columns)+1 {
			t.Fatalf("%d cells in %q, want %d", len(words)-1, line, len(columns))
		}
		for i, cell := range words[1:] {
			f(words[0], columns[i], cell)
		}
	}
}

// check compares a decision with the word for its action. Every verdict says
// which rule it is by, and why, and the decision is the most severe.
func check(t *testing.T, got policy.Decision, want string) {
	t.Helper()
	action, ok := actions[want]
	if !ok {
		t.Fatalf("no action is called %q", want)
	}
	if got.Action != action {
		t.Errorf("%+v, want %s", got, want)
	}
	verdicts := []policy.Verdict{got.Verdict}
	severest := policy.Allow
	for _, judged := range got.Effects {
		verdicts = append(verdicts, judged.Verdict)
		severest = min(severest, judged.Verdict.Action)
	}
	if len(got.Effects) > 0 && severest != got.Action {
		t.Errorf("%v is decided, %v is the most severe", got.Action, severest)
	}
	for _, v := range verdicts {
		if v.Rule == "" || !strings.HasSuffix(v.Reason, ".") || strings.Contains(v.Reason, "%!") {
			t.Errorf("%+v does not explain itself", v)
		}
	}
}

func call(level tools.Level, mode tools.Mode, tool tools.Level, effects []tools.Effect) *policy.Subject {
	return &policy.Subject{
		Principal: "alice", SessionID: "s", Level: level, Mode: mode, Workspace: "/work/ws", Home: func() string { return "/home/alice" },
		Network: tools.NetworkOpen,
		Spec:    &tools.Spec{Name: "tool", Level: tool}, Effects: effects, Digest: [32]byte{1},
	}
}

// TestModes has a row for each mode of a session that is trusted with anything,
// and a column for what a call does.
func TestModes(t *testing.T) {
	for _, test := range []struct {
		tool  tools.Level
		table string
	}{
		{tools.ReadOnly, `
		              nothing  reads  writes  edits  looks  runs   reaches  uses   unknown  reads,runs  edits,runs
		none          deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		ask           allow    allow  ask     ask    allow  ask    ask      ask    ask      ask         ask
		allow         allow    allow  allow   allow  allow  allow  ask      allow  allow    allow       allow
		deny          deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		plan          allow    allow  deny    deny   allow  deny   ask      deny   deny     deny        deny
		accept_edits  allow    allow  allow   allow  allow  ask    ask      ask    ask      ask         ask
		beyond        deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		below         deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		`},
		// A tool that may change something and names no effects is not believed.
		{tools.WorkspaceWrite, `
		              nothing  reads  writes  edits  looks  runs   reaches  uses   unknown  reads,runs  edits,runs
		none          deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		ask           ask      allow  ask     ask    allow  ask    ask      ask    ask      ask         ask
		allow         allow    allow  allow   allow  allow  allow  ask      allow  allow    allow       allow
		deny          deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		plan          deny     allow  deny    deny   allow  deny   deny     deny   deny     deny        deny
		accept_edits  ask      allow  allow   allow  allow  ask    ask      ask    ask      ask         ask
		beyond        deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		`},
		{tools.DangerFullAccess, `
		              nothing  reads  writes  edits  looks  runs   reaches  uses   unknown  reads,runs  edits,runs
		none          deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		ask           ask      allow  ask     ask    allow  ask    ask      ask    ask      ask         ask
		allow         allow    allow  allow   allow  allow  allow  ask      allow  allow    allow       allow
		deny          deny     deny   deny    deny   deny   deny   deny     deny   deny     deny        deny
		plan          deny     allow  deny    deny   allow  deny   deny     deny   deny     deny        deny
		accept_edits  ask      allow  allow   allow  allow  ask    ask      ask    ask      ask         ask
		`},
		{tools.WorkspaceWrite, `
		              reads_outside  writes_outside  leaves  protected  unclear  unclear_read  to_plan  to_ask  to_allow
		none          deny           deny            deny    deny       deny     deny          deny     deny    deny
		ask           allow          ask             deny    deny       ask      ask           allow    allow   ask
		allow         allow          allow           deny    deny       ask      ask           allow    allow   allow
		deny          deny           deny            deny    deny       deny     deny          deny     deny    deny
		plan          allow          deny            deny    deny       deny     deny          allow    ask     ask
		accept_edits  allow          ask             deny    deny       ask      ask           allow    allow   ask
		`},
	} {
		table(t, test.table, func(mode, does, want string) {
			t.Run(fmt.Sprintf("%s/%s/%s", test.tool, mode, does), func(t *testing.T) {
				touched, ok := sampleEffects[does]
				if _, known := modes[mode]; !ok || !known {
					t.Fatal("the table has a name that is not known")
				}
				check(t, empty.Decide(call(tools.DangerFullAccess, modes[mode], test.tool, touched), nil), want)
			})
		})
	}
}

// TestLevels has a row for each level of a session that allows what its level
// allows, and a column for the level of the tool or what a tool that reads only
// says it would do.
func TestLevels(t *testing.T) {
	table(t, `
	                    none  read_only  workspace_write  danger_full_access
	none                deny  deny       deny             deny
	read_only           deny  allow      deny             deny
	workspace_write     deny  allow      allow            deny
	danger_full_access  deny  allow      allow            allow
	`, func(session, tool, want string) {
		for _, does := range []string{"nothing", "reads"} {
			t.Run(session+"/"+tool+"/"+does, func(t *testing.T) {
				check(t, empty.Decide(call(levels[session], tools.ModeAllow, levels[tool], sampleEffects[does]), nil), want)
			})
		}
	})
	table(t, `
	                    reads  writes  looks  runs   reaches  reads_outside  writes_outside
	none                deny   deny    deny   deny   deny     deny           deny
	read_only           allow  deny    allow  deny   ask      ask            deny
	workspace_write     allow  allow   allow  allow  ask      ask            deny
	danger_full_access  allow  allow   allow  allow  ask      allow          allow
	`, func(session, does, want string) {
		t.Run(session+"/"+does, func(t *testing.T) {
			check(t, empty.Decide(call(levels[session], tools.ModeAllow, tools.ReadOnly, sampleEffects[does]), nil), want)
		})
	})
}

// TestZeroValuesDeny proves that forgetting something refuses.
func TestZeroValuesDeny(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy *policy.Policy
		level  tools.Level
		mode   tools.Mode
		tool   tools.Level
	}{
		{"no policy", nil, tools.DangerFullAccess, tools.ModeAllow, tools.ReadOnly},
		{"zero session", empty, 0, 0, tools.ReadOnly},
		{"no level", empty, 0, tools.ModeAllow, tools.ReadOnly},
		{"no mode", empty, tools.DangerFullAccess, 0, tools.ReadOnly},
		{"zero tool", empty, tools.DangerFullAccess, tools.ModeAllow, 0},
		{"zero everything", nil, 0, 0, 0},
	} {
		for does := range sampleEffects {
			t.Run(test.name+"/"+does, func(t *testing.T) {
				check(t, test.policy.Decide(call(test.level, test.mode, test.tool, sampleEffects[does]), nil), "deny")
			})
		}
	}
	if (policy.Verdict{}).Action != policy.Deny {
		t.Error("the zero verdict does not deny")
	}
	var none *policy.Policy
	if !none.Hidden("", "alice", nil, &tools.Spec{Name: "x"}) || none.Version() != "" || none.Limits() != nil {
		t.Error("no policy says something")
	}
}

// TestVerdictsExplain looks at the words a model reads.
func TestVerdictsExplain(t *testing.T) {
	for _, test := range []struct {
		level      tools.Level
		mode       tools.Mode
		tool       tools.Level
		does       string
		rule, says string
	}{
		{tools.ReadOnly, tools.ModeAllow, tools.WorkspaceWrite, "writes", "level", "tool needs level workspace_write and the session has read_only"},
		{0, tools.ModeAllow, tools.ReadOnly, "reads", "level", "the session has none"},
		{tools.ReadOnly, tools.ModeAllow, tools.ReadOnly, "writes", "level", "Writing a needs level"},
		{tools.ReadOnly, tools.ModeDeny, tools.ReadOnly, "reads", "mode deny", "no call may run"},
		{tools.ReadOnly, 0, tools.ReadOnly, "reads", "mode none", "nothing may run"},
		{tools.WorkspaceWrite, tools.ModePlan, tools.WorkspaceWrite, "writes", "mode plan", "plan"},
		{tools.WorkspaceWrite, tools.ModeAsk, tools.WorkspaceWrite, "writes", "mode ask", "asks"},
		{tools.WorkspaceWrite, tools.ModeAcceptEdits, tools.WorkspaceWrite, "edits", "mode accept_edits", "edits"},
		{tools.WorkspaceWrite, tools.ModeAcceptEdits, tools.WorkspaceWrite, "edits,runs", "mode accept_edits", "more than edit"},
		{tools.ReadOnly, tools.ModeAsk, tools.ReadOnly, "reads", "read_only", "changes nothing"},
		{tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, "protected", "protected .git/", "no approval changes that"},
		{tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, "unclear", "unclear", "variable"},
		{tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, "leaves", "workspace", "inside it"},
		{tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, "writes_outside", "level", "danger_full_access"},
		{tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, "reads_outside", "outside", "/etc/hosts"},
		{tools.WorkspaceWrite, tools.ModePlan, tools.WorkspaceWrite, "to_allow", "mode plan", "approve the plan"},
	} {
		got := empty.Decide(call(test.level, test.mode, test.tool, sampleEffects[test.does]), nil)
		if got.Rule != test.rule || !strings.Contains(got.Reason, test.says) {
			t.Errorf("%+v, want rule %q and %q", got, test.rule, test.says)
		}
		if n := len(sampleEffects[test.does]) + 1; len(got.Effects) != n || got.Effects[n-1].Effect.Tool != "tool" || got.Policy != empty.Version() {
			t.Errorf("%+v does not have all effects", got)
		}
	}
}

// What no part of the server gives is refused, not a crash.
func TestStrangeValues(t *testing.T) {
	p := must("version: 1\nrules:\n- {name: c, action: allow, when: 'effect.kind == \"unknown\" && effect.mode == \"none\" && tool.level != \"\"'}\n")
	for _, kind := range []tools.EffectKind{-1, 0, 99} {
		list := []tools.Effect{{Kind: kind, Mode: 99}}
		check(t, p.Decide(call(tools.DangerFullAccess, tools.ModeAsk, tools.ReadOnly, list), nil), "allow")
		check(t, empty.Decide(call(tools.DangerFullAccess, tools.ModeAsk, tools.ReadOnly, list), nil), "ask")
		check(t, empty.Decide(call(-1, tools.ModeAllow, tools.ReadOnly, list), nil), "deny")
	}
	root := call(tools.WorkspaceWrite, tools.ModeAllow, tools.WorkspaceWrite, toolstest.Writes("/etc/x"))
	root.Workspace = "/"
	check(t, must("version: 1\nrules:\n- {name: c, action: deny, writes: [/etc/]}\n").Decide(root, nil), "deny")
	check(t, empty.Decide(root, nil), "allow") // the workspace is everything
}
