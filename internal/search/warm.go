// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/search/workers"
	"github.com/toolserver/toolserver/internal/workspace"
)

// memory is what an index knows of a workspace.
type memory struct{ *index.Tree }

// A selection is which files of a memory a scope means.
type selection struct {
	all      bool
	files    []*index.File // unless all: visible files, in the order of a walk
	hidden   []*index.File // others, which a glob or a type asks for
	problems problems
}

// size is how many files are meant.
func (s *selection) size(m memory) int {
	if s.all {
		return len(m.Order) + len(s.hidden)
	}
	return len(s.files) + len(s.hidden)
}

// answerable reports whether a scope is about what a memory knows.
func (c *chooser) answerable() bool { return !c.Hidden && !c.NoIgnore && !c.Follow }

// selects returns what a scope means. It returns false where that is more than
// is known.
func (m memory) selects(c *chooser) (s selection, ok bool) {
	n := m.Find(c.Path)
	if n == nil {
		return s, false
	}
	if n == m.Root && c.overrides == nil && c.types == nil && c.match == nil && c.Exclude == nil && c.MaxDepth == 0 {
		s.all = true
		for n := range m.Failed {
			s.problems.add(n.Path, n.Problem)
		}
		return s, true
	}
	return s, s.add(c, n, 0)
}

// add adds what a scope means of a directory and those below it.
func (s *selection) add(c *chooser, n *index.Dir, depth int) bool {
	for _, f := range n.Files {
		if !c.takes(f.Path, f.Name, f.Ignore) {
			continue
		}
		if f.Visible {
			s.files = append(s.files, f)
		} else {
			s.hidden = append(s.hidden, f)
		}
	}
	if c.MaxDepth > 0 && depth+1 >= c.MaxDepth {
		return true
	}
	for _, sub := range n.Dirs {
		if !c.enters(sub.Path, sub.Name, sub.Ignore) {
			continue
		}
		if !sub.Entered {
			return false // a glob asks for what is hidden or ignored
		}
		if sub.Problem != nil {
			s.problems.add(sub.Path, sub.Problem)
		}
		if !s.add(c, sub, depth+1) {
			return false
		}
	}
	return true
}

// grep searches the memory. What it finds is in several outputs, in order. It
// returns false where the memory does not know enough.
func (m memory) grep(ctx context.Context, q *query, c *chooser, o Options) (parts []output, sum Summary, ok bool, err error) {
	late := *c
	if len(m.Failed) == 0 {
		late.Exclude = nil // of few files something is found: those are asked about
	}
	s, ok := m.selects(&late)
	if !ok {
		return nil, sum, false, nil
	}
	sum = Summary{Files: s.size(m), Problems: s.problems.count, Problem: s.problems.first, Warm: true}
	sum.Binary = m.countBinary(&s)
	list := m.candidates(q, &s)
	err = m.searchAll(ctx, q, c, o, list, &parts, &sum)
	if c.Exclude != nil && sum.Matches == 0 { // then it matters in how many files
		excluded, binary := m.countExcluded(&s, c)
		sum.Files, sum.Binary = sum.Files-excluded, sum.Binary-binary
	}
	return parts, sum, true, err
}

// countExcluded counts the files of a selection that must not be told of, and
// those of them that are binary.
func (m memory) countExcluded(s *selection, c *chooser) (files, binary int) {
	visible := s.files
	if s.all {
		visible = m.Order
	}
	for _, list := range [][]*index.File{visible, s.hidden} {
		for _, f := range list {
			if c.Exclude(f.Path) {
				files++
				if f.Binary {
					binary++
				}
			}
		}
	}
	return files, binary
}

func (m memory) countBinary(s *selection) int {
	if s.all {
		return m.Binaries
	}
	n := 0
	for _, f := range s.files {
		if f.Binary {
			n++
		}
	}
	return n
}

// candidates returns the files that may have matches, in the order of a walk.
func (m memory) candidates(q *query, s *selection) []index.Candidate {
	files := s.files
	chosen := func(*index.File) bool { return true }
	if s.all {
		files = m.Order
	} else {
		in := make([]uint64, (len(m.Order)+63)/64)
		for _, f := range s.files {
			in[f.Rank>>6] |= 1 << (f.Rank & 63)
		}
		chosen = func(f *index.File) bool { return in[f.Rank>>6]>>(f.Rank&63)&1 != 0 }
	}
	var list []index.Candidate
	if texts := q.indexable(); texts != nil {
		list = m.Candidates(texts, chosen)
	} else {
		for _, f := range files {
			if !f.Binary {
				list = append(list, index.Candidate{File: f})
			}
		}
	}
	if len(s.hidden) == 0 {
		return list
	}
	for _, f := range s.hidden {
		list = append(list, index.Candidate{File: f})
	}
	slices.SortStableFunc(list, func(a, b index.Candidate) int { return index.WalkOrder(a.File, b.File) })
	return list
}

// indexable returns what an index can look for: nil where that is nothing.
func (q *query) indexable() (all [][]string) {
	if q.Invert {
		return nil
	}
	for _, n := range q.needs {
		if slices.ContainsFunc(n.any, func(l literal) bool { return len(l.text) < index.MinText }) {
			continue
		}
		var texts []string
		for _, l := range n.any {
			texts = append(texts, l.text)
		}
		all = append(all, texts)
	}
	return all
}

// group is how many candidates a worker takes at once.
const group = 16

// searchAll searches candidates until there is enough.
func (m memory) searchAll(ctx context.Context, q *query, c *chooser, o Options, list []index.Candidate, parts *[]output, sum *Summary) error {
	var halt atomic.Bool
	stop := context.AfterFunc(ctx, func() { halt.Store(true) })
	defer stop()
	searchers := make([]*searcher, workers.Count())
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
				searchers[i].exclude, searchers[i].reading = c.Exclude, m.Reading()
			}
			s := searchers[i]
			defer s.reading.Settle()
			for !halt.Load() {
				k := int(next.Add(1)) - 1
				if k >= len(outs) {
					return
				}
				s.found.reset()
				for _, x := range wave[k*group : min(len(wave), (k+1)*group)] {
					if err := m.searchFile(ctx, s, x, &s.found); err != nil && ctx.Err() == nil && !c.excluded(x.File.Path) {
						mu.Lock()
						found.add(x.File.Path, err)
						mu.Unlock()
					}
				}
				outs[k] = s.found.clone()
				s.reading.SettleSome()
			}
		}
		if len(outs) == 1 {
			run(0)
		} else {
			workers.Run(len(searchers), run)
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

// searchFile searches a file, in memory if its text is there.
func (m memory) searchFile(ctx context.Context, s *searcher, x index.Candidate, out *output) error {
	f := x.File
	if f.Text != nil {
		s.utf8(f.Text, f.Path, x.Spans, true, out)
		return nil
	}
	if r, ok := f.Kept(); ok && s.again(ctx, r, x, out) {
		return nil
	}
	r, err := s.reading.Open(f)
	if err != nil {
		return gone(err)
	}
	if whole(x) {
		return s.listed(ctx, r, f.Path, out)
	}
	stat, err := r.Stat()
	if err != nil || stat.Kind != workspace.Regular {
		return gone(err)
	}
	if x.Spans == nil || stat != f.Stat || stat.Size > maxWhole {
		return s.file(ctx, r, f.Path, stat, out)
	}
	text, whole, err := s.begin(r, stat)
	if err != nil {
		return err
	}
	if !whole {
		return s.windows(ctx, r, f.Path, text, out) // it has grown
	}
	spans := x.Spans
	if after, err := r.Stat(); err != nil || after != stat {
		spans = nil // it is not the text that was indexed
	}
	s.text(text, f.Path, spans, out)
	return nil
}

// whole reports whether the one span is the whole file: then it does not matter
// which.
func whole(x index.Candidate) bool {
	return len(x.Spans) == 1 && x.Spans[0].Start == 0 && x.Spans[0].End == x.File.Length
}

// again searches a file that was kept open. It returns false where it cannot be
// read at once any more.
func (s *searcher) again(ctx context.Context, r workspace.Reader, x index.Candidate, out *output) bool {
	s.fit()
	same := func() bool {
		stat, err := r.Stat()
		return err == nil && stat == x.File.Stat
	}
	spans := x.Spans
	if whole(x) || spans != nil && !same() {
		spans = nil
	}
	n, err := r.ReadFirst(s.buffer)
	if err != nil || n == len(s.buffer) {
		return false
	}
	if spans != nil && same() {
		s.text(s.buffer[:n], x.File.Path, spans, out)
		return true
	}
	return s.goOn(ctx, r, x.File.Path, s.buffer[:n], true, out) == nil
}

// glob returns the files a scope means. It returns false where the memory does
// not know enough.
func (m memory) glob(c *chooser, order Order) (files []File, sum Summary, ok bool) {
	if files, ok := m.globPlain(c, order); ok {
		return files, Summary{Files: len(files), Warm: true}, true
	}
	s, ok := m.selects(c)
	if !ok {
		return nil, sum, false
	}
	list := s.files
	if s.all {
		list = m.ByPath
	}
	files = make([]File, 0, len(list)+len(s.hidden))
	for _, f := range list {
		stat := f.Stat
		if order == ByTime && m.Unsure(f) {
			var err error
			if stat, err = m.Lstat(f); err != nil || stat.Kind != workspace.Regular {
				continue
			}
		}
		files = append(files, File{Path: f.Path, MTime: stat.MTime})
	}
	for _, f := range s.hidden {
		stat, err := m.Lstat(f)
		if err == nil && stat.Kind == workspace.Regular {
			files = append(files, File{Path: f.Path, MTime: stat.MTime})
		}
	}
	if !s.all || len(s.hidden) > 0 || order == ByTime {
		sorted(files, order)
	}
	return files, Summary{Files: len(files), Problems: s.problems.count, Problem: s.problems.first, Warm: true}, true
}

// globPlain is glob for a scope that has nothing but a path and a glob: the
// files are in order already. It returns false for other scopes.
func (m memory) globPlain(c *chooser, order Order) ([]File, bool) {
	if order != ByName || c.overrides != nil || c.types != nil || c.Exclude != nil || c.MaxDepth > 0 || len(m.Failed) > 0 || m.Find(c.Path) == nil {
		return nil, false
	}
	list := m.ByPath
	if c.Path != "." {
		by := func(f *index.File, prefix string) int { return strings.Compare(f.Path, prefix) }
		from, _ := slices.BinarySearchFunc(list, c.Path+"/", by)
		to, _ := slices.BinarySearchFunc(list, c.Path+"0", by) // what comes after the slash
		list = list[from:to]
	}
	var files []File
	for _, f := range list {
		if c.match == nil || c.matches(f.Path) {
			if files == nil {
				files = make([]File, 0, 256)
			}
			files = append(files, File{Path: f.Path, MTime: f.Stat.MTime})
		}
	}
	return files, true
}
