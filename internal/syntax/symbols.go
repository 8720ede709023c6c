// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
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
	all    snapshot

	changes uint64 // of files
	timer   *time.Timer
	fill    *fill // what goes on in the background; nil: nothing
}

// fileSymbols are the symbols of one text of a file, in little memory.
type fileSymbols struct {
	stamp atomic.Uint64 // of the file in the index when the text was last seen to be the same
	sum   uint64        // of the text
	names string        // each once, one after another
	list  string        // the symbols; see pack
	tops  string        // where what stands at the top of the text begins; empty where parts cannot be parsed by themselves

	unparsed bool  // it is too large, or took too much
	until    int64 // when that is tried again, for a busy machine takes longer; in nanoseconds, as Unix has them
}

// retryAfter is how long it is remembered that a text took too much.
const retryAfter = time.Minute

// tooMuch returns what is kept of a text that took too much.
func tooMuch(sum, stamp uint64) *fileSymbols {
	f := &fileSymbols{sum: sum, unparsed: true, until: time.Now().Add(retryAfter).UnixNano()}
	f.stamp.Store(stamp)
	return f
}

func (f *fileSymbols) stale() bool { return f.unparsed && time.Now().UnixNano() > f.until }

// size is how many bytes it takes, with a path, in a map.
func (f *fileSymbols) size(path string) int64 {
	return int64(len(path)+len(f.names)+len(f.list)+len(f.tops)) + int64(unsafe.Sizeof(*f)) + 64
}

// A record is a symbol.
type record struct {
	name, container string
	line, lines     int // lines are those after the first
	kind, depth     uint8
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
	if stamp != 0 && f.stamp.Swap(stamp) != stamp {
		s.mu.Lock()
		s.changes++
		s.mu.Unlock()
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
	if size := f.size(path); s.memory.Add(size) > s.max {
		s.memory.Add(-size)
		return
	}
	s.files[path] = f
	s.changes++
}

// drop forgets a file. It is called with mu locked.
func (s *symbols) drop(path string) {
	if f := s.files[path]; f != nil {
		s.memory.Add(-f.size(path))
		delete(s.files, path)
		s.changes++
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
	s.keepSnapshot(snapshot{})
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
	if len(list) > kindBits+1 {
		panic("languages.txt: there are too many kinds of symbols for a record")
	}
	number = make(map[string]uint8)
	for i, kind := range list {
		number[kind] = uint8(i)
	}
	return list, number
}

// The first byte of a symbol in a list is its kind, and says what follows before its
// lines. Numbers are varints, and its line is counted from that of the symbol before.
const (
	kindBits     = 0x1F
	isElsewhere  = 0x20 // its container is not that of the symbol before: where its name is, or 0
	isKnownName  = 0x40 // where its name is; otherwise it is the next one
	isOtherDepth = 0x80 // its depth is not that of the symbol before
)

// pack returns the symbols of a tree in little memory.
func (s *symbols) pack(t *tree, stamp uint64) *fileSymbols {
	f := &fileSymbols{sum: s.sum(t.text)}
	f.stamp.Store(stamp)
	names, list := []byte{'\n'}, []byte(nil)
	places := make(map[string]int) // of names
	place := func(name string) (at int, known bool) {
		if at, known = places[name]; !known {
			at = len(names)
			places[name] = at
			names = append(append(names, name...), '\n')
		}
		return at, known
	}
	var last record
	for _, x := range t.outline(false) {
		r := record{name: oneRow(x.Name), container: oneRow(x.Container), line: x.Line, kind: kindNumber[x.Kind], depth: uint8(min(x.Depth, 255))}
		first := len(list)
		list = append(list, r.kind)
		if r.container != last.container {
			list[first] |= isElsewhere
			at := 0
			if r.container != "" {
				at, _ = place(r.container)
			}
			list = binary.AppendUvarint(list, uint64(at))
		}
		if at, known := place(r.name); known {
			list[first] |= isKnownName
			list = binary.AppendUvarint(list, uint64(at))
		}
		if r.depth != last.depth {
			list[first] |= isOtherDepth
			list = append(list, r.depth)
		}
		list = binary.AppendVarint(list, int64(r.line-last.line))
		list = binary.AppendUvarint(list, uint64(x.EndLine-x.Line))
		last = r
	}
	f.names, f.list = string(names), string(list)
	if t.separable && !t.laidOut && !t.flawed() {
		f.tops = t.tops()
	}
	return f
}

// oneRow returns a name without ends of lines, which stand between names.
func oneRow(name string) string {
	if len(name) > maxName {
		return ""
	}
	return strings.ReplaceAll(name, "\n", " ")
}

// each calls yield with the symbols, one after another in the same record, until it
// returns false.
func (f *fileSymbols) each(yield func(r *record) bool) {
	var r record
	next := 1 // where the next name is
	for list := (numbers{f.list}); list.left != ""; {
		first := list.left[0]
		list.left = list.left[1:]
		r.kind = first & kindBits
		if first&isElsewhere != 0 {
			if at := list.next(); at == 0 {
				r.container = ""
			} else if r.container = f.nameAt(at); at == next {
				next += len(r.container) + 1
			}
		}
		if first&isKnownName != 0 {
			r.name = f.nameAt(list.next())
		} else {
			r.name = f.nameAt(next)
			next += len(r.name) + 1
		}
		if first&isOtherDepth != 0 {
			r.depth = uint8(list.left[0])
			list.left = list.left[1:]
		}
		line := list.next()
		r.line += line>>1 ^ -(line & 1)
		if r.lines = list.next(); !yield(&r) {
			return
		}
	}
}

// nameAt returns the name that begins at some place.
func (f *fileSymbols) nameAt(at int) string {
	return f.names[at : at+strings.IndexByte(f.names[at:], '\n')]
}

// has reports whether a symbol or a container has a name. It looks at many names at once.
func (f *fileSymbols) has(name string) bool {
	for i := 0; ; i++ {
		k := strings.Index(f.names[i:], name)
		if k < 0 {
			return false
		}
		i += k
		if end := i + len(name); i > 0 && f.names[i-1] == '\n' && end < len(f.names) && f.names[end] == '\n' {
			return true
		}
	}
}

// numbers are varints.
type numbers struct{ left string }

func (n *numbers) next() (number int) {
	for i := range len(n.left) {
		number |= int(n.left[i]&0x7F) << (7 * i)
		if n.left[i] < 0x80 {
			n.left = n.left[i+1:]
			break
		}
	}
	return number
}

// maxTops is how many parts of a text are known by where they begin.
const maxTops = 10_000

// tops returns where the children of the top begin, each as a varint from the one
// before. Comments in a row count as one.
func (t *tree) tops() string {
	var list []byte
	last, many, comment := uint32(0), 0, false
	for c := range t.children(0) {
		n := t.nodes[c]
		again := comment && n.flags&isExtra != 0
		if comment = n.flags&isExtra != 0; again || many > 0 && n.start <= last {
			continue
		}
		list = binary.AppendUvarint(list, uint64(n.start-last))
		last = n.start
		many++
	}
	if many > maxTops {
		return ""
	}
	return string(list)
}

// topsOf returns what [tree.tops] has told.
func (f *fileSymbols) topsOf() (list []uint32) {
	last := 0
	for n := (numbers{f.tops}); n.left != ""; {
		last += n.next()
		list = append(list, uint32(last))
	}
	return list
}

// end is the last line of a symbol.
func (r *record) end() int { return r.line + r.lines }
