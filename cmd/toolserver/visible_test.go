// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain text, café, 漢字, Привет, 👍", "plain text, café, 漢字, Привет, 👍"},
		{"\x1b[2J\x1b]0;owned\x07", "^[[2J^[]0;owned^G"},
		{"rm -rf x\rls       ", "rm -rf x^Mls       "},
		{"a\bb\x00\x7f\n", "a^Hb^@^?^J"},
		{"a\tb", "a→   b"},
		{"\u009b2J\x9b", "<U+009B>2J<0x9B>"},
		{"safe\u202egpj.exe\u202c", "safe<U+202E>gpj.exe<U+202C>"},
		{"\u2066a\u2069\u200f\u061c", "<U+2066>a<U+2069><U+200F><U+061C>"},
		{"zero\u200bwidth\u200d\ufeff\u2060\u00ad", "zero<U+200B>width<U+200D><U+FEFF><U+2060><U+00AD>"},
		{"no\u00a0break\u3000wide\u2028line", "no<U+00A0>break<U+3000>wide<U+2028>line"},
		{"\u3164\u115f\uffa0\u2800", "<U+3164><U+115F><U+FFA0><U+2800>"},
		{"tag\U000e0041\U000e007f", "tag<U+E0041><U+E007F>"},
		{"\ufe0f\U000e0100\ue000\U0010ffff", "<U+FE0F><U+E0100><U+E000><U+10FFFF>"},
		{"e\u0301", "e\u0301"},
		{"a" + strings.Repeat("\u0335", 5), "a\u0335\u0335\u0335<U+0335><U+0335>"},
		{"\u0301 \u0301", "<U+0301> <U+0301>"},
		{"1\u20dd", "1<U+20DD>"},
		{"\uFFFD\xff", "\uFFFD<0xFF>"},
	} {
		if got := visible(test.in); got != test.want {
			t.Errorf("visible(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestVisibleCommand(t *testing.T) {
	for _, test := range []struct {
		argv []string
		want string
	}{
		{[]string{"git", "push", "--force"}, "git push --force"},
		{[]string{"rm", "a b", "", "it's"}, `rm 'a b' '' 'it'\''s'`},
		{[]string{"…", "x\x1b[A"}, "… 'x^[[A'"},
		{[]string{"echo", "a\u202eb", "$HOME"}, "echo 'a<U+202E>b' '$HOME'"},
	} {
		if got := visibleCommand(test.argv); got != test.want {
			t.Errorf("visibleCommand(%q) = %q, want %q", test.argv, got, test.want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "text", "\x1b[31m", "a\u202eb\u200b", "e\u0301\u0301\u0301\u0301", "\xff\xc3", "\U000e0041"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := visible(text)
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		marks := 0
		for _, r := range got {
			if r != ' ' && !unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector) {
				t.Errorf("%U in %q", r, got)
			}
			if unicode.Is(unicode.M, r) {
				marks++
			} else {
				marks = 0
			}
			if marks > maxMarks {
				t.Errorf("%d marks in %q", marks, got)
			}
		}
		if columns(text) > 0 && columns(got) == 0 {
			t.Errorf("%q is not seen", text)
		}
	})
}
