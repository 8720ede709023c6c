// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package artifact keeps whole outputs for a while: what is too large for a
// result can be read by its owner until it expires, its session ends, or newer
// ones need the room. What one owner has, another cannot tell from nothing.
//
// Locks: Writer.mu, which keeps what is written in order, and Store.bringing, which is held while a
// copy is fetched from the state, come before Store.mu, and that before the mutex of what replicas
// share. Only Store.bringing is held while the state is asked.
//
// Goroutines: where replicas share artifacts, each copy that is stored or removed behind its caller
// has one; Close waits for them.
package artifact

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/size"
)

// leased is the kind of directory that a store has.
const leased = "artifacts"

var (
	// ErrNotFound says that the owner has no such artifact.
	ErrNotFound = errors.New("no such artifact")
	// ErrBeyond says that an artifact has no such byte.
	ErrBeyond = errors.New("beyond the end of the artifact")
	// ErrClosed says that the store or the session takes no artifacts any more.
	ErrClosed = errors.New("no artifacts are taken any more")
)

// Config sets the limits of a store. Zero fields take the defaults named.
type Config struct {
	// Dir is where the store makes a directory of its own. Required.
	Dir string `yaml:"dir"`

	MaxBytes        size.Bytes    `yaml:"max_bytes"`         // of one artifact; 256 MiB
	MaxSessionBytes size.Bytes    `yaml:"max_session_bytes"` // of the artifacts of a session; 1 GiB
	MaxTotalBytes   size.Bytes    `yaml:"max_total_bytes"`   // of all artifacts; 4 GiB
	MaxCount        int           `yaml:"max_count"`         // of artifacts; 10,000
	TTL             time.Duration `yaml:"ttl"`               // from when it is complete; 1 hour
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.MaxBytes = cmp.Or(c.MaxBytes, 256<<20)
	c.MaxSessionBytes = cmp.Or(c.MaxSessionBytes, 1<<30)
	c.MaxTotalBytes = cmp.Or(c.MaxTotalBytes, 4<<30)
	c.MaxCount = cmp.Or(c.MaxCount, 10_000)
	c.TTL = cmp.Or(c.TTL, time.Hour)
	return c
}

// SessionID names the session that artifacts belong to.
type SessionID struct{ Owner, Session string }

// Info describes an artifact.
type Info struct {
	ID, Name, MediaType string
	Size                uint64    // bytes that are kept
	Written             uint64    // bytes that were written
	Complete            bool      // it is written to its end, and all is kept
	Incomplete          string    // why bytes are missing; empty where none are
	Expires             time.Time // zero while it is written
}

// A Store keeps artifacts in files. Its methods are safe for concurrent use.
// Nothing of it is on the disk before the first artifact.
type Store struct {
	config Config
	lasts  string  // the directory of artifacts that outlive the store; empty where none does
	shared *shared // copies that other servers can read; nil without any

	bringing sync.Mutex // held while a copy is brought here; comes before mu

	mu      sync.Mutex
	moved   map[SessionID]bool // sessions that came from other servers; whether their artifacts are still to be listed
	place   *lease.Dir         // nil before it is needed
	byID    map[string]*storedArtifact
	oldest  []*storedArtifact   // in the order they were made
	bytesOf map[SessionID]int64 // bytes of each
	total   int64
	closed  bool
	expiry  *time.Timer // nil while nothing expires
}

// storedArtifact is an artifact. It is guarded by the store's mutex but for what never
// changes.
type storedArtifact struct {
	session SessionID
	path    string
	info    Info
	file    *os.File // nil once it is written
	gone    bool     // no longer kept
}

// Open returns an empty store. What a server that died left behind in the
// directory is removed. Close it after use.
func Open(config Config) (*Store, error) {
	if err := lease.Sweep(config.Dir, leased); err != nil {
		return nil, err
	}
	return &Store{config: config.WithDefaults(), byID: make(map[string]*storedArtifact), bytesOf: make(map[SessionID]int64), moved: make(map[SessionID]bool)}, nil
}

// OpenLasting returns a store whose artifacts outlive it: what is complete, and not past
// its time, is there when it is opened again for the same installation.
func OpenLasting(config Config, installation string) (*Store, error) {
	s, err := Open(config)
	if err != nil {
		return nil, err
	}
	s.lasts = filepath.Join(config.Dir, "installation-"+installation)
	return s, s.load()
}

// Create begins an artifact. Older ones make room for it.
func (s *Store) Create(of SessionID, name, mediaType string) (*Writer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	dir, err := s.dir()
	if err != nil {
		return nil, err
	}
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	id := strings.ToLower(rand.Text())
	path := filepath.Join(dir, id)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	k := &storedArtifact{session: of, file: file, path: path, info: Info{ID: id, Name: name, MediaType: mediaType}}
	s.byID[id] = k
	s.oldest = append(s.oldest, k)
	return &Writer{store: s, kept: k}, nil
}

// makeRoom makes room for one more artifact. The store is locked.
func (s *Store) makeRoom() error {
	for len(s.byID) >= s.config.MaxCount {
		if s.evict(func(*storedArtifact) bool { return true }) == nil {
			return fmt.Errorf("there are %d artifacts, the most there may be, and all are being written", len(s.byID))
		}
	}
	return nil
}

// dir returns where artifacts are, which it makes. The store is locked.
func (s *Store) dir() (string, error) {
	if s.lasts != "" {
		return s.lasts, os.MkdirAll(s.lasts, 0o700)
	}
	if s.place == nil {
		place, err := lease.New(s.config.Dir, leased)
		if err != nil {
			return "", err
		}
		s.place = place
	}
	return s.place.Path(), nil
}

// Read returns what an artifact of owner is by now, and its bytes from offset
// on, at most limit of them; 0 means to the end. Close it after use.
func (s *Store) Read(owner, id string, offset, limit uint64) (Info, io.ReadCloser, error) {
	info, path, known := s.find(owner, id)
	if !known {
		return s.readShared(owner, id, offset, limit)
	}
	n, err := info.bytes(offset, limit)
	if err != nil {
		return Info{}, nil, err
	}
	file, err := os.Open(path)          // which it can be read by also when it is removed
	if errors.Is(err, fs.ErrNotExist) { // just now
		return s.readShared(owner, id, offset, limit)
	}
	if err != nil {
		return Info{}, nil, err
	}
	return info, &reader{io.NewSectionReader(file, int64(offset), int64(n)), file}, nil
}

// readShared is Read for an artifact that is not here.
func (s *Store) readShared(owner, id string, offset, limit uint64) (Info, io.ReadCloser, error) {
	info, _, data, err := s.shared.read(owner, id)
	if errors.Is(err, ErrNotFound) {
		return Info{}, nil, fmt.Errorf("%w: %.64q: it never was, is not yours, or is no longer kept", ErrNotFound, id)
	}
	if err != nil {
		return Info{}, nil, err
	}
	n, err := info.bytes(offset, limit)
	if err != nil {
		return Info{}, nil, err
	}
	return info, io.NopCloser(bytes.NewReader(data[offset : offset+n])), nil
}

// find returns what an artifact of owner is by now, and its file.
func (s *Store) find(owner, id string) (info Info, path string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k == nil || k.session.Owner != owner {
		return Info{}, "", false
	}
	return k.info, k.path, true
}

// bytes returns how many there are from offset on, at most limit; 0 means to the end.
func (i *Info) bytes(offset, limit uint64) (uint64, error) {
	if offset > i.Size {
		return 0, fmt.Errorf("%w: byte %d of %d", ErrBeyond, offset, i.Size)
	}
	if n := i.Size - offset; limit == 0 || n < limit {
		return n, nil
	}
	return limit, nil
}

// Find returns an artifact of a session, and the file that it is in.
func (s *Store) Find(of SessionID, id string) (Info, string, error) {
	info, path, found, moved := s.here(of, id)
	if !found && moved && s.bring(of, id) == nil {
		info, path, found, _ = s.here(of, id)
	}
	if !found {
		return Info{}, "", ErrNotFound
	}
	return info, path, nil
}

// List returns the artifacts of a session, the newest first, with their files.
func (s *Store) List(of SessionID) (list []Info, paths []string) {
	s.bringAll(of)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Backward(s.oldest) {
		if k.session == of {
			list, paths = append(list, k.info), append(paths, k.path)
		}
	}
	return list, paths
}

// Bytes returns how many bytes are kept for the owners that match.
func (s *Store) Bytes(match func(owner string) bool) (total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, bytes := range s.bytesOf {
		if match(of.Owner) {
			total += bytes
		}
	}
	return total
}

// Stats returns how many artifacts are kept, and their bytes.
func (s *Store) Stats() (artifacts int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID), s.total
}

// TTL returns how long artifacts are kept once they are complete.
func (s *Store) TTL() time.Duration { return s.config.TTL }

// IsID reports whether a text has the form of an id.
func IsID(text string) bool {
	return len(text) == len(rand.Text()) && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

type reader struct {
	io.Reader
	io.Closer
}

// End removes the artifacts of a session. What is still being written is not
// kept any more.
func (s *Store) End(of SessionID) {
	s.mu.Lock()
	for _, k := range slices.Clone(s.oldest) {
		if k.session == of {
			s.remove(k)
		}
	}
	delete(s.moved, of)
	s.mu.Unlock()
	s.shared.end(of)
}

// Close removes all artifacts, but for those that outlive the store, and takes no more.
func (s *Store) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if !closed {
		s.shared.flush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Clone(s.oldest) {
		if s.lasts == "" || k.file != nil {
			s.remove(k)
		}
	}
	if s.expiry != nil {
		s.expiry.Stop()
	}
	if s.place != nil {
		s.place.Remove()
		s.place = nil
	}
}

// reserve makes room for n more bytes of an artifact, and returns how many of
// them there is room for, and why not for all.
func (s *Store) reserve(k *storedArtifact, n int64) (int64, string) {
	why := ""
	if room := int64(s.config.MaxBytes) - int64(k.info.Size); n > room {
		n, why = max(room, 0), fmt.Sprintf("only the first %d bytes of an artifact are kept", int64(s.config.MaxBytes))
	}
	for s.bytesOf[k.session]+n > int64(s.config.MaxSessionBytes) {
		gone := s.evict(func(other *storedArtifact) bool { return other.session == k.session })
		if gone == nil {
			n, why = max(int64(s.config.MaxSessionBytes)-s.bytesOf[k.session], 0), fmt.Sprintf("the artifacts of a session have room for %d bytes", int64(s.config.MaxSessionBytes))
			break
		}
		s.shared.evicted(gone) // what makes room for others can still be read from its copy
	}
	for s.total+n > int64(s.config.MaxTotalBytes) {
		if s.evict(func(*storedArtifact) bool { return true }) == nil {
			n, why = max(int64(s.config.MaxTotalBytes)-s.total, 0), fmt.Sprintf("the artifacts of this server have room for %d bytes", int64(s.config.MaxTotalBytes))
			break
		}
	}
	s.charge(k, n)
	return n, why
}

// charge counts n more bytes of an artifact.
func (s *Store) charge(k *storedArtifact, n int64) {
	s.total += n
	if s.bytesOf[k.session] += n; s.bytesOf[k.session] == 0 {
		delete(s.bytesOf, k.session)
	}
}

// evict removes the oldest artifact that matches and is not being written, and returns it; nil
// where there is none.
func (s *Store) evict(match func(*storedArtifact) bool) *storedArtifact {
	for _, k := range s.oldest {
		if k.file == nil && match(k) {
			s.remove(k)
			return k
		}
	}
	return nil
}

// remove forgets an artifact. Who has its file open can use it to the end.
func (s *Store) remove(k *storedArtifact) {
	delete(s.byID, k.info.ID)
	i := slices.Index(s.oldest, k)
	s.oldest = slices.Delete(s.oldest, i, i+1)
	s.charge(k, -int64(k.info.Size))
	k.gone = true
	os.Remove(k.path)
	if s.lasts != "" {
		os.Remove(k.path + recordSuffix)
	}
}

// watch sees to it that artifacts expire.
func (s *Store) watch() {
	var first time.Time
	for _, k := range s.oldest {
		if e := k.info.Expires; !e.IsZero() && (first.IsZero() || e.Before(first)) {
			first = e
		}
	}
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	if !first.IsZero() && !s.closed {
		s.expiry = time.AfterFunc(time.Until(first), s.expire)
	}
}

func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, k := range slices.Clone(s.oldest) {
		if e := k.info.Expires; !e.IsZero() && !e.After(now) {
			s.remove(k)
		}
	}
	s.watch()
}
