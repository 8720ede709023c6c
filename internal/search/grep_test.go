// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/soaktest"
)

// grepText returns the lines found in a text, as "number:text", with a - for
// lines of context.
func grepText(t *testing.T, p search.Pattern, o search.Options, text string) []string {
	t.Helper()
	var lines []string
	err := search.GrepText(p, o, []byte(text), func(f search.File) {
		for _, l := range f.Lines {
			lines = append(lines, fmt.Sprintf("%d%s%s", l.Number, separator(l.Context), l.Text))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestGrepLines(t *testing.T) {
	const text = "one\ntwo Foo\n\nthree foo_bar\nfour größe\nfive 12345\n"
	for _, test := range []struct {
		pattern search.Pattern
		options search.Options
		want    string // numbers, with a - after those of context
	}{
		{search.Pattern{Text: "foo"}, search.Options{}, "4"},
		{search.Pattern{Text: "foo", IgnoreCase: true}, search.Options{}, "2 4"},
		{search.Pattern{Text: "foo", SmartCase: true}, search.Options{}, "2 4"},
		{search.Pattern{Text: "Foo", SmartCase: true}, search.Options{}, "2"},
		{search.Pattern{Text: `\Soo`, SmartCase: true}, search.Options{}, "2 4"},
		{search.Pattern{Text: "foo", Word: true}, search.Options{}, ""},
		{search.Pattern{Text: "foo", Word: true, IgnoreCase: true}, search.Options{}, "2"},
		{search.Pattern{Text: "foo.bar", Word: true}, search.Options{}, "4"},
		{search.Pattern{Text: "gr", Word: true}, search.Options{}, ""},
		{search.Pattern{Text: "größe", Word: true}, search.Options{}, "5"},
		{search.Pattern{Text: "GRÖSSE|GRÖẞE", IgnoreCase: true}, search.Options{}, "5"},
		{search.Pattern{Text: "^$"}, search.Options{}, "3"},
		{search.Pattern{Text: ""}, search.Options{}, "1 2 3 4 5 6"},
		{search.Pattern{Text: "o$"}, search.Options{}, "2"},
		{search.Pattern{Text: "^t"}, search.Options{}, "2 4"},
		{search.Pattern{Text: `\d{5}`}, search.Options{}, "6"},
		{search.Pattern{Text: `\bfo`}, search.Options{}, "4 5"},
		{search.Pattern{Text: `e\b`}, search.Options{}, "1 4 5 6"},
		{search.Pattern{Text: `\Boo\b`}, search.Options{}, "2"},
		{search.Pattern{Text: "one|five"}, search.Options{}, "1 6"},
		{search.Pattern{Text: "f.ve [0-9]+"}, search.Options{}, "6"},
		{search.Pattern{Text: "one", Invert: true}, search.Options{}, "2 3 4 5 6"},
		{search.Pattern{Text: "one", WholeLine: true}, search.Options{}, "1"},
		{search.Pattern{Text: "on", WholeLine: true}, search.Options{}, ""},
		{search.Pattern{Text: "a.b", Literal: true}, search.Options{}, ""},
		{search.Pattern{Text: "foo_", Literal: true}, search.Options{}, "4"},
		{search.Pattern{Text: "foo"}, search.Options{Before: 1}, "3- 4"},
		{search.Pattern{Text: "foo"}, search.Options{After: 1}, "4 5-"},
		{search.Pattern{Text: "o"}, search.Options{Before: 9, After: 9}, "1 2 3- 4 5 6-"},
		{search.Pattern{Text: "one|five"}, search.Options{After: 1, Before: 1}, "1 2- 5- 6"},
		{search.Pattern{Text: "o"}, search.Options{MaxPerFile: 2}, "1 2"},
		{search.Pattern{Text: "o"}, search.Options{MaxPerFile: 1, After: 1}, "1 2-"},
		{search.Pattern{Text: "Foo\n\nthree", Multiline: true}, search.Options{}, "2 3 4"},
		{search.Pattern{Text: "Foo\n", Multiline: true}, search.Options{}, "2"},
		{search.Pattern{Text: "o.*f", Multiline: true, DotAll: true}, search.Options{}, "1 2 3 4 5 6"},
		{search.Pattern{Text: "Foo$", Multiline: true}, search.Options{After: 1}, "2 3-"},
		{search.Pattern{Text: `\s+three`, Multiline: true}, search.Options{Before: 1}, "1- 2 3 4"},
	} {
		var want []string
		for _, n := range strings.Fields(test.want) {
			n, context := strings.CutSuffix(n, "-")
			i, _ := strconv.Atoi(n)
			want = append(want, n+separator(context)+strings.Split(text, "\n")[i-1])
		}
		if got := grepText(t, test.pattern, test.options, text); !slices.Equal(got, want) {
			t.Errorf("%+v %+v\ngot  %q\nwant %q", test.pattern, test.options, got, want)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	x := newTree(t, 0)
	for _, test := range []struct {
		pattern search.Pattern
		want    string
	}{
		{search.Pattern{Text: "a("}, "missing closing ): `a(`; set literal"},
		{search.Pattern{Text: "a(?=b)"}, "look-around"},
		{search.Pattern{Text: `(a)\1`}, "back-references"},
		{search.Pattern{Text: "((a{1,1000}){1,1000}){1,1000}"}, "no regular expression"},
		{search.Pattern{Text: "a\nb"}, "set multiline"},
		{search.Pattern{Text: `a\nb`}, "set multiline"},
		{search.Pattern{Text: "a", Multiline: true, Invert: true}, "cannot be used together"},
		{search.Pattern{Text: "\xff"}, "not valid UTF-8"},
		{search.Pattern{Text: strings.Repeat("a", 1<<20)}, "at most"},
	} {
		_, err := x.engine().Grep(t.Context(), test.pattern, search.Scope{}, search.Options{}, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: %v, want %q", test.pattern.Text, err, test.want)
		}
	}
	for _, scope := range []search.Scope{{Types: []string{"golang"}}, {Globs: []string{"{a"}}, {Match: "a}"}, {Match: "!a"}, {Globs: make([]string, 1000)}} {
		if _, _, err := x.engine().Glob(t.Context(), scope, search.ByName); err == nil {
			t.Errorf("%+v is no error", scope)
		}
	}
	if _, _, err := x.engine().Glob(t.Context(), search.Scope{Path: "gone"}, search.ByName); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that is not there: %v", err)
	}
}

// TestTypes compares the table of types with ripgrep's.
func TestTypes(t *testing.T) {
	out := newTree(t, 0).run(ripgrep(t), "--type-list")
	want := make(map[string]string)
	for _, line := range out {
		if name, globs, ok := strings.Cut(line, ": "); ok {
			want[name] = strings.ReplaceAll(globs, ", ", " ")
		}
	}
	for _, name := range search.Types() {
		if search.FileTypes[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, search.FileTypes[name], want[name])
		}
	}
	if len(want) != len(search.FileTypes) {
		t.Errorf("%d types, want %d", len(search.FileTypes), len(want))
	}
}

// found returns what a search of a tree finds, as "path:number:text".
func (x *tree) found(p search.Pattern, s search.Scope, o search.Options) ([]string, search.Summary) {
	x.t.Helper()
	var lines []string
	sum, err := x.engine().Grep(x.t.Context(), p, s, o, func(f search.File) bool {
		for _, l := range f.Lines {
			lines = append(lines, fmt.Sprintf("%s:%d:%s", f.Path, l.Number, l.Text))
		}
		return true
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return lines, sum
}

func TestGrepEncodings(t *testing.T) {
	x := newTree(t, 0)
	units := utf16.Encode([]rune("first\nzweite größe 😀\n"))
	little, big := []byte{0xff, 0xfe}, []byte{0xfe, 0xff}
	for _, u := range units {
		little = append(little, byte(u), byte(u>>8))
		big = append(big, byte(u>>8), byte(u))
	}
	x.write("little", string(little))
	x.write("big", string(big))
	x.write("marked", "\xEF\xBB\xBFgröße\n")
	x.write("binary", "größe\n\x00")
	x.write("late", strings.Repeat("x\n", 20_000)+"größe\n\x00")
	x.write("bad", "\xff größe \xff\n")
	got, sum := x.found(search.Pattern{Text: "^.*größe"}, search.Scope{}, search.Options{})
	want := []string{"big:2:zweite größe 😀", "little:2:zweite größe 😀", "marked:1:größe"}
	if !slices.Equal(got, want) || sum.Binary != 2 || sum.Files != 6 {
		t.Errorf("got %q\nwant %q, %+v", got, want, sum)
	}
	if got, _ := x.found(search.Pattern{Text: "größe"}, search.Scope{Path: "bad"}, search.Options{}); len(got) != 1 {
		t.Errorf("a line that is not UTF-8: %q", got)
	}
}

// TestGrepLargeFiles reads files piece by piece that are too large to be read at
// once, with lines longer than a piece.
func TestGrepLargeFiles(t *testing.T) {
	x := newTree(t, 0)
	const size = 20 << 20
	var b bytes.Buffer
	for i := 1; b.Len() < size; i++ {
		fmt.Fprintf(&b, "line %d of many\n", i)
		if i == 10_000 {
			b.WriteString(strings.Repeat("x", 9<<20) + "needle" + strings.Repeat("y", 1<<20) + "\n")
		}
	}
	b.WriteString("the last needle")
	x.write("large", b.String())
	lines := strings.Split(b.String(), "\n")
	var want []string
	for i, line := range lines {
		switch {
		case i == 10_000:
			want = append(want, "large:10001:needle")
		case i == 9_999, i == 10_001, i == len(lines)-2, i == len(lines)-1, i == 100_000:
			want = append(want, fmt.Sprintf("large:%d:%s", i+1, line))
		}
	}
	got, _ := x.found(search.Pattern{Text: "needle|line 100000 "}, search.Scope{}, search.Options{Before: 1, After: 1, MaxColumns: 200})
	got = slices.DeleteFunc(got, func(s string) bool { return strings.Contains(s, "line 99999 ") || strings.Contains(s, "line 100001 ") })
	for i := range got {
		if strings.Contains(got[i], "xneedley") {
			got[i] = "large:10001:needle"
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %.300q\nwant %.300q", got, want)
	}
	_, sum := x.found(search.Pattern{Text: "line", Invert: true}, search.Scope{}, search.Options{Mode: search.Counts})
	if sum.Matches != 2 {
		t.Errorf("%+v", sum)
	}
	if got, _ := x.found(search.Pattern{Text: "line"}, search.Scope{}, search.Options{MaxPerFile: 1, After: 2}); len(got) != 3 {
		t.Errorf("%.100q", got)
	}
}

func TestGrepSpecialFiles(t *testing.T) {
	x := newTree(t, 0)
	x.write("c.txt", "x\n")
	x.write("secret", "x\n")
	for _, name := range []string{"a.txt", ".gitignore"} {
		if err := syscall.Mkfifo(filepath.Join(x.root, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"up": "..", "top": "/", "here": ".", "dead": "gone", "link.txt": "c.txt", "etc": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(x.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	x.write("sparse", "")
	if err := os.Truncate(filepath.Join(x.root, "sparse"), 200<<30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	scope := search.Scope{Exclude: func(p string) bool { return p == "secret" }}
	if got, sum := x.found(search.Pattern{Text: "x"}, scope, search.Options{}); !slices.Equal(got, []string{"c.txt:1:x"}) || sum.Binary != 1 {
		t.Errorf("%q, %+v", got, sum)
	}
	scope.Follow = true
	if got, _ := x.found(search.Pattern{Text: "x|root"}, scope, search.Options{}); !slices.Equal(got, []string{"c.txt:1:x", "link.txt:1:x"}) {
		t.Errorf("with links followed: %q", got)
	}
}

// TestFollow goes through links to directories, and round no circle.
func TestFollow(t *testing.T) {
	x := newTree(t, 0)
	for _, dir := range []string{"real/deep", "secret"} {
		if err := os.MkdirAll(filepath.Join(x.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x.write("real/deep/f", "x\n")
	x.write("secret/f", "x\n")
	for name, target := range map[string]string{"link": "real", "real/deep/up": "../..", "real/deep/self": ".", "two": "link/deep", "s": "secret", "sf": "secret/f"} {
		if err := os.Symlink(target, filepath.Join(x.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	scope := search.Scope{Follow: true, Exclude: func(p string) bool { return p == "secret" }}
	got, _ := x.found(search.Pattern{Text: "x"}, scope, search.Options{})
	want := []string{"link/deep/f:1:x", "real/deep/f:1:x", "two/f:1:x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLongLines(t *testing.T) {
	line := strings.Repeat("é", 500) + "needle" + strings.Repeat("é", 500)
	for _, columns := range []int{10, 50, 99, 100} {
		err := search.GrepText(search.Pattern{Text: "needle"}, search.Options{MaxColumns: columns}, []byte(line), func(f search.File) {
			l := f.Lines[0]
			if len(l.Text) > columns || !utf8.Valid(l.Text) || !strings.Contains(string(l.Text), "needle") || l.Before+len(l.Text)+l.After != len(line) {
				t.Errorf("%d columns: %d, %q, %d", columns, l.Before, l.Text, l.After)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOrder proves that what is found comes in order, whoever finds it.
func TestOrder(t *testing.T) {
	x := newTree(t, 7)
	var want []string
	for d := range 5 {
		for f := range 200 {
			name := fmt.Sprintf("%03d", f)
			if d > 0 {
				name = fmt.Sprintf("d%d/%s", d, name)
			}
			if err := os.MkdirAll(filepath.Join(x.root, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			x.write(name, "x\nx\n")
			want = append(want, name)
		}
	}
	for _, limit := range []int{0, 1, 7, 300} {
		var got []string
		_, err := x.engine().Grep(t.Context(), search.Pattern{Text: "x"}, search.Scope{}, search.Options{Mode: search.Files, Limit: limit}, func(f search.File) bool {
			got = append(got, f.Path)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		wanted := want
		if limit > 0 {
			wanted = want[:limit]
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}

// TestStops ends a search that would take for ever, and keeps what it found.
func TestStops(t *testing.T) {
	x := newTree(t, 7)
	x.write("a", "abab\n")
	x.write("slow", strings.Repeat("ab", 4<<20))
	if err := os.Truncate(filepath.Join(x.root, "slow"), 8<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	var got []string
	_, err := x.engine().Grep(ctx, search.Pattern{Text: `^(a|b)*$|(a|b)*a(a|b){900}c`}, search.Scope{Path: "a"}, search.Options{}, func(f search.File) bool {
		got = append(got, f.Path)
		cancel(stop)
		return true
	})
	if len(got) != 1 || err != nil && !errors.Is(err, stop) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err = x.engine().Grep(ctx, search.Pattern{Text: "a"}, search.Scope{}, search.Options{}, func(search.File) bool { return true }); !errors.Is(err, stop) {
		t.Errorf("a context that is done: %v", err)
	}
	slow, cancelSlow := context.WithCancelCause(t.Context())
	asserts := new(atomic.Int64)
	_, err = x.engine().Grep(slow, search.Pattern{Text: `(a|b)*a(a|b){900}c`}, search.Scope{Exclude: func(path string) bool {
		if path == "slow" { // it is about to be searched
			asserts.Add(1)
			cancelSlow(stop)
		}
		return false
	}}, search.Options{}, func(search.File) bool { return true })
	if !errors.Is(err, stop) {
		t.Errorf("a slow pattern: %v", err)
	}
}

// TestPanic lets the caller recover from what goes wrong in a worker.
func TestPanic(t *testing.T) {
	x := newTree(t, 7)
	x.grow(100)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _ = x.engine().Grep(t.Context(), search.Pattern{Text: "o"}, search.Scope{}, search.Options{}, func(search.File) bool { panic("oh") })
}

func FuzzFind(f *testing.F) {
	f.Add("the needle in a haystack", "needle", 3)
	f.Add(strings.Repeat("a", 200)+"ab", "aab", 0)
	f.Add(strings.Repeat("xX", 100)+"XxY", "xxy", 70)
	f.Fuzz(func(t *testing.T, text, needle string, from int) {
		if needle == "" || from < 0 || from > len(text) {
			return
		}
		want := strings.Index(text[from:], needle)
		if want >= 0 {
			want += from
		}
		if quick, slow := search.FindLiteral(text, needle, false, from); quick != want || slow != want {
			t.Errorf("%q in %q from %d: %d and %d, want %d", needle, text, from, quick, slow, want)
		}
		lower := func(s string) string {
			b := []byte(s)
			for i, c := range b {
				if c >= 'A' && c <= 'Z' {
					b[i] = c | 0x20
				}
			}
			return string(b)
		}
		want = strings.Index(lower(text)[from:], lower(needle))
		if want >= 0 {
			want += from
		}
		if quick, slow := search.FindLiteral(text, lower(needle), true, from); quick != want || slow != want {
			t.Errorf("%q in %q from %d, whatever the case: %d and %d, want %d", needle, text, from, quick, slow, want)
		}
	})
}

// FuzzGrep compares with package regexp, line by line.
func FuzzGrep(f *testing.F) {
	for _, re := range []string{"foo", "fo+|ba[rz]", "^a.*b$", `\bx\b`, "[^a-z]é", "(?i)ks", "a{2,3}", "", "x*$", `\d+\s\w`, "(a|b)*abb", "foo|bar|baz"} {
		f.Add(re, "foo bar\nabxb\n\né x\nKS ſ\naaa 12 3\r\nabb", uint8(0))
	}
	f.Fuzz(func(t *testing.T, expression, text string, flags uint8) {
		if len(expression) > 100 || len(text) > 2000 || !utf8.ValidString(text) || strings.Contains(text, "\x00") || strings.ContainsAny(expression, "\n") {
			return
		}
		if strings.HasPrefix(text, "\xEF\xBB\xBF\xEF") || strings.Contains(expression, `\A`) || strings.Contains(expression, `\z`) || strings.Contains(expression, `(?`) {
			return // a mark is taken away once; the rest is about texts, not lines
		}
		p := search.Pattern{Text: expression, IgnoreCase: flags&1 != 0, Invert: flags&2 != 0, WholeLine: flags&4 != 0, Literal: flags&8 != 0}
		o := search.Options{Before: int(flags >> 4 & 3), After: int(flags >> 6 & 3)}
		var got []string
		err := search.GrepText(p, o, []byte(text), func(f search.File) {
			for _, l := range f.Lines {
				got = append(got, fmt.Sprintf("%d%s%s", l.Number, separator(l.Context), l.Text))
			}
		})
		if err != nil {
			return
		}
		lines, _, _ := referenceGrep([]byte(text), p, o)
		var want []string
		for _, l := range lines {
			want = append(want, fmt.Sprintf("%d%s%s", l.number, separator(l.context), l.text))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v %+v\ntext %q\ngot  %q\nwant %q", p, o, text, got, want)
		}
	})
}

// TestLanes searches texts that are long enough to be scanned in several parts
// at once, with patterns that have no literal to look for.
func TestLanes(t *testing.T) {
	x := newTree(t, 11)
	for i := range soaktest.Times(25, 2000) {
		var b strings.Builder
		for range 30 + x.r.IntN(300) {
			b.WriteString(strings.Repeat(pick(x.r, "a", "b", "ab ", "1", "é", "", "x y"), x.r.IntN(8)) + "\n")
		}
		if x.r.IntN(2) == 0 {
			b.WriteString(pick(x.r, "a", "b", "1", " "))
		}
		p := search.Pattern{Text: pick(x.r, "^$", "$", "[^a]", "^b|^$", `\b1`, `1\b`, "[ab]+[0-9]", "^[ab]+$", "(a|b)*b", "[0-9]{3}", `\Ba`, "é?b", "^.$", "^[^é]*$"), Invert: x.r.IntN(4) == 0}
		o := search.Options{Before: x.r.IntN(2), After: x.r.IntN(2)}
		lines, _, _ := referenceGrep([]byte(b.String()), p, o)
		var want []string
		for _, l := range lines {
			want = append(want, fmt.Sprintf("%d%s%s", l.number, separator(l.context), l.text))
		}
		if got := grepText(t, p, o, b.String()); !slices.Equal(got, want) {
			t.Fatalf("%d: %+v\ntext %q\ngot  %q\nwant %q", i, p, b.String(), got, want)
		}
	}
}
