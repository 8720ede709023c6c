// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package plain makes UTF-8 of what is in files.
package plain

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// UTF16 returns the byte order of a text that begins with a mark of
// UTF-16, or nil.
func UTF16(text []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(text, []byte("\xFF\xFE")):
		return binary.LittleEndian
	case bytes.HasPrefix(text, []byte("\xFE\xFF")):
		return binary.BigEndian
	}
	return nil
}

// Text returns text as UTF-8 without a byte order mark. It appends to buffer
// what it has to write.
func Text(text, buffer []byte) []byte {
	order := UTF16(text)
	if order == nil {
		return bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))
	}
	high := rune(0) // the first half of a pair
	for text = text[2:]; len(text) >= 2; text = text[2:] {
		r := rune(order.Uint16(text))
		if high != 0 {
			if pair := utf16.DecodeRune(high, r); pair != utf8.RuneError {
				buffer = utf8.AppendRune(buffer, pair)
				high = 0
				continue
			}
			buffer = utf8.AppendRune(buffer, utf8.RuneError)
			high = 0
		}
		if utf16.IsSurrogate(r) && r < 0xDC00 {
			high = r
			continue
		}
		buffer = utf8.AppendRune(buffer, r)
	}
	if high != 0 || len(text) > 0 {
		buffer = utf8.AppendRune(buffer, utf8.RuneError)
	}
	return buffer
}

// IsBinary reports whether a text is none: it has a NUL.
func IsBinary(text []byte) bool { return bytes.IndexByte(text, 0) >= 0 }
