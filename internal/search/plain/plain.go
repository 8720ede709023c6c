// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package plain makes UTF-8 of what is in files.
package plain

import (
	"bytes"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// IsUTF16 reports whether a text begins with a mark of UTF-16.
func IsUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\xFF\xFE")) || bytes.HasPrefix(text, []byte("\xFE\xFF"))
}

// Text returns text as UTF-8 without a byte order mark. It appends to buffer
// what it has to write.
func Text(text, buffer []byte) []byte {
	if !IsUTF16(text) {
		return bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))
	}
	buffer, _, _ = transform.Append(unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder(), buffer, text) // which never fails
	return buffer
}

// IsBinary reports whether a text is none: it has a NUL.
func IsBinary(text []byte) bool { return bytes.IndexByte(text, 0) >= 0 }
