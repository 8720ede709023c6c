// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/tools"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A diff is how two texts differ.
type diff struct {
	text           string // unified, or empty where they do not differ
	added, removed int    // lines
	hunks          string // what changed, for who knows what was asked for
}

// diffContext is how many lines are shown around a change.
const diffContext = 3

// maxCompared is up to how many bytes of two texts are compared line by line.
// Beyond, what differs is shown as replaced in one piece.
const maxCompared = 2 << 20

// diffOf compares two texts. from and to are the names in its header; edits, if
// known, lead from before to after.
func diffOf(from, to, before, after string, edits []udiff.Edit) diff {
	if before == after {
		return diff{}
	}
	start, endBefore, endAfter := window(before, after)
	old, changed := before[start:endBefore], after[start:endAfter]
	switch {
	case edits != nil:
		shifted := make([]udiff.Edit, len(edits))
		for i, e := range edits {
			e = trimmed(before, e)
			shifted[i] = udiff.Edit{Start: e.Start - start, End: e.End - start, New: e.New}
		}
		edits = shifted
	case len(old)+len(changed) > maxCompared:
		edits = []udiff.Edit{{Start: 0, End: len(old), New: changed}}
	default:
		edits = udiff.Lines(old, changed)
	}
	unified, err := udiff.ToUnifiedDiff(from, to, old, edits, diffContext)
	if err != nil { // edits that are no edits of before
		unified, _ = udiff.ToUnifiedDiff(from, to, old, udiff.Lines(old, changed), diffContext)
	}
	lines := strings.Count(before[:start], "\n")
	var d diff
	for _, h := range unified.Hunks {
		h.FromLine += lines
		h.ToLine += lines
		regroup(h.Lines)
		for _, line := range h.Lines {
			switch line.Kind {
			case udiff.Insert:
				d.added++
			case udiff.Delete:
				d.removed++
			}
		}
	}
	d.text, d.hunks = visible(unified.String()), visible(hunksOf(unified.Hunks))
	return d
}

// maxRun is how many lines in a row are shown that a call added or removed, and
// runEnds how many at each end of more: who wrote them knows them.
const (
	maxRun  = 10
	runEnds = 3
)

// hunksOf shows where texts differ, with the number of each line: in the new text
// or, of a line that is gone, in the old one.
func hunksOf(hunks []*udiff.Hunk) string {
	var b strings.Builder
	for i, h := range hunks {
		if i > 0 {
			b.WriteString("…\n")
		}
		from, to := h.FromLine, h.ToLine
		for lines := h.Lines; len(lines) > 0; {
			kind := lines[0].Kind
			n := slices.IndexFunc(lines, func(l udiff.Line) bool { return l.Kind != kind })
			if n < 0 {
				n = len(lines)
			}
			run := lines[:n]
			lines = lines[n:]
			switch kind {
			case udiff.Equal:
				showRun(&b, ' ', to, run, n, "")
				from, to = from+n, to+n
			case udiff.Delete:
				showRun(&b, '-', from, run, maxRun, "removed")
				from += n
			case udiff.Insert:
				showRun(&b, '+', to, run, maxRun, "as they were given")
				to += n
			}
		}
	}
	return b.String()
}

// showRun shows lines of one kind from a number on, or the ends of more than limit.
func showRun(b *strings.Builder, mark byte, number int, run []udiff.Line, limit int, what string) {
	for i := 0; i < len(run); i++ {
		if i == runEnds && len(run) > limit {
			i = len(run) - runEnds
			fmt.Fprintf(b, "%c… %d lines %s\n", mark, i-runEnds, what)
		}
		content := run[i].Content
		fmt.Fprintf(b, "%c%d\t%s", mark, number+i, content)
		if !strings.HasSuffix(content, "\n") {
			b.WriteString("\n(no newline at the end)\n")
		}
	}
}

// regroup puts the lines that go before those that come, in each place where
// lines change.
func regroup(lines []udiff.Line) {
	for len(lines) > 0 {
		n := slices.IndexFunc(lines, func(l udiff.Line) bool { return l.Kind == udiff.Equal })
		if n < 0 {
			n = len(lines)
		}
		slices.SortStableFunc(lines[:n], func(a, b udiff.Line) int { return cmp.Compare(a.Kind, b.Kind) })
		lines = lines[min(n+1, len(lines)):]
	}
}

// trimmed returns an edit without what it leaves as it is.
func trimmed(text string, e udiff.Edit) udiff.Edit {
	for e.Start < e.End && e.New != "" && text[e.Start] == e.New[0] {
		e.Start++
		e.New = e.New[1:]
	}
	for e.Start < e.End && e.New != "" && text[e.End-1] == e.New[len(e.New)-1] {
		e.End--
		e.New = e.New[:len(e.New)-1]
	}
	return e
}

// window returns the part of two texts that differs, in whole lines and with
// some around it: to compare more would be in vain.
func window(before, after string) (start, endBefore, endAfter int) {
	n := min(len(before), len(after))
	const step = 4096 // bytes that are compared at once
	for start+step <= n && before[start:start+step] == after[start:start+step] {
		start += step
	}
	for start < n && before[start] == after[start] {
		start++
	}
	tail, b, a := 0, len(before), len(after)
	for tail+step <= n-start && before[b-tail-step:b-tail] == after[a-tail-step:a-tail] {
		tail += step
	}
	for tail < n-start && before[b-1-tail] == after[a-1-tail] {
		tail++
	}
	start = strings.LastIndexByte(before[:start], '\n') + 1
	for range diffContext {
		if start > 0 {
			start = strings.LastIndexByte(before[:start-1], '\n') + 1
		}
	}
	// From the end of the line in which the common end begins.
	rest := before[len(before)-tail:]
	skip := 0
	for range diffContext + 1 {
		i := strings.IndexByte(rest[skip:], '\n')
		if i < 0 {
			skip = len(rest)
			break
		}
		skip += i + 1
	}
	tail -= skip
	return start, len(before) - tail, len(after) - tail
}

// diffNames returns the names in the header of the diff of a file.
func diffNames(path string, before, after bool) (from, to string) {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		path = strconv.Quote(path)
	}
	from, to = "a/"+path, "b/"+path
	if !before {
		from = "/dev/null"
	}
	if !after {
		to = "/dev/null"
	}
	return from, to
}

// shorten cuts a diff after so many bytes, at the end of a line.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := strings.LastIndexByte(text[:limit], '\n') + 1
	left := strings.Count(text[end:], "\n")
	return text[:end] + "(" + tools.Count(left, "more line", "more lines") + " of what changed not shown)\n"
}
