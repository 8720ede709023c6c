// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// WithoutInvisible returns text without the characters that a person does not see and a
// model reads: spaces without width, marks that turn the direction of text, tags, fillers
// and variation selectors. Those that take part in how a character is drawn stay: one
// joiner between two characters beyond ASCII, as in families of emoji and in Persian, and one
// selector of a style behind such a character. Text without any is returned as it is.
func WithoutInvisible(text string) string {
	at := firstInvisible(text)
	if at < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	b.WriteString(text[:at])
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	for i := at; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		after, _ := utf8.DecodeRuneInString(text[i+n:])
		if r == utf8.RuneError && n == 1 || !invisible(r) || drawn(before, r, after) {
			b.WriteString(text[i : i+n])
			before = r
		}
		i += n
	}
	return b.String()
}

// EscapeInvisible returns JSON whose strings have such characters as escapes, which every
// reader takes for the same. JSON without any is returned as it is.
func EscapeInvisible(text string) string {
	at := firstInvisible(text)
	if at < 0 {
		return text
	}
	b := []byte(text[:at])
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	for i := at; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		after, _ := utf8.DecodeRuneInString(text[i+n:])
		switch {
		case r == utf8.RuneError && n == 1 || !invisible(r) || drawn(before, r, after):
			b = append(b, text[i:i+n]...)
			before = r
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		i += n
	}
	return string(b)
}

// firstInvisible returns where the first such character is, or -1. It passes over ASCII
// eight bytes at a time: nearly all text is that.
func firstInvisible(text string) int {
	for i := 0; i < len(text); {
		if rest := text[i:]; len(rest) >= 8 && isASCII(rest[:8]) {
			i += 8
			continue
		}
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if invisible(r) {
			return i
		}
		i += n
	}
	return -1
}

// isASCII reports whether eight bytes are, which the compiler loads at once.
func isASCII(s string) bool {
	_ = s[7]
	word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return word&0x8080808080808080 == 0
}

// Characters that join others.
const (
	nonJoiner = 0x200c
	joiner    = 0x200d
)

// invisible reports whether a character has no shape of its own.
func invisible(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0xfeff, 0xfff9 <= r && r <= 0xfffb, 0x200b <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f:
		return true
	case 0xe0000 <= r && r <= 0xe0fff, r == 0x61c, r == 0x180e, 0x1bca0 <= r && r <= 0x1bca3, 0x1d173 <= r && r <= 0x1d17a:
		return true
	}
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

// drawn reports whether a character that is invisible changes how its neighbours are
// drawn.
func drawn(before, r, after rune) bool {
	shaped := func(r rune) bool {
		return r >= 0xa0 && r != utf8.RuneError && (!invisible(r) || isStyle(r)) && !unicode.IsSpace(r)
	}
	switch {
	case r == joiner || r == nonJoiner:
		return shaped(before) && shaped(after) && !isStyle(after)
	case isStyle(r):
		// Digits, # and * become keys with the one for emoji.
		return shaped(before) && !isStyle(before) || r == 0xfe0f && (before == '#' || before == '*' || '0' <= before && before <= '9') && after == 0x20e3
	}
	return false
}

// isStyle reports whether a character chooses between text and picture for the one before.
func isStyle(r rune) bool { return r == 0xfe0e || r == 0xfe0f }
