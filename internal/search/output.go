// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"slices"
	"unicode/utf8"
)

// A File is a file in which something was found.
type File struct {
	// Path is relative to the workspace.
	Path string

	// Count is how many lines match, as far as they were looked at; with a pattern
	// over several lines, how many matches there are.
	Count int

	// Lines are the lines that match, with those around them that were asked for.
	// They are only good until the function that was given them returns.
	Lines []Line

	// MTime is when the file was changed, in nanoseconds since 1970; 0 where it was
	// not asked for.
	MTime int64
}

// A Line is a line of a file.
type Line struct {
	Number  int
	Text    []byte // without its line feed
	Context bool   // it is shown for its neighbours

	// Before and After count the bytes that were left out of a long line.
	Before, After int
}

// output is what was found in some files, in little memory.
type output struct {
	files []foundFile
	lines []foundLine
	text  []byte
}

type foundFile struct {
	path  string
	count int
	last  int // how many of lines belong to it and those before it
	mtime int64
}

type foundLine struct {
	number        int
	end           int // in text; it begins where the one before ends
	before, after int
	context       bool
}

func (o *output) empty() bool { return len(o.files) == 0 }

// size is about how many bytes the output keeps.
func (o *output) size() int { return len(o.text) + 40*len(o.lines) + 64*len(o.files) }

// each calls yield for every file, until it returns false.
func (o *output) each(yield func(File) bool) bool {
	lines := make([]Line, 0, 16)
	line, begin := 0, 0
	for _, f := range o.files {
		lines = lines[:0]
		for ; line < f.last; line++ {
			l := &o.lines[line]
			lines = append(lines, Line{
				Number: l.number, Text: o.text[begin:l.end:l.end], Context: l.context, Before: l.before, After: l.after,
			})
			begin = l.end
		}
		if !yield(File{Path: f.path, Count: f.count, Lines: lines, MTime: f.mtime}) {
			return false
		}
	}
	return true
}

// addLine adds a line of the file that will be added next. Of a long one it
// keeps the part around at.
func (o *output) addLine(number int, line []byte, at, columns int, context bool) {
	l := foundLine{number: number, context: context}
	if columns > 0 && len(line) > columns {
		start := min(max(0, at-columns/4), len(line)-columns)
		end := start + columns
		for start > 0 && start < end && !utf8.RuneStart(line[start]) {
			start++
		}
		for end < len(line) && end > start && !utf8.RuneStart(line[end]) {
			end--
		}
		l.before, l.after = start, len(line)-end
		line = line[start:end]
	}
	o.text = append(o.text, line...)
	l.end = len(o.text)
	o.lines = append(o.lines, l)
}

// reset empties the output, and keeps its memory for what comes.
func (o *output) reset() { o.files, o.lines, o.text = o.files[:0], o.lines[:0], o.text[:0] }

// clone returns a copy, in as much memory as it needs.
func (o *output) clone() output {
	return output{files: slices.Clone(o.files), lines: slices.Clone(o.lines), text: slices.Clone(o.text)}
}

// forget drops the lines of a file that will not be added.
func (o *output) forget() {
	keep := 0
	if n := len(o.files); n > 0 {
		keep = o.files[n-1].last
	}
	o.lines = o.lines[:keep]
	o.text = o.text[:0]
	if keep > 0 {
		o.text = o.text[:o.lines[keep-1].end]
	}
}
