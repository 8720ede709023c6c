// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"encoding/binary"
	"math"
	"testing"
	"unicode/utf8"
)

// FuzzLayout puts characters anywhere: what comes out is bounded and valid text.
func FuzzLayout(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1000
		c := &collector{limit: limit}
		for ; len(data) >= 16 && c.full == nil; data = data[16:] {
			number := func(i int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))) }
			r := rune(binary.LittleEndian.Uint16(data[12:]))
			c.add(matrix{number(0), 0, 0, number(0), number(1), number(2)}, 0.5, []rune{r})
		}
		if text := c.String(); len(text) > 3*limit || !utf8.ValidString(text) {
			t.Errorf("%d bytes, valid: %t", len(text), utf8.ValidString(text))
		}
	})
}
