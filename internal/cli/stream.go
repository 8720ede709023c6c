// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// A Stream is standard output or standard error. What goes to a terminal is
// made harmless first: text of tools and servers must not move the cursor,
// change colours or set the title. What goes elsewhere stays as it is.
type Stream struct {
	file     *os.File
	terminal bool
	midline  bool   // the last thing written was not a newline
	raw      bool   // the terminal does not return the cursor by itself
	held     []byte // the beginning of a character that goes on in the next write
}

func NewStream(file *os.File) *Stream {
	return &Stream{file: file, terminal: term.IsTerminal(int(file.Fd()))}
}

// Write writes all of p.
func (s *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	text := p
	if s.terminal {
		text, s.held = harmless(append(s.held, p...))
	}
	if len(text) > 0 {
		s.midline = text[len(text)-1] != '\n'
	}
	if s.raw {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	_, err := s.file.Write(text)
	return len(p), err
}

// endLine begins a new line unless the stream is at the beginning of one.
func (s *Stream) endLine() {
	s.held = nil // a character whose end never came
	if s.midline {
		s.Write([]byte("\n"))
	}
}

// width returns how many columns the terminal has.
func (s *Stream) width() int {
	width, _, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// harmless returns text for a terminal: newlines and tabs stay, other control
// characters are shown instead of obeyed, and what is not UTF-8 is replaced,
// since a terminal may take single bytes for control characters too. rest is
// what can only be judged together with the bytes after it.
func harmless(text []byte) (safe, rest []byte) {
	safe = make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if !utf8.FullRune(text[i:]) || text[i] == '\r' && i == len(text)-1 {
			return safe, append([]byte(nil), text[i:]...)
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		switch {
		case r == '\n' || r == '\t':
			safe = append(safe, byte(r))
		case r == '\r':
			if text[i] != '\n' { // it would let the line be overwritten
				safe = append(safe, '\n')
			}
		case r < ' ' || r == 0x7f:
			safe = append(safe, '^', byte(r)^0x40)
		case r >= 0x80 && r < 0xa0:
			safe = append(safe, "\uFFFD"...)
		default:
			safe = utf8.AppendRune(safe, r)
		}
	}
	return safe, nil
}
