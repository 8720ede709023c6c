// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestDefinitions proves that what is wrong with definitions is told, all of it.
func TestDefinitions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.md":      "---\nname: good\ndescription: Use when: something\ntools: Read, mcp__github__search, Bash(git log:*)\nmodel: opus\npermissionMode: bypassPermissions\n---\nYou are good.\n",
		"numbers.md":   "---\nlimits: {turns: many, time: soon, dollars: -1}\nlevel: highest\nmode: free\n---\nx\n",
		"empty.md":     "---\nname: empty\n---\n",
		"bad name!.md": "---\ndescription: x\n---\nx\n",
		"twice.md":     "---\nname: GOOD\n---\nx\n",
		"tools.md":     "---\ntools: [Read, nonsense]\nendpoint: nowhere\nlevel: danger_full_access\n---\nx\n",
		"plain.md":     "# nothing\n",
		"README.md":    "# about\n",
		"notes.txt":    "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	on := agent.Machine{Endpoints: []string{"main"}, MaxLevel: tools.WorkspaceWrite, Knows: func(name string) bool { return name == "Read" || name == "Bash" || name == "github__search" }}
	config := agent.Config{Folders: []string{dir}, MaxDepth: 9, List: []agent.Definition{
		{Name: "one", Prompt: "x", Endpoint: "main", Level: tools.ReadOnly},
		{Name: "One", Limits: agent.Limits{Turns: -1}, Mode: tools.ModeDeny},
		{Name: "two", Prompt: "x", Endpoint: "nowhere", Level: tools.DangerFullAccess, Tools: []string{"nonsense", "git_*"}},
	}}
	var faults []string
	config.Check(on, func(key, format string, args ...any) { faults = append(faults, key+": "+fmt.Sprintf(format, args...)) })
	wants(t, faults, []string{
		"agents.max_depth: 9 is out of bounds", "agents.list[1].name: there is an agent named One already", "agents.list[1].prompt: is missing", "agents.list[1].limits: ", "agents.list[1].mode: deny",
		`agents.list[2].endpoint: there is no endpoint "nowhere"`, "agents.list[2].level: danger_full_access is above sessions.max_level", `agents.list[2].tools: there is no tool "nonsense"`,
	})
	var all []string
	for _, d := range config.All() {
		all = append(all, d.Name)
	}
	if got, want := strings.Join(all, " "), "one One two good tools"; got != want {
		t.Errorf("the agents are %q, not %q", got, want)
	}
	config.List = []agent.Definition{{Name: "Good", Prompt: "x"}}
	wants(t, config.Wrong(on), []string{
		`numbers.md: level: `, "empty.md: prompt: is missing", `bad name!.md: name: "bad name!" is no name`, "twice.md: there is an agent good in", "plain.md: it does not begin with",
		`agent tools: endpoint: there is no endpoint "nowhere"`, "agent tools: level: ", `agent tools: tools: there is no tool "nonsense"`,
		"agent good: agents.list has one of that name",
	})
}

// wants compares lines with what each has to have in it.
func wants(t *testing.T, got, want []string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(strings.Join(got, "\n"), part) {
			t.Errorf("there is no %q", part)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, not %d", len(got), len(want))
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}
