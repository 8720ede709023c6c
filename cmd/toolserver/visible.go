// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible returns text for a person who decides by what is shown: in one line,
// and with nothing in it that a terminal would obey, or that would not be seen.
// Control characters, spaces that are none of the keyboard, characters that turn
// the direction of text or have no shape, and bytes that are not UTF-8 are
// spelled out.
func visible(text string) string {
	var b strings.Builder
	marks := maxMarks // as if there were no letter to put them on
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		mark := unicode.Is(unicode.M, r)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<0x%02X>", text[i])
		case r == '\t':
			b.WriteString(tab)
		case r < ' ' || r == 0x7f:
			b.WriteByte('^')
			b.WriteByte(byte(r) ^ 0x40)
		case !seen(r), mark && marks == maxMarks:
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		switch {
		case mark && marks < maxMarks:
			marks++
		case unicode.IsLetter(r) && seen(r):
			marks = 0
		default:
			marks = maxMarks
		}
		i += n
	}
	return b.String()
}

const (
	tab = "→   "

	// maxMarks is how many marks may stand on one letter; with more of them, the
	// lines above and below could be painted over.
	maxMarks = 3
)

// seen reports whether a character leaves a mark of its own on a terminal.
func seen(r rune) bool {
	switch r {
	case 0x2800, 0x1d159: // symbols that are blank
		return false
	}
	return unicode.IsPrint(r) && !unicode.Is(unicode.Me, r) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}

// isPlain reports whether a word stands for itself in a shell.
func isPlain(word string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	return word != "" && strings.Trim(word, letters) == ""
}

// visibleCommand writes the words of a command so that each can be told from
// the next, with "…" for those that nobody knows.
func visibleCommand(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		if words[i] = visible(word); word != "…" && !isPlain(word) {
			words[i] = visible(shellQuote(word))
		}
	}
	return strings.Join(words, " ")
}
