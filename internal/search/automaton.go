// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import "math/bits"

// A byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) remove(b byte)   { s[b>>6] &^= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) addRange(low, high byte) {
	for b := int(low); b <= int(high); b++ {
		s.add(byte(b))
	}
}

func (s *byteSet) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func single(b byte) (s byteSet) {
	s.add(b)
	return s
}

var (
	anyByte  = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	notSlash = func() byteSet { s := anyByte; s.remove('/'); return s }()
	slash    = single('/')
)

// A builder makes an automaton from its end to its beginning: every part is
// given what comes after it.
type builder struct{ nodes []node }

// A node takes a byte of set and goes on at next, or, if it is a fork, takes
// nothing and goes on at next and other.
type node struct {
	fork        bool
	set         byteSet
	next, other int
}

// accept is the place after the last byte.
const accept = 0

func newBuilder() *builder { return &builder{nodes: make([]node, 1)} }

func (b *builder) add(n node) int {
	b.nodes = append(b.nodes, n)
	return len(b.nodes) - 1
}

func (b *builder) take(set byteSet, next int) int { return b.add(node{set: set, next: next}) }

func (b *builder) either(one, other int) int { return b.add(node{fork: true, next: one, other: other}) }

// any takes as many bytes of set as there are, or none.
func (b *builder) any(set byteSet, next int) int {
	loop := b.add(node{fork: true, other: next})
	b.nodes[loop].next = b.take(set, loop)
	return loop
}

// An automaton accepts or refuses a whole string. Its time is linear in the
// length of the string, whatever was compiled into it. It never changes.
type automaton struct {
	words  int
	start  []uint64
	takes  [][]uint64 // by byte: the places that take it
	follow [][]uint64 // by place: where it goes on
	accept []uint64   // the one place that accepts
}

func (b *builder) automaton(start int) *automaton {
	words := (len(b.nodes) + 63) / 64
	a := &automaton{words: words, takes: make([][]uint64, 256), follow: make([][]uint64, len(b.nodes))}
	sets := make([]uint64, words*(256+len(b.nodes)+2)) // one piece of memory for all
	next := func() []uint64 {
		set := sets[:words:words]
		sets = sets[words:]
		return set
	}
	for c := range a.takes {
		a.takes[c] = next()
	}
	for i, n := range b.nodes {
		a.follow[i] = next()
		if i == accept || n.fork {
			continue
		}
		b.reach(a.follow[i], n.next)
		for c := range a.takes {
			if n.set.has(byte(c)) {
				put(a.takes[c], i)
			}
		}
	}
	a.start, a.accept = next(), next()
	b.reach(a.start, start)
	put(a.accept, accept)
	return a
}

func put(set []uint64, i int) { set[i>>6] |= 1 << (i & 63) }

// reach adds to set the places that can be reached from one without taking a
// byte.
func (b *builder) reach(set []uint64, from int) {
	todo := []int{from}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if set[i>>6]>>(i&63)&1 != 0 {
			continue
		}
		put(set, i)
		if n := &b.nodes[i]; n.fork {
			todo = append(todo, n.next, n.other)
		}
	}
}

// match reports whether the automaton accepts s.
func (a *automaton) match(s string) bool {
	if a.words == 1 {
		return a.matchSmall(s)
	}
	now := append(make([]uint64, 0, 2*a.words), a.start...)
	then := make([]uint64, a.words)
	for i := range len(s) {
		takes := a.takes[s[i]]
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
	for i := range len(s) {
		then := uint64(0)
		for live := now & a.takes[s[i]][0]; live != 0; live &= live - 1 {
			then |= a.follow[bits.TrailingZeros64(live)][0]
		}
		if then == 0 {
			return false
		}
		now = then
	}
	return now&1 != 0
}
