// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/shell"
	"github.com/toolserver/toolserver/internal/tools"
)

// deniedParts names what was denied of a command that runs several programs; nothing of
// others, where it is the call itself that may not be made, and where the reason has it.
func deniedParts(d *policy.Decision) string {
	const most = 3
	programs, more := 0, 0
	var parts []string
	for i := range d.Effects {
		e, denied := &d.Effects[i].Effect, d.Effects[i].Verdict.Action == policy.Deny
		if e.Kind == tools.RunsProgram {
			programs++
		}
		if !denied {
			continue
		}
		text, what := "", e.Path
		switch e.Kind {
		case tools.RunsProgram:
			text, what = "", commandText(e.Argv)
		case tools.ReadsPath:
			text = "reading "
		case tools.WritesPath:
			text = "writing "
		case tools.ReachesHost:
			text, what = "reaching ", e.Host
		default:
			return ""
		}
		text += output.Visible(what)
		switch {
		case slices.Contains(parts, text) || what == "" || len(what) > 3 && strings.Contains(d.Reason, what):
		case len(parts) == most:
			more++
		default:
			parts = append(parts, text)
		}
	}
	if programs < 2 || len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// commandText writes the words of a command in one line, of which the beginning tells
// enough.
func commandText(argv []string) string {
	const most = 120
	list := ShownWords(argv)
	for i, word := range list {
		if argv[i] != tools.UnknownWord {
			list[i] = shell.Quote(word)
		}
	}
	text := []rune(strings.Join(list, " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// ShownWords writes the words of a command for people.
func ShownWords(argv []string) []string {
	list := slices.Clone(argv)
	for i, word := range list {
		if list[i] = output.Visible(word); word == tools.UnknownWord {
			list[i] = "…"
		}
	}
	return list
}
