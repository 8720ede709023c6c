// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns text for a person who decides by what is shown: in one line,
// and with nothing in it that a terminal would obey, or that would not be seen.
// Control characters, spaces that are none of the keyboard, characters that turn
// the direction of text or have no shape, and bytes that are not UTF-8 are
// spelled out: ^[ and <U+202E> and <0xFF>. What is visible already stays as it
// is.
func Visible(text string) string { return visible(text, false) }

// VisibleText is Visible for text of several lines: ends of lines and tabs stay.
func VisibleText(text string) string { return visible(text, true) }

// MaxMarks is how many marks may stand on one letter in visible text; with more
// of them, the lines above and below could be painted over.
const MaxMarks = 3

func visible(text string, lines bool) string {
	if isVisible(text) {
		return text
	}
	var b strings.Builder
	marks := MaxMarks // as if there were no letter to put them on
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		mark := unicode.Is(unicode.M, r)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<0x%02X>", text[i])
		case lines && (r == '\n' || r == '\t' || strings.HasPrefix(text[i:], "\r\n")):
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			b.WriteByte('^')
			b.WriteByte(byte(r) ^ 0x40)
		case !seen(r), mark && marks == MaxMarks:
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		switch {
		case mark && marks < MaxMarks:
			marks++
		case unicode.IsLetter(r) && seen(r):
			marks = 0
		default:
			marks = MaxMarks
		}
		i += n
	}
	return b.String()
}

// isVisible reports whether text is of the keyboard's characters alone.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

// seen reports whether a character leaves a mark of its own.
func seen(r rune) bool {
	switch r {
	case 0x2800, 0x1d159: // symbols that are blank
		return false
	}
	return unicode.IsPrint(r) && !unicode.Is(unicode.Me, r) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}

// ValidText returns text as valid UTF-8. Looking first is many times faster than
// replacing what is not there.
func ValidText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Short returns text as valid UTF-8 of at most n bytes, cut between characters, and "…" where
// it was cut.
func Short(text string, n int) string {
	if len(text) > n {
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + "…"
	}
	return ValidText(text)
}

// Line returns text as valid UTF-8 on one line, of at most n characters, and "…" where it was cut.
func Line(text string, n int) string {
	line := []rune(strings.Join(strings.Fields(ValidText(text)), " "))
	if len(line) > n {
		return string(line[:n]) + "…"
	}
	return string(line)
}
