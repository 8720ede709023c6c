// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/workspace"
)

// TestIndex searches enough text to be indexed in several segments, with files
// of several blocks, before and after most of it has changed.
func TestIndex(t *testing.T) {
	x := newTree(t, 8)
	line := func(i int) string {
		return fmt.Sprintf("func line%d(a int) error { return errors.New(%q) } // %x\n", i, strings.Repeat("ab", i%7), i*7919)
	}
	write := func(file, version int) {
		var b strings.Builder
		for i := range 3000 {
			b.WriteString(line(file*3000 + i + version*1_000_000))
		}
		if err := os.MkdirAll(filepath.Join(x.root, fmt.Sprint("d", file%10)), 0o755); err != nil {
			t.Fatal(err)
		}
		x.write(fmt.Sprintf("d%d/f%d.go", file%10, file), b.String())
	}
	const files = 12
	for i := range files {
		write(i, 0)
	}
	for _, config := range []index.Config{{}, {MaxText: 1 << 20}, {MaxText: 1}} { // the last has the index alone
		e := x.warmEngine(config)
		check := func() {
			t.Helper()
			for _, q := range []question{
				{pattern: search.Pattern{Text: "line12345"}}, {pattern: search.Pattern{Text: "LINE67777", IgnoreCase: true}}, {pattern: search.Pattern{Text: "line10042|line5(9|8)99"}},
				{pattern: search.Pattern{Text: `func line\d*432\(a.*ababab`}, options: search.Options{Before: 2, After: 1}},
				{pattern: search.Pattern{Text: "line1000123"}}, {pattern: search.Pattern{Text: "nowhere to be found"}},
				{pattern: search.Pattern{Text: "line5555", Word: true}}, {pattern: search.Pattern{Text: "line1234\\d.*\n.*line", Multiline: true}, options: search.Options{Mode: search.Files}},
			} {
				if !isWarm(t, e) {
					t.Fatal("the answers are not from memory")
				}
				if got, want := answer(t, e, q), answer(t, x.engine(), q); !slices.Equal(got, want) {
					t.Errorf("%s\ngot  %.500q\nwant %.500q", q, got, want)
				}
			}
		}
		check()
		text, kept, index := e.Memory()
		if text < 2<<20 || index == 0 || index > text/4 || config.MaxText != 0 && kept > int64(config.MaxText) || config.MaxText == 0 && kept != text {
			t.Errorf("%d bytes of text, %d kept, %d of index", text, kept, index)
		}
		for i := range files * 3 / 4 {
			write(i, 1)
		}
		check() // the old index, and much without one
		for i := range files {
			write(i, 0)
		}
		e.Close()
		if text, kept, index := e.Memory(); text != 0 || kept != 0 || index != 0 {
			t.Errorf("after it was closed: %d, %d, %d", text, kept, index)
		}
	}
}

// TestWithoutIndex searches again and again without an index: every answer is
// what is in the files at that time. That answers are the same with one is what
// TestWarmAsCold proves.
func TestWithoutIndex(t *testing.T) {
	x := newTree(t, 11)
	x.grow(50)
	e := search.NewPool(nil).Engine(x.ws)
	for i := range 10 {
		x.write("news.txt", fmt.Sprintf("needle %d\n", i))
		found := ""
		sum, err := e.Grep(t.Context(), search.Pattern{Text: `needle \d+`}, search.Scope{}, search.Options{}, func(f search.File) bool {
			found += string(f.Lines[0].Text)
			return true
		})
		if err != nil || sum.Warm || found != fmt.Sprint("needle ", i) {
			t.Errorf("search %d found %q, %+v, %v", i, found, sum, err)
		}
		if files, sum, err := e.Glob(t.Context(), search.Scope{Match: "news.txt"}, search.ByName); err != nil || sum.Warm || len(files) != 1 {
			t.Errorf("search %d found %v, %+v, %v", i, files, sum, err)
		}
	}
}

// TestUTF16 keeps texts that are UTF-16, whose characters have more bytes in
// UTF-8, beside others.
func TestUTF16(t *testing.T) {
	x := newTree(t, 19)
	const line = "\u691c\u7d22\u306f\u901f\u3044 needle"
	for i := range 20 {
		x.write(fmt.Sprint("a", i), strings.Repeat("plain needle\n", 100))
		raw := []byte("\xFF\xFE")
		for _, c := range utf16.Encode([]rune(strings.Repeat(line+"\n", 100))) {
			raw = append(raw, byte(c), byte(c>>8))
		}
		x.write(fmt.Sprint("b", i), string(raw))
	}
	for _, config := range []index.Config{{}, {MaxText: 1}} {
		e := x.warmEngine(config)
		for _, text := range []string{"needle", line, "\u901f", "[^a]+needle"} {
			q := question{pattern: search.Pattern{Text: text}}
			if got, want := answer(t, e, q), answer(t, x.engine(), q); !slices.Equal(got, want) || len(want) < 2000 || !isWarm(t, e) {
				t.Errorf("%s: %d lines, want %d: %.100q", text, len(got), len(want), got)
			}
		}
	}
}

// TestIdle proves that nothing is kept of a workspace that is not searched.
func TestIdle(t *testing.T) {
	x := newTree(t, 9)
	x.grow(50)
	synctest.Test(t, func(t *testing.T) {
		e := x.newEngine(index.Config{IdleAfter: time.Minute})
		defer e.Close()
		for range 3 { // the second time it is worth it
			isWarm(t, e)
			synctest.Wait()
		}
		if text, _, _ := e.Memory(); text != 0 {
			t.Fatal("it was read into memory right after a search")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if text, kept, _ := e.Memory(); text == 0 || kept != text {
			t.Fatalf("%d bytes of text, %d kept", text, kept)
		}
		time.Sleep(50 * time.Second)
		if !isWarm(t, e) {
			t.Error("it was forgotten too early")
		}
		time.Sleep(50 * time.Second)
		if !isWarm(t, e) {
			t.Error("it was forgotten although it was used")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if text, kept, index := e.Memory(); text != 0 || kept != 0 || index != 0 {
			t.Errorf("after a minute: %d, %d, %d", text, kept, index)
		}
	})
}

// TestPool shares one budget of text among workspaces, and keeps nothing of one
// that is closed.
func TestPool(t *testing.T) {
	const budget = 100_000
	indexes := index.NewPool(index.Config{MaxText: budget})
	pool := search.NewPool(indexes)
	var all []*index.Index
	var open []*workspace.Workspace
	for range 3 {
		dir := t.TempDir()
		for i := range 20 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d.txt", dir, i), []byte(strings.Repeat("some text\n", 300)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ws, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		x := indexes.Index(ws)
		if err := x.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if indexes.Index(ws) != x {
			t.Error("a workspace has two indexes")
		}
		if _, sum, err := pool.Engine(ws).Glob(t.Context(), search.Scope{}, search.ByName); err != nil || !sum.Warm {
			t.Errorf("%+v, %v", sum, err)
		}
		all, open = append(all, x), append(open, ws)
	}
	sum := func() (kept int64) {
		for _, x := range all {
			_, own, _ := x.Memory()
			kept += own
		}
		return kept
	}
	if kept := sum(); kept > budget || kept < budget/2 {
		t.Errorf("%d bytes of text are kept, and may be %d", kept, budget)
	}
	for i, ws := range open {
		ws.Close()
		if text, kept, index := all[i].Memory(); text != 0 || kept != 0 || index != 0 {
			t.Errorf("of a closed workspace: %d, %d, %d", text, kept, index)
		}
	}
	if _, _, err := pool.Engine(open[0]).Glob(t.Context(), search.Scope{}, search.ByName); err == nil {
		t.Error("a closed workspace was searched")
	}
	if one, two := indexes.Index(open[0]), indexes.Index(open[0]); one == two {
		t.Error("an index of a closed workspace is kept")
	}
}

// TestIndexIsBounded keeps no more of an index than it may, and finds the same
// without one.
func TestIndexIsBounded(t *testing.T) {
	x := newTree(t, 11)
	for i := range 400 {
		x.write(fmt.Sprintf("many%d.txt", i), strings.Repeat(fmt.Sprintf("line %d of a text\n", i), 1000))
	}
	for _, limit := range []int64{0, 1} { // the default, and next to nothing
		e := x.warmEngine(index.Config{MaxIndex: size.Bytes(limit)})
		if _, _, index := e.Memory(); limit == 1 && index != 0 || limit == 0 && index == 0 {
			t.Errorf("with a limit of %d the index has %d bytes", limit, index)
		}
		if got := answer(t, e, question{pattern: search.Pattern{Text: "line 399 of"}}); len(got) != 1000 || !isWarm(t, e) {
			t.Errorf("with a limit of %d: %d lines", limit, len(got))
		}
	}
}
