// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// A screen is a terminal that shows rows and tells keys. It is drawn by one
// goroutine. Close it, or the terminal stays unusable.
type screen struct {
	in, out       *os.File
	before        *term.State
	width, height int
	shown         []string // line by line; empty after the size changed
}

const (
	// The other screen, text that is pasted told from keys, no cursor, and no new
	// line where a row is wider than it seemed.
	screenBegin = "\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b[?7l"
	screenEnd   = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l\x1b[?1049l"
)

// openScreen takes the terminal over.
func openScreen(in, out *os.File) (*screen, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{in: in, out: out, before: before}
	s.resize()
	_, err = out.WriteString(screenBegin)
	return s, err
}

// close gives the terminal back as it was. It may be called more than once.
func (s *screen) close() {
	if s.before == nil {
		return
	}
	s.out.WriteString(screenEnd)
	term.Restore(int(s.in.Fd()), s.before)
	s.before = nil
}

// resize asks the terminal for its size, and has all of it drawn again.
func (s *screen) resize() {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	s.width, s.height, s.shown = width, height, nil
}

// draw shows rows, from the top; it writes those that changed.
func (s *screen) draw(rows []row) error {
	var b strings.Builder
	if s.shown == nil {
		s.shown = make([]string, s.height)
		b.WriteString("\x1b[2J")
	}
	coloured := colours()
	for i := range s.height {
		line := ""
		if i < len(rows) {
			fitting := rows[i].fit(s.width)
			if line = fitting.String(); coloured {
				line = fitting.ansi()
			}
		}
		if line != s.shown[i] {
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2K%s", i+1, line)
			s.shown[i] = line
		}
	}
	_, err := s.out.WriteString(b.String())
	return err
}

// keys returns what is pressed, as it comes, until the terminal is gone.
func (s *screen) keys() <-chan []key {
	pressed := make(chan []key)
	go func() {
		defer close(pressed)
		var parser keyParser
		buffer := make([]byte, 1024)
		for {
			n, err := s.in.Read(buffer)
			if err != nil {
				return
			}
			if keys := parser.keys(buffer[:n]); len(keys) > 0 {
				pressed <- keys
			}
		}
	}()
	return pressed
}
