// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/tools"
)

// trim makes an end fit to be sent: text is valid UTF-8, and content beyond
// limit bytes is left out, which TotalBytes and KeptBytes tell. Text is cut;
// other kinds are useless in part and go as a whole.
func trim(f *Finished, limit int) {
	if f.Failure != nil {
		f.Failure.Message = valid(f.Failure.Message)
	}
	if fits(f.Result.Content, limit) {
		return
	}
	total, kept := 0, 0
	content := make([]tools.Content, 0, len(f.Result.Content))
	for _, c := range f.Result.Content {
		if text, ok := c.(tools.Text); ok {
			c = tools.Text(valid(string(text)))
		}
		size := contentBytes([]tools.Content{c})
		total += size
		if kept+size > limit {
			text, ok := c.(tools.Text)
			if !ok {
				continue
			}
			text = cut(text, limit-kept)
			c, size = text, len(text)
		}
		kept += size
		content = append(content, c)
	}
	f.Result.Content = content
	if kept < total {
		f.TotalBytes, f.KeptBytes = total, kept
	}
}

// fits reports whether content can be sent as it is, as nearly all can.
func fits(content []tools.Content, limit int) bool {
	for _, c := range content {
		if text, ok := c.(tools.Text); ok && !utf8.ValidString(string(text)) {
			return false
		}
	}
	return contentBytes(content) <= limit
}

// valid returns text as valid UTF-8. Looking first is many times faster than
// replacing what is not there.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// cut shortens text to at most n bytes, between characters.
func cut(text tools.Text, n int) tools.Text {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
