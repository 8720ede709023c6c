// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
)

func TestVisible(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain text, café, 漢字, Привет, 👍", "plain text, café, 漢字, Привет, 👍"},
		{"\x1b[2J\x1b]0;owned\x07", "^[[2J^[]0;owned^G"},
		{"rm -rf x\rls       ", "rm -rf x^Mls       "},
		{"a\bb\x00\x7f\n", "a^Hb^@^?^J"},
		{"a\tb", "a^Ib"},
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
		if got := output.Visible(test.in); got != test.want {
			t.Errorf("Visible(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestVisibleText(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"one\n\ttwo\r\n", "one\n\ttwo\r\n"},
		{"hidden\rshown\n", "hidden^Mshown\n"},
		{"\x1b[8mhidden\x1b[0m\n", "^[[8mhidden^[[0m\n"},
		{"+if admin\u202e {\u2066// not\n", "+if admin<U+202E> {<U+2066>// not\n"},
		{"a\u2028b\vc", "a<U+2028>b^Kc"},
	} {
		if got := output.VisibleText(test.in); got != test.want {
			t.Errorf("VisibleText(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "text", "\x1b[31m", "a\u202eb\u200b", "e\u0301\u0301\u0301\u0301", "\xff\xc3", "\U000e0041"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := output.Visible(text)
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
			if marks > output.MaxMarks {
				t.Errorf("%d marks in %q", marks, got)
			}
		}
		if again := output.Visible(got); again != got {
			t.Errorf("%q is visible, and made %q again", got, again)
		}
		if len(got) < utf8.RuneCountInString(text) {
			t.Errorf("%q is not seen", text)
		}
		if lines := output.VisibleText(text); output.Visible(lines) != got {
			t.Errorf("%q in lines is %q", text, lines)
		}
	})
}
