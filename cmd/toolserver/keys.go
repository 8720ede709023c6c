// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"unicode/utf8"
)

// A key is one that was pressed: a character, or one of those below.
type key struct {
	code rune
	text string // that was pasted
}

// Keys that are no characters. Enter, Backspace and Ctrl with a letter are.
const (
	keyUp rune = -1 - iota
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
	keyEscape
	keyPaste
	keyOther // one that means nothing here
)

const (
	keyInterrupt = 'c' & 0x1f
	keyClear     = 'u' & 0x1f
	keyEnter     = '\r'
	keyBackspace = 0x7f
)

var keySequences = map[string]rune{
	"[A": keyUp, "OA": keyUp, "[B": keyDown, "OB": keyDown,
	"[5~": keyPageUp, "[6~": keyPageDown,
	"[H": keyHome, "OH": keyHome, "[1~": keyHome, "[F": keyEnd, "OF": keyEnd, "[4~": keyEnd,
}

// What terminals put around text that is pasted, once they are asked to.
const pasteBegin, pasteEnd = "\x1b[200~", "\x1b[201~"

// maxPaste is how much pasted text is kept, in bytes.
const maxPaste = 8 << 10

// A keyParser makes keys of what a terminal sends.
type keyParser struct {
	rest    []byte // of a key whose end has not come
	pasting bool
	pasted  []byte
}

// keys returns the keys that are complete now.
func (p *keyParser) keys(data []byte) []key {
	data = append(p.rest, data...)
	var keys []key
	for len(data) > 0 {
		if p.pasting {
			var done bool
			if data, done = p.paste(data); !done {
				break
			}
			keys = append(keys, key{code: keyPaste, text: string(p.pasted)})
			p.pasting, p.pasted = false, nil
			continue
		}
		if bytes.HasPrefix(data, []byte(pasteBegin)) {
			p.pasting, data = true, data[len(pasteBegin):]
			continue
		}
		code, n := firstKey(data)
		if n == 0 {
			break
		}
		keys, data = append(keys, key{code: code}), data[n:]
	}
	p.rest = bytes.Clone(data)
	return keys
}

// paste takes pasted text to its end, and reports whether that came.
func (p *keyParser) paste(data []byte) (rest []byte, done bool) {
	text, rest, done := bytes.Cut(data, []byte(pasteEnd))
	if !done { // the end may have begun
		keep := 0
		for n := min(len(pasteEnd)-1, len(data)); n > 0 && keep == 0; n-- {
			if bytes.HasSuffix(data, []byte(pasteEnd[:n])) {
				keep = n
			}
		}
		text, rest = data[:len(data)-keep], data[len(data)-keep:]
	}
	p.pasted = append(p.pasted, text[:min(len(text), maxPaste-len(p.pasted))]...)
	return rest, done
}

// firstKey returns the first key and its length; 0 where its end has not come.
func firstKey(data []byte) (code rune, n int) {
	if data[0] != 0x1b {
		if !utf8.FullRune(data) {
			return 0, 0
		}
		return utf8.DecodeRune(data)
	}
	if len(data) == 1 || data[1] != '[' && data[1] != 'O' {
		return keyEscape, 1 // sequences come as a whole
	}
	for i := 2; i < len(data); i++ {
		if c := data[i]; c >= 0x40 && c <= 0x7e {
			if code, known := keySequences[string(data[1:i+1])]; known {
				return code, i + 1
			}
			return keyOther, i + 1
		}
		if i > 32 {
			return keyOther, i
		}
	}
	return 0, 0
}
