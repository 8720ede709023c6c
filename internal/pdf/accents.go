// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"math"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// marks has accents that stand by themselves, as TeX draws them, and the marks on a letter that
// they are.
var marks = map[rune]rune{
	'´': 0x301, '`': 0x300, '¨': 0x308, 'ˆ': 0x302, '˜': 0x303, '¯': 0x304, 'ˇ': 0x30C, '˚': 0x30A, '¸': 0x327, '˘': 0x306, '˙': 0x307, '˝': 0x30B,
}

// compose returns a letter with an accent, in whichever order they are.
func compose(first, second rune) (rune, bool) {
	for _, pair := range [][2]rune{{first, second}, {second, first}} {
		mark, letter := marks[pair[0]], pair[1]
		switch letter {
		case 'ı':
			letter = 'i'
		case 'ȷ':
			letter = 'j'
		}
		if made := []rune(norm.NFC.String(string([]rune{letter, mark}))); mark != 0 && unicode.IsLetter(letter) && len(made) == 1 {
			return made[0], true
		}
	}
	return 0, false
}

// joinAccent makes one character of the last one and one that was added after
// the first n bytes of the text, if they lie over each other.
func (c *collector) joinAccent(s span, n int) bool {
	added, size := utf8.DecodeRune(c.buf[n:])
	last, lastSize := utf8.DecodeLastRune(c.buf[:n])
	if n+size != len(c.buf) || last < utf8.RuneSelf && added < utf8.RuneSelf && last != '`' && added != '`' {
		return false
	}
	if math.Abs((s.x0+s.x1)-(c.glyph.x0+c.glyph.x1))/2 > overlap/2*s.size || math.Abs(s.y-c.glyph.y) > s.size/2 {
		return false
	}
	r, ok := compose(last, added)
	if ok {
		c.buf = utf8.AppendRune(c.buf[:n-lastSize], r)
	}
	return ok
}
