// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"math"
	"strings"
	"unicode/utf8"
)

// composed has what an accent makes of letters: after each accent a letter, what
// it becomes, and so on. TeX draws accents apart from what they belong to.
const composed = "´AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýCĆcćLĹlĺNŃnńRŔrŕSŚsśZŹzź `AÀEÈIÌOÒUÙaàeèiìoòuù ¨AÄEËIÏOÖUÜYŸaäeëiïoöuüyÿ " +
	"ˆAÂEÊIÎOÔUÛaâeêiîoôuûCĈcĉGĜgĝHĤhĥJĴjĵSŜsŝWŴwŵYŶyŷ ˜AÃNÑOÕaãnñoõIĨiĩUŨuũ ¯AĀEĒIĪOŌUŪaāeēiīoōuū " +
	"ˇCČcčDĎdďEĚeěNŇnňRŘrřSŠsšTŤtťZŽzž ˚AÅaåUŮuů ¸CÇcçSŞsşTŢtţ ˘AĂaăGĞgğUŬuŭ ˙EĖeėGĠgġIİZŻzż ˝OŐoőUŰuű "

// compose returns a letter with an accent, in whichever order they are.
func compose(first, second rune) (rune, bool) {
	for _, pair := range [][2]rune{{first, second}, {second, first}} {
		accent, letter := pair[0], pair[1]
		switch letter {
		case 'ı':
			letter = 'i'
		case 'ȷ':
			letter = 'j'
		}
		if accent < utf8.RuneSelf && accent != '`' {
			continue
		}
		_, row, ok := strings.Cut(composed, string(accent))
		if !ok || !strings.Contains("´`¨ˆ˜¯ˇ˚¸˘˙˝", string(accent)) {
			continue
		}
		row, _, _ = strings.Cut(row, " ")
		before := rune(0)
		for i, r := range []rune(row) {
			if i%2 == 1 && before == letter {
				return r, true
			}
			before = r
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
