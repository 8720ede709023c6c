// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"slices"
	"strings"
)

const (
	escape     = 0x1b
	enquiry    = 0x05
	cancelled  = 0x18 // ends a sequence without effect, as does
	substitute = 0x1a
)

// A replay takes the questions to a terminal out of what a program wrote before
// somebody looks: they had their answer, and a second one would be typed into
// the program. Sequences that have no effect, because another one cuts them off,
// go too, lest what is around a question becomes one.
type replay struct {
	held []byte // the beginning of a sequence whose end has not come
}

// filter returns what of data, together with what was held, is shown.
func (r *replay) filter(data []byte) []byte {
	data = append(r.held, data...)
	data = bytes.ReplaceAll(data, []byte{enquiry}, nil) // heeded also within sequences
	shown := make([]byte, 0, len(data))
	for len(data) > 0 {
		text := bytes.IndexByte(data, escape)
		if text < 0 {
			text = len(data)
		}
		shown, data = append(shown, data[:text]...), data[text:]
		if len(data) == 0 {
			break
		}
		n, keep := sequence(data)
		if n == 0 {
			break
		}
		if keep {
			shown = append(shown, data[:n]...)
		}
		data = data[n:]
	}
	r.held = bytes.Clone(data)
	return shown
}

// sequence returns the length of the sequence that data begins with, 0 where its
// end has not come, and whether it has an effect other than an answer.
func sequence(data []byte) (n int, keep bool) {
	kind := byte(0)    // what follows the escape character
	var content []byte // what follows that
	for i := 1; i < len(data); i++ {
		c := data[i]
		isText := kind != 0 && kind != '[' && strings.IndexByte("]PX^_", kind) >= 0
		switch {
		case c == cancelled || c == substitute:
			return i + 1, false
		case c == escape && !isText:
			return i, false
		case c == escape:
			if i+1 == len(data) {
				return 0, false
			}
			if data[i+1] != '\\' {
				return i, false
			}
			return i + 2, !asksInText(kind, string(content))
		case isText && kind == ']' && c == '\a':
			return i + 1, !asksInText(kind, string(content))
		case isText:
			content = append(content, c)
		case c < ' ' || c >= 0x7f: // a terminal heeds or skips it, and goes on
		case kind == '[':
			if content = append(content, c); c >= '@' {
				return i + 1, !asks(string(content))
			}
		case kind == 0:
			kind = c
			if c >= '0' && strings.IndexByte("[]PX^_", c) < 0 {
				return i + 1, c != 'Z'
			}
		case c >= '0': // after a space up to a slash
			return i + 1, true
		}
	}
	return 0, false
}

// asks reports whether a control sequence, without its introducer, is a question.
func asks(text string) bool {
	parameters := strings.TrimRight(text[:len(text)-1], " !\"#$%&'()*+,-./")
	private := byte(0)
	if parameters != "" && parameters[0] >= '<' {
		private = parameters[0]
	}
	switch text[len(parameters):] {
	case "c", "x", "$p", "$w", "$u", "&u", "*y", "+x", "'|", "#|", "#R", "\"v":
		return true // attributes, modes, state
	case "n":
		return private != '>' // status, position of the cursor
	case "q":
		return private == '>' // version
	case "u", "m", "S":
		return private == '?' // keyboard, keys with modifiers, graphics
	case "t":
		what, _, _ := strings.Cut(parameters, ";")
		return slices.Contains([]string{"11", "13", "14", "15", "16", "18", "19", "20", "21"}, what) // the window
	}
	return false
}

// asksInText reports whether a sequence with a text of its own is a question.
func asksInText(kind byte, text string) bool {
	switch kind {
	case 'P': // capabilities, settings, resources
		text = strings.TrimLeft(text, "0123456789;")
		return strings.HasPrefix(text, "$q") || strings.HasPrefix(text, "+q") || strings.HasPrefix(text, "+Q")
	case '_': // graphics
		control, _, _ := strings.Cut(text, ";")
		return strings.HasPrefix(control, "G") && slices.Contains(strings.Split(control[1:], ","), "a=q")
	case ']':
		number, rest, _ := strings.Cut(text, ";")
		switch number {
		case "0", "1", "2", "7", "8", "9", "133", "777": // titles, links, notices: any text
			return false
		case "60", "61":
			return true
		case "1337":
			return strings.HasPrefix(rest, "Report")
		}
		for part := range strings.SplitSeq(rest, ";") {
			if strings.HasPrefix(part, "?") || strings.HasSuffix(part, "?") { // colours, clipboard, font
				return true
			}
		}
	}
	return false
}
