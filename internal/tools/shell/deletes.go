// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// deletes reports whether a command does nothing but delete: every program that the
// analysis finds in it is one that deletes, or only leads to one, and the analysis
// tells all that the program touches. A redirection makes a file, so no command that
// could have one counts.
func deletes(text string, place shell.Place) bool {
	if strings.ContainsAny(text, "<>") || !slices.ContainsFunc(deletingWords, func(word string) bool { return strings.Contains(text, word) }) {
		return false
	}
	// The analysis does not know the directories of a session by these names.
	text = ownDirs.ReplaceAllString(text, "/tmp")
	if strings.Contains(text, "HOME") || strings.Contains(text, "TMPDIR") {
		return false // they may be changed
	}
	substitutes := strings.ContainsAny(text, "$`")
	found := false
	for _, e := range shell.Effects(text, place) {
		switch e.Kind {
		case tools.ReadsPath, tools.WritesPath:
		case tools.RunsProgram:
			if !e.Complete || e.Unclear != "" {
				return false
			}
			switch path.Base(e.Program) {
			case "rm", "rmdir", "unlink":
				found = true
			case "cd", "command", "env", "nice":
			case "find":
				// A word that nobody knows could name a file to write.
				if substitutes || slices.ContainsFunc(e.Argv, writesFile) {
					return false
				}
				found = found || slices.Contains(e.Argv, "-delete")
			default:
				return false
			}
		default:
			return false
		}
	}
	return found
}

var ownDirs = regexp.MustCompile(`\$(\{(HOME|TMPDIR)\}|(HOME|TMPDIR)\b)`)

// deletingWords are in every command that deletes: others need no analysis.
var deletingWords = []string{"rm", "unlink", "-delete"}

// writesFile reports whether a word has find write its output to a file.
func writesFile(word string) bool {
	return strings.HasPrefix(word, "-fprint") || word == "-fls"
}
