// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestJailsAside: what runs beside calls has the jail of one before, whose temporary
// directory is as good as new; where that is not so, another.
func TestJailsAside(t *testing.T) {
	r, _ := newRunner(t)
	aside := func(script string) string {
		return run(t, r, command.Command{
			Path: "sh", Args: []string{"-c", `echo "$TMPDIR"; ls -A "$TMPDIR"; stat -c %a "$TMPDIR"; ` + script}, Apart: true,
			Rights: tools.Rights{Confinement: tools.Reading, Network: tools.NetworkNone, Aside: true},
		})
	}
	first := aside("")
	if !strings.HasSuffix(first, "\n700\n") || strings.Count(first, "\n") != 2 {
		t.Fatalf("a new directory: %q", first)
	}
	if again := aside(""); again != first {
		t.Errorf("%q, and then %q", first, again)
	}
	seen := map[string]bool{}
	for _, spoil := range []string{`echo x > "$TMPDIR/x"`, `mkdir "$TMPDIR/.x"`, `chmod 755 "$TMPDIR"`, `chmod 0 "$TMPDIR"`, ""} {
		out := aside(spoil)
		if seen[out] || !strings.HasSuffix(out, "\n700\n") || strings.Count(out, "\n") != 2 {
			t.Errorf("before %q there is %q", spoil, out)
		}
		seen[out] = true
	}
	call := run(t, r, command.Command{Path: "sh", Args: []string{"-c", `echo "$TMPDIR"`}})
	if strings.HasPrefix(first, call) {
		t.Error("a call has the temporary directory of what runs beside calls")
	}
}
