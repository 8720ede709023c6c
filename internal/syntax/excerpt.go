// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import "sort"

// An excerpt is parts of a text, one after another, that are parsed in place of it.
type excerpt struct {
	text   []byte
	pieces []piece
}

// A piece is a part of a text that is in an excerpt.
type piece struct {
	span        // of the text
	at   uint32 // in the excerpt
}

// add adds a part of a text.
func (x *excerpt) add(text []byte, from, to uint32) {
	if from < to {
		x.pieces = append(x.pieces, piece{span{from, to}, uint32(len(x.text))})
		x.text = append(x.text, text[from:to]...)
	}
}

// piece returns the last piece that begins at a place of the excerpt or before it.
func (x *excerpt) piece(at uint32) piece {
	i := sort.Search(len(x.pieces), func(i int) bool { return x.pieces[i].at > at })
	return x.pieces[max(i, 1)-1]
}

// back returns where a part of the excerpt is in the text.
func (x *excerpt) back(s span) span {
	p := x.piece(s.start)
	from := min(p.start+s.start-p.at, p.end) // what was put between pieces is at the end of one
	if s.start == s.end {
		return span{from, from}
	}
	p = x.piece(s.end - 1)
	return span{from, min(p.start+s.end-p.at, p.end)}
}

// places returns where places of the text are in the excerpt, as far as they are.
func (x *excerpt) places(list []uint32) []uint32 {
	var found []uint32
	for _, at := range list {
		i := sort.Search(len(x.pieces), func(i int) bool { return x.pieces[i].start > at })
		if i > 0 && at < x.pieces[i-1].end {
			found = append(found, at-x.pieces[i-1].start+x.pieces[i-1].at)
		}
	}
	return found
}
