// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"math"
	"strings"
	"testing"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestBarLine(t *testing.T) {
	for _, test := range []struct {
		progress *pb.Progress
		width    int
		want     string
	}{
		{&pb.Progress{Message: "waiting", Done: 1500, Total: 3000, Unit: "ms"}, 60,
			"waiting [================                ]  50% 1.5s/3s 1.5s"},
		{&pb.Progress{Message: "copying", Done: 3 << 20, Total: 3 << 20, Unit: "bytes"}, 50,
			"copying [================] 100% 3.0MiB/3.0MiB 1.5s"},
		{&pb.Progress{Message: "indexing", Done: 12, Total: 30, Unit: "files"}, 200,
			"indexing [================                        ]  40% 12/30 files 1.5s"},
		{&pb.Progress{Message: "looking", Done: 12, Unit: "files"}, 40,
			"\\ looking 12 files 1.5s"},
		{&pb.Progress{Message: "a message that is much too long to be shown", Done: 1, Total: 2}, 40,
			"a message th… [=====     ]  50% 1/2 1.5s"},
		{&pb.Progress{Message: "bad\x1b[2J\nnumbers", Done: math.NaN(), Total: 2}, 60,
			"bad^[[2J numbers [                         ]   0% NaN/2 1.5s"},
		{&pb.Progress{Message: "漢字漢字漢字", Done: 1, Total: 2}, 36, "漢字漢字… [=====     ]  50% 1/2 1.5s"},
		{&pb.Progress{Message: "narrow", Done: 1, Total: 2}, 12, "50% 1/2 1.5s"},
		{nil, 30, "\\ 1.5s"},
	} {
		got := barLine(test.progress, 1500*time.Millisecond, test.width)
		if columns(got) > test.width {
			t.Errorf("%v: %d columns, at most %d: %q", test.progress, columns(got), test.width, got)
		}
		if got != test.want {
			t.Errorf("%v in %d columns:\n got %q\nwant %q", test.progress, test.width, got, test.want)
		}
	}
}

func FuzzBarLine(f *testing.F) {
	f.Add("waiting", 1.0, 3.0, "ms", 80, int64(time.Second))
	f.Fuzz(func(t *testing.T, message string, done, total float64, unit string, width int, elapsed int64) {
		if width < 0 || width > 1000 || elapsed < 0 {
			t.Skip()
		}
		line := barLine(&pb.Progress{Message: message, Done: done, Total: total, Unit: unit}, time.Duration(elapsed), width)
		if columns(line) > max(width, 1) {
			t.Errorf("%d columns, at most %d: %q", columns(line), width, line)
		}
		if strings.ContainsAny(line, "\x1b\n\r\x07\u009b") {
			t.Errorf("control characters in %q", line)
		}
	})
}

func TestHarmless(t *testing.T) {
	for _, test := range []struct{ in, want, rest string }{
		{"plain\ttext\n", "plain\ttext\n", ""},
		{"\x1b[31mred\x07", "^[[31mred^G", ""},
		{"a\u009bb\x7f", "a\uFFFDb^?", ""},
		{"a\x9bb", "a\uFFFDb", ""},
		{"one\r\ntwo\rthree", "one\ntwo\nthree", ""},
		{"line\r", "line", "\r"},
		{"caf\xc3", "caf", "\xc3"},
		{"\xe2\x82", "", "\xe2\x82"},
		{"€ 漢 👍", "€ 漢 👍", ""},
	} {
		safe, rest := harmless([]byte(test.in))
		if string(safe) != test.want || string(rest) != test.rest {
			t.Errorf("harmless(%q) = %q, %q, want %q, %q", test.in, safe, rest, test.want, test.rest)
		}
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"  two\r\nlines\tand  more ": "two lines and more",
		"a\u202eb\u200b\x1b[2J":      "a<U+202E>b<U+200B>^[[2J",
		"a\u009b\xff":                "a<U+009B><0xFF>",
		"漢字 é":                       "漢字 é",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", text, got, want)
		}
	}
}
