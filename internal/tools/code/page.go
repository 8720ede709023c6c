// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A page is the part of what was found that is shown.
type page struct {
	offset, limit int
	room          int // bytes of text

	text        strings.Builder
	seen, shown int
	more        bool
	noted       bool
	change      string // what undo calls what was done
}

func (c *call) page(limit int) *page {
	if c.in.Limit > 0 {
		limit = c.in.Limit
	}
	return &page{offset: c.in.Offset, limit: limit, room: c.env.Shown()}
}

// add shows a piece, if it belongs on the page. It makes the text of it then alone.
func (p *page) add(piece func() string) {
	if p.seen++; p.seen <= p.offset || p.more {
		return
	}
	if p.shown == p.limit {
		p.more = true
		return
	}
	text := output.ValidText(piece())
	if p.shown > 0 && p.text.Len()+len(text) > p.room {
		p.more = true
		return
	}
	p.shown++
	p.text.WriteString(text)
}

// leftOut notes that an answer was larger than is kept of it.
func (p *page) leftOut(more int) {
	if more > 0 {
		p.note(fmt.Sprintf("%d more are left out", more))
	}
}

// note says what the text alone does not show.
func (p *page) note(text string) {
	if p.text.Len() > 0 && !p.noted {
		p.text.WriteByte('\n')
	}
	p.noted = true
	p.text.WriteString("(" + text + ")\n")
}

// plain returns a path as one line.
func plain(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(path) {
		return strconv.Quote(path)
	}
	return path
}

// maxColumns is how many characters of a line are shown.
const maxColumns = 400

func clip(line string) string {
	line = strings.TrimRight(line, "\r")
	if utf8.RuneCountInString(line) <= maxColumns {
		return line
	}
	return string([]rune(line)[:maxColumns]) + " …"
}

// numbered returns lines with their numbers, the first ones of many.
func numbered(lines []string, first, most int) string {
	var b strings.Builder
	for i, line := range lines {
		if i == most {
			b.WriteString("… " + tools.Count(len(lines)-i, "more line", "more lines") + "\n")
			break
		}
		b.WriteString(strconv.Itoa(first+i) + ": " + clip(line) + "\n")
	}
	return b.String()
}
