// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"fmt"
	"testing"

	"github.com/toolserver/toolserver/internal/shell/programs"
)

func TestSed(t *testing.T) {
	for script, want := range map[string]string{
		"s/a/b/":               "[] true",
		"s/a/b/w out":          "[{write out}] true",
		"s/a/b/e":              "[{unsafe }] true",
		"1r in":                "[{read in}] true",
		"/x/w log\ne date":     "[{write log} {run date}] true",
		"y/abc/def/;p;$!d":     "[] true",
		"s/a/b":                "[] false",
		"s|w out|e|;s,a,b,gI2": "[] true",
	} {
		steps, ok := programs.Sed(script)
		if got := fmt.Sprint(steps, ok); got != want {
			t.Errorf("%q: %s, want %s", script, got, want)
		}
	}
}

func TestAwk(t *testing.T) {
	for program, does := range map[string]bool{
		"{print $1}":             false,
		`/x/ {n++} END{print n}`: false,
		`{print > "out"}`:        true,
		`{print | "sh"}`:         true,
		`BEGIN{system("id")}`:    true,
		`{getline line < "f"}`:   true,
	} {
		if got := programs.Awk(program); (got != "") != does {
			t.Errorf("%s: %q", program, got)
		}
	}
}

func TestGitKeys(t *testing.T) {
	for key, want := range map[string]string{
		"core.hookspath": "trusts", "alias.st": "trusts", "filter.a.b.clean": "trusts", "includeif.gitdir:x.path": "trusts",
		"user.name": "harmless", "color.diff.meta": "harmless", "remote.origin.url": "", "plain": "",
	} {
		got := ""
		switch {
		case programs.GitTrusts(key):
			got = "trusts"
		case programs.GitHarmless(key):
			got = "harmless"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestTables reads every table, and finds in it what a reader would.
func TestTables(t *testing.T) {
	for name, operands := range map[string]string{"cp": "", "tar": "", "rsync": ""} {
		if p := programs.All()[name]; p == nil || p.Operands == operands {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := programs.Git()["push"]; p == nil {
		t.Error("git push is not there")
	}
	if !programs.Dangerous("LD_PRELOAD") || programs.Dangerous("COLUMNS") {
		t.Error("variables")
	}
}
