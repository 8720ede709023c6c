// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"slices"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
)

// TestLogical gives lines as they stand on a page, and as they are spoken.
func TestLogical(t *testing.T) {
	for page, want := range map[string]string{
		"plain text (1), no change":  "plain text (1), no change",
		"ם\u05dcוע םולש":             "שלום עולם",
		"םולש 123 רפסמ":              "מספר 123 שלום",
		"(אבג)":                      "(גבא)",
		"the word םולש and םולש too": "the word שלום and שלום too",
		"one םולש 42 רפסמ two":       "one מספר 42 שלום two",
		"םולש hello world רפסמ":      "מספר hello world שלום",
		"":                           "",
	} {
		if got := logical(page); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

// FuzzLogical: no character is lost, whatever stands beside it.
func FuzzLogical(f *testing.F) {
	for _, text := range []string{"", "a", "םולש 123 (x)", "\xff(ם[1]", "ا١٢ب-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		letters := func(text string) string {
			runes := slices.DeleteFunc([]rune(text), func(r rune) bool {
				properties, _ := bidi.LookupRune(r)
				return properties.IsBracket() // which are turned with their run
			})
			slices.Sort(runes)
			return string(runes)
		}
		got := logical(text)
		if utf8.RuneCountInString(got) != utf8.RuneCountInString(text) || letters(got) != letters(text) {
			t.Errorf("%q: %q", text, got)
		}
	})
}
