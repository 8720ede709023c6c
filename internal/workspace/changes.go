// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// ErrNotKept is wrapped by errors about content that is no longer kept, or
// never was.
var ErrNotKept = errors.New("the old content is not kept")

// Kind is what an entry is.
type Kind uint8

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

	// Omitted is how many changes are not told, of a record that cannot be
	// undone. They were before the others.
	Omitted int

	bytes    int64 // in segments
	noted    int64 // in memory
	segments []*segment
	top      string // a directory that had more in it than was noted; mostly empty
}

// Transfer reports whether the client brought or removed the files itself, by a call of
// WorkspaceService, and no tool.
func (r *Record) Transfer() bool { return strings.HasPrefix(r.Tool, "workspace_") }

// maxTold is how many changes are told of a record that cannot be undone.
const maxTold = 100

// weight is what a change takes in memory, or somewhat more.
func (c *Change) weight() int64 {
	const fixed = int64(unsafe.Sizeof(Change{}) + unsafe.Sizeof(blob{}))
	return fixed + int64(len(c.Path)+len(c.MovedFrom)+len(c.Before.Target)+len(c.After.Target))
}

func (r *Record) weight() int64 {
	var sum int64
	for i := range r.Changes {
		sum += r.Changes[i].weight()
	}
	return sum
}

// ChangesConfig says how much is kept of what calls replaced.
type ChangesConfig struct {
	// Dir is where what was replaced is kept, in files without a name, which end
	// with the process. Required.
	Dir string

	// MaxBytes bounds them, together with what records take in memory; 0 means
	// 256 MiB.
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
	noted   int64             // in records
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

// An Origin is what an entry was before calls of the session changed it: as the client
// brought it, where it did.
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
// came to the origin.
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
			case r.Transfer():
				return c.whole(path)
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
	return c.whole(path)
}

// whole reports whether every change of an entry since its origin is known.
func (c *Changes) whole(path string) bool {
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
		if r.Transfer() {
			delete(c.first, change.Path) // what the client brings is where calls begin
			continue
		}
		if change.MovedFrom != "" {
			c.remember(change.MovedFrom, change.After)
		}
		c.remember(change.Path, change.Before)
	}
	if r.Lost != "" {
		c.shorten(r)
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

// shorten leaves of a record that cannot be undone what is told of it.
func (c *Changes) shorten(r *Record) {
	c.forget(r)
	if cut := len(r.Changes) - maxTold; cut > 0 {
		r.Omitted += cut
		r.Changes = slices.Clone(r.Changes[cut:])
	}
	r.noted = r.weight()
	c.noted += r.noted
}

// forget notes that what a record did to entries will not be known any more.
func (c *Changes) forget(r *Record) {
	if r.Transfer() {
		return
	}
	for _, change := range r.Changes {
		if origin, ok := c.first[change.Path]; ok {
			origin.broken = true
			c.first[change.Path] = origin
		}
	}
	if r.top == "" {
		return
	}
	for path, origin := range c.first {
		if _, inside := below(path, r.top); inside {
			origin.broken = true
			c.first[path] = origin
		}
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
	c.forget(c.records[0])
	c.release(c.records[0])
	c.records = slices.Delete(c.records, 0, 1)
}

// release gives up what a record keeps.
func (c *Changes) release(r *Record) {
	for _, s := range r.segments {
		c.leave(s)
	}
	c.noted -= r.noted
	r.bytes, r.noted, r.segments = 0, 0, nil
}

// Holds reports whether a call may be undone that would replace or remove so
// many entries, with so many bytes in their names and contents.
func (c *Changes) Holds(entries int, bytes int64) bool {
	return c != nil && int64(entries)*(&Change{}).weight()+bytes <= c.config.MaxBytes
}

// room makes room for size bytes of r, which is not added yet. It drops the
// oldest records where there is none.
func (c *Changes) room(r *Record, size int64) error {
	switch {
	case c.closed:
		return errors.New("the session is closed")
	case r.bytes+r.noted+size > c.config.MaxBytes:
		return fmt.Errorf("names and contents of more than %d bytes would have to be kept", c.config.MaxBytes)
	}
	for c.bytes+c.noted+size > c.config.MaxBytes && len(c.records) > 0 {
		c.evict()
	}
	if c.bytes+c.noted+size > c.config.MaxBytes {
		c.retire()
	}
	if c.bytes+c.noted+size > c.config.MaxBytes {
		return errors.New("calls that are under way have used up what can be kept")
	}
	return nil
}

// note makes room for what r takes in memory.
func (c *Changes) note(r *Record, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.room(r, size); err != nil {
		return err
	}
	r.noted += size
	c.noted += size
	return nil
}

// reserve makes room for size bytes of r in a segment.
func (c *Changes) reserve(r *Record, size int64) (*blob, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.room(r, size); err != nil {
		return nil, err
	}
	if longest := min(maxSegment, c.config.MaxBytes/8); c.segment != nil && c.segment.size+size > longest {
		c.retire()
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

// spill writes content that is in memory to where r is kept.
func (c *Changes) spill(r *Record, content *blob) (*blob, error) {
	spilled, err := c.reserve(r, int64(len(content.data)))
	if err != nil {
		return nil, err
	}
	spilled.prefix, spilled.suffix = content.prefix, content.suffix
	_, err = spilled.segment.file.WriteAt(content.data, spilled.offset)
	return spilled, err
}

// abandon gives up what was reserved for a record that is not added.
func (c *Changes) abandon(r *Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(r)
}
