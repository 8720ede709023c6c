// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// allowed are the commands that the policy of the attack cases lets run.
var allowed = strings.Split("ls,cat,echo,printf,grep,rg,find,sed,sort,head,tail,wc,test,date,true,pwd,"+
	"git status,git log,git diff,git show,git grep,git ls-remote,git archive,git blame,tar,awk,env", ",")

// automatic reports whether that policy would let an effect pass unasked.
func automatic(e tools.Effect) bool {
	if e.Unclear != "" {
		return false
	}
	switch e.Kind {
	case tools.RunsProgram:
		return e.ReadOnly || slices.ContainsFunc(allowed, func(prefix string) bool {
			words := strings.Fields(prefix)
			return len(e.Argv) >= len(words) && slices.Equal(words, e.Argv[:len(words)])
		})
	case tools.ReadsPath:
		return !strings.HasPrefix(e.Path, "/")
	}
	return false
}

// TestAttacks holds the attack cases of testdata/attacks.txt to what they expect:
// an effect that is not automatic, one that names the denied program, one that
// writes a protected path; and nothing but automatic effects where they must pass.
func TestAttacks(t *testing.T) {
	data, err := os.ReadFile("testdata/attacks.txt")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		head, rest, _ := strings.Cut(block, "\n")
		id, expect, _ := strings.Cut(strings.TrimPrefix(head, "# "), " ")
		var lines []string
		for line := range strings.SplitSeq(rest, "\n") {
			if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "> ") {
				lines = append(lines, line[2:])
			}
		}
		effects := shell.Effects(strings.Join(lines, "\n"), place)
		has := func(f func(tools.Effect) bool) bool { return slices.ContainsFunc(effects, f) }
		ok := false
		switch expect {
		case "not_auto":
			ok = has(func(e tools.Effect) bool { return !automatic(e) })
		case "deny":
			ok = has(func(e tools.Effect) bool { return e.Program == "touch" && e.Unclear == "" })
		case "contained":
			ok = has(func(e tools.Effect) bool {
				if e.Program == "git" && e.Unclear != "" {
					return true // what git would run later is looked at afterwards
				}
				return e.Kind == tools.WritesPath && (strings.HasPrefix(e.Path, ".git") || strings.HasPrefix(e.Path, ".husky") || e.Glob)
			})
		case "allow": // the last of them builds, which a policy has to allow
			ok = !has(func(e tools.Effect) bool { return !automatic(e) && e.Program != "go" })
		}
		if !ok {
			t.Errorf("%s: not %s: %v", id, expect, effects)
		}
	}
}

// TestPlaces holds that paths are seen from where the command would run.
func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		place   shell.Place
		command string
		want    string
	}{
		{shell.Place{}, "> a", "write a"},
		{shell.Place{}, "> ../a", "write ../a"},
		{shell.Place{}, "> /a", "write /a"},
		{shell.Place{}, "> ~/a", "write ? !which file is meant is not known"},
		{shell.Place{Dir: "d/e"}, "> ../a", "write d/a named d/e/../a"},
		{shell.Place{Dir: "d", Workspace: "/ws"}, "> /ws/d/a", "write d/a"},
		{shell.Place{Dir: "/ws/d", Workspace: "/ws/"}, "> a", "write d/a"},
		{shell.Place{Dir: "/tmp", Workspace: "/ws"}, "> a", "write /tmp/a"},
		{shell.Place{Dir: "../x", Workspace: "/ws"}, "> a", "write /x/a"},
		{shell.Place{Workspace: "/"}, "> /a", "write a"},
		{shell.Place{Dir: "a*b", Workspace: "/ws"}, "rm *", `write glob:"a\\*b/*"/`},
		{shell.Place{Workspace: "/ws", Home: "/ws/home"}, "> ~/a", "write home/a"},
	} {
		effects := shell.Effects(test.command, test.place)
		if !slices.ContainsFunc(effects, func(e tools.Effect) bool { return notation(e) == test.want }) {
			t.Errorf("%+v: %s: %v, want %s", test.place, test.command, effects, test.want)
		}
	}
}

// TestTables holds that the tables can be read and that every program in them has
// somebody who follows it.
func TestTables(t *testing.T) {
	if names := shell.Strays(); len(names) > 0 {
		t.Errorf("nobody follows %v", names)
	}
}
