// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"os"
	"slices"
	"sync"
)

// A segment is a file without a name that holds what was replaced. It is
// closed when no record needs it and none is written to it.
type segment struct {
	size  int64
	users int

	mu   sync.RWMutex
	file *os.File // nil when it is closed
}

// maxSegment is when the next segment is begun.
const maxSegment = 16 << 20

// leave closes a segment when its last user goes.
func (s *Store) leave(seg *segment) {
	if seg.users--; seg.users > 0 {
		return
	}
	s.bytes -= seg.size
	seg.mu.Lock()
	defer seg.mu.Unlock()
	seg.file.Close()
	seg.file = nil
}

// retire ends the segment that is written to.
func (s *Store) retire() {
	if s.segment != nil {
		s.leave(s.segment)
		s.segment = nil
	}
}

// A blob is content in a segment, or in memory while a call is under way. Of
// content that was replaced by other it may be only what differs: the two begin
// with the same prefix bytes and end with the same suffix bytes.
type blob struct {
	data           []byte
	segment        *segment
	offset, size   int64
	prefix, suffix int
}

// difference returns what must be kept of a content that is replaced.
func difference(before, after []byte) *blob {
	prefix := commonPrefix(before, after)
	suffix := commonSuffix(before[prefix:], after[prefix:])
	data := before[prefix : len(before)-suffix]
	if len(data) < len(before)/2 {
		data = bytes.Clone(data) // or all of it would be kept
	}
	return &blob{data: data, prefix: prefix, suffix: suffix}
}

// read returns the content, given the one that took its place.
func (b *blob) read(after []byte) ([]byte, error) {
	if b.prefix+b.suffix > len(after) {
		return nil, ErrNotKept
	}
	middle := b.data
	if b.segment != nil {
		b.segment.mu.RLock()
		defer b.segment.mu.RUnlock()
		if b.segment.file == nil {
			return nil, ErrNotKept
		}
		middle = make([]byte, b.size)
		if _, err := b.segment.file.ReadAt(middle, b.offset); err != nil && b.size > 0 {
			return nil, err
		}
	}
	return slices.Concat(after[:b.prefix], middle, after[len(after)-b.suffix:]), nil
}

// step is how many bytes are compared at once.
const step = 4096

func commonPrefix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+step <= n && bytes.Equal(a[i:i+step], b[i:i+step]) {
		i += step
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

func commonSuffix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+step <= n && bytes.Equal(a[len(a)-i-step:len(a)-i], b[len(b)-i-step:len(b)-i]) {
		i += step
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}

// unnamed makes a file that ends with the process.
func unnamed(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if file, err := nameless(dir); err == nil {
		return file, nil
	}
	file, err := os.CreateTemp(dir, "undo-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}
