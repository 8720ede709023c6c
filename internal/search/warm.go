// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/workspace"
)

// A selection is which files of a memory a scope means.
type selection struct {
	all      bool
	files    []*fileNode // unless all: visible files, in the order of a walk
	hidden   []*fileNode // others, which a glob or a type asks for
	problems problems
}

// size is how many files are meant.
func (s *selection) size(m *memory) int {
	if s.all {
		return len(m.order) + len(s.hidden)
	}
	return len(s.files) + len(s.hidden)
}

// answerable reports whether a scope is about what a memory knows.
func (c *chooser) answerable() bool { return !c.Hidden && !c.NoIgnore && !c.Follow }

// selects returns what a scope means. It returns false where that is more than
// is known.
func (m *memory) selects(c *chooser) (s selection, ok bool) {
	n := m.find(c.Path)
	if n == nil {
		return s, false
	}
	if n == m.root && c.overrides == nil && c.types == nil && c.match == nil && c.Exclude == nil && c.MaxDepth == 0 && c.MaxSize == 0 {
		s.all = true
		for n := range m.failed {
			s.problems.add(n.path, n.problem)
		}
		return s, true
	}
	return s, s.add(c, n, 0)
}

// find returns a directory that is known, or nil.
func (m *memory) find(path string) *dirNode {
	n := m.root
	if path == "." {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		i, ok := slices.BinarySearchFunc(n.dirs, name, func(s *dirNode, name string) int { return strings.Compare(s.name, name) })
		if !ok || !n.dirs[i].entered {
			return nil
		}
		n = n.dirs[i]
	}
	return n
}

// add adds what a scope means of a directory and those below it.
func (s *selection) add(c *chooser, n *dirNode, depth int) bool {
	for _, f := range n.files {
		if !c.takes(f.path, f.name, f.ignore) {
			continue
		}
		if f.visible {
			s.files = append(s.files, f)
		} else {
			s.hidden = append(s.hidden, f)
		}
	}
	if c.MaxDepth > 0 && depth+1 >= c.MaxDepth {
		return true
	}
	for _, sub := range n.dirs {
		if !c.enters(sub.path, sub.name, sub.ignore) {
			continue
		}
		if !sub.entered {
			return false // a glob asks for what is hidden or ignored
		}
		if sub.problem != nil {
			s.problems.add(sub.path, sub.problem)
		}
		if !s.add(c, sub, depth+1) {
			return false
		}
	}
	return true
}

// A candidate is a file that may have lines that match.
type candidate struct {
	file  *fileNode
	spans []block64 // where, if that is known
}

// grep searches the memory. What it finds is in several outputs, in order. It
// returns false where the memory does not know enough.
func (m *memory) grep(ctx context.Context, q *query, c *chooser, o Options) (parts []output, sum Summary, ok bool, err error) {
	late := *c
	if len(m.failed) == 0 {
		late.Exclude = nil // of few files something is found: those are asked about
	}
	s, ok := m.selects(&late)
	if !ok {
		return nil, sum, false, nil
	}
	sum = Summary{Files: s.size(m), Problems: s.problems.count, Problem: s.problems.first, Warm: true}
	sum.Binary = m.countBinary(&s)
	list := m.candidates(q, &s)
	if c.MaxSize > 0 { // what is hidden is looked at when it is read
		list = slices.DeleteFunc(list, func(x candidate) bool { return x.file.visible && x.file.stat.Size > c.MaxSize })
	}
	err = m.searchAll(ctx, q, c, o, list, &parts, &sum)
	if c.Exclude != nil && sum.Matches == 0 { // then it matters in how many files
		excluded, binary := m.countExcluded(&s, c)
		sum.Files, sum.Binary = sum.Files-excluded, sum.Binary-binary
	}
	return parts, sum, true, err
}

// countExcluded counts the files of a selection that must not be told of, and
// those of them that are binary.
func (m *memory) countExcluded(s *selection, c *chooser) (files, binary int) {
	visible := s.files
	if s.all {
		visible = m.order
	}
	for _, list := range [][]*fileNode{visible, s.hidden} {
		for _, f := range list {
			if c.Exclude(f.path) {
				files++
				if f.binary {
					binary++
				}
			}
		}
	}
	return files, binary
}

func (m *memory) countBinary(s *selection) int {
	if s.all {
		return m.binaries
	}
	n := 0
	for _, f := range s.files {
		if f.binary {
			n++
		}
	}
	return n
}

// candidates returns the files that may have matches, in the order of a walk.
func (m *memory) candidates(q *query, s *selection) []candidate {
	chosen := func(*fileNode) bool { return true }
	if !s.all {
		in := make([]uint64, (len(m.order)+63)/64)
		for _, f := range s.files {
			in[f.rank>>6] |= 1 << (f.rank & 63)
		}
		chosen = func(f *fileNode) bool { return in[f.rank>>6]>>(f.rank&63)&1 != 0 }
	}
	var list []candidate
	if usable := q.indexable(); usable == nil {
		files := s.files
		if s.all {
			files = m.order
		}
		for _, f := range files {
			if !f.binary {
				list = append(list, candidate{file: f})
			}
		}
		// They are in order already.
	} else {
		var sets blockSets
		for _, seg := range m.segments {
			if seg.find(usable, &sets) {
				list = seg.collect(list, sets.found, chosen)
			}
		}
		for _, some := range []map[*fileNode]bool{m.loose, m.unsure} {
			for f := range some {
				if chosen(f) {
					list = append(list, candidate{file: f})
				}
			}
		}
		slices.SortFunc(list, func(a, b candidate) int { return a.file.rank - b.file.rank })
	}
	if len(s.hidden) == 0 {
		return list
	}
	for _, f := range s.hidden {
		list = append(list, candidate{file: f})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return walkOrder(a.file, b.file) })
	return list
}

// walkOrder compares files by where a walk meets them: the files of a directory
// before those of the directories in it.
func walkOrder(a, b *fileNode) int {
	if a.dir == b.dir {
		return strings.Compare(a.name, b.name)
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
	return strings.Compare(x.name, y.name)
}

// indexable returns what a segment can look for: nil where that is nothing.
func (q *query) indexable() []need {
	if q.Invert {
		return nil
	}
	var usable []need
	for _, n := range q.needs {
		if !slices.ContainsFunc(n.any, func(l literal) bool { return len(l.text) < 3 }) {
			usable = append(usable, n)
		}
	}
	return usable
}

// collect adds the files whose blocks were found. The blocks of a file follow
// each other.
func (s *segment) collect(list []candidate, found []uint64, chosen func(*fileNode) bool) []candidate {
	var last *fileNode
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
				list = append(list, candidate{file: last})
			} else if n := len(list); n == 0 || list[n-1].file != last {
				continue // it was not chosen
			}
			spans := &list[len(list)-1].spans
			*spans = append(*spans, block64{int(b.start), int(b.end), int(b.line)})
		}
	}
	return list
}

// group is how many candidates a worker takes at once.
const group = 16

// searchAll searches candidates until there is enough.
func (m *memory) searchAll(ctx context.Context, q *query, c *chooser, o Options, list []candidate, parts *[]output, sum *Summary) error {
	var halt atomic.Bool
	stop := context.AfterFunc(ctx, func() { halt.Store(true) })
	defer stop()
	searchers := make([]*searcher, workers())
	var mu sync.Mutex
	found := problems{sum.Problems, sum.Problem}
	enough := newLimit(o, func(File) bool { return true })
	size := len(list)
	if o.Limit > 0 { // the first may be enough
		size = 4 * group
	}
	for ; len(list) > 0; size *= 4 {
		wave := list[:min(len(list), size)]
		list = list[len(wave):]
		outs := make([]output, (len(wave)+group-1)/group)
		var next atomic.Int64
		run := func(i int) {
			if searchers[i] == nil {
				searchers[i] = newSearcher(q, o, halt.Load)
				searchers[i].maxSize, searchers[i].exclude = c.MaxSize, c.Exclude
			}
			s := searchers[i]
			defer s.settleHeld(m)
			for !halt.Load() {
				k := int(next.Add(1)) - 1
				if k >= len(outs) {
					return
				}
				s.found.reset()
				for _, x := range wave[k*group : min(len(wave), (k+1)*group)] {
					if err := m.searchFile(ctx, s, x, &s.found); err != nil && ctx.Err() == nil && !c.excluded(x.file.path) {
						mu.Lock()
						found.add(x.file.path, err)
						mu.Unlock()
					}
				}
				outs[k] = s.found.clone()
				if len(s.held) >= chunk {
					s.settleHeld(m)
				}
			}
		}
		if len(outs) == 1 {
			run(0)
		} else {
			together(len(searchers), run)
		}
		*parts = append(*parts, outs...)
		if ctx.Err() != nil {
			break
		}
		if o.Limit > 0 {
			for i := range outs {
				if !outs[i].each(enough.yield) {
					list = nil
					break
				}
			}
		}
	}
	sum.Problems, sum.Problem = found.count, found.first
	for _, s := range searchers {
		if s != nil {
			sum.Binary += s.counts.Binary
			sum.Matches += s.counts.Matches
			s.done()
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// settleHeld looks whether the files that were read have writers.
func (s *searcher) settleHeld(m *memory) {
	m.shared.opens.settle(s.held)
	s.held = s.held[:0]
}

// searchFile searches a file, in memory if its text is there.
func (m *memory) searchFile(ctx context.Context, s *searcher, x candidate, out *output) error {
	f := x.file
	if f.text != nil {
		s.utf8(f.text, f.path, x.spans, true, out)
		return nil
	}
	if r := f.open.Load(); r != nil && s.maxSize == 0 && s.again(ctx, *r, x, out) {
		return nil
	}
	r, err := m.top.OpenBelow(f.path)
	if err != nil {
		return gone(err)
	}
	if f.inode != nil && !m.unsure[f] {
		held := heldFile{inode: f.inode, reader: r}
		if m.mayKeep(f) {
			held.keep = f
		}
		s.held = append(s.held, held)
	} else {
		defer r.Close()
	}
	one := x.whole()
	if one && s.maxSize == 0 {
		return s.listed(ctx, r, f.path, out)
	}
	stat, err := r.Stat()
	if err != nil || stat.Kind != workspace.Regular {
		return gone(err)
	}
	if s.maxSize > 0 && stat.Size > s.maxSize {
		return nil
	}
	if x.spans == nil || one || stat != f.stat || stat.Size > maxWhole {
		return s.file(ctx, r, f.path, stat, out)
	}
	text, whole, err := s.begin(r, stat)
	if err != nil {
		return err
	}
	if !whole {
		return s.windows(ctx, r, f.path, text, out) // it has grown
	}
	spans := x.spans
	if after, err := r.Stat(); err != nil || after != stat {
		spans = nil // it is not the text that was indexed
	}
	s.text(text, f.path, spans, out)
	return nil
}

// whole reports whether the one block is the whole file: then it does not matter
// which.
func (x *candidate) whole() bool {
	return len(x.spans) == 1 && x.spans[0].start == 0 && x.spans[0].end == x.file.length
}

// again searches a file that was kept open. It returns false where it cannot be
// read at once any more.
func (s *searcher) again(ctx context.Context, r workspace.Reader, x candidate, out *output) bool {
	s.fit()
	same := func() bool {
		stat, err := r.Stat()
		return err == nil && stat == x.file.stat
	}
	spans := x.spans
	if x.whole() || spans != nil && !same() {
		spans = nil
	}
	n, err := r.ReadFirst(s.buffer)
	if err != nil || n == len(s.buffer) {
		return false
	}
	if spans != nil && same() {
		s.text(s.buffer[:n], x.file.path, spans, out)
		return true
	}
	return s.goOn(ctx, r, x.file.path, s.buffer[:n], true, out) == nil
}

// glob returns the files a scope means. It returns false where the memory does
// not know enough.
func (m *memory) glob(c *chooser, order Order) (files []File, sum Summary, ok bool) {
	if files, ok := m.globPlain(c, order); ok {
		return files, Summary{Files: len(files), Warm: true}, true
	}
	s, ok := m.selects(c)
	if !ok {
		return nil, sum, false
	}
	list := s.files
	if s.all {
		list = m.byPath
	}
	files = make([]File, 0, len(list)+len(s.hidden))
	sizes := c.MaxSize > 0
	for _, f := range list {
		stat := f.stat
		if (order == ByTime || sizes) && m.unsure[f] {
			var err error
			if stat, err = m.top.Lstat(f.path); err != nil || stat.Kind != workspace.Regular {
				continue
			}
		}
		if !sizes || stat.Size <= c.MaxSize {
			files = append(files, File{Path: f.path, MTime: stat.MTime})
		}
	}
	for _, f := range s.hidden {
		stat, err := m.top.Lstat(f.path)
		if err == nil && stat.Kind == workspace.Regular && (!sizes || stat.Size <= c.MaxSize) {
			files = append(files, File{Path: f.path, MTime: stat.MTime})
		}
	}
	if !s.all || len(s.hidden) > 0 || order == ByTime {
		sorted(files, order)
	}
	return files, Summary{Files: len(files), Problems: s.problems.count, Problem: s.problems.first, Warm: true}, true
}

// globPlain is glob for a scope that has nothing but a path and a glob: the
// files are in order already. It returns false for other scopes.
func (m *memory) globPlain(c *chooser, order Order) ([]File, bool) {
	if order != ByName || c.overrides != nil || c.types != nil || c.Exclude != nil || c.MaxDepth > 0 || c.MaxSize > 0 || len(m.failed) > 0 || m.find(c.Path) == nil {
		return nil, false
	}
	list := m.byPath
	if c.Path != "." {
		by := func(f *fileNode, prefix string) int { return strings.Compare(f.path, prefix) }
		from, _ := slices.BinarySearchFunc(list, c.Path+"/", by)
		to, _ := slices.BinarySearchFunc(list, c.Path+"0", by) // what comes after the slash
		list = list[from:to]
	}
	var files []File
	for _, f := range list {
		if c.match == nil || c.matches(f.path) {
			if files == nil {
				files = make([]File, 0, 256)
			}
			files = append(files, File{Path: f.path, MTime: f.stat.MTime})
		}
	}
	return files, true
}
