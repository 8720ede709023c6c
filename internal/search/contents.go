// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/workspace"
)

// A budget bounds how much of something is in use.
type budget struct {
	max  int64
	used atomic.Int64
}

// shared is what all workspaces of a pool share.
type shared struct {
	text, index budget // bytes
	watches     budget // of directories and files
	instances   budget // of inotify
	limits      kernelLimits
	opens       opens
}

// newShared returns what a pool with a configuration shares.
func newShared(c Config) *shared {
	s := &shared{limits: limitsOfKernel()}
	part := int64(cmp.Or(c.KernelShare, 8))
	s.text.max, s.index.max = cmp.Or(c.MaxText, 256<<20), cmp.Or(c.MaxIndex, 64<<20)
	s.watches.max = int64(s.limits.watches) / part
	s.instances.max = max(int64(s.limits.instances)/part, 2) // one for files, and one for a workspace
	s.opens.kept.max = min(maxOpen, int64(s.limits.files)/part)
	s.opens.watches = &s.watches
	return s
}

// take reserves n, if there are as many.
func (b *budget) take(n int) bool {
	if b.used.Add(int64(n)) > b.max {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

func (b *budget) give(n int) { b.used.Add(-int64(n)) }

// left is how much may be taken.
func (b *budget) left() int64 { return b.max - b.used.Load() }

// maxRemembered is the size up to which a file is kept or indexed.
const maxRemembered = 32 << 20

// newReader returns a searcher that only reads.
func newReader() *searcher { return new(searcher) }

// maxTick is how much later a change of a file may be and have the same time.
const maxTick = 20 * time.Millisecond

// load returns the text of a file, and whether it stays what it is until the
// kernel tells of a change: not if somebody may be writing to it through a
// mapping, or if it cannot be followed.
func (m *memory) load(s *searcher, f *fileNode) (text []byte, stat workspace.Stat, sure bool) {
	d, err := m.ws.OpenDir(f.dir.path)
	if err != nil {
		return nil, stat, false
	}
	defer d.Close()
	r, err := d.OpenListed(f.name)
	if err != nil {
		return nil, stat, false
	}
	defer r.Close()
	f.inode, sure = m.shared.opens.follow(r, follower{m: m, file: f}, f.inode)
	stat, err = r.Stat()
	if err != nil || !sure || stat.Kind != workspace.Regular || stat.Size > maxRemembered {
		return nil, stat, false
	}
	f.young = time.Now().UnixNano()-stat.CTime < int64(maxTick)
	text, whole, err := s.begin(r, stat)
	if err == nil && !whole {
		text, err = s.rest(context.Background(), r, text)
	}
	if err != nil {
		return nil, stat, false
	}
	if after, err := r.Stat(); err != nil || after != stat {
		return nil, after, false
	}
	s.decoded = plain(text, s.decoded[:0])
	return s.decoded, stat, true
}

// keep takes the text of a file into the memory.
func (m *memory) keep(f *fileNode, text []byte) {
	if f.binary = isBinary(text); f.binary {
		return
	}
	f.length = len(text)
	if m.shared.text.take(len(text)) {
		f.text = append(make([]byte, 0, len(text)), text...)
	}
}

// tooMany reports whether so many files that must be read at every search make
// the memory useless.
func (m *memory) tooMany(unsure int) bool { return unsure > 1000 && unsure > len(m.order)/4 }

// readAll reads all files for the first time.
func (m *memory) readAll(ctx context.Context) error {
	var next atomic.Int64
	type share struct {
		unsure   []*fileNode
		segments []*segment
	}
	shares := make([]share, workers())
	together(len(shares), func(i int) {
		mine, reader, builder := &shares[i], newReader(), new(segmentBuilder)
		for ctx.Err() == nil {
			from := int(next.Add(chunk)) - chunk
			if from >= len(m.order) {
				break
			}
			for _, f := range m.order[from:min(len(m.order), from+chunk)] {
				text, stat, sure := m.load(reader, f)
				if f.stat = stat; !sure {
					mine.unsure = append(mine.unsure, f)
					continue
				}
				if m.keep(f, text); f.binary {
					continue
				}
				if !builder.room() {
					mine.segments = append(mine.segments, builder.segment())
				}
				builder.add(f, f.version, text)
			}
			reader.settle()
		}
		if s := builder.segment(); s != nil {
			mine.segments = append(mine.segments, s)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, s := range shares {
		for _, f := range s.unsure {
			m.unsure[f] = true
		}
		for _, seg := range s.segments {
			m.adopt(seg)
		}
	}
	for _, f := range m.order {
		switch {
		case f.binary:
			m.binaries++
		case !f.indexed && !m.unsure[f]:
			m.loose[f] = true
		}
	}
	// Without leases nothing can be sure, and to read everything anew is no use.
	if m.tooMany(len(m.unsure)) {
		return errCold
	}
	return nil
}

// adopt takes a segment into the memory, unless it would not be worth its
// size, there is no room for it, or its files have changed since it was made.
func (m *memory) adopt(s *segment) {
	if s.size() > s.text/4 || !m.shared.index.take(s.size()) {
		return
	}
	m.segments = append(m.segments, s)
	for i := range s.blocks {
		if b := &s.blocks[i]; b.file.version == b.version && !b.file.gone {
			b.file.indexed = true
			delete(m.loose, b.file)
		}
	}
}

// readDirty reads the files that have changed.
func (m *memory) readDirty(ctx context.Context) error {
	for f := range m.dirtyFiles {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.gone {
			delete(m.dirtyFiles, f)
			continue
		}
		m.read(f)
	}
	return nil
}

// read reads a file that is new or has changed.
func (m *memory) read(f *fileNode) {
	m.drop(f)
	if !f.visible {
		m.unfollow(f)
		f.stat, _ = m.top.Lstat(f.path)
		return
	}
	text, stat, sure := m.load(m.reader, f)
	if f.stat = stat; !sure {
		m.unsure[f] = true
		return
	}
	if m.keep(f, text); f.binary {
		m.binaries++
	} else {
		m.loose[f] = true
	}
	m.reader.settle()
}

const (
	// minLoose is how many bytes of text may be without an index.
	minLoose = 4 << 20

	// maxSegments is how many segments there may be.
	maxSegments = 64
)

// A snapshot is text that is to be indexed.
type snapshot struct {
	file    *fileNode
	version uint32
	text    []byte // nil where it is not kept
}

// unindexed returns what is to be indexed, if it is worth it. Segments of which
// most has changed are given up.
func (m *memory) unindexed() []snapshot {
	m.segments = slices.DeleteFunc(m.segments, func(s *segment) bool {
		live := 0
		for i := range s.blocks {
			if b := &s.blocks[i]; b.version == b.file.version && b.file.indexed {
				live += int(b.end - b.start)
			}
		}
		if live > s.text/2 && len(m.segments) <= maxSegments {
			return false
		}
		for i := range s.blocks {
			if b := &s.blocks[i]; b.version == b.file.version && b.file.indexed {
				b.file.indexed = false
				m.loose[b.file] = true
			}
		}
		m.shared.index.give(s.size())
		return true
	})
	bytes := 0
	for f := range m.loose {
		bytes += f.length
	}
	if bytes < minLoose || bytes < m.tried+m.tried/2 {
		return nil
	}
	m.tried = bytes
	list := make([]snapshot, 0, len(m.loose))
	for f := range m.loose {
		list = append(list, snapshot{f, f.version, f.text})
	}
	return list
}

// index makes segments of snapshots. It does not need the memory to stand still.
func index(ctx context.Context, list []snapshot) []*segment {
	var segments []*segment
	var b segmentBuilder
	for _, s := range list {
		if ctx.Err() != nil {
			return nil
		}
		if s.text == nil {
			continue
		}
		if !b.room() {
			segments = append(segments, b.segment())
		}
		b.add(s.file, s.version, s.text)
	}
	if s := b.segment(); s != nil {
		segments = append(segments, s)
	}
	return segments
}
