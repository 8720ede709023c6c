// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxWord       = 64 // bytes; what is longer is no word of a language
	maxQueryWords = 64
)

// words calls yield with the words of a text in one form: in lower case, names taken apart,
// and without the ends of plurals. Scripts that write no blanks give each character.
func words(text string, yield func(word string)) {
	start, before := -1, rune(0)
	end := func(to int) {
		if start >= 0 && to-start <= maxWord {
			yield(plain(text[start:to]))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf:
			upper := r >= 'A' && r <= 'Z'
			if !upper && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				end(i)
				break
			}
			if upper && before >= 'a' && before <= 'z' {
				end(i)
			}
			if start < 0 {
				start = i
			}
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end(i)
			yield(string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		default:
			end(i)
		}
		before = r
	}
	end(len(text))
}

func plain(word string) string {
	word = strings.ToLower(word)
	if n := len(word); n > 3 && word[n-1] == 's' && word[n-2] != 's' {
		word = word[:n-1]
	}
	return word
}

// asked returns the words of a query, each once.
func asked(query string) (list []string) {
	seen := make(map[string]bool)
	words(query, func(word string) {
		if !seen[word] && len(list) < maxQueryWords {
			seen[word] = true
			list = append(list, word)
		}
	})
	return list
}
