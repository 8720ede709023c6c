// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
)

// A look is how text looks on a terminal: the parameters of the sequence that
// sets it.
type look string

const (
	plain  look = ""
	bold   look = "1"
	dim    look = "2"
	red    look = "31"
	green  look = "32"
	yellow look = "33"
	cyan   look = "36"
	marked look = "7"
	alarm  look = "1;7;33"
)

// A span is visible text in one look.
type span struct {
	text string
	look look
}

// A row is a line of text.
type row struct {
	spans []span
	hang  string // what the lines begin with that it goes on in
}

// rowOf returns a row in one look.
func rowOf(look look, text string) row { return row{spans: []span{{text, look}}} }

func (r row) columns() int {
	n := 0
	for _, s := range r.spans {
		n += columns(s.text)
	}
	return n
}

// String returns the text alone.
func (r row) String() string {
	var b strings.Builder
	for _, s := range r.spans {
		b.WriteString(s.text)
	}
	return b.String()
}

// ansi returns the row for a terminal that knows colours.
func (r row) ansi() string {
	var b strings.Builder
	for _, s := range r.spans {
		if s.look == plain {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + string(s.look) + "m" + s.text + "\x1b[0m")
	}
	return b.String()
}

// fit cuts the row to at most width columns.
func (r row) fit(width int) row {
	if r.columns() <= width {
		return r
	}
	var cut row
	for _, s := range r.spans {
		if n := columns(s.text); n < width {
			cut.spans = append(cut.spans, s)
			width -= n
			continue
		}
		if width > 0 {
			cut.spans = append(cut.spans, span{fit(s.text+" ", width), s.look}) // there is more
		}
		break
	}
	return cut
}

// wrap returns the row as lines of at most width columns, but of one character
// at least, broken between words where that leaves them long enough.
func (r row) wrap(width int) []row {
	hang := r.hang
	if columns(hang)*2 > width {
		hang = ""
	}
	ends := breaks(r.String(), width, width-columns(hang))
	rows := make([]row, len(ends))
	line, at := 0, 0 // in bytes of the whole text
	for _, s := range r.spans {
		for s.text != "" {
			if at == ends[line] {
				line++
				rows[line].spans = append(rows[line].spans, span{hang, dim})
			}
			n := min(len(s.text), ends[line]-at)
			rows[line].spans = append(rows[line].spans, span{s.text[:n], s.look})
			s.text = s.text[n:]
			at += n
		}
	}
	return rows
}

// breaks returns where lines of text end, if the first has room for so many
// columns and those after it for rest.
func breaks(text string, room, rest int) []int {
	var ends []int
	begin, space, n := 0, 0, 0 // of the line; behind its last space; its columns
	for i, c := range text {
		for n+columnsOf(c) > room && i > begin {
			end := i
			if space > (begin+i)/2 {
				end = space
			}
			ends = append(ends, end)
			n = columns(text[end:i])
			begin, space, room = end, 0, rest
		}
		n += columnsOf(c)
		if c == ' ' {
			space = i + 1
		}
	}
	return append(ends, len(text))
}

// wrapAll wraps every row.
func wrapAll(rows []row, width int) []row {
	var all []row
	for _, r := range rows {
		all = append(all, r.wrap(width)...)
	}
	return all
}

// colours reports whether a terminal is to be written to in colours.
func colours() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// writeRows writes rows: to a terminal in colours, wrapped; elsewhere as text.
func writeRows(to *stream, rows []row) error {
	text := row.String
	if to.terminal {
		rows = wrapAll(rows, to.width())
		if colours() {
			text = row.ansi
		}
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(text(r) + "\n")
	}
	to.endLine()
	_, err := to.file.WriteString(b.String()) // visible already
	return err
}
