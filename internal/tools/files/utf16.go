// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Reader turns UTF-16 into UTF-8. Halves of a pair that stand alone become
// U+FFFD, and the byte order mark is left out.
type utf16Reader struct {
	in   *bufio.Reader
	big  bool
	left []byte // UTF-8 that did not fit
	high rune   // the first half of a pair, waiting for the second
}

func (r *utf16Reader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// fill reads one unit.
func (r *utf16Reader) fill() error {
	var unit [2]byte
	if _, err := io.ReadFull(r.in, unit[:]); err != nil {
		if r.high == 0 && err != io.ErrUnexpectedEOF {
			return err
		}
		r.high = 0
		r.left = utf8.AppendRune(r.left, utf8.RuneError)
		return nil
	}
	c := rune(binary.LittleEndian.Uint16(unit[:]))
	if r.big {
		c = rune(binary.BigEndian.Uint16(unit[:]))
	}
	if r.high != 0 {
		pair := utf16.DecodeRune(r.high, c)
		r.high = 0
		r.left = utf8.AppendRune(r.left, pair)
		if pair != utf8.RuneError {
			return nil
		}
		// The first half stood alone, and c stands for itself.
	}
	switch {
	case c >= 0xD800 && c < 0xDC00:
		r.high = c
		return nil
	case c == 0xFEFF:
		return nil
	}
	r.left = utf8.AppendRune(r.left, c)
	return nil
}
