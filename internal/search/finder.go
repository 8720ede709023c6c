// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"math/bits"
)

// A literal is a text that is looked for.
type literal struct {
	text string // in lower case if fold
	fold bool   // the case of ASCII letters does not matter
}

// commonest are the characters of source code, the most frequent ones first.
const commonest = " et\t0rn\naiso,xlcfdu1.p/()m2:gh\"=b4S_36TAE{y}Rv8OCI\\P5D9M7kXLwFVNB[]-U*GH;!W+Y&'<zK%|Q>qj$Z`#J^?@~\r"

// frequency tells how often a byte is met: the higher the oftener.
var frequency = func() (f [256]uint8) {
	for i := range len(commonest) {
		f[commonest[i]] = uint8(200 - i)
	}
	for b := 0x80; b < 256; b++ { // parts of letters beyond ASCII come in pairs
		f[b] = 20
	}
	return f
}()

// A finder finds a literal. It compares two bytes of it, the rarest ones, at
// many places at once, and looks closer where both are there.
type finder struct {
	literal
	text           []byte
	first, second  int // where in the literal the two bytes are
	a, b           byte
	foldA, foldB   byte // what is set in a byte before it is compared
	upperA, lowerA byte // without that
}

func newFinder(l literal) *finder {
	f := &finder{literal: l, text: []byte(l.text)}
	rank := func(c byte) int {
		if l.fold && isAlpha(c) {
			return int(max(frequency[c|0x20], frequency[c&^0x20]))
		}
		return int(frequency[c])
	}
	for i, c := range f.text {
		if rank(c) < rank(f.text[f.first]) {
			f.first = i
		}
	}
	if f.first == 0 && len(f.text) > 1 {
		f.second = 1
	}
	for i, c := range f.text {
		if i == f.first || c == f.text[f.first] && f.second != f.first {
			continue
		}
		if rank(c) < rank(f.text[f.second]) || f.text[f.second] == f.text[f.first] {
			f.second = i
		}
	}
	f.a, f.b = f.text[f.first], f.text[f.second]
	f.lowerA, f.upperA = f.a, f.a
	if l.fold && isAlpha(f.a) {
		f.foldA, f.upperA = 0x20, f.a&^0x20
	}
	if l.fold && isAlpha(f.b) {
		f.foldB = 0x20
	}
	return f
}

// index returns where the literal begins in text, at from or after it, or -1.
func (f *finder) index(text []byte, from int) int {
	places := len(text) - len(f.text) + 1 // where it can begin
	if len(f.text) == 1 && !f.fold {
		if i := bytes.IndexByte(text[from:], f.a); i >= 0 {
			return from + i
		}
		return -1
	}
	if !wide || places < block {
		return f.indexSlowly(text, from)
	}
	for at := from; at < places; {
		start := at
		run := (places - at) &^ (block - 1)
		if run == 0 { // the last block overlaps what was seen
			start, run = places-block, block
		}
		i, mask := scanPair(&text[start], run, f.first, f.second, f.a, f.foldA, f.b, f.foldB)
		if i < 0 {
			at = start + run
			continue
		}
		start += i
		if start < at {
			mask &= ^uint64(0) << (at - start)
		}
		for ; mask != 0; mask &= mask - 1 {
			place := start + bits.TrailingZeros64(mask)
			if f.is(text[place : place+len(f.text)]) {
				return place
			}
		}
		at = start + block
	}
	return -1
}

// is reports whether text, which is as long as the literal, is the literal.
func (f *finder) is(text []byte) bool {
	if !f.fold {
		return string(text) == f.literal.text
	}
	for i, c := range text {
		if c != f.text[i] && (c|0x20 != f.text[i] || !isAlpha(c)) {
			return false
		}
	}
	return true
}

// indexSlowly is index for short texts and for machines without the
// instructions for more.
func (f *finder) indexSlowly(text []byte, from int) int {
	if !f.fold {
		if i := bytes.Index(text[from:], f.text); i >= 0 {
			return from + i
		}
		return -1
	}
	next := func(c byte, from int) int {
		if from < len(text) {
			if i := bytes.IndexByte(text[from:], c); i >= 0 {
				return from + i
			}
		}
		return len(text)
	}
	// The two cases of the rarest byte, each found once.
	at := from + f.first
	lower, upper := next(f.lowerA, at), len(text)
	if f.upperA != f.lowerA {
		upper = next(f.upperA, at)
	}
	for {
		at = min(lower, upper)
		begin := at - f.first
		if at >= len(text) || begin+len(f.text) > len(text) {
			return -1
		}
		if f.is(text[begin : begin+len(f.text)]) {
			return begin
		}
		if at == lower {
			lower = next(f.lowerA, at+1)
		} else {
			upper = next(f.upperA, at+1)
		}
	}
}
