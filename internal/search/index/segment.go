// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// A segment is an index of about maxSegment bytes of text: for every sequence of
// three characters it knows the blocks that have it. Characters fall into 64
// classes, in which case does not matter, so that a block may be named which does
// not have what is looked for, but none is missed. It never changes.
type segment struct {
	blocks  []textBlock
	text    int      // bytes of text that are covered
	present []uint64 // a bit for each sequence there is
	before  []uint32 // how many there are before each word of present
	starts  []uint32 // where the list of each begins in lists
	lists   []byte
}

// A textBlock is some lines of a file.
type textBlock struct {
	file       *File
	version    uint32 // of the file
	start, end int32  // in its text
	line       int32  // number of the first line
}

const (
	maxSegment = 16 << 20
	maxBlock   = 64 << 10
	sequences  = 1 << 18
)

// charClass puts every byte into one of 64 classes.
var charClass = func() (class [256]uint8) {
	for c := range 256 {
		class[c] = uint8(60 + c&3)
	}
	for c := byte(0); c < 26; c++ {
		class['a'+c], class['A'+c] = c, c
	}
	for c := byte(0); c < 10; c++ {
		class['0'+c] = 26 + c
	}
	for i, c := range []byte(" \t\n_.,()\"=/:*-{}[];'<>&") {
		class[c] = uint8(36 + i)
	}
	return class
}()

// size is how many bytes the index itself takes, beside the list of blocks.
func (s *segment) size() int {
	return 8*len(s.present) + 4*len(s.before) + 4*len(s.starts) + len(s.lists)
}

// A segmentBuilder makes segments.
type segmentBuilder struct {
	blocks []textBlock
	text   int
	pairs  []uint32 // of block and sequence
	counts []uint32 // of blocks, by sequence
	seen   []uint64
}

// room reports whether the segment can take more text.
func (b *segmentBuilder) room() bool { return b.text < maxSegment && len(b.blocks) < 1<<14-1024 }

// add adds the text of a version of a file.
func (b *segmentBuilder) add(f *File, version uint32, text []byte) {
	if b.seen == nil {
		b.seen, b.counts = make([]uint64, sequences/64), make([]uint32, sequences)
	}
	line := 1
	for start := 0; start < len(text); {
		end := len(text)
		if end-start > maxBlock {
			if i := bytes.LastIndexByte(text[start:start+maxBlock], '\n'); i >= 0 {
				end = start + i + 1
			} else if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
				end = start + i + 1
			}
		}
		b.addBlock(textBlock{file: f, version: version, start: int32(start), end: int32(end), line: int32(line)}, text[start:end])
		if end < len(text) {
			line += bytes.Count(text[start:end], []byte{'\n'})
		}
		start = end
	}
}

func (b *segmentBuilder) addBlock(block textBlock, text []byte) {
	id := uint32(len(b.blocks)) << 18
	b.blocks = append(b.blocks, block)
	b.text += len(text)
	if len(text) < 3 {
		return
	}
	first := len(b.pairs)
	seq := uint32(charClass[text[0]])<<6 | uint32(charClass[text[1]])
	for _, c := range text[2:] {
		seq = (seq<<6 | uint32(charClass[c])) & (sequences - 1)
		word, bit := &b.seen[seq>>6], uint64(1)<<(seq&63)
		if *word&bit == 0 {
			*word |= bit
			b.pairs = append(b.pairs, id|seq)
		}
	}
	for _, pair := range b.pairs[first:] {
		seq := pair & (sequences - 1)
		b.counts[seq]++
		b.seen[seq>>6] = 0
	}
}

// segment returns what was added, as a segment, and begins a new one. It
// returns nil if there is nothing.
func (b *segmentBuilder) segment() *segment {
	if len(b.blocks) == 0 {
		return nil
	}
	s := &segment{blocks: slices.Clone(b.blocks), text: b.text, present: make([]uint64, sequences/64), before: make([]uint32, sequences/64)}
	// Blocks by sequence: sorted, since they were added in order.
	places := make([]uint32, sequences)
	total, distinct := uint32(0), uint32(0)
	for seq, n := range b.counts {
		if seq&63 == 0 {
			s.before[seq>>6] = distinct
		}
		if places[seq] = total; n > 0 {
			s.present[seq>>6] |= 1 << (seq & 63)
			total += n
			distinct++
		}
	}
	sorted := make([]uint16, total)
	for _, pair := range b.pairs {
		seq := pair & (sequences - 1)
		sorted[places[seq]] = uint16(pair >> 18)
		places[seq]++
	}
	s.starts = make([]uint32, 0, distinct+1)
	lists := make([]byte, 0, total)
	at := uint32(0)
	for _, n := range b.counts {
		if n > 0 {
			s.starts = append(s.starts, uint32(len(lists)))
			lists = appendList(lists, sorted[at:at+n], len(s.blocks))
			at += n
		}
	}
	s.starts = append(s.starts, uint32(len(lists)))
	s.lists = slices.Clip(slices.Clone(lists))
	clear(b.counts)
	b.blocks, b.pairs, b.text = b.blocks[:0], b.pairs[:0], 0
	return s
}

// appendList writes a list of blocks: as the distances between them, or, where
// that is shorter, as a bit for each block there is. As a list of distances never
// reaches the length of the bits, the length tells which it is.
func appendList(lists []byte, blocks []uint16, all int) []byte {
	words := (all + 63) / 64 * 8
	begin := len(lists)
	last := -1
	for _, b := range blocks {
		lists = binary.AppendUvarint(lists, uint64(int(b)-last-1))
		if last = int(b); len(lists)-begin >= words {
			break
		}
	}
	if len(lists)-begin < words {
		return lists
	}
	lists = append(lists[:begin], make([]byte, words)...)
	for _, b := range blocks {
		lists[begin+int(b>>3)] |= 1 << (b & 7)
	}
	return lists
}

// list returns the list of a sequence, and false where no block has it.
func (s *segment) list(seq uint32) ([]byte, bool) {
	word, bit := s.present[seq>>6], seq&63
	if word>>bit&1 == 0 {
		return nil, false
	}
	i := s.before[seq>>6] + uint32(bits.OnesCount64(word&(1<<bit-1)))
	return s.lists[s.starts[i]:s.starts[i+1]], true
}

// find returns a bit for each block that may have one text of each list, and
// whether there is any. The result is kept in set.
func (s *segment) find(all [][]string, set *blockSets) bool {
	words := (len(s.blocks) + 63) / 64
	set.fit(words)
	for i := range set.found {
		set.found[i] = ^uint64(0)
	}
	if last := len(s.blocks) & 63; last != 0 {
		set.found[words-1] = 1<<last - 1
	}
	for _, texts := range all {
		clear(set.either)
		for _, text := range texts {
			if s.findText(text, set) {
				for i, w := range set.one {
					set.either[i] |= w
				}
			}
		}
		some := uint64(0)
		for i, w := range set.either {
			set.found[i] &= w
			some |= set.found[i]
		}
		if some == 0 {
			return false
		}
	}
	return true
}

// blockSets is memory that find works with.
type blockSets struct {
	found, either, one, other []uint64
	lists                     [][]byte
}

func (s *blockSets) fit(words int) {
	for _, set := range []*[]uint64{&s.found, &s.either, &s.one, &s.other} {
		*set = slices.Grow((*set)[:0], words)[:words]
	}
}

// findText finds the blocks that may have a text, in set.one.
func (s *segment) findText(text string, set *blockSets) bool {
	set.lists = set.lists[:0]
	seq := uint32(charClass[text[0]])<<6 | uint32(charClass[text[1]])
	for i := 2; i < len(text); i++ {
		seq = (seq<<6 | uint32(charClass[text[i]])) & (sequences - 1)
		list, ok := s.list(seq)
		if !ok {
			return false
		}
		set.lists = append(set.lists, list)
	}
	slices.SortFunc(set.lists, func(a, b []byte) int { return len(a) - len(b) })
	s.expand(set.lists[0], set.one)
	for _, list := range set.lists[1:] {
		s.expand(list, set.other)
		some := uint64(0)
		for i, w := range set.other {
			set.one[i] &= w
			some |= set.one[i]
		}
		if some == 0 {
			return false
		}
	}
	return true
}

// expand turns a list into a bit for each block.
func (s *segment) expand(list []byte, into []uint64) {
	if len(list) == 8*len(into) {
		for i := range into {
			into[i] = binary.LittleEndian.Uint64(list[8*i:])
		}
		return
	}
	clear(into)
	last := -1
	for len(list) > 0 {
		distance, n := uint64(list[0]), 1
		if distance >= 0x80 {
			distance, n = binary.Uvarint(list)
		}
		list = list[n:]
		last += int(distance) + 1
		into[last>>6] |= 1 << (last & 63)
	}
}
