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
	if len(text) > maxDecided {
		return ""
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) == 0 || endsElsewhere(file) {
		return ""
	}
	stmt := file.Stmts[len(file.Stmts)-1]
	for {
		if stmt.Negated || stmt.Background || stmt.Coprocess {
			return ""
		}
		if at := hidesErrors(stmt); at >= 0 && at < len(stmt.Redirs)-1 {
			return "" // of a file that one after it does not open, nothing is heard
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

// enders are builtins that end a script, change how it ends or which command a
// name means, or run what is not seen here.
var enders = []string{"exit", "return", "exec", "set", "shopt", "trap", "eval", "source", ".", "command", "builtin", "enable"}

// endsElsewhere reports whether something may end a script before its last command,
// and without a word, or is called that is not known by its name.
func endsElsewhere(file *syntax.File) bool {
	found := false
	piped := make(map[*syntax.Stmt]bool) // runs in a process of its own
	syntax.Walk(file, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.FuncDecl:
			found = true
		case *syntax.CallExpr:
			if len(node.Args) > 0 {
				name := node.Args[0].Lit()
				found = found || name == "" || strings.ContainsAny(name, `\{*?`) || slices.Contains(enders, name)
			}
		case *syntax.BinaryCmd:
			if node.Op == syntax.Pipe || node.Op == syntax.PipeAll {
				piped[node.X] = true
			}
		case *syntax.Stmt:
			// An expansion or assignment that fails ends the script. A simple command
			// tells of it before it redirects anything.
			_, simple := node.Cmd.(*syntax.CallExpr)
			found = found || !simple && !piped[node] && hidesErrors(node) >= 0
		}
		return !found
	})
	return found
}

// saysWhy reports whether a command is one that does not fail without a word on
// standard error.
func saysWhy(stmt *syntax.Stmt) bool {
	if stmt.Negated || hidesErrors(stmt) >= 0 {
		return false
	}
	if both, ok := stmt.Cmd.(*syntax.BinaryCmd); ok && both.Op == syntax.AndStmt {
		return saysWhy(both.X) && saysWhy(both.Y)
	}
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"cd", "pushd", "export", "echo", "ls", "cat"}, call.Args[0].Lit())
}

// hidesErrors returns which redirection of a statement is the first to lead standard
// error elsewhere, or -1.
func hidesErrors(stmt *syntax.Stmt) int {
	return slices.IndexFunc(stmt.Redirs, func(r *syntax.Redirect) bool {
		switch {
		case r.N != nil && r.N.Value == "2", r.Op == syntax.RdrAll, r.Op == syntax.AppAll:
			return true
		case r.Op == syntax.DplOut: // >&file
			return !slices.Contains([]string{"1", "2"}, r.Word.Lit())
		}
		return false
	})
}
