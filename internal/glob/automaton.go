// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"math/bits"
	"unicode/utf8"
)

// A builder makes an automaton from its end to its beginning: every part is
// given what comes after it.
type builder struct{ nodes []node }

// A node takes a character of set and goes on at next, or, if it is a fork and
// has no set, takes nothing and goes on at next and other.
type node struct {
	set         *charset
	next, other int
}

// accept is the place after the last character.
const accept = 0

func newBuilder() *builder { return &builder{nodes: make([]node, 1)} }

func (b *builder) add(n node) int {
	b.nodes = append(b.nodes, n)
	return len(b.nodes) - 1
}

func (b *builder) take(set *charset, next int) int { return b.add(node{set: set, next: next}) }

func (b *builder) either(one, other int) int { return b.add(node{next: one, other: other}) }

// any takes as many characters of set as there are, or none.
func (b *builder) any(set *charset, next int) int {
	loop := b.add(node{other: next})
	b.nodes[loop].next = b.take(set, loop)
	return loop
}

// An automaton accepts or refuses a whole string. Its time is linear in the
// length of the string, whatever was compiled into it. It never changes.
type automaton struct {
	words  int
	bytes  bool // every byte is a character
	start  []uint64
	takes  [][]uint64 // by character, for those below 256: the places that take it
	sets   []*charset // by place: the characters it takes
	follow [][]uint64 // by place: where it goes on
	accept []uint64   // the one place that accepts
}

func (b *builder) automaton(start int, bytes bool) *automaton {
	words := (len(b.nodes) + 63) / 64
	a := &automaton{words: words, bytes: bytes,
		takes: make([][]uint64, 256), sets: make([]*charset, len(b.nodes)), follow: make([][]uint64, len(b.nodes))}
	bitmaps := make([]uint64, words*(256+len(b.nodes)+2)) // one piece of memory for all
	next := func() []uint64 {
		bitmap := bitmaps[:words:words]
		bitmaps = bitmaps[words:]
		return bitmap
	}
	for c := range a.takes {
		a.takes[c] = next()
	}
	for i, n := range b.nodes {
		a.follow[i] = next()
		if i == accept || n.set == nil {
			continue
		}
		a.sets[i] = n.set
		b.reach(a.follow[i], n.next)
		for c := range a.takes {
			if n.set.has(rune(c)) {
				put(a.takes[c], i)
			}
		}
	}
	a.start, a.accept = next(), next()
	b.reach(a.start, start)
	put(a.accept, accept)
	return a
}

func put(bitmap []uint64, i int) { bitmap[i>>6] |= 1 << (i & 63) }

// reach adds to a bitmap the places that can be reached from one without taking
// a character.
func (b *builder) reach(bitmap []uint64, from int) {
	todo := []int{from}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if bitmap[i>>6]>>(i&63)&1 != 0 {
			continue
		}
		put(bitmap, i)
		if n := &b.nodes[i]; i != accept && n.set == nil {
			todo = append(todo, n.next, n.other)
		}
	}
}

// match reports whether the automaton accepts s.
func (a *automaton) match(s string) bool {
	if a.words == 1 {
		return a.matchSmall(s)
	}
	all := make([]uint64, 3*a.words)
	now, then, rare := all[:a.words], all[a.words:2*a.words], all[2*a.words:]
	copy(now, a.start)
	for i := 0; i < len(s); {
		takes, size := a.takes[s[i]], 1
		if s[i] >= utf8.RuneSelf && !a.bytes {
			takes, size = a.takesOf(s[i:], rare)
		}
		i += size
		clear(then)
		left := uint64(0)
		for w := range now {
			for live := now[w] & takes[w]; live != 0; live &= live - 1 {
				left = 1
				for k, f := range a.follow[w<<6+bits.TrailingZeros64(live)] {
					then[k] |= f
				}
			}
		}
		if left == 0 {
			return false
		}
		now, then = then, now
	}
	return now[0]&a.accept[0] != 0
}

func (a *automaton) matchSmall(s string) bool {
	now := a.start[0]
	for i := 0; i < len(s); {
		takes, size := a.takes[s[i]], 1
		if s[i] >= utf8.RuneSelf && !a.bytes {
			takes, size = a.takesOf(s[i:], make([]uint64, 1))
		}
		i += size
		then := uint64(0)
		for live := now & takes[0]; live != 0; live &= live - 1 {
			then |= a.follow[bits.TrailingZeros64(live)][0]
		}
		if then == 0 {
			return false
		}
		now = then
	}
	return now&1 != 0
}

// takesOf returns the places that take the character s begins with, and the size
// of it.
func (a *automaton) takesOf(s string, bitmap []uint64) (takes []uint64, size int) {
	c, size := decode(s)
	if c != noChar && c < rune(len(a.takes)) {
		return a.takes[c], size
	}
	clear(bitmap)
	for i, set := range a.sets {
		if set != nil && set.has(c) {
			put(bitmap, i)
		}
	}
	return bitmap, size
}
