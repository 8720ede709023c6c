// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"math/bits"
	"slices"
	"strings"
)

// A Candidate is a file that may have what is looked for.
type Candidate struct {
	File  *File
	Spans []Span // where, if that is known
}

// A Span is some lines of a text: from Start up to End, the first of them with the
// number Line.
type Span struct{ Start, End, Line int }

// MinText is how long a text must be to be looked for in an index.
const MinText = 3

// Candidates returns the visible files, among those that are chosen, that may have
// one text of each list, in the order of a walk. The texts have at least MinText
// bytes; the case of letters does not matter.
func (m *Tree) Candidates(all [][]string, chosen func(*File) bool) []Candidate {
	var list []Candidate
	var sets blockSets
	for _, seg := range m.segments {
		if seg.find(all, &sets) {
			list = seg.collect(list, sets.found, chosen)
		}
	}
	for _, some := range []map[*File]bool{m.loose, m.unsure} {
		for f := range some {
			if chosen(f) {
				list = append(list, Candidate{File: f})
			}
		}
	}
	slices.SortFunc(list, func(a, b Candidate) int { return a.File.Rank - b.File.Rank })
	return list
}

// collect adds the files whose blocks were found. The blocks of a file follow
// each other.
func (s *segment) collect(list []Candidate, found []uint64, chosen func(*File) bool) []Candidate {
	var last *File
	for w, word := range found {
		for ; word != 0; word &= word - 1 {
			b := &s.blocks[w<<6+bits.TrailingZeros64(word)]
			if b.version != b.file.version || !b.file.indexed || b.file.gone {
				continue
			}
			if b.file != last {
				if last = b.file; !chosen(last) {
					continue
				}
				list = append(list, Candidate{File: last})
			} else if n := len(list); n == 0 || list[n-1].File != last {
				continue // it was not chosen
			}
			spans := &list[len(list)-1].Spans
			*spans = append(*spans, Span{int(b.start), int(b.end), int(b.line)})
		}
	}
	return list
}

// WalkOrder compares files by where a walk meets them: the files of a directory
// before those of the directories in it.
func WalkOrder(a, b *File) int {
	if a.dir == b.dir {
		return strings.Compare(a.Name, b.Name)
	}
	x, y := a.dir, b.dir
	for x.depth > y.depth {
		x = x.parent
	}
	for y.depth > x.depth {
		y = y.parent
	}
	if x == y {
		return a.dir.depth - b.dir.depth
	}
	for x.parent != y.parent {
		x, y = x.parent, y.parent
	}
	return strings.Compare(x.Name, y.Name)
}
