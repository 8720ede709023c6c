// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolserver/toolserver/internal/command"
)

// findings are programs whose exit status 1 is an answer and no failure.
var findings = map[string]command.Finding{
	"grep": command.NothingFound, "egrep": command.NothingFound, "fgrep": command.NothingFound, "zgrep": command.NothingFound,
	"rg": command.NothingFound, "ag": command.NothingFound, "pgrep": command.NothingFound, "git grep": command.NothingFound,
	"diff": command.TheyDiffer, "cmp": command.TheyDiffer, "git diff": command.TheyDiffer,
	"test": command.NotSo, "[": command.NotSo,
}

// saysWhy reports whether a command is one that does not fail without a word on
// standard error.
func saysWhy(stmt *syntax.Stmt) bool {
	if both, ok := stmt.Cmd.(*syntax.BinaryCmd); ok && both.Op == syntax.AndStmt {
		return saysWhy(both.X) && saysWhy(both.Y)
	}
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"cd", "pushd", "export", "echo", "ls", "cat"}, call.Args[0].Lit())
}

// maxFinding is the size of the longest command that is looked at for a finding.
const maxFinding = 16 << 10

// finding returns what exit status 1 means of a command whose status is that of a
// program that looks for something; "" where it is of something else, or unclear.
func finding(text string) command.Finding {
	if len(text) > maxFinding || strings.Contains(text, "pipefail") {
		return ""
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) == 0 {
		return ""
	}
	stmt := file.Stmts[len(file.Stmts)-1]
	for {
		if stmt.Negated || stmt.Background || stmt.Coprocess {
			return ""
		}
		switch cmd := stmt.Cmd.(type) {
		case *syntax.BinaryCmd: // the last one counts, unless one before it failed
			if cmd.Op == syntax.AndStmt && !saysWhy(cmd.X) {
				return ""
			}
			stmt = cmd.Y
			continue
		case *syntax.TestClause:
			return command.NotSo
		case *syntax.CallExpr:
			if len(cmd.Args) == 0 {
				return ""
			}
			name := path.Base(cmd.Args[0].Lit())
			if name == "git" && len(cmd.Args) > 1 {
				name += " " + cmd.Args[1].Lit()
			}
			return findings[name]
		}
		return ""
	}
}
