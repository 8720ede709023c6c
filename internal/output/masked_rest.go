// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

// maskedRest leaves out what belongs to a secret that is masked already, however
// long that is: it needs not be held back to know where it ends.
type maskedRest struct {
	class byteClass
	left  int    // how much may still belong to it
	block *block // of a private key; nil: bytes of class
}

// skip returns how many bytes at the beginning of b are left out.
func (s *maskedRest) skip(m *Masker, b []byte) int {
	n := 0
	for n < len(b) && n < s.left {
		if s.block == nil && m.classes[b[n]]&s.class == 0 {
			s.left = n
			break
		}
		n++
		if s.block != nil && s.block.ends(b[n-1]) {
			s.left = n
		}
	}
	s.left -= n
	return n
}

const (
	maxBlock = 64 << 10 // bytes of a private key
	longRun  = 24       // characters of base64 that are no word
	endLine  = "-----END"
	maxEnd   = 64 // bytes of the last line behind endLine
)

// block follows the lines of a private key to its end. Where the last line is
// missing, as after head(1), it ends with the second line that has no key in it.
type block struct {
	run    int  // characters of base64 in a row
	filled bool // the line has something in it
	key    bool // the line has a long run
	colon  bool // the line may be a header
	begun  bool // there was a line of the key: no headers any more
	odd    int  // lines without a key

	end    int // how much of endLine there is
	behind int // bytes since then
	dashes int // in a row
}

// ends takes one byte and reports whether it is the last of the block.
func (k *block) ends(c byte) bool {
	if k.end == len(endLine) {
		k.behind++
		if c == '-' {
			k.dashes++
		} else {
			k.dashes = 0
		}
		return k.dashes == 5 || c == '\n' || k.behind == maxEnd
	}
	switch {
	case c == endLine[k.end]:
		k.end++
	case c == '-' && k.end == 5:
	case c == '-':
		k.end = 1
	default:
		k.end = 0
	}
	switch {
	case c == '\n':
		return k.endsWithLine()
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=':
		k.run++
		k.key = k.key || k.run >= longRun
	default:
		k.run = 0
		k.colon = k.colon || c == ':'
	}
	k.filled = k.filled || c > ' '
	return false
}

func (k *block) endsWithLine() bool {
	k.begun = k.begun || k.key && !k.colon
	if k.filled && !k.key && (k.begun || !k.colon) {
		k.odd++
	}
	k.run, k.filled, k.key, k.colon = 0, false, false, false
	return k.odd == 2
}
