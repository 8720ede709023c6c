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
	head  []byte // the first half
	tail  []byte // a ring, once it is full
	next  int    // where the ring goes on

	bytes, lines uint64 // all that was written
}

// NewWindow returns a window of at most limit bytes.
func NewWindow(limit int) *Window { return &Window{limit: max(limit, 0)} }

// Write takes raw bytes. It never fails.
func (w *Window) Write(p []byte) (int, error) {
	n := len(p)
	w.bytes += uint64(n)
	w.lines += uint64(bytes.Count(p, newline))
	half := w.limit / 2
	room := min(half-len(w.head), len(p))
	w.head = append(w.head, p[:room]...)
	p = p[room:]

	size := w.limit - half
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

// Bytes returns how many bytes were written.
func (w *Window) Bytes() uint64 { return w.bytes }

// Cut reports whether something was left out by now.
func (w *Window) Cut() bool { return w.bytes > uint64(w.limit) }

// Text returns what was kept, cleaned (see [Clean]), with a line in place of what
// was left out. It is cut between lines where they are not too long. Without that line
// it has no more bytes than the limit.
func (w *Window) Text() string {
	tail := append(bytes.Clone(w.tail[w.next:]), w.tail[:w.next]...)
	if !w.Cut() {
		return squeeze(Clean(append(bytes.Clone(w.head), tail...)), w.limit)
	}
	head, tail := w.head[:headEnd(w.head)], tail[tailStart(tail):]
	first, last := Clean(head), Clean(tail)
	half := w.limit / 2
	if len(first) > half { // what cannot be shown was spelled out
		first = first[:headEnd([]byte(first[:half]))]
	}
	if room := w.limit - half; len(last) > room {
		last = last[len(last)-room:]
		last = last[tailStart([]byte(last)):]
	}
	kept := uint64(len(head) + len(tail))
	lines := uint64(bytes.Count(head, newline) + bytes.Count(tail, newline))
	return join(first, last, w.bytes-kept, w.lines-lines)
}

// squeeze cuts a text that became longer than the limit when it was cleaned.
func squeeze(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	half := limit / 2
	first, last := text[:half], text[len(text)-(limit-half):]
	first, last = first[:headEnd([]byte(first))], last[tailStart([]byte(last)):]
	left := text[len(first) : len(text)-len(last)]
	return join(first, last, uint64(len(left)), uint64(strings.Count(left, "\n")))
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
func join(first, last string, bytes, lines uint64) string {
	var what string
	switch lines {
	case 0:
	case 1:
		what = "1 line, "
	default:
		what = grouped(lines) + " lines, "
	}
	gap := fmt.Sprintf("[… %s%s left out …]", what, Size(bytes))
	if first == "" || strings.HasSuffix(first, "\n") {
		gap += "\n"
	} else if lines > 0 {
		gap = "\n" + gap + "\n"
	}
	return first + gap + last
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
