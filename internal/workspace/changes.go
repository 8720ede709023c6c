// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ErrNotKept is wrapped by errors about content that is no longer kept, or
// never was.
var ErrNotKept = errors.New("the old content is not kept")

// Kind is what an entry is.
type Kind int

const (
	Absent Kind = iota
	Regular
	Directory
	Link
	Special // a pipe, a socket or a device
)

var kindNames = [...]string{"nothing", "file", "directory", "link", "special file"}

func (k Kind) String() string { return kindNames[k] }

func kindOfInfo(info Info) Kind {
	switch {
	case !info.Exists():
		return Absent
	case info.Mode.IsRegular():
		return Regular
	case info.Mode.IsDir():
		return Directory
	case info.Mode&fs.ModeSymlink != 0:
		return Link
	}
	return Special
}

// A State is what an entry was at one time.
type State struct {
	Kind   Kind
	Mode   fs.FileMode // permissions
	Size   int64
	Hash   Hash   // of a regular file; zero where it is not known
	Target string // of a link

	content *blob // of a regular file; nil where it is not kept
}

// A Change is one thing that was done to an entry.
type Change struct {
	Path string

	// Before and After are what the entry was. After has no content.
	Before, After State

	// MovedFrom, if not empty, says that the entry was moved here from there,
	// with all that is in it.
	MovedFrom string
}

// Old returns the content a regular file had before the change, as long as it
// is kept. after is what the change made of it, if anything.
func (c Change) Old(after []byte) ([]byte, error) { return c.Before.from(after) }

// from returns the content of a state, of which perhaps only the difference to
// after is kept.
func (s State) from(after []byte) ([]byte, error) {
	if s.content == nil {
		return nil, ErrNotKept
	}
	data, err := s.content.read(after)
	if err == nil && (int64(len(data)) != s.Size || s.Hash != Hash{} && HashOf(data) != s.Hash) {
		err = fmt.Errorf("%w: it was damaged", ErrNotKept)
	}
	return data, err
}

// A Record is what one call changed, in order.
type Record struct {
	ID      string // the call's id, or one that was given
	Tool    string
	Time    time.Time
	Changes []Change

	// Lost says why the record cannot be undone; empty where it can.
	Lost string

	bytes    int64
	segments []*segment
}

// ChangesConfig says how much is kept of what calls replaced.
type ChangesConfig struct {
	// Dir is where what was replaced is kept, in files without a name, which end
	// with the process. Required.
	Dir string

	// MaxBytes bounds them; 0 means 256 MiB.
	MaxBytes int64

	// MaxRecords bounds how many calls can be undone; 0 means 500.
	MaxRecords int
}

// Changes keeps what the calls of a session replaced, so that it can be put
// back. When there is too much, the oldest records go. Its methods are safe for
// concurrent use.
type Changes struct {
	config ChangesConfig

	mu      sync.Mutex
	records []*Record
	first   map[string]Origin // what entries were before the session changed them
	more    bool              // there are more of them than are kept
	bytes   int64             // in segments
	segment *segment          // what is written to
	given   int
	closed  bool
}

// NewChanges returns an empty store. Close it after use.
func NewChanges(config ChangesConfig) *Changes {
	if config.MaxBytes == 0 {
		config.MaxBytes = 256 << 20
	}
	if config.MaxRecords == 0 {
		config.MaxRecords = 500
	}
	return &Changes{config: config, first: make(map[string]Origin)}
}

// Close drops everything.
func (c *Changes) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for len(c.records) > 0 {
		c.evict()
	}
	c.retire()
}

// Records returns what can be undone, the oldest first.
func (c *Changes) Records() []*Record {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// An Origin is what an entry was before calls of the session changed it.
type Origin struct {
	State
	broken bool // not every change since is known
}

// Origins returns what entries were before calls of the session changed them,
// by path, and whether that is all of them.
func (c *Changes) Origins() (origins map[string]Origin, all bool) {
	if c == nil {
		return nil, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.first), !c.more
}

// Older goes back from the content a file has now, from change to change, and
// hands every older one to visit until it returns false. It reports whether it
// came to the first that the session has seen.
func (c *Changes) Older(path string, now []byte, visit func(old []byte, exists bool) bool) bool {
	if c == nil {
		return false
	}
	exists := true
	for _, r := range slices.Backward(c.Records()) {
		for _, change := range slices.Backward(r.Changes) {
			switch {
			case change.MovedFrom == path || change.Path == path && change.MovedFrom != "":
				return false
			case change.Path != path:
				continue
			case exists != (change.After.Kind == Regular) || exists && HashOf(now) != change.After.Hash:
				return false
			}
			old, err := change.Old(now)
			if exists = change.Before.Kind == Regular; exists && err != nil {
				return false
			}
			if now = old; !visit(now, exists) {
				return false
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.first[path].broken
}

// maxFirst bounds how many entries a session is known to have changed.
const maxFirst = 20_000

func (c *Changes) add(r *Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range r.Changes {
		if change.MovedFrom != "" {
			c.remember(change.MovedFrom, change.After)
		}
		c.remember(change.Path, change.Before)
	}
	if r.ID == "" || slices.ContainsFunc(c.records, func(other *Record) bool { return other.ID == r.ID }) {
		c.given++
		r.ID = "change-" + strconv.Itoa(c.given)
	}
	c.records = append(c.records, r)
	for len(c.records) > c.config.MaxRecords {
		c.evict()
	}
	if c.closed {
		c.evict()
	}
}

func (c *Changes) remember(path string, before State) {
	if _, known := c.first[path]; known {
		return
	}
	if len(c.first) == maxFirst {
		c.more = true
		return
	}
	before.content = nil
	c.first[path] = Origin{State: before}
}

// remove takes records out that were undone.
func (c *Changes) remove(undone []*Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records = slices.DeleteFunc(c.records, func(r *Record) bool {
		if !slices.Contains(undone, r) {
			return false
		}
		c.release(r)
		return true
	})
}

// evict drops the oldest record.
func (c *Changes) evict() {
	for _, change := range c.records[0].Changes {
		if origin, ok := c.first[change.Path]; ok {
			origin.broken = true
			c.first[change.Path] = origin
		}
	}
	c.release(c.records[0])
	c.records = slices.Delete(c.records, 0, 1)
}

// release gives up what a record keeps.
func (c *Changes) release(r *Record) {
	for _, s := range r.segments {
		c.leave(s)
	}
	r.bytes, r.segments = 0, nil
}

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
func (c *Changes) leave(s *segment) {
	if s.users--; s.users > 0 {
		return
	}
	c.bytes -= s.size
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.Close()
	s.file = nil
}

// retire ends the segment that is written to.
func (c *Changes) retire() {
	if c.segment != nil {
		c.leave(c.segment)
		c.segment = nil
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
	return &blob{data: before[prefix : len(before)-suffix], prefix: prefix, suffix: suffix}
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

// reserve makes room for size bytes of r, which is not added yet. It drops the
// oldest records where there is none.
func (c *Changes) reserve(r *Record, size int64) (*blob, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errors.New("the session is closed")
	case r.bytes+size > c.config.MaxBytes:
		return nil, fmt.Errorf("more than %d bytes would have to be kept", c.config.MaxBytes)
	}
	for c.bytes+size > c.config.MaxBytes && len(c.records) > 0 {
		c.evict()
	}
	longest := min(maxSegment, c.config.MaxBytes/8)
	if c.bytes+size > c.config.MaxBytes || c.segment != nil && c.segment.size+size > longest {
		c.retire()
	}
	if c.bytes+size > c.config.MaxBytes {
		return nil, errors.New("calls that are under way have used up what can be kept")
	}
	if c.segment == nil {
		file, err := unnamed(c.config.Dir)
		if err != nil {
			return nil, err
		}
		c.segment = &segment{file: file, users: 1}
	}
	s := c.segment
	if !slices.Contains(r.segments, s) {
		r.segments = append(r.segments, s)
		s.users++
	}
	b := &blob{segment: s, offset: s.size, size: size}
	s.size += size
	c.bytes += size
	r.bytes += size
	return b, nil
}

// abandon gives up what was reserved for a record that is not added.
func (c *Changes) abandon(r *Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(r)
}

// unnamed makes a file that ends with the process.
func unnamed(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "undo-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}
