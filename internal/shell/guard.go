// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxBytes is the longest command that is parsed.
	maxBytes = 32 << 10

	// maxFrames is how deep the parser may call itself, which is what nesting
	// costs: a `(` takes about five frames. A stack that overflows cannot be
	// recovered from, so this is checked while the parser runs.
	maxFrames = 1500

	// chunk is how much text the parser gets between two checks. It bounds what
	// can be nested unseen.
	chunk = 256
)

var errTooDeep = errors.New("it is nested too deeply")

// refuse tells why a command is not even parsed: "" where it is.
func refuse(command string) string {
	if len(command) > maxBytes {
		return fmt.Sprintf("it is longer than %d bytes", maxBytes)
	}
	if i := strings.IndexFunc(command, odd); i >= 0 {
		return fmt.Sprintf("it has the control character %q, which shells read in different ways", command[i])
	}
	if !utf8.ValidString(command) {
		return "it is not valid UTF-8"
	}
	return ""
}

// odd reports whether shells, terminals and parsers disagree on a character.
func odd(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
}

// parse parses text, and gives up on one that is nested too deeply.
func parse(text string) (*syntax.File, error) {
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	if len(text) <= chunk {
		return parser.Parse(strings.NewReader(text), "")
	}
	return parser.Parse(&shallow{text: text}, "")
}

// A shallow reader hands out a text in chunks, and ends it with an error where
// the one who reads is too deep in calls of itself.
type shallow struct{ text string }

func (s *shallow) Read(p []byte) (int, error) {
	if s.text == "" {
		return 0, io.EOF
	}
	var pc [1]uintptr
	if runtime.Callers(maxFrames, pc[:]) > 0 {
		return 0, errTooDeep
	}
	n := copy(p[:min(len(p), chunk)], s.text)
	s.text = s.text[n:]
	return n, nil
}
