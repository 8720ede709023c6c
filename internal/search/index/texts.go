// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/search/plain"
	"github.com/toolserver/toolserver/internal/search/workers"
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
	writers     writers
}

// newShared returns what a pool with a configuration shares.
func newShared(c Config) *shared {
	s := &shared{limits: limitsOfKernel()}
	c = c.WithDefaults()
	part := int64(c.KernelShare)
	s.text.max, s.index.max = int64(c.MaxText), int64(c.MaxIndex)
	s.watches.max = int64(s.limits.watches) / part
	s.instances.max = max(int64(s.limits.instances)/part, 2) // one for files, and one for a workspace
	s.writers.kept.max = min(maxOpen, int64(s.limits.files)/part)
	s.writers.watches = &s.watches
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

// maxTick is how much later a change of a file may be and have the same time.
const maxTick = 20 * time.Millisecond

// load returns the text of a file, and whether it stays what it is until the
// kernel tells of a change: not if somebody may be writing to it through a
// mapping, or if it cannot be followed.
func (m *Tree) load(b *reader, f *File) (content []byte, stat workspace.Stat, sure bool) {
	d, err := m.ws.OpenDir(f.dir.Path)
	if err != nil {
		return nil, stat, false
	}
	defer d.Close()
	r, err := d.OpenListed(f.Name)
	if err != nil {
		return nil, stat, false
	}
	defer r.Close()
	f.inode, sure = m.shared.writers.follow(r, follower{m: m, file: f}, f.inode)
	stat, err = r.Stat()
	if err != nil || !sure || stat.Kind != workspace.Regular || stat.Size > maxRemembered {
		return nil, stat, false
	}
	f.young = time.Now().UnixNano()-stat.CTime < int64(maxTick)
	raw, err := b.read(r, int(stat.Size))
	if err != nil {
		return nil, stat, false
	}
	if after, err := r.Stat(); err != nil || after != stat {
		return nil, after, false
	}
	if !plain.IsUTF16(raw) {
		return plain.Text(raw, nil), stat, true // a part of the buffer
	}
	b.decoded = plain.Text(raw, b.decoded[:0])
	return b.decoded, stat, true
}

// A reader reads files, one after another, into the same memory.
type reader struct{ buffer, decoded []byte }

const (
	firstRead = 256 << 10 // of a file, before it is known not to be binary
	sniff     = 8 << 10   // is looked at for that
	maxKept   = 4 << 20   // bytes that are kept between files
)

// read returns what is in a file of some size, or the beginning of one that is
// binary. What it returns is good until it is called again.
func (b *reader) read(r workspace.Reader, size int) ([]byte, error) {
	b.fit(0, min(size, firstRead))
	for n := 0; ; {
		k, err := r.Read(b.buffer[n:])
		if err != nil {
			return nil, err
		}
		begins := n == 0
		n += k
		if k == 0 || n >= size && n < len(b.buffer) || begins && !plain.IsUTF16(b.buffer[:n]) && plain.IsBinary(b.buffer[:min(n, sniff)]) {
			return b.buffer[:n], nil
		}
		if n == len(b.buffer) { // it is larger than was read at first, or has grown
			b.fit(n, max(size, n))
		}
	}
}

// fit makes room for so many bytes and some more, and keeps the first n.
func (b *reader) fit(n, size int) {
	if size < len(b.buffer) {
		return
	}
	larger := make([]byte, max(size+4096, firstRead))
	copy(larger, b.buffer[:n])
	b.buffer = larger
}

// settle gives large buffers back.
func (b *reader) settle() {
	if len(b.buffer) > maxKept {
		b.buffer = nil
	}
	if cap(b.decoded) > maxKept {
		b.decoded = nil
	}
}

// keep takes the text of a file into the memory.
func (m *Tree) keep(f *File, content []byte) {
	if f.Binary = plain.IsBinary(content); f.Binary {
		return
	}
	f.Length = len(content)
	if m.shared.text.take(len(content)) {
		f.Text = append(make([]byte, 0, len(content)), content...)
	}
}

// tooMany reports whether so many files that must be read at every search make
// the memory useless.
func (m *Tree) tooMany(unsure int) bool { return unsure > 1000 && unsure > len(m.Order)/4 }

// readAll reads all files for the first time.
func (m *Tree) readAll(ctx context.Context) error {
	var next atomic.Int64
	type share struct {
		unsure   []*File
		segments []*segment
	}
	shares := make([]share, workers.Count())
	workers.Run(len(shares), func(i int) {
		mine, reader, builder := &shares[i], new(reader), new(segmentBuilder)
		for ctx.Err() == nil {
			from := int(next.Add(chunk)) - chunk
			if from >= len(m.Order) {
				break
			}
			for _, f := range m.Order[from:min(len(m.Order), from+chunk)] {
				content, stat, sure := m.load(reader, f)
				if f.Stat = stat; !sure {
					mine.unsure = append(mine.unsure, f)
					continue
				}
				if m.keep(f, content); f.Binary {
					continue
				}
				if !builder.room() {
					mine.segments = append(mine.segments, builder.segment())
				}
				builder.add(f, f.version, content)
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
	for _, f := range m.Order {
		m.length += f.Length
		switch {
		case f.Binary:
			m.Binaries++
		case !f.indexed && !m.unsure[f]:
			m.loosen(f)
		}
	}
	m.looseAtFirst = m.looseBytes
	// Without leases nothing can be sure, and to read everything anew is no use.
	if m.tooMany(len(m.unsure)) {
		return errCold
	}
	return nil
}

// adopt takes a segment into the memory, unless it would not be worth its
// size, there is no room for it, or its files have changed since it was made.
func (m *Tree) adopt(s *segment) {
	if s.size() > s.text/4 || !m.shared.index.take(s.size()) {
		return
	}
	m.segments = append(m.segments, s)
	for i := range s.blocks {
		if b := &s.blocks[i]; b.file.version == b.version && !b.file.gone {
			b.file.indexed = true
			m.tighten(b.file)
		}
	}
}

// readDirty reads the files that have changed.
func (m *Tree) readDirty(ctx context.Context) error {
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
func (m *Tree) read(f *File) {
	m.drop(f)
	if !f.Visible {
		m.unfollow(f)
		f.Stat, _ = m.top.Lstat(f.Path)
		return
	}
	content, stat, sure := m.load(&m.reader, f)
	if f.Stat = stat; !sure {
		m.unsure[f] = true
		return
	}
	if m.keep(f, content); f.Binary {
		m.Binaries++
	} else {
		m.loosen(f)
	}
	m.reader.settle()
}

// minStale is how many bytes of text may have changed since the index was made.
const minStale = 4 << 20

// loosen takes note that the text of a file is in no segment; tighten that it is,
// or that there is no text any more.
func (m *Tree) loosen(f *File) {
	m.loose[f] = true
	m.looseBytes += f.Length
}

func (m *Tree) tighten(f *File) {
	if m.loose[f] {
		delete(m.loose, f)
		m.looseBytes -= f.Length
	}
}

// stale reports whether so much text has changed that it is worth to read the
// workspace again: then an index is of little use.
func (m *Tree) stale() bool {
	changed := m.looseBytes - m.looseAtFirst
	return changed > minStale && changed > m.length/8
}
