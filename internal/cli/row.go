// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// How text looks on a terminal.
var (
	plain  = lipgloss.NewStyle()
	bold   = plain.Bold(true)
	dim    = plain.Faint(true)
	red    = plain.Foreground(lipgloss.Red)
	green  = plain.Foreground(lipgloss.Green)
	yellow = plain.Foreground(lipgloss.Yellow)
	cyan   = plain.Foreground(lipgloss.Cyan)
	marked = plain.Reverse(true)
	alarm  = yellow.Bold(true).Reverse(true)
)

// A row is a line of visible text, with looks.
type row struct {
	head string // what it begins with
	text string
	hang string // what the lines begin with that it goes on in; as wide as head

	// exact says that every space of it counts: it is broken anywhere, and nothing
	// is left out where it is.
	exact bool
}

// rowOf returns a row in one look.
func rowOf(style lipgloss.Style, text string) row { return row{text: style.Render(text)} }

// String returns the text alone.
func (r row) String() string { return ansi.Strip(r.head + r.text) }

// wrap returns the row as lines of at most width columns.
func (r row) wrap(width int) []string {
	head, hang := r.head, r.hang
	if 2*lipgloss.Width(hang) > width {
		head, hang, r.text = "", "", head+r.text
	}
	room := max(width-lipgloss.Width(hang), 1)
	text := ansi.Wrap(r.text, room, "")
	if r.exact {
		text = ansi.Hardwrap(r.text, room, true)
	}
	var styles strings.Builder // each line has its own
	w := lipgloss.NewWrapWriter(&styles)
	io.WriteString(w, text)
	w.Close()
	lines := strings.Split(styles.String(), "\n")
	for i, line := range lines {
		lines[i] = fit(head+line, width)
		head = hang
	}
	return lines
}

// wrapAll wraps every row.
func wrapAll(rows []row, width int) []string {
	var lines []string
	for _, r := range rows {
		lines = append(lines, r.wrap(width)...)
	}
	return lines
}

// columns returns how wide text is on a terminal.
func columns(text string) int { return ansi.StringWidth(text) }

// fit cuts text to at most width columns.
func fit(text string, width int) string { return ansi.Truncate(text, width, "…") }

// writeRows writes rows: to a terminal wrapped, and in the colours that it has;
// elsewhere as text.
func writeRows(to *Stream, rows []row) error {
	var lines []string
	if to.terminal {
		lines = wrapAll(rows, to.width())
	} else {
		for _, r := range rows {
			lines = append(lines, r.String())
		}
	}
	to.endLine()
	_, err := lipgloss.Fprint(to.file, strings.Join(lines, "\n")+"\n") // visible already
	return err
}
