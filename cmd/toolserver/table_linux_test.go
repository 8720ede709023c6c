// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// TestTablesFit shows lists with long names on narrow terminals: what names a row
// is there in full, and no line is too long.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	name := "a-session-with-a-name-that-is-rather-long"
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("toolserver", append(args, "--address", server.address)...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	run("sessions", "create", name)
	id := run("call", "--session", name, "--detach", "--purpose", strings.Repeat("to wait and see ", 10), "sleep", "duration_ms=600000")
	for _, width := range []uint16{80, 60} {
		for _, test := range []struct {
			args []string
			has  []string
		}{
			{[]string{"sessions", "list"}, []string{name}},
			{[]string{"sessions", "show", name}, []string{name, "1 running"}},
			{[]string{"executions"}, []string{id, "sleep", "running"}},
			{[]string{"executions", "show", id}, []string{id, "sleep", "running", "verdict"}},
			{[]string{"tools"}, []string{"read_file"}},
		} {
			code, shown := onTerminal(t, width, append(test.args, "--address", server.address)...).end(t)
			if code != 0 {
				t.Errorf("%v: exit code %d: %q", test.args, code, shown)
			}
			for line := range strings.Lines(shown) {
				line = strings.TrimSuffix(line, "\n")
				if line = ansi.Strip(line); ansi.StringWidth(line) > int(width) {
					t.Errorf("%v on %d columns: %q", test.args, width, line)
				}
			}
			for _, want := range test.has {
				if !strings.Contains(shown, want) {
					t.Errorf("%v on %d columns does not show %q: %q", test.args, width, want, shown)
				}
			}
		}
	}
}
