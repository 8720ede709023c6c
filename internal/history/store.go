// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package history keeps what calls replaced, so that it can be put back: a [Batch] is what
// one call changes, a [Store] keeps the records of a session, and [Undo] takes them back,
// all or nothing. Package workspace writes.
//
// Locks: a Store has one, and each segment of it another, which is taken after it. A Batch
// belongs to one goroutine, which holds a lock of the workspace. Write hashes on a second one, and
// waits for it.
package history

import (
	"cmp"
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

	"github.com/toolserver/toolserver/internal/workspace"
)

// ErrNotKept is wrapped by errors about content that is no longer kept, or
// never was.
var ErrNotKept = errors.New("the old content is not kept")

// A State is what an entry was at one time.
type State struct {
	Kind   workspace.FileType
	Mode   fs.FileMode // permissions
	Size   int64
	Hash   workspace.Hash // of a regular file; zero where it is not known
	Target string         // of a link

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
	if err == nil && (int64(len(data)) != s.Size || s.Hash != workspace.Hash{} && workspace.HashOf(data) != s.Hash) {
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

// maxListed is how many changes are listed of a record that cannot be undone.
const maxListed = 100

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

// Config says how much is kept of what calls replaced.
type Config struct {
	// Dir is where what was replaced is kept, in files without a name, which end
	// with the process. Required.
	Dir string

	// MaxBytes bounds them, together with what records take in memory; 0 means
	// 256 MiB.
	MaxBytes int64

	// MaxRecords bounds how many calls can be undone; 0 means 500.
	MaxRecords int

	// Forgot says that the session changed things before, which are not known here: a server
	// that ended had them.
	Forgot bool
}

// A Store keeps what the calls of a session replaced, so that it can be put
// back. When there is too much, the oldest records go. Its methods are safe for
// concurrent use.
type Store struct {
	config Config

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

// New returns an empty store. Close it after use.
func New(config Config) *Store {
	config.MaxBytes, config.MaxRecords = cmp.Or(config.MaxBytes, 256<<20), cmp.Or(config.MaxRecords, 500)
	return &Store{config: config, first: make(map[string]Origin)}
}

// Close drops everything.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.records) > 0 {
		s.evict()
	}
	s.retire()
}

// Forgot reports whether there may have been changes that are not known here.
func (s *Store) Forgot() bool { return s.config.Forgot }

// Records returns what can be undone, the oldest first.
func (s *Store) Records() []*Record {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// An Origin is what an entry was before calls of the session changed it: as the client
// brought it, where it did.
type Origin struct {
	State
	broken bool // not every change since is known
}

// Origins returns what entries were before calls of the session changed them,
// by path, and whether that is all of them.
func (s *Store) Origins() (origins map[string]Origin, all bool) {
	if s == nil {
		return nil, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.first), !s.more
}

// Older goes back from the content a file has now, from change to change, and
// hands every older one to visit until it returns false. It reports whether it
// came to the origin.
func (s *Store) Older(path string, now []byte, visit func(old []byte, exists bool) bool) bool {
	if s == nil {
		return false
	}
	exists := true
	for _, r := range slices.Backward(s.Records()) {
		for _, change := range slices.Backward(r.Changes) {
			switch {
			case change.MovedFrom == path || change.Path == path && change.MovedFrom != "":
				return false
			case change.Path != path:
				continue
			case r.Transfer():
				return s.whole(path)
			case exists != (change.After.Kind == workspace.Regular) || exists && workspace.HashOf(now) != change.After.Hash:
				return false
			}
			old, err := change.Old(now)
			if exists = change.Before.Kind == workspace.Regular; exists && err != nil {
				return false
			}
			if now = old; !visit(now, exists) {
				return false
			}
		}
	}
	return s.whole(path)
}

// whole reports whether every change of an entry since its origin is known.
func (s *Store) whole(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.first[path].broken
}

// maxFirst bounds how many entries a session is known to have changed.
const maxFirst = 20_000

func (s *Store) add(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range r.Changes {
		if r.Transfer() {
			delete(s.first, change.Path) // what the client brings is where calls begin
			continue
		}
		if change.MovedFrom != "" {
			s.remember(change.MovedFrom, change.After)
		}
		s.remember(change.Path, change.Before)
	}
	if r.Lost != "" {
		s.shorten(r)
	}
	if r.ID == "" || slices.ContainsFunc(s.records, func(other *Record) bool { return other.ID == r.ID }) {
		s.given++
		r.ID = "change-" + strconv.Itoa(s.given)
	}
	s.records = append(s.records, r)
	for len(s.records) > s.config.MaxRecords {
		s.evict()
	}
	if s.closed {
		s.evict()
	}
}

// Extend adds to a record what was done to one of its files right after the call, on its
// behalf: undo takes back both. wrote is what the call left in the file, now what it has
// since. It returns the record that has it, or r where it cannot be kept.
func (s *Store) Extend(r *Record, path string, wrote []byte, now workspace.File) *Record {
	last := slices.IndexFunc(r.Changes, func(c Change) bool { return c.Path == path && c.After.Hash == workspace.HashOf(wrote) })
	if s == nil || r.Lost != "" || last < 0 {
		return r
	}
	change := Change{Path: path, Before: r.Changes[last].After, After: stateOf(now)}
	change.After.content = nil
	next := &Record{} // what it takes beside r
	var err error
	if err = s.note(next, change.weight()); err == nil {
		change.Before.content, err = s.spill(next, difference(wrote, now.Data))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.records, r)
	if err != nil || at < 0 { // without room, or gone by now
		s.release(next)
		return r
	}
	bytes, noted, segments := next.bytes, next.noted, next.segments
	*next = *r // which others may be reading
	next.Changes = append(slices.Clip(r.Changes), change)
	next.bytes, next.noted, next.segments = r.bytes+bytes, r.noted+noted, slices.Concat(r.segments, segments)
	s.records[at] = next
	return next
}

// shorten leaves of a record that cannot be undone what is told of it.
func (s *Store) shorten(r *Record) {
	s.forget(r)
	if cut := len(r.Changes) - maxListed; cut > 0 {
		r.Omitted += cut
		r.Changes = slices.Clone(r.Changes[cut:])
	}
	r.noted = r.weight()
	s.noted += r.noted
}

// forget notes that what a record did to entries will not be known any more.
func (s *Store) forget(r *Record) {
	if r.Transfer() {
		return
	}
	for _, change := range r.Changes {
		if origin, ok := s.first[change.Path]; ok {
			origin.broken = true
			s.first[change.Path] = origin
		}
	}
	if r.top == "" {
		return
	}
	for path, origin := range s.first {
		if _, inside := below(path, r.top); inside {
			origin.broken = true
			s.first[path] = origin
		}
	}
}

func (s *Store) remember(path string, before State) {
	if _, known := s.first[path]; known {
		return
	}
	if len(s.first) == maxFirst {
		s.more = true
		return
	}
	before.content = nil
	s.first[path] = Origin{State: before}
}

// remove takes records out that were undone.
func (s *Store) remove(undone []*Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(r *Record) bool {
		if !slices.Contains(undone, r) {
			return false
		}
		s.release(r)
		return true
	})
}

// evict drops the oldest record.
func (s *Store) evict() {
	s.forget(s.records[0])
	s.release(s.records[0])
	s.records = slices.Delete(s.records, 0, 1)
}

// release gives up what a record keeps.
func (s *Store) release(r *Record) {
	for _, seg := range r.segments {
		s.leave(seg)
	}
	s.noted -= r.noted
	r.bytes, r.noted, r.segments = 0, 0, nil
}

// Holds reports whether a call may be undone that would replace or remove so
// many entries, with so many bytes in their names and contents.
func (s *Store) Holds(entries int, bytes int64) bool {
	return s != nil && int64(entries)*(&Change{}).weight()+bytes <= s.config.MaxBytes
}

// room makes room for size bytes of r, which is not added yet. It drops the
// oldest records where there is none.
func (s *Store) room(r *Record, size int64) error {
	switch {
	case s.closed:
		return errors.New("the session is closed")
	case r.bytes+r.noted+size > s.config.MaxBytes:
		return fmt.Errorf("names and contents of more than %d bytes would have to be kept", s.config.MaxBytes)
	}
	for s.bytes+s.noted+size > s.config.MaxBytes && len(s.records) > 0 {
		s.evict()
	}
	if s.bytes+s.noted+size > s.config.MaxBytes {
		s.retire()
	}
	if s.bytes+s.noted+size > s.config.MaxBytes {
		return errors.New("calls that are under way have used up what can be kept")
	}
	return nil
}

// note makes room for what r takes in memory.
func (s *Store) note(r *Record, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(r, size); err != nil {
		return err
	}
	r.noted += size
	s.noted += size
	return nil
}

// reserve makes room for size bytes of r in a segment.
func (s *Store) reserve(r *Record, size int64) (*blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(r, size); err != nil {
		return nil, err
	}
	if longest := min(maxSegment, s.config.MaxBytes/8); s.segment != nil && s.segment.size+size > longest {
		s.retire()
	}
	if s.segment == nil {
		file, err := unnamed(s.config.Dir)
		if err != nil {
			return nil, err
		}
		s.segment = &segment{file: file, users: 1}
	}
	seg := s.segment
	if !slices.Contains(r.segments, seg) {
		r.segments = append(r.segments, seg)
		seg.users++
	}
	b := &blob{segment: seg, offset: seg.size, size: size}
	seg.size += size
	s.bytes += size
	r.bytes += size
	return b, nil
}

// spill writes content that is in memory to where r is kept.
func (s *Store) spill(r *Record, content *blob) (*blob, error) {
	spilled, err := s.reserve(r, int64(len(content.data)))
	if err != nil {
		return nil, err
	}
	spilled.prefix, spilled.suffix = content.prefix, content.suffix
	_, err = spilled.segment.file.WriteAt(content.data, spilled.offset)
	return spilled, err
}

// abandon gives up what was reserved for a record that is not added.
func (s *Store) abandon(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(r)
}
