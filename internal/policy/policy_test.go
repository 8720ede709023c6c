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

var actions = map[string]policy.Action{"deny": policy.Deny, "ask": policy.Ask, "allow": policy.Allow}

// effects are those of the tables below, by column.
var effects = map[string][]tools.Effect{
	"nothing":    nil,
	"reads":      tools.Reads("a", "b"),
	"writes":     tools.Writes("a"),
	"edits":      append(tools.Reads("a"), tools.Writes("a")...),
	"runs":       {{Kind: tools.RunsProgram, Program: "ls"}},
	"reaches":    {{Kind: tools.ReachesHost, Host: "example.com", Port: 443}},
	"uses":       {{Kind: tools.UsesTool, Tool: "other"}},
	"unknown":    {{}},
	"reads,runs": append(tools.Reads("a"), tools.Effect{Kind: tools.RunsProgram, Program: "ls"}),
	"edits,runs": append(tools.Writes("a"), tools.Effect{Kind: tools.RunsProgram, Program: "ls"}),
}

var modes = map[string]tools.Mode{
	"none": 0, "ask": tools.ModeAsk, "allow": tools.ModeAllow, "deny": tools.ModeDeny,
	"plan": tools.ModePlan, "accept_edits": tools.ModeAcceptEdits, "beyond": 99, "below": -1,
}

var levels = map[string]tools.Level{
	"none": 0, "read_only": tools.ReadOnly, "workspace_write": tools.WorkspaceWrite,
	"danger_full_access": tools.DangerFullAccess,
}

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

// check compares a verdict with the word for its action. Every verdict says
// which rule it is by, and why.
func check(t *testing.T, got policy.Verdict, want string) {
	t.Helper()
	action, ok := actions[want]
	if !ok {
		t.Fatalf("no action is called %q", want)
	}
	if got.Action != action {
		t.Errorf("%+v, want %s", got, want)
	}
	if got.Rule == "" || !strings.HasSuffix(got.Reason, ".") || strings.Contains(got.Reason, "%!") {
		t.Errorf("%+v does not explain itself", got)
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
		              nothing  reads  writes  edits  runs   reaches  uses   unknown  reads,runs  edits,runs
		none          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		ask           allow    allow  ask     ask    ask    ask      ask    ask      ask         ask
		allow         allow    allow  allow   allow  allow  allow    allow  allow    allow       allow
		deny          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		plan          allow    allow  deny    deny   deny   deny     deny   deny     deny        deny
		accept_edits  allow    allow  allow   allow  ask    ask      ask    ask      ask         ask
		beyond        deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		below         deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		`},
		// A tool that may change files is not believed to read only.
		{tools.WorkspaceWrite, `
		              nothing  reads  writes  edits  runs   reaches  uses   unknown  reads,runs  edits,runs
		none          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		ask           ask      ask    ask     ask    ask    ask      ask    ask      ask         ask
		allow         allow    allow  allow   allow  allow  allow    allow  allow    allow       allow
		deny          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		plan          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		accept_edits  ask      allow  allow   allow  ask    ask      ask    ask      ask         ask
		beyond        deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		`},
		// One that may do anything is not believed to edit only.
		{tools.DangerFullAccess, `
		              nothing  reads  writes  edits  runs   reaches  uses   unknown  reads,runs  edits,runs
		none          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		ask           ask      ask    ask     ask    ask    ask      ask    ask      ask         ask
		allow         allow    allow  allow   allow  allow  allow    allow  allow    allow       allow
		deny          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		plan          deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		accept_edits  ask      ask    ask     ask    ask    ask      ask    ask      ask         ask
		beyond        deny     deny   deny    deny   deny   deny     deny   deny     deny        deny
		`},
	} {
		table(t, test.table, func(mode, does, want string) {
			t.Run(fmt.Sprintf("%s/%s/%s", test.tool, mode, does), func(t *testing.T) {
				touched, ok := effects[does]
				if _, known := modes[mode]; !ok || !known {
					t.Fatal("the table has a name that is not known")
				}
				who := policy.Subject{Level: tools.DangerFullAccess, Mode: modes[mode]}
				check(t, policy.New().Decide(who, tools.Spec{Name: "tool", Level: test.tool}, touched), want)
			})
		})
	}
}

// TestLevels has a row for each level of a session that allows what its level
// allows, and a column for the level of the tool.
func TestLevels(t *testing.T) {
	const levelTable = `
	                    none  read_only  workspace_write  danger_full_access
	none                deny  deny       deny             deny
	read_only           deny  allow      deny             deny
	workspace_write     deny  allow      allow            deny
	danger_full_access  deny  allow      allow            allow
	`
	table(t, levelTable, func(session, tool, want string) {
		for _, does := range []string{"nothing", "reads"} {
			t.Run(session+"/"+tool+"/"+does, func(t *testing.T) {
				who := policy.Subject{Level: levels[session], Mode: tools.ModeAllow}
				check(t, policy.New().Decide(who, tools.Spec{Name: "tool", Level: levels[tool]}, effects[does]), want)
			})
		}
	})
}

// TestZeroValuesDeny proves that forgetting something refuses.
func TestZeroValuesDeny(t *testing.T) {
	trusted := policy.Subject{Level: tools.DangerFullAccess, Mode: tools.ModeAllow}
	reader := tools.Spec{Name: "tool", Level: tools.ReadOnly}
	for _, test := range []struct {
		name   string
		engine *policy.Engine
		who    policy.Subject
		spec   tools.Spec
	}{
		{"no engine", nil, trusted, reader},
		{"zero engine", new(policy.Engine), trusted, reader},
		{"zero subject", policy.New(), policy.Subject{}, reader},
		{"no level", policy.New(), policy.Subject{Mode: tools.ModeAllow}, reader},
		{"no mode", policy.New(), policy.Subject{Level: tools.DangerFullAccess}, reader},
		{"zero tool", policy.New(), trusted, tools.Spec{}},
		{"zero everything", new(policy.Engine), policy.Subject{}, tools.Spec{}},
	} {
		for does := range effects {
			t.Run(test.name+"/"+does, func(t *testing.T) {
				check(t, test.engine.Decide(test.who, test.spec, effects[does]), "deny")
			})
		}
	}
	if (policy.Verdict{}).Action != policy.Deny {
		t.Error("the zero verdict does not deny")
	}
}

// TestVerdictsExplain looks at the words a model reads.
func TestVerdictsExplain(t *testing.T) {
	for _, test := range []struct {
		who        policy.Subject
		tool       tools.Level
		does       string
		rule, says string
	}{
		{policy.Subject{Level: tools.ReadOnly, Mode: tools.ModeAllow}, tools.WorkspaceWrite, "writes",
			"level", "tool needs level workspace_write and the session has read_only."},
		{policy.Subject{Mode: tools.ModeAllow}, tools.ReadOnly, "reads", "level", "the session has none."},
		{policy.Subject{Level: tools.ReadOnly, Mode: tools.ModeDeny}, tools.ReadOnly, "reads", "mode deny", "no call may run"},
		{policy.Subject{Level: tools.ReadOnly}, tools.ReadOnly, "reads", "mode none", "nothing may run"},
		{policy.Subject{Level: tools.WorkspaceWrite, Mode: tools.ModePlan}, tools.WorkspaceWrite, "writes", "mode plan", "plan"},
		{policy.Subject{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk}, tools.WorkspaceWrite, "writes", "mode ask", "asks"},
		{policy.Subject{Level: tools.WorkspaceWrite, Mode: tools.ModeAcceptEdits}, tools.WorkspaceWrite, "writes", "mode accept_edits", "edits"},
		{policy.Subject{Level: tools.WorkspaceWrite, Mode: tools.ModeAcceptEdits}, tools.WorkspaceWrite, "runs", "mode accept_edits", "more than edit"},
		{policy.Subject{Level: tools.ReadOnly, Mode: tools.ModeAsk}, tools.ReadOnly, "reads", "read_only", "changes nothing"},
	} {
		got := policy.New().Decide(test.who, tools.Spec{Name: "tool", Level: test.tool}, effects[test.does])
		if got.Rule != test.rule || !strings.Contains(got.Reason, test.says) {
			t.Errorf("%+v, want rule %q and %q", got, test.rule, test.says)
		}
	}
}
