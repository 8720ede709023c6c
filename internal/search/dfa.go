// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// A dfa finds the lines that a program matches. It makes its states when they
// are first met and keeps them, up to a limit. It is for one goroutine.
type dfa struct {
	*program
	next   []int32 // by state and class: the next state, or one of the below
	states []dstate
	ids    map[string]int32
	start  int32

	resets int         // how often all states were forgotten
	halted func() bool // whether to give up, as after a while is asked
	made   int
	gaveUp bool

	lanes  [4]lane
	sparse sparse
	key    []byte
}

// A dstate is what may match after some bytes of a line.
type dstate struct {
	steps   []uint32
	asserts bool // some of the steps look ahead
	word    bool // the byte before belongs to a word
	atHead  bool // there is no byte before
}

const (
	matched  int32 = -1 - iota // the line matches
	unknown                    // not yet made
	hopeless                   // the line does not match, whatever follows
)

// maxTable is how many entries next may have before all states are forgotten.
const maxTable = 1 << 20

func newDFA(p *program, halted func() bool) *dfa {
	d := &dfa{program: p, halted: halted}
	d.sparse.seen = make([]uint32, len(p.steps))
	d.forget()
	return d
}

// sparse is a set of steps that is emptied at no cost.
type sparse struct {
	seen  []uint32
	round uint32
	list  []uint32
	todo  []uint32
}

func (s *sparse) reset() {
	s.list = s.list[:0]
	if s.round++; s.round == 0 {
		clear(s.seen)
		s.round = 1
	}
}

// reach adds the steps that can be reached from pc, as program.reach does.
// With look it also goes on where that is true of the place.
func (d *dfa) reach(pc uint32, atStart bool, assertion syntax.EmptyOp) {
	s := &d.sparse
	s.todo = append(s.todo[:0], pc)
	for len(s.todo) > 0 {
		pc := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if s.seen[pc] == s.round {
			continue
		}
		s.seen[pc] = s.round
		switch st := &d.steps[pc]; st.kind {
		case forks:
			s.todo = append(s.todo, st.other, st.out)
		case asserts:
			if st.assertion&(syntax.EmptyBeginLine|syntax.EmptyBeginText) != 0 {
				if atStart {
					s.todo = append(s.todo, st.out)
				}
			} else if assertion == 0 {
				s.list = append(s.list, pc)
			} else if st.assertion&^assertion == 0 {
				s.todo = append(s.todo, st.out)
			}
		case takes, matches:
			s.list = append(s.list, pc)
		}
	}
}

// forget drops all states.
func (d *dfa) forget() {
	d.resets++
	d.next, d.states, d.ids = d.next[:0], d.states[:0], make(map[string]int32)
	d.sparse.reset()
	d.reach(d.program.start, true, 0)
	d.start = d.intern(false, true)
}

// intern returns the state of the steps that were reached.
func (d *dfa) intern(word, atHead bool) int32 {
	list := d.sparse.list
	asserting := false
	for _, pc := range list {
		asserting = asserting || d.steps[pc].kind == asserts
	}
	slices.Sort(list)
	d.key = d.key[:0]
	for _, pc := range list {
		d.key = binary.LittleEndian.AppendUint32(d.key, pc)
	}
	if asserting { // otherwise it does not matter what was before
		d.key = append(d.key, 1)
		if word {
			d.key = append(d.key, 2)
		}
		if atHead {
			d.key = append(d.key, 3)
		}
	}
	if id, ok := d.ids[string(d.key)]; ok {
		return id
	}
	id := int32(len(d.states) * len(d.sample))
	d.ids[string(d.key)] = id
	d.states = append(d.states, dstate{steps: slices.Clone(list), asserts: asserting, word: word, atHead: atHead})
	for range d.sample {
		d.next = append(d.next, unknown)
	}
	return id
}

// make finds out where a byte of a class leads from a state.
func (d *dfa) make(state int32, class uint8) int32 {
	then := d.lead(state, class)
	if then >= 0 && len(d.next) > maxTable {
		keep := d.states[int(then)/len(d.sample)]
		d.forget()
		d.sparse.reset()
		d.sparse.list = append(d.sparse.list, keep.steps...)
		return d.intern(keep.word, keep.atHead)
	}
	d.next[int(state)+int(class)] = then
	return then
}

func (d *dfa) lead(state int32, class uint8) int32 {
	from := d.states[int(state)/len(d.sample)]
	b := d.sample[class]
	steps := from.steps
	if from.asserts {
		assertion := syntax.EmptyNoWordBoundary
		if from.word != (b != '\n' && isWord(b)) {
			assertion = syntax.EmptyWordBoundary
		}
		if b == '\n' {
			assertion |= syntax.EmptyEndLine | syntax.EmptyEndText
		}
		d.sparse.reset()
		for _, pc := range steps {
			d.reach(pc, from.atHead, assertion)
		}
		steps = slices.Clone(d.sparse.list)
		for _, pc := range steps {
			if d.steps[pc].kind == matches {
				return matched
			}
		}
	}
	if b == '\n' {
		return d.start
	}
	d.sparse.reset()
	for _, pc := range steps {
		if s := &d.steps[pc]; s.kind == takes && s.set.has(b) {
			d.reach(s.out, false, 0)
		}
	}
	d.reach(d.program.start, false, 0)
	if len(d.sparse.list) == 0 {
		return hopeless
	}
	for _, pc := range d.sparse.list {
		if d.steps[pc].kind == matches {
			return matched
		}
	}
	return d.intern(isWord(b), false)
}

// find returns a place in, or at the end of, the first line that matches. text
// begins with a line. It returns -1 where there is none, or when it was told to
// give up.
func (d *dfa) find(text []byte) int {
	if d.empty {
		return 0
	}
	state := d.start
	class := &d.class
	next := d.next
	for i := 0; i < len(text); i++ {
		then := next[int(state)+int(class[text[i]])]
		if then < 0 {
			if then == unknown {
				// States that are never met again make this slow.
				if d.made++; d.made%1024 == 0 && d.halted() {
					d.gaveUp = true
					return -1
				}
				then = d.make(state, class[text[i]])
				next = d.next
			}
			switch then {
			case matched:
				return i
			case hopeless:
				end := bytes.IndexByte(text[i:], '\n')
				if end < 0 {
					return -1
				}
				i += end
				then = d.start
			}
		}
		state = then
	}
	return d.atEnd(state, text)
}

// atEnd looks at the end of the last line, as if a line feed followed. Where
// one was the last byte, there is no other line.
func (d *dfa) atEnd(state int32, text []byte) int {
	if len(text) == 0 || text[len(text)-1] == '\n' {
		return -1
	}
	then := d.next[int(state)+int(d.class['\n'])]
	if then == unknown {
		then = d.make(state, d.class['\n'])
	}
	if then == matched {
		return len(text)
	}
	return -1
}

// match reports whether a line, which is without its end, matches.
func (d *dfa) match(line []byte) bool {
	if len(line) == 0 { // a line nevertheless
		then := d.next[int(d.start)+int(d.class['\n'])]
		if then == unknown {
			then = d.make(d.start, d.class['\n'])
		}
		return d.empty || then == matched
	}
	return d.find(line) >= 0
}

// minLanes is how long a text must be to be worth four lanes.
const minLanes = 512

// scan appends to hits a place in each line of text[from:to] that matches, or at
// its end. The part begins with a line and ends with one.
func (d *dfa) scan(text []byte, from, to int, hits []int) []int {
	if to-from >= minLanes && !d.empty {
		if more, ok := d.scanLanes(text, from, to, hits); ok {
			return more
		}
	}
	for from < to {
		at := d.find(text[from:to])
		if at < 0 {
			break
		}
		at += from
		hits = append(hits, at)
		end := bytes.IndexByte(text[at:to], '\n')
		if end < 0 {
			break
		}
		from = at + end + 1
	}
	return hits
}

// A lane is one of four parts of a text that are scanned at once. Where a state
// leads is known only when it was looked up; four of them are looked up in the
// time of one.
type lane struct {
	at, end int
	state   int32
	over    bool // nothing more is to be said about its last line
	hits    []int
}

// scanLanes is scan in four lanes. It returns false where states were forgotten
// on the way, or the text has too few lines.
func (d *dfa) scanLanes(text []byte, from, to int, hits []int) ([]int, bool) {
	lanes := &d.lanes
	at := from
	for i := range lanes {
		end := to
		if i < len(lanes)-1 {
			cut := from + (to-from)*(i+1)/len(lanes)
			line := bytes.IndexByte(text[cut:to], '\n')
			if line < 0 || cut < at {
				return hits, false
			}
			end = cut + line + 1
		}
		lanes[i] = lane{at: at, end: end, state: d.start, hits: lanes[i].hits[:0]}
		at = end
	}
	resets := d.resets
	for {
		steps := to
		for i := range lanes {
			steps = min(steps, lanes[i].end-lanes[i].at)
		}
		if steps == 0 {
			break
		}
		done := d.lockstep(text, steps)
		if done == steps {
			continue
		}
		for i := range lanes { // at least one has to be looked at
			if d.advance(text, &lanes[i]); d.gaveUp || d.resets != resets {
				return hits, false
			}
		}
	}
	for i := range lanes {
		l := &lanes[i]
		for d.run(text, l); l.at < l.end; d.run(text, l) {
			if d.advance(text, l); d.gaveUp || d.resets != resets {
				return hits, false
			}
		}
		if !l.over && d.atEnd(l.state, text[:l.end]) >= 0 {
			l.hits = append(l.hits, l.end)
		}
	}
	if d.resets != resets {
		return hits, false
	}
	for i := range lanes {
		hits = append(hits, lanes[i].hits...)
	}
	return hits, true
}

// run takes bytes of a lane until one leads to something else than a state.
func (d *dfa) run(text []byte, l *lane) {
	class, next, state := &d.class, d.next, int(l.state)
	at := l.at
	for ; at < l.end; at++ {
		then := next[state+int(class[text[at]])]
		if then < 0 {
			break
		}
		state = int(then)
	}
	l.at, l.state = at, int32(state)
}

// lockstep takes up to so many bytes of each lane, until one of them leads to
// something else than a state. It returns how many it took.
func (d *dfa) lockstep(text []byte, steps int) int {
	a, b, c, e := &d.lanes[0], &d.lanes[1], &d.lanes[2], &d.lanes[3]
	texts := [4][]byte{text[a.at:][:steps], text[b.at:][:steps], text[c.at:][:steps], text[e.at:][:steps]}
	class, next := &d.class, d.next
	s0, s1, s2, s3 := int(a.state), int(b.state), int(c.state), int(e.state)
	t0, t1, t2, t3 := texts[0], texts[1][:len(texts[0])], texts[2][:len(texts[0])], texts[3][:len(texts[0])]
	i := 0
	for ; i < len(t0); i++ {
		n0 := next[s0+int(class[t0[i]])]
		n1 := next[s1+int(class[t1[i]])]
		n2 := next[s2+int(class[t2[i]])]
		n3 := next[s3+int(class[t3[i]])]
		if n0|n1|n2|n3 < 0 {
			break
		}
		s0, s1, s2, s3 = int(n0), int(n1), int(n2), int(n3)
	}
	for k, state := range [4]int{s0, s1, s2, s3} {
		d.lanes[k].state = int32(state)
		d.lanes[k].at += i
	}
	return i
}

// advance takes one byte of a lane, or more where the rest of a line does not
// matter.
func (d *dfa) advance(text []byte, l *lane) {
	c := d.class[text[l.at]]
	then := d.next[int(l.state)+int(c)]
	if then == unknown {
		if d.made++; d.made%1024 == 0 && d.halted() {
			d.gaveUp = true
			return
		}
		then = d.make(l.state, c)
	}
	if then >= 0 {
		l.state = then
		l.at++
		return
	}
	if then == matched {
		l.hits = append(l.hits, l.at)
	}
	l.state = d.start
	if end := bytes.IndexByte(text[l.at:l.end], '\n'); end >= 0 {
		l.at += end + 1
	} else {
		l.at, l.over = l.end, true
	}
}
