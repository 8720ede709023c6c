// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"
)

// A Masker replaces secrets by what they are: a token of GitHub becomes
// "[masked: github token]". It never changes and is for any number of
// goroutines.
//
// What is a secret does not depend on how the bytes were cut: at each place the
// first pattern that applies counts, from the beginning to the end.
type Masker struct {
	patterns []secretPattern
	heads    [256][]int // the patterns that begin with a byte, in the order they count

	// Most text is passed over by its grams, which are three bytes in a row. Every
	// pattern has grams at two neighbouring places, so that it is enough to look at
	// every other place. grams has a bit for the hash of each, again one for
	// another hash.
	grams, again bitmap
	reach        int // how far behind the beginning of a secret its second gram is

	pairs bitmap // the two bytes that each pattern begins with

	classes [256]byteClass
}

// A bitmap has 2^16 bits.
type bitmap [1 << 10]uint64

func (b *bitmap) set(i uint32)      { b[i>>6&1023] |= 1 << (i & 63) }
func (b *bitmap) has(i uint32) bool { return b[i>>6&1023]>>(i&63)&1 != 0 }

// A gram times one of these has a hash of its three bytes in the upper half.
// Their lowest byte is zero, so that a fourth byte does not matter. The first is
// one with which grams of ordinary text rarely have the hash of a pattern.
const (
	spread  = 0x9D0FCF00
	spread2 = 0x85EBCA00
)

func pairOf(b []byte) uint32 { return uint32(b[0])<<8 | uint32(b[1]) }

// NewMasker returns a masker of what looks like a secret, and of values that are
// known to be: as they are, in base64, and escaped for URLs and JSON. Values of
// less than [MinValue] bytes are left out, for they would be found everywhere.
func NewMasker(values []string) *Masker {
	m := &Masker{classes: classesOfBytes()}
	forms := make(map[string]bool)
	for _, value := range values {
		if len(value) < MinValue {
			continue
		}
		for _, form := range formsOf(value) {
			forms[form] = true
		}
	}
	for form := range forms {
		m.patterns = append(m.patterns, secretPattern{name: "secret", prefix: form, gram: rarest(form), match: whole})
	}
	slices.SortFunc(m.patterns, func(a, b secretPattern) int {
		return cmp.Or(len(b.prefix)-len(a.prefix), cmp.Compare(a.prefix, b.prefix))
	})
	m.patterns = append(m.patterns, secretPatterns...)
	for i := range m.patterns {
		r := &m.patterns[i]
		m.heads[r.prefix[0]] = append(m.heads[r.prefix[0]], i)
		m.pairs.set(pairOf([]byte(r.prefix)))
		m.reach = max(m.reach, r.gram+1)
		for at := r.gram; at <= r.gram+1; at++ {
			m.learn(r, at)
		}
	}
	return m
}

// learn adds the gram of a pattern at a place, or all that can be there.
func (m *Masker) learn(r *secretPattern, at int) {
	if at+3 <= len(r.prefix) {
		m.add(r.prefix[at], r.prefix[at+1], r.prefix[at+2])
		return
	}
	for b := range 256 { // the third byte is the first after the prefix
		if m.classes[b]&r.body != 0 {
			m.add(r.prefix[at], r.prefix[at+1], byte(b))
		}
	}
}

func (m *Masker) add(a, b, c byte) {
	gram := uint32(a) | uint32(b)<<8 | uint32(c)<<16
	m.grams.set(gram * spread >> 16)
	m.again.set(gram * spread2 >> 16)
}

// next returns the first place at i or an even number of bytes behind it that has
// a gram of a pattern, or -1 with the place where it stopped, less than 16 bytes
// before the end.
func (m *Masker) next(b []byte, i int) (place, stopped int) {
	grams := &m.grams
	for rest := b[i:]; len(rest) >= 16; rest = rest[12:] {
		w, v := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[6:])
		w0, w1, w2 := uint32(w)*spread, uint32(w>>16)*spread, uint32(w>>32)*spread
		v0, v1, v2 := uint32(v)*spread, uint32(v>>16)*spread, uint32(v>>32)*spread
		if grams[w0>>22]>>(w0>>16&63)&1 != 0 || grams[w1>>22]>>(w1>>16&63)&1 != 0 || // as bitmap.has, in fewer steps
			grams[w2>>22]>>(w2>>16&63)&1 != 0 || grams[v0>>22]>>(v0>>16&63)&1 != 0 ||
			grams[v1>>22]>>(v1>>16&63)&1 != 0 || grams[v2>>22]>>(v2>>16&63)&1 != 0 {
			for k := 0; k < 12; k += 2 {
				gram := binary.LittleEndian.Uint32(rest[k:])
				if grams.has(gram*spread>>16) && m.again.has(gram*spread2>>16) {
					return len(b) - len(rest) + k, 0
				}
			}
		}
		i = len(b) - len(rest) + 12
	}
	return -1, i
}

// at returns what is at a place: what the first pattern says that has something to
// say.
func (m *Masker) at(t text, place int) found {
	rest := t.bytes[place:]
	for _, i := range m.heads[rest[0]] {
		r := &m.patterns[i]
		n := min(len(r.prefix), len(rest))
		if string(rest[:n]) != r.prefix[:n] {
			continue
		}
		if n < len(r.prefix) {
			if t.final {
				continue
			}
			return found{state: more}
		}
		if f := r.match(m, r, t, place); f.state != none {
			f.pattern = r
			return f
		}
	}
	return found{}
}

// first returns what is found first at a place or behind it, and where that is: at the end of
// the text where there is nothing.
func (m *Masker) first(t text, from int) (f found, at int) {
	for at = from; ; {
		place, stopped := m.next(t.bytes, from)
		end := place + 1
		if place < 0 {
			place, end = stopped, len(t.bytes)
		}
		for at = max(at, place-m.reach); at < end; at++ {
			if at+1 < len(t.bytes) && !m.pairs.has(pairOf(t.bytes[at:])) {
				continue
			}
			if f = m.at(t, at); f.state != none {
				return f, at
			}
		}
		if end == len(t.bytes) {
			return found{}, end
		}
		from = place + 2
	}
}

// String returns s with its secrets masked: s itself, and without a copy, where it has none.
func (m *Masker) String(s string) string {
	b := unsafe.Slice(unsafe.StringData(s), len(s)) // which is only read
	if f, _ := m.first(text{bytes: b, before: '\n', final: true, known: new(int)}, 0); f.state == none {
		return s
	}
	masked, _ := m.Stream().mask(make([]byte, 0, len(s)), b, true)
	return string(masked)
}

// Stream returns a new stream of bytes whose secrets are masked.
func (m *Masker) Stream() *MaskStream { return &MaskStream{masker: m, before: '\n'} }

// A MaskStream masks what comes in pieces. A secret that is cut by their ends is
// found all the same: what could be the beginning of one is held back until
// that is known, all else passes at once. It is for one goroutine.
type MaskStream struct {
	masker *Masker
	held   []byte
	shown  int        // how much of held was released
	before byte       // the last byte before what is held
	within maskedRest // what is left out
	known  int        // see text
}

// Append appends to dst what can be told of the bytes so far, and returns it. It
// keeps nothing of chunk.
func (s *MaskStream) Append(dst, chunk []byte) []byte {
	if len(s.held) == 0 {
		dst, n := s.mask(dst, chunk, false)
		s.held = append(s.held, chunk[n:]...)
		return dst
	}
	s.held = append(s.held, chunk...)
	dst, n := s.mask(dst, s.held, false)
	s.held = append(s.held[:0], s.held[n:]...)
	s.shown = max(0, s.shown-n)
	if cap(s.held) > maxKept && len(s.held) < maxKept/4 {
		s.held = bytes.Clone(s.held)
	}
	return dst
}

// maxKept is how much memory a stream keeps for pieces to come.
const maxKept = 128 << 10

// maxReleased is how much of a secret is shown at most before it is known to be
// one: a quarter of the shortest value.
const maxReleased = MinValue / 4

// releases reports whether Release would append something.
func (s *MaskStream) releases() bool { return s.shown < len(s.held) && len(s.held) <= maxReleased }

// Release appends what is held back if it is so little that it may be seen, and
// returns dst. It is for when nothing came for a while. If it is the beginning of a
// secret after all, the rest of that is masked.
func (s *MaskStream) Release(dst []byte) []byte {
	if !s.releases() {
		return dst
	}
	dst = append(dst, s.held[s.shown:]...)
	s.shown = len(s.held)
	return dst
}

// Flush appends what is held back, for nothing follows it, and returns dst. The
// stream begins anew.
func (s *MaskStream) Flush(dst []byte) []byte {
	dst, _ = s.mask(dst, s.held, true)
	*s = MaskStream{masker: s.masker, held: s.held[:0], before: '\n'}
	return dst
}

// mask appends to dst what can be told of b, with its secrets masked, and
// returns how much of b that was.
func (s *MaskStream) mask(dst, b []byte, final bool) ([]byte, int) {
	m := s.masker
	s.known = 0
	t := text{bytes: b, before: s.before, final: final, known: &s.known}
	done := s.within.skip(m, b) // what of b is in dst, or left out
	for {
		f, at := m.first(t, done)
		if f.state != match {
			return s.pass(dst, b, done, at)
		}
		dst = s.emit(dst, b, done, f.start)
		dst = append(dst, "[masked: "...)
		dst = append(dst, f.pattern.name...)
		dst = append(dst, ']')
		s.within = f.within
		done = f.end + s.within.skip(m, b[f.end:])
	}
}

// pass appends b from done to end, which all of it is until more comes.
func (s *MaskStream) pass(dst, b []byte, done, end int) ([]byte, int) {
	if end > 0 {
		s.before = b[end-1]
	}
	return s.emit(dst, b, done, end), end
}

// emit appends b from one place to another, without what was released before.
func (s *MaskStream) emit(dst, b []byte, from, to int) []byte {
	return append(dst, b[max(from, min(s.shown, to)):to]...)
}
