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

// dirty are texts with what is left of them.
var dirty = []struct{ name, raw, want string }{
	{"plain", "a\tb\nc\n", "a\tb\nc\n"},
	{"nothing", "", ""},
	{"letters", "grün 漢字 👍", "grün 漢字 👍"},
	{"colours", "\x1b[1;31mred\x1b[0m plain", "red plain"},
	{"intermediate", "\x1b[1 qx\x1b[!py", "xy"},
	{"title by BEL", "\x1b]0;title\ax", "x"},
	{"title by ST", "\x1b]0;title\x1b\\x", "x"},
	{"link", "\x1b]8;;https://example.com\x1b\\text\x1b]8;;\x1b\\", "text"},
	{"title without end", "\x1b]0;title\nnext", "\nnext"},
	{"title given up", "\x1b]0;ti\x1b[31mtext", "text"},
	{"picture", "a\x1bPq#0;2;0\n#1~~\x1b\\b", "ab"},
	{"picture without end", "a\x1bPq#0\nb", "a\nb"},
	{"charset", "\x1b(Bx\x1b)0y\x1b%Gz", "xyz"},
	{"two characters", "\x1b7x\x1b8y\x1b=z\x1bc", "xyz"},
	{"lone ESC", "x\x1b", "x"},
	{"ESC before a newline", "x\x1b\ny", "x\ny"},
	{"cut sequence", "x\x1b[1;3", "x"},
	{"broken sequence", "x\x1b[1\ny", "x\ny"},
	{"sequences of one character", "x\u009b31my\u009dtitle\u009cz\u0085", "xyz"},
	{"CRLF", "a\r\nb\r\r\nc", "a\nb\nc"},
	{"progress", "10%\r20%\r\ndone", "20%\ndone"},
	{"progress at the end", "10%\r100%\r", "100%"},
	{"shorter progress", "downloading\rok\n", "ok\n"},
	{"progress by column", "10%\x1b[1G20%\x1b[G30%\n", "30%\n"},
	{"erased line", "10%\x1b[2K20%\n", "20%\n"},
	{"progress on its line", "one\n10%\r20%\n", "one\n20%\n"},
	{"backspaces", "abc\b\b12", "a12"},
	{"spinner", "|\b/\b-\b\\\b", "\\"},
	{"bold by hand", "N\bNA\bAM\bM", "NAM"},
	{"more backspaces than text", "a\nb\b\b\bc", "a\nc"},
	{"backspace over a letter of two bytes", "aü\bo", "ao"},
	{"control characters", "a\x00b\x01c\x7fd\ae", "a␀b␁c␡de"},
	{"form feed", "a\fb\vc", "a\nb\nc"},
	{"invalid UTF-8", "a\xffb\xc3(\xe2\x82", "a\uFFFDb\uFFFD(\uFFFD\uFFFD"},
	{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
	{"BOM", "\uFEFFa\uFEFFb", "a<U+FEFF>b"},
	{"direction", "a\u202Eb\u2066c", "a<U+202E>b<U+2066>c"},
	{"no width", "a\u200Bb\u00ADc", "a<U+200B>b<U+00AD>c"},
	{"tags", "a\U000E0041b", "a<U+E0041>b"},
	{"filler", "a\u3164b\u2028c", "a<U+3164>b<U+2028>c"},
}

func TestClean(t *testing.T) {
	for _, test := range dirty {
		if got := output.Clean([]byte(test.raw)); got != test.want {
			t.Errorf("%s: %q became %q, want %q", test.name, test.raw, got, test.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, test := range dirty {
		f.Add([]byte(test.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := output.Clean(raw)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not valid", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) }); i >= 0 {
			t.Fatalf("%q has a control character at %d", got, i)
		}
		if again := output.Clean([]byte(got)); again != got {
			t.Fatalf("%q became %q when cleaned again", got, again)
		}
	})
}
