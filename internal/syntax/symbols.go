// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// symbols are the symbols of the files of a workspace, as far as they are known.
// What is kept of a file is that of one text, known by its sum.
type symbols struct {
	seed   maphash.Seed
	memory *atomic.Int64 // bytes of all workspaces
	max    int64

	mu     sync.Mutex
	closed bool
	files  map[string]*fileSymbols
	timer  *time.Timer
	fill   *fill // what goes on in the background; nil: nothing
}

// fileSymbols are the symbols of one text of a file.
type fileSymbols struct {
	stamp atomic.Uint64 // of the file in the index when the text was last seen to be the same
	sum   uint64        // of the text
	names string
	list  []record

	containers []place
	tops       []uint32 // where what stands at the top of the text begins; nil where parts cannot be parsed by themselves
	size       int64

	unparsed bool      // it is too large, or took too much
	until    time.Time // when that is tried again: a busy machine takes longer
}

// retryAfter is how long it is remembered that a text took too much.
const retryAfter = time.Minute

func (f *fileSymbols) stale() bool { return f.unparsed && time.Now().After(f.until) }

// A record is a symbol in little memory.
type record struct {
	name      uint32 // in names
	line      uint32
	lines     uint16 // that it has after the first, or the most there can be
	container uint16 // in containers, from 1; 0 for none
	nameLen   uint8
	kind      uint8
	depth     uint8
}

// A place is where a name is in names.
type place struct {
	at     uint32
	length uint8
}

func (s *symbols) init(memory *atomic.Int64, most int64) {
	s.seed, s.memory, s.max = maphash.MakeSeed(), memory, most
	s.files = make(map[string]*fileSymbols)
}

func (s *symbols) sum(text []byte) uint64 { return maphash.Bytes(s.seed, text) }

// has reports whether something is kept of a file.
func (s *symbols) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path] != nil
}

// known returns what is kept of a file, if it is of the text with a stamp.
func (s *symbols) known(path string, stamp uint64) *fileSymbols {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[path]; f != nil && stamp != 0 && f.stamp.Load() == stamp && !f.stale() {
		return f
	}
	return nil
}

// same returns what is kept of a file, if it is of this text, and takes note of
// the stamp that the text has by now.
func (s *symbols) same(path string, text []byte, stamp uint64) *fileSymbols {
	s.mu.Lock()
	f := s.files[path]
	s.mu.Unlock()
	if f == nil || f.sum != s.sum(text) || f.stale() {
		return nil
	}
	if stamp != 0 {
		f.stamp.Store(stamp)
	}
	return f
}

// keep keeps the symbols of a file, unless there is no room.
func (s *symbols) keep(path string, f *fileSymbols) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.drop(path)
	f.size = int64(len(path)+len(f.names)+4*cap(f.tops)+8*cap(f.containers)) + int64(unsafe.Sizeof(*f)) + int64(cap(f.list))*int64(unsafe.Sizeof(record{})) + 64
	if s.memory.Add(f.size) > s.max {
		s.memory.Add(-f.size)
		return
	}
	s.files[path] = f
}

// drop forgets a file. It is called with mu locked.
func (s *symbols) drop(path string) {
	if f := s.files[path]; f != nil {
		s.memory.Add(-f.size)
		delete(s.files, path)
	}
}

// retain forgets the files that are not there any more.
func (s *symbols) retain(there map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.files {
		if !there[path] {
			s.drop(path)
		}
	}
}

// touch puts off the time when everything is forgotten.
func (s *symbols) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case s.timer == nil:
		s.timer = time.AfterFunc(symbolsIdle, s.forget)
	default:
		s.timer.Reset(symbolsIdle)
	}
}

func (s *symbols) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.files {
		s.drop(path)
	}
}

func (s *symbols) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	f := s.fill
	s.mu.Unlock()
	if f != nil {
		f.cancel()
		<-f.done
	}
	s.forget()
}

// kinds are the kinds of symbols by their number in a record.
var kinds, kindNumber = numberedKinds()

func numberedKinds() (list []string, number map[string]uint8) {
	for _, l := range inOrder {
		for _, r := range l.rules {
			list = append(list, r.kind)
			for _, other := range r.other {
				list = append(list, other.kind)
			}
		}
	}
	list = append(list, "function", "method", "field", "variable")
	slices.Sort(list)
	list = slices.Compact(list)
	number = make(map[string]uint8)
	for i, kind := range list {
		number[kind] = uint8(i)
	}
	return list, number
}

// maxTops is how many parts of a text are known by where they begin.
const maxTops = 10_000

// pack returns the symbols of a tree in little memory.
func (s *symbols) pack(t *tree, stamp uint64) *fileSymbols {
	all := t.outline(false)
	f := &fileSymbols{sum: s.sum(t.text), list: make([]record, 0, len(all))}
	f.stamp.Store(stamp)
	at, within := make(map[string]uint32), make(map[string]uint16)
	var names []byte
	put := func(text string) uint32 {
		offset, ok := at[text]
		if !ok {
			offset = uint32(len(names))
			at[text] = offset
			names = append(names, text...)
		}
		return offset
	}
	for _, x := range all {
		r := record{
			name: put(x.Name), nameLen: uint8(len(x.Name)), line: uint32(x.Line), lines: uint16(min(x.EndLine-x.Line, math.MaxUint16)),
			kind: kindNumber[x.Kind], depth: uint8(min(x.Depth, 255)),
		}
		if c := x.Container; c != "" && len(c) <= maxName {
			if within[c] == 0 && len(f.containers) < math.MaxUint16 {
				f.containers = append(f.containers, place{put(c), uint8(len(c))})
				within[c] = uint16(len(f.containers))
			}
			r.container = within[c]
		}
		f.list = append(f.list, r)
	}
	f.containers = slices.Clip(f.containers)
	f.names = string(names)
	if t.separable && !t.flawed() {
		f.tops = t.tops()
	}
	return f
}

// tops returns where the children of the top begin.
func (t *tree) tops() []uint32 {
	var list []uint32
	for c := range t.children(0) {
		if n := t.nodes[c]; len(list) == 0 || n.start > list[len(list)-1] {
			list = append(list, n.start)
		}
	}
	if len(list) > maxTops {
		return nil
	}
	return slices.Clip(list)
}

func (f *fileSymbols) name(r *record) string { return f.names[r.name : r.name+uint32(r.nameLen)] }

func (f *fileSymbols) container(r *record) string {
	if r.container == 0 {
		return ""
	}
	p := f.containers[r.container-1]
	return f.names[p.at : p.at+uint32(p.length)]
}

// end is the last line of a symbol.
func (r *record) end() int { return int(r.line) + int(r.lines) }
