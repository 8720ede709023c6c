// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const pageTop = `# Personas

Agents that were written for another system find their tools here by the names they know, call them as their models were
taught, and read results in the form they expect. A session chooses a system with ` + "`persona`" + `
(` + "`toolserver sessions create --persona claude-code`" + `); ListTools then shows that system's tools. Without a persona our own
tools are shown, and all names below can be called all the same: a name that several systems use is taken by the schema
that its input fits.

A call becomes a call of one of our tools before anything is decided about it. Policy, approvals, grants and audit see our
tool and its input, and the name that was called. A key that says "Has no effect here" is accepted and never loosens
anything. Schemas are in ` + "`internal/persona/systems`" + `, from which this page is made.
`

// TestPage proves that docs/personas.md tells what the data says. UPDATE_GOLDEN=1 writes it.
func TestPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageTop)
	for _, s := range Systems() {
		fmt.Fprintf(&b, "\n## %s (`%s`)\n\n| tool | becomes | keys |\n| --- | --- | --- |\n", s.Title, s.Name)
		for _, tool := range s.Tools {
			var ours []string
			for _, m := range tool.Means {
				if !slices.Contains(ours, "`"+m.Tool+"`") {
					ours = append(ours, "`"+m.Tool+"`")
				}
			}
			names := "`" + tool.Name + "`"
			for _, alias := range tool.Aliases {
				names += ", `" + alias + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", names, strings.Join(ours, ", "), strings.Join(keysOf(t, tool), ", "))
		}
		b.WriteString(longCommands(s))
		if len(s.Later) > 0 {
			b.WriteString("\nNot here yet:")
			for _, what := range slices.Sorted(maps.Keys(s.Later)) {
				fmt.Fprintf(&b, "\n- %s: %s", what, strings.Join(s.Later[what], ", "))
			}
			b.WriteString("\n")
		}
	}
	const file = "../../docs/personas.md"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("docs/personas.md is not what the data says: UPDATE_GOLDEN=1 go test -run TestPage ./internal/persona")
	}
}

// longCommands tells how a command is used that takes longer than a call.
func longCommands(s *System) string {
	w := words{s}
	starts := ""
	started := w.meanings("bash", func(theirs *Tool, m *Meaning) bool {
		for _, key := range []string{"run_in_background", "background_after_ms"} {
			if name, ok := m.keys[key]; ok {
				starts = theirs.Name + " with " + name
				return true
			}
		}
		starts = theirs.Name + m.chosen()
		return m.constants["run_in_background"] == true
	})
	if !started {
		return "\nA long command cannot be let run on: it has the time that a call may take.\n"
	}
	text, ours := "\nA long command is started by `"+starts+"`", false
	for _, step := range []struct{ does, tool string }{{"read", "process_output"}, {"fed", "process_input"}, {"ended", "process_signal"}} {
		name, ok := w.Tool(step.tool)
		if !ok {
			name, ours = step.tool, true
		}
		text += fmt.Sprintf(", %s by `%s`", step.does, name)
		if !ok {
			text += " of ours"
		}
	}
	text += ".\n"
	if ours {
		text += "The system has no tool for what is ours there: it can be called, and a session that names it in `tools.include` shows it.\n"
	}
	return text
}

// keysOf returns the keys of a tool's input, those that it must have with a star.
func keysOf(t *testing.T, tool *Tool) (keys []string) {
	tool.mustCompile()
	properties, ok := tool.shape["properties"].(map[string]any)
	if !ok {
		t.Fatalf("%s has no properties", tool.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(tool.Required, key) {
			key += "\\*"
		}
		keys = append(keys, key)
	}
	return keys
}
