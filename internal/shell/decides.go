// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxDecided is the size of the longest command that Decides looks at.
const maxDecided = 16 << 10

// Decides returns the program whose exit status is that of a command: "grep",
// "git grep", "[[" for a condition of bash. It is "" where that is unclear, or where
// another program may have ended it with the same status and without a word.
func Decides(text string) string {
	if len(text) > maxDecided || strings.Contains(text, "pipefail") {
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
			return "[["
		case *syntax.CallExpr:
			if len(cmd.Args) == 0 {
				return ""
			}
			name := path.Base(cmd.Args[0].Lit())
			if name == "git" && len(cmd.Args) > 1 {
				name += " " + cmd.Args[1].Lit()
			}
			return name
		}
		return ""
	}
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
