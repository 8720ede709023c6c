// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/tools"
)

// An encoding is what a server counts in.
type encoding string

const (
	inBytes encoding = "utf-8"
	inUnits encoding = "utf-16"
	inRunes encoding = "utf-32"
)

// encodingOf returns the encoding that a server has chosen; one that says nothing counts
// in UTF-16.
func encodingOf(kind protocol.PositionEncodingKind) (encoding, error) {
	switch e := encoding(kind); e {
	case inBytes, inUnits, inRunes:
		return e, nil
	case "":
		return inUnits, nil
	}
	return "", fmt.Errorf("it counts in %.40q, which nobody asked it to", kind)
}

// A text is the text of a file, by lines.
type text struct {
	all    string
	starts []int // of the lines
}

func newText(all string) *text {
	t := &text{all: all, starts: make([]int, 1, 1+strings.Count(all, "\n"))}
	for i := 0; ; {
		n := strings.IndexByte(all[i:], '\n')
		if n < 0 {
			return t
		}
		i += n + 1
		t.starts = append(t.starts, i)
	}
}

// line returns a line without its end; the first is 0.
func (t *text) line(n int) string {
	if n < 0 || n >= len(t.starts) {
		return ""
	}
	end := len(t.all)
	if n+1 < len(t.starts) {
		end = t.starts[n+1] - 1
	}
	return strings.TrimSuffix(t.all[t.starts[n]:end], "\r")
}

// lines is how many there are: what follows the last newline is one if it is not empty.
func (t *text) lines() int {
	if n := len(t.starts); n > 1 && t.starts[n-1] == len(t.all) {
		return n - 1
	}
	return len(t.starts)
}

// position returns where a server finds a line and a column, both from one.
func (t *text) position(name string, line, column int, e encoding) (protocol.Position, error) {
	if line < 1 || line > max(1, t.lines()) {
		return protocol.Position{}, tools.Failf("no_such_position", "Line %d is not in %s, which has %d lines.", line, name, t.lines())
	}
	content := t.line(line - 1)
	if length := utf8.RuneCountInString(content); column < 1 || column > length+1 {
		return protocol.Position{}, tools.Failf("no_such_position", "Column %d is not in line %d of %s, which has %d characters: columns count from 1. The line is: %s", column, line, name, length, clip(content))
	}
	at := 0
	for range column - 1 {
		_, size := utf8.DecodeRuneInString(content[at:])
		at += size
	}
	return protocol.Position{Line: uint32(line - 1), Character: uint32(e.length(content[:at]))}, nil
}

// length returns how long a server takes a text to be.
func (e encoding) length(s string) int {
	switch e {
	case inBytes:
		return len(s)
	case inRunes:
		return utf8.RuneCountInString(s)
	}
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// offset returns where a position of a server is, in bytes. One behind the end of a line
// is its end, as the protocol has it.
func (t *text) offset(p protocol.Position, e encoding) int {
	if int(p.Line) >= len(t.starts) {
		return len(t.all)
	}
	content := t.line(int(p.Line))
	return t.starts[p.Line] + e.bytes(content, int(p.Character))
}

// bytes returns how many bytes of a line have so many characters of a server.
func (e encoding) bytes(line string, characters int) int {
	if e == inBytes {
		return min(characters, len(line))
	}
	n := 0
	for i, r := range line {
		if n >= characters {
			return i
		}
		if n++; e == inUnits && utf16.RuneLen(r) == 2 {
			n++
		}
	}
	return len(line)
}

// place returns the line and the column, both from one, of a position of a server.
func (t *text) place(p protocol.Position, e encoding) (line, column int) {
	if int(p.Line) >= len(t.starts) {
		p = protocol.Position{Line: uint32(len(t.starts) - 1), Character: 1 << 30}
	}
	content := t.line(int(p.Line))
	return int(p.Line) + 1, utf8.RuneCountInString(content[:e.bytes(content, int(p.Character))]) + 1
}

// lineAt returns the number of the line that an offset is in, from one.
func (t *text) lineAt(offset int) int {
	return sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > offset })
}

// edited returns the text with edits of a server, which are all of the text as it is.
func (t *text) edited(edits []protocol.TextEdit, e encoding) (string, error) {
	list := make([]udiff.Edit, len(edits))
	for i, edit := range edits {
		list[i] = udiff.Edit{Start: t.offset(edit.Range.Start, e), End: t.offset(edit.Range.End, e), New: edit.NewText}
		if list[i].Start > list[i].End {
			return "", fmt.Errorf("an edit of it ends before it begins, in line %d", edit.Range.Start.Line+1)
		}
	}
	all, err := udiff.Apply(t.all, list) // what is put at the same place stays in its order
	if err != nil {
		return "", errors.New("edits of it overlap")
	}
	return all, nil
}
