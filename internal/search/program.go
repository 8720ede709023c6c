// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"errors"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// A program is a regular expression in steps that take bytes. It is about
// lines: nothing in it takes a line feed, and the ends of a text are those of a
// line. What is no UTF-8 is taken by nothing. It never changes.
type program struct {
	steps  []step
	start  uint32
	empty  bool       // it matches every line
	class  [256]uint8 // bytes that no step tells apart have the same class
	sample []byte     // a byte of each class
}

type step struct {
	kind      stepKind
	assertion syntax.EmptyOp // of looks
	set       byteSet        // of takes
	out       uint32
	other     uint32 // of forks
}

type stepKind uint8

const (
	fails   stepKind = iota
	takes            // a byte of a set
	forks            // goes on at two places
	asserts          // goes on if something is true of the place
	matches          // the end
)

// maxSteps is how large a program may become.
const maxSteps = 100_000

var errTooLarge = errors.New("the pattern is too large: repeat less, or split it")

// newProgram compiles a regular expression.
func newProgram(re *syntax.Regexp) (*program, error) {
	source, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	p := &program{steps: make([]step, len(source.Inst)), start: uint32(source.Start)}
	for i := range source.Inst {
		in := &source.Inst[i]
		s := &p.steps[i]
		s.out = in.Out
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			s.kind, s.other = forks, in.Arg
		case syntax.InstCapture, syntax.InstNop:
			s.kind, s.other = forks, in.Out
		case syntax.InstEmptyWidth:
			s.kind, s.assertion = asserts, syntax.EmptyOp(in.Arg)
		case syntax.InstMatch:
			s.kind = matches
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			p.runes(uint32(i), in)
		}
		if len(p.steps) > maxSteps {
			return nil, errTooLarge
		}
	}
	p.classify()
	start := p.reach(nil, p.start, true)
	for _, pc := range start {
		p.empty = p.empty || p.steps[pc].kind == matches
	}
	return p, nil
}

// runes makes step i take the characters of an instruction.
func (p *program) runes(i uint32, in *syntax.Inst) {
	ranges := runesOf(in)
	out := in.Out
	var ascii byteSet
	sequences := sequencer{p: p, suffix: make(map[suffix]uint32)}
	for _, r := range ranges {
		for c := r[0]; c <= min(r[1], utf8.RuneSelf-1); c++ {
			ascii.add(byte(c))
		}
		if r[1] >= utf8.RuneSelf {
			sequences.add(max(r[0], utf8.RuneSelf), r[1], out)
		}
	}
	ascii.remove('\n')
	// The first bytes of characters, by where they lead.
	rest := uint32(0)
	for k := range sequences.heads {
		at := p.add(step{kind: takes, set: sequences.heads[k].set, out: sequences.heads[k].out})
		if rest != 0 {
			at = p.add(step{kind: forks, out: at, other: rest})
		}
		rest = at
	}
	if ascii == (byteSet{}) {
		if rest == 0 {
			p.steps[i] = step{kind: fails}
			return
		}
		p.steps[i] = step{kind: forks, out: rest, other: rest}
		return
	}
	if rest == 0 {
		p.steps[i] = step{kind: takes, set: ascii, out: out}
		return
	}
	p.steps[i] = step{kind: forks, out: p.add(step{kind: takes, set: ascii, out: out}), other: rest}
}

func (p *program) add(s step) uint32 {
	p.steps = append(p.steps, s)
	return uint32(len(p.steps) - 1)
}

// runesOf returns the ranges of characters an instruction takes.
func runesOf(in *syntax.Inst) [][2]rune {
	switch in.Op {
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return [][2]rune{{0, unicode.MaxRune}}
	}
	if len(in.Rune) == 1 {
		first := in.Rune[0]
		list := [][2]rune{{first, first}}
		if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
			for r := unicode.SimpleFold(first); r != first; r = unicode.SimpleFold(r) {
				list = append(list, [2]rune{r, r})
			}
		}
		return list
	}
	var list [][2]rune
	for i := 0; i+1 < len(in.Rune); i += 2 {
		list = append(list, [2]rune{in.Rune[i], in.Rune[i+1]})
	}
	return list
}

// A sequencer turns ranges of characters into sequences of ranges of bytes.
// Ends that sequences have in common are steps they share.
type sequencer struct {
	p      *program
	suffix map[suffix]uint32
	heads  []head
}

type suffix struct {
	low, high byte
	out       uint32
}

type head struct {
	set byteSet
	out uint32
}

// limits are the last characters of each length in UTF-8.
var limits = [...]rune{0x7F, 0x7FF, 0xFFFF, unicode.MaxRune}

func (s *sequencer) add(low, high rune, out uint32) {
	if low > high {
		return
	}
	// Halves of surrogate pairs are not in UTF-8.
	if low < 0xE000 && high >= 0xD800 {
		s.add(low, min(high, 0xD7FF), out)
		s.add(max(low, 0xE000), high, out)
		return
	}
	for _, limit := range limits {
		if low <= limit && limit < high {
			s.add(low, limit, out)
			s.add(limit+1, high, out)
			return
		}
	}
	// All bytes after the first that differs must have their full range.
	for i := 1; i < utf8.RuneLen(low); i++ {
		mask := rune(1)<<(6*i) - 1
		if low&^mask == high&^mask {
			continue
		}
		if low&mask != 0 {
			s.add(low, low|mask, out)
			s.add((low|mask)+1, high, out)
			return
		}
		if high&mask != mask {
			s.add(low, high&^mask-1, out)
			s.add(high&^mask, high, out)
			return
		}
	}
	from, to := utf8.AppendRune(nil, low), utf8.AppendRune(nil, high)
	for i := len(from) - 1; i > 0; i-- {
		key := suffix{from[i], to[i], out}
		at, ok := s.suffix[key]
		if !ok {
			var set byteSet
			set.addRange(key.low, key.high)
			at = s.p.add(step{kind: takes, set: set, out: out})
			s.suffix[key] = at
		}
		out = at
	}
	for i := range s.heads {
		if s.heads[i].out == out {
			s.heads[i].set.addRange(from[0], to[0])
			return
		}
	}
	h := head{out: out}
	h.set.addRange(from[0], to[0])
	s.heads = append(s.heads, h)
}

// classify finds the bytes that no step tells apart.
func (p *program) classify() {
	words := false
	for i := range p.steps {
		words = words || p.steps[i].kind == asserts && p.steps[i].assertion&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
	}
	// Each set splits the classes there are.
	split := func(in func(byte) bool) {
		var numbers [512]uint16 // by class and whether it is in: one more than the new class
		count := uint16(0)
		for b := range 256 {
			key := int(p.class[b]) << 1
			if in(byte(b)) {
				key |= 1
			}
			if numbers[key] == 0 {
				count++
				numbers[key] = count
			}
			p.class[b] = uint8(numbers[key] - 1)
		}
	}
	split(func(b byte) bool { return b == '\n' })
	if words {
		split(isWord)
	}
	seen := make(map[byteSet]bool)
	for i := range p.steps {
		if set := p.steps[i].set; p.steps[i].kind == takes && !seen[set] {
			seen[set] = true
			split(set.has)
		}
	}
	for b := range 256 {
		if int(p.class[b]) == len(p.sample) {
			p.sample = append(p.sample, byte(b))
		}
	}
}

func isWord(b byte) bool { return isAlpha(b) || isDigit(b) || b == '_' }

// reach adds to set the steps that can be reached from pc without taking a
// byte or looking ahead. atStart says that the place is the beginning of a line.
func (p *program) reach(set []uint32, pc uint32, atStart bool) []uint32 {
	return p.reachSeen(set, pc, atStart, make(map[uint32]bool))
}

func (p *program) reachSeen(set []uint32, pc uint32, atStart bool, seen map[uint32]bool) []uint32 {
	todo := []uint32{pc}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch s := &p.steps[pc]; s.kind {
		case forks:
			todo = append(todo, s.other, s.out)
		case asserts:
			if s.assertion&(syntax.EmptyBeginLine|syntax.EmptyBeginText) == 0 {
				set = append(set, pc)
			} else if atStart {
				todo = append(todo, s.out)
			}
		case takes, matches:
			set = append(set, pc)
		}
	}
	return set
}
