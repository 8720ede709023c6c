// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
)

func TestWindow(t *testing.T) {
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	for _, test := range []struct {
		name  string
		limit int
		raw   string
		want  string
	}{
		{"nothing", 10, "", ""},
		{"just as long", 10, "0123456789", "0123456789"},
		{"lines", 40, numbers(1, 12345), "line 1\nline 2\n[… 12,342 lines, 121.7 KiB left out …]\nline 12345\n"},
		{"one line", 24, "a\nb\n" + strings.Repeat("c", 30) + "\nd\n", "a\nb\ncccccccc[… 13 bytes left out …]ccccccccc\nd\n"},
		{"one line of it", 24, "aaaa\nbbbb\n" + strings.Repeat("c", 30) + "\nddddd\nee\n", "aaaa\nbbbb\n[… 1 line, 31 bytes left out …]\nddddd\nee\n"},
		{"letters of two bytes", 10, strings.Repeat("ü", 20), "üü[… 32 bytes left out …]üü"},
		{"cleaned", 64, "\x1b[31mred\x1b[0m\n10%\r20%\n", "red\n20%\n"},
		{"longer when cleaned", 16, strings.Repeat("\xff", 16), "��[… 12 bytes left out …]��"},
		{"no room", 0, "ab\n", "[… 1 line, 3 bytes left out …]\n"},
		{"room for one", 1, "ab", "[… 1 byte left out …]\nb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 3, 7, 1 << 20} {
				w := output.NewWindow(test.limit)
				for rest := []byte(test.raw); len(rest) > 0; rest = rest[min(size, len(rest)):] {
					w.Write(rest[:min(size, len(rest))])
				}
				if got := w.Text(nil); got != test.want {
					t.Errorf("in pieces of %d:\n%q, want\n%q", size, got, test.want)
				}
			}
		})
	}
}

// TestNarrow: a window that was narrowed has what one has that was as narrow from the
// first.
func TestNarrow(t *testing.T) {
	for _, lines := range []int{3, 30, 300} {
		raw := strings.Repeat("a line of text\n", lines)
		wide, narrow := output.NewWindow(1000), output.NewWindow(100)
		wide.Write([]byte(raw))
		narrow.Write([]byte(raw))
		wide.Narrow(100)
		if got, want := wide.Text(nil), narrow.Text(nil); got != want {
			t.Errorf("%d lines:\n%q, want\n%q", lines, got, want)
		}
	}
}

// TestGap reads what a window left out from where it says that it begins: with that
// in its place there is everything.
func TestGap(t *testing.T) {
	raw := ""
	for i := range 40 {
		raw += strings.Repeat(fmt.Sprint(i, " ünï "), 1+i*i%7*i%23) + "\n"
	}
	for limit := range 400 {
		for _, w := range []*output.Window{output.NewWindow(limit), output.NewBeginning(limit)} {
			w.Write([]byte(raw))
			var gap output.Gap
			text := w.Text(func(g output.Gap) string { gap = g; return "MORE" })
			first, last, ok := strings.Cut(text, "[… ")
			_, last, _ = strings.Cut(last, ": MORE …]")
			lines := strings.SplitAfter(raw, "\n")
			rest := strings.Join(lines[gap.Line-1:], "")
			rest = string([]rune(rest)[gap.Column-1:])
			if gap.Column > 1 {
				first = strings.TrimSuffix(first, "\n")
			}
			if !ok || first+rest != raw || uint64(len(raw)-len(first)-len(strings.TrimPrefix(last, "\n"))) > gap.Bytes+1 {
				t.Fatalf("limit %d: %q, then %+v, of\n%q", limit, text, gap, raw)
			}
			if gap.Whole {
				middle := strings.Join(lines[gap.Line-1:gap.Line-1+int(gap.Lines)], "")
				if first+middle+strings.TrimPrefix(last, "\n") != raw || uint64(len(middle)) != gap.Bytes {
					t.Fatalf("limit %d: %q, without %+v, of\n%q", limit, text, gap, raw)
				}
			}
		}
	}
}

// FuzzWindow holds that the text is within the limit and what is kept the
// beginning and the end, however it was written.
func FuzzWindow(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree\nfour"), uint8(8), uint8(3))
	f.Add([]byte("ünï\ncödé"), uint8(5), uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, limit, size uint8) {
		whole, pieces := output.NewWindow(int(limit)), output.NewWindow(int(limit))
		whole.Write(raw)
		step := int(size) + 1
		for rest := raw; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			pieces.Write(rest[:min(step, len(rest))])
		}
		text := whole.Text(nil)
		if got := pieces.Text(nil); got != text {
			t.Fatalf("in pieces of %d: %q, want %q", step, got, text)
		}
		if !utf8.ValidString(text) || len(text) > int(limit)+80 {
			t.Fatalf("%q for a limit of %d", text, limit)
		}
		if clean := output.Clean(raw); clean == string(raw) && !bytes.Contains(raw, []byte("…")) {
			first, last, cut := strings.Cut(text, "[… ")
			if !strings.HasPrefix(clean, strings.TrimSuffix(first, "\n")) || !cut && text != clean {
				t.Fatalf("%q does not begin as %q", text, clean)
			}
			if _, last, _ = strings.Cut(last, " …]"); cut && !strings.HasSuffix(clean, strings.TrimPrefix(last, "\n")) {
				t.Fatalf("%q does not end as %q", text, clean)
			}
		}
	})
}
