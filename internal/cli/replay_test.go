// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"testing"
)

// replayed returns what is shown of output that came in chunks.
func replayed(chunks ...string) string {
	var r replay
	var shown []byte
	for _, chunk := range chunks {
		shown = append(shown, r.filter([]byte(chunk))...)
	}
	return string(shown)
}

// TestHistoryAsksNothing proves that what a terminal would answer is not asked a
// second time, wherever the output is cut, and that all else is shown.
func TestHistoryAsksNothing(t *testing.T) {
	t.Parallel()
	cut := func(text, want string) {
		t.Helper()
		for i := range len(text) + 1 {
			if got := replayed(text[:i], text[i:]); got != want {
				t.Errorf("%q and %q: %q is shown, want %q", text[:i], text[i:], got, want)
			}
		}
	}
	for _, query := range []string{
		"\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n", "\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[>0c", "\x1b[=c", "\x1b[0x", "\x1b[14t", "\x1b[18t", "\x1b[21t",
		"\x1b[?2026$p", "\x1b[4$p", "\x1b[>q", "\x1b[>0q", "\x1b[?u", "\x1b[?4m", "\x1b[?1;1;0S", "\x1b[1$w", "\x1b[1;1;1;1;1;1*y", "\x1bZ", "\x05",
		"\x1bP$qm\x1b\\", "\x1bP+q544e;436f\x1b\\", "\x1b]10;?\x07", "\x1b]11;?\x1b\\", "\x1b]4;1;?\x1b\\", "\x1b]52;c;?\x07", "\x1b]1337;ReportCellSize\x07",
		"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
		"\x1b[\n6n", "\x1b[\x056n", "\x1b\x7f[6n", // a terminal reads over these
	} {
		cut("a"+query+"b", "ab")
	}
	for _, text := range []string{
		"", "what?", "漢字\r\n", "\x1b[31m", "\x1b[2J", "\x1b[10;5H", "\x1b[?1049h", "\x1b[3 q", "\x1b[22;0;0t", "\x1b[8;24;80t", "\x1b[>4;2m", "\x1b[>4n", "\x1b[u", "\x1b[2S", "\x1b[!p",
		"\x1b(B", "\x1b7", "\x1b>", "\x1b]0;title\x07", "\x1b]2;is it?\x1b\\", "\x1b]8;;http://x/?\x1b\\link", "\x1b]11;#000000\x07", "\x1bPq#0~~\x1b\\", "\x1b_Ga=T,f=100;AAAA\x1b\\",
	} {
		cut("a"+text+"b", "a"+text+"b")
	}
	for text, want := range map[string]string{ // sequences that are cut off
		"\x1b[\x1b[6n6n":              "6n",
		"\x1b\x1b[6n[6n":              "[6n",
		"\x1b]11;\x1b[6n?\x07":        "?\x07",
		"\x1b[3\x18\x1b[6n1m":         "1m",
		"\x1bPtmux;\x1b\x1b[6n\x1b\\": "\x1b\\",
		"a\x1b[6":                     "a",
		"a\x1b]11;?":                  "a",
		"a\x1b]0;title\x1b":           "a",
	} {
		cut(text, want)
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte("a\x1b[6nb\x1b]11;?\x1b\\c\x1bP+q436f\x1b\\\x05\x1b[1;31md"), 3, 12)
	f.Add([]byte("\x1b[\x1b[6n6n\x1b]11;\x1b[c?\x07\x18\x1b(B\xff"), 2, 9)
	f.Fuzz(func(t *testing.T, data []byte, one, two int) {
		if one < 0 || two < one || two > len(data) {
			t.Skip()
		}
		var whole, parts, again replay
		shown := whole.filter(bytes.Clone(data))
		var joined []byte
		for _, chunk := range [][]byte{data[:one], data[one:two], data[two:]} {
			joined = append(joined, parts.filter(chunk)...)
		}
		if !bytes.Equal(shown, joined) || !bytes.Equal(whole.held, parts.held) {
			t.Errorf("%q, and %q when it is cut at %d and %d", shown, joined, one, two)
		}
		if twice := again.filter(shown); !bytes.Equal(shown, twice) || len(again.held) > 0 {
			t.Errorf("%q, and %q without what is taken out then", shown, twice)
		}
	})
}
