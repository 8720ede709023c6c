// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Clean returns the text that is left of what a command wrote for a terminal:
// valid UTF-8 without control characters but newlines and tabs. Of a line that
// was written over, as progress bars do, its last state is left. Colours and the
// like go; what a reader would not see, such as characters that turn the
// direction of text, is spelled out as <U+202E>, and other control characters
// have their pictures, as ␀. Cleaning again changes nothing.
func Clean(raw []byte) string {
	raw = bytes.TrimPrefix(raw, []byte("\uFEFF"))
	if plain(raw) {
		return string(raw)
	}
	c := cleaner{out: make([]byte, 0, len(raw))}
	for len(raw) > 0 {
		raw = raw[c.take(raw):]
	}
	return string(c.out)
}

// plain reports whether there is nothing to clean, of text in ASCII.
func plain(raw []byte) bool {
	for _, b := range raw {
		if b < ' ' && b != '\n' && b != '\t' || b >= 0x7f {
			return false
		}
	}
	return true
}

type cleaner struct {
	out    []byte
	line   int  // where the line begins in out
	anew   bool // what comes next writes over the line
	behind int  // or over so many of its last characters
}

// take cleans what is at the beginning of raw and returns how long that was.
func (c *cleaner) take(raw []byte) int {
	b := raw[0]
	switch {
	case b == '\n' || b == '\v' || b == '\f':
		c.out = append(c.out, '\n')
		c.line, c.anew, c.behind = len(c.out), false, 0
		return 1
	case ' ' <= b && b < 0x7f || b == '\t':
		c.write(rune(b))
		return 1
	case b == '\r':
		c.anew = true
		return 1
	case b == '\b':
		c.behind++
		return 1
	case b == '\a':
		return 1
	case b == esc:
		return c.escape(raw, 1)
	case b < ' ':
		c.write(0x2400 + rune(b))
		return 1
	case b == 0x7f:
		c.write('\u2421')
		return 1
	}
	r, n := utf8.DecodeRune(raw)
	switch {
	case 0x80 <= r && r < 0xa0 && introduces(byte(r-0x40)): // ESC and a letter in one
		return c.escape(raw, n)
	case unicode.IsControl(r):
	case unseen(r):
		for _, r := range fmt.Sprintf("<U+%04X>", r) {
			c.write(r)
		}
	default:
		c.write(r)
	}
	return n
}

// write writes a character where the cursor is.
func (c *cleaner) write(r rune) {
	if c.anew {
		c.out = c.out[:c.line]
	}
	for ; c.behind > 0 && len(c.out) > c.line; c.behind-- {
		_, n := utf8.DecodeLastRune(c.out)
		c.out = c.out[:len(c.out)-n]
	}
	c.anew, c.behind = false, 0
	c.out = utf8.AppendRune(c.out, r)
}

const (
	esc = 0x1b

	// maxString is how long a string within an escape sequence may be, such as a
	// picture.
	maxString = 1 << 20
)

// introduces reports whether ESC and b begin a longer sequence.
func introduces(b byte) bool {
	switch b {
	case '[', ']', 'P', 'X', '^', '_':
		return true
	}
	return false
}

// escape obeys or drops the escape sequence at the beginning of raw and returns
// how long it is. Its introducer has n bytes: ESC, or one of the characters that
// stand for ESC and a letter.
func (c *cleaner) escape(raw []byte, n int) int {
	kind := byte(0)
	if raw[0] != esc {
		r, _ := utf8.DecodeRune(raw)
		kind = byte(r - 0x40)
	} else if n < len(raw) {
		if kind = raw[n]; introduces(kind) {
			n++
		}
	}
	switch kind {
	case '[':
		parameters := n
		n = while(raw, n, 0x30, 0x3f)
		argument := string(raw[parameters:n])
		n = while(raw, n, 0x20, 0x2f)
		if n == len(raw) || raw[n] < 0x40 || raw[n] > 0x7e {
			return n
		}
		switch {
		case raw[n] == 'G' && (argument == "" || argument == "1"), raw[n] == 'K' && argument == "2":
			c.anew = true // the cursor goes to the first column, or the line is erased
		}
		return n + 1
	case ']':
		return stringEnd(raw, n, true)
	case 'P', 'X', '^', '_':
		return stringEnd(raw, n, false)
	}
	n = while(raw, n, 0x20, 0x2f)
	if n < len(raw) && 0x30 <= raw[n] && raw[n] <= 0x7e {
		n++
	}
	return n
}

// while returns the first place from n on that has no byte from low to high.
func while(raw []byte, n int, low, high byte) int {
	for n < len(raw) && low <= raw[n] && raw[n] <= high {
		n++
	}
	return n
}

// stringEnd returns where the string ends that begins at n, with its
// terminator. One that is not terminated ends with its line.
func stringEnd(raw []byte, n int, oneLine bool) int {
	rest := raw[n:min(len(raw), n+maxString)]
	line := len(rest)
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		line = i
	}
	if oneLine {
		rest = rest[:line]
	}
	for i, b := range rest {
		switch {
		case b == '\a' && oneLine:
			return n + i + 1
		case b == esc && bytes.HasPrefix(rest[i:], []byte("\x1b\\")):
			return n + i + 2
		case b == esc && oneLine: // given up for another sequence
			return n + i
		case b == 0xc2 && bytes.HasPrefix(rest[i:], []byte("\u009c")):
			return n + i + 2
		}
	}
	return n + line
}

// unseen reports whether a character leaves no mark of its own, or changes how
// others are shown.
func unseen(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2028, 0x2029, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return unicode.Is(unicode.Cf, r) || 0xe0000 <= r && r <= 0xe0fff
}
