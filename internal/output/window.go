// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Window keeps the beginning and the end of what is written to it, as much as
// a model is given. It takes no more memory than its limit. It is for one
// goroutine.
type Window struct {
	limit int
	first int    // bytes of the limit that are for the beginning
	head  []byte // the beginning
	tail  []byte // a ring, once it is full
	next  int    // where the ring goes on

	bytes, lines uint64 // all that was written
}

// A Gap is what a window left out.
type Gap struct {
	Line, Column int    // where it begins, from 1; columns are characters
	Lines        uint64 // ends of lines in it
	Bytes        uint64
	Whole        bool // it is lines: it begins and ends between two of them
}

// NewWindow returns a window of at most limit bytes, half of them for the
// beginning.
func NewWindow(limit int) *Window { return &Window{limit: max(limit, 0), first: max(limit, 0) / 2} }

// NewBeginning returns a window that keeps nothing of the end.
func NewBeginning(limit int) *Window { return &Window{limit: max(limit, 0), first: max(limit, 0)} }

// Write takes raw bytes. It never fails.
func (w *Window) Write(p []byte) (int, error) {
	n := len(p)
	w.bytes += uint64(n)
	w.lines += uint64(bytes.Count(p, newline))
	room := min(w.first-len(w.head), len(p))
	w.head = append(w.head, p[:room]...)
	p = p[room:]

	size := w.limit - w.first
	p = p[max(0, len(p)-size):]
	room = min(size-len(w.tail), len(p))
	w.tail = append(w.tail, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		n := copy(w.tail[w.next:], p)
		p = p[n:]
		w.next = (w.next + n) % size
	}
	return n, nil
}

var newline = []byte{'\n'}

// Narrow lets the text have fewer bytes than the limit was before.
func (w *Window) Narrow(limit int) {
	w.first = w.first * limit / w.limit
	w.limit = limit
}

// Text returns what was kept, cleaned (see [Clean]), with a line in place of what
// was left out. It is cut between lines where they are not too long. Without that
// line it has no more bytes than the limit. The line ends with what more says of
// the gap, unless more is nil.
func (w *Window) Text(more func(Gap) string) string {
	head, tail := w.head, append(bytes.Clone(w.tail[w.next:]), w.tail[:w.next]...)
	if uint64(len(head)+len(tail)) == w.bytes {
		all := append(bytes.Clone(head), tail...)
		text := Clean(all)
		if len(text) <= w.limit {
			return text
		}
		head, tail = all, nil // what cannot be shown is spelled out, and too long
		if w.first < w.limit {
			head, tail = all[:len(all)/2], all[len(all)/2:]
		}
	}
	head, first := beginning(head, w.first)
	tail, last, between := ending(tail, w.limit-w.first)
	gap := Gap{
		Line: bytes.Count(head, newline) + 1, Column: utf8.RuneCount(head[bytes.LastIndexByte(head, '\n')+1:]) + 1,
		Lines: w.lines - uint64(bytes.Count(head, newline)+bytes.Count(tail, newline)),
		Bytes: w.bytes - uint64(len(head)+len(tail)),
	}
	gap.Whole = gap.Column == 1 && between
	return join(first, last, gap, more)
}

// beginning returns as much of head as has a text of at most limit bytes, and that
// text.
func beginning(head []byte, limit int) (kept []byte, text string) {
	for {
		head = head[:headEnd(head)]
		if text = Clean(head); len(text) <= limit {
			return head, text
		}
		head = head[:len(head)*limit/len(text)]
	}
}

// ending is beginning for the end. It tells whether the text begins with a line.
func ending(tail []byte, limit int) (kept []byte, text string, between bool) {
	for {
		start := tailStart(tail)
		between = start > 0 && tail[start-1] == '\n'
		tail = tail[start:]
		if text = Clean(tail); len(text) <= limit {
			return tail, text, between
		}
		tail = tail[len(tail)-len(tail)*limit/len(text):]
	}
}

// headEnd returns where the beginning is cut: behind its last line, or behind its
// last whole character where that line is too long.
func headEnd(head []byte) int {
	if i := bytes.LastIndexByte(head, '\n'); i >= len(head)/2 {
		return i + 1
	}
	end := len(head)
	for back := 1; back < utf8.UTFMax && back <= len(head); back++ {
		if start := len(head) - back; utf8.RuneStart(head[start]) {
			if !utf8.FullRune(head[start:]) {
				end = start
			}
			break
		}
	}
	return end
}

// tailStart returns where the end is cut: before its first whole line, or its
// first whole character where a line is too long.
func tailStart(tail []byte) int {
	if i := bytes.IndexByte(tail[:len(tail)/2], '\n'); i >= 0 {
		return i + 1
	}
	start := 0
	for start < len(tail) && start < utf8.UTFMax-1 && !utf8.RuneStart(tail[start]) {
		start++
	}
	return start
}

// join puts a line between two texts that tells what is missing.
func join(first, last string, gap Gap, more func(Gap) string) string {
	var what string
	switch gap.Lines {
	case 0:
	case 1:
		what = "1 line, "
	default:
		what = grouped(gap.Lines) + " lines, "
	}
	line := fmt.Sprintf("[… %s%s left out", what, Size(gap.Bytes))
	if more != nil {
		line += ": " + more(gap)
	}
	line += " …]"
	if first == "" || strings.HasSuffix(first, "\n") {
		line += "\n"
	} else if gap.Lines > 0 {
		line = "\n" + line + "\n"
	}
	return first + line + last
}

// grouped writes a number as 12,345.
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Size writes a number of bytes as a person would.
func Size(bytes uint64) string {
	switch {
	case bytes == 1:
		return "1 byte"
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.4g KiB", float64(bytes)/(1<<10))
	case bytes < 1<<30:
		return fmt.Sprintf("%.4g MiB", float64(bytes)/(1<<20))
	default:
		return fmt.Sprintf("%.4g GiB", float64(bytes)/(1<<30))
	}
}
