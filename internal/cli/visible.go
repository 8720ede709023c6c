// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/toolserver/toolserver/internal/output"
)

// Visible returns text as a terminal can show it, in one line: the server sends
// most of it so already.
func Visible(text string) string {
	return output.Visible(strings.ReplaceAll(text, "\t", tab))
}

const tab = "→   "

// quoted returns a word for a shell, as it is where it stands for itself there.
func quoted(word string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	if word != "" && strings.Trim(word, letters) == "" {
		return word
	}
	return shellQuote(word)
}

// visibleCommand writes the words of a command so that each can be told from
// the next, with "…" for those that nobody knows.
func visibleCommand(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		if words[i] = word; word != "…" {
			words[i] = Visible(quoted(word))
		}
	}
	return strings.Join(words, " ")
}
