// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// simpleEscapes are the escapes of $'…' that stand for one character.
var simpleEscapes = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11,
	'\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// decodeANSI decodes the text of $'…'. It reports false where the result depends
// on the locale or is no text.
func decodeANSI(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		c := text[i]
		if r, ok := simpleEscapes[c]; ok {
			b.WriteByte(r)
			continue
		}
		var digits, numBase = 0, 16
		switch {
		case c >= '0' && c <= '7':
			i--
			digits, numBase = 3, 8
		case c == 'x':
			digits = 2
		case c == 'u':
			digits = 4
		case c == 'U':
			digits = 8
		case c == 'c':
			return "", false
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		end := i + 1
		for end < len(text) && end <= i+digits && isDigit(text[end], numBase) {
			end++
		}
		n, err := strconv.ParseUint(text[i+1:end], numBase, 32)
		if err != nil || n == 0 || c == 'x' && i+1 < len(text) && text[i+1] == '{' {
			return "", false // \x{…} and NUL, which ends the text
		}
		i = end - 1
		switch {
		case c != 'u' && c != 'U':
			b.WriteByte(byte(n))
		case n < 0x80:
			b.WriteByte(byte(n))
		default:
			return "", false // depends on the locale
		}
	}
	return b.String(), utf8.ValidString(b.String())
}

func isDigit(c byte, numBase int) bool {
	_, err := strconv.ParseUint(string(c), numBase, 8)
	return err == nil
}
