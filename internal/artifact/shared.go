// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/state"
)

const (
	// maxShared is how large an artifact may be that other servers can read once this one has
	// ended; compressed, it has to fit into one entry.
	maxShared = 8 << 20

	// maxOffered is how many wait to be stored. Of more, the newest stay here alone.
	maxOffered = 64

	// entryBytes is about what the entries of a copy take beside its bytes.
	entryBytes = 512

	// flushTime is how long Close waits for what is not stored yet.
	flushTime = 5 * time.Second
)

// shared has copies of small artifacts in a state that several servers have. They are stored
// behind the calls that made them. A nil one has nothing.
//
// An artifact is an entry by its id; another by its session finds it when that ends, and tells how
// large the first is. Where there is no room, copies of the tenant that has the most go, the oldest
// first.
type shared struct {
	entries state.KV
	config  SharedConfig
	copies  *state.Mirror[int64] // bytes, by the key among those of a session
	bytes   atomic.Int64         // of all copies
	offered chan *storedArtifact
	failed  atomic.Uint64
	failing bool            // the last could not be stored; for storeOffered
	ctx     context.Context //nolint:containedctx // ends with the store
	cancel  context.CancelFunc

	mu      sync.Mutex
	flushed bool           // no more work is taken
	work    sync.WaitGroup // what is done behind callers
}

// SharedConfig is what a store has in common with those of other servers.
type SharedConfig struct {
	Entries state.KV                  // the copies
	Room    int64                     // bytes that they may take together
	Tenant  func(owner string) string // whose owners share room
	Logger  *zap.Logger               // takes what goes wrong
}

// OpenShared returns a store whose small artifacts can be read by other servers that have the
// same entries, for as long as they are kept, also when this one has ended.
func OpenShared(config Config, with SharedConfig) (*Store, error) {
	s, err := Open(config)
	if err != nil {
		return nil, err
	}
	shared := &shared{entries: with.Entries, config: with, offered: make(chan *storedArtifact, maxOffered)}
	shared.ctx, shared.cancel = context.WithCancel(context.Background())
	shared.copies = state.NewMirror(shared.ctx, with.Entries, "of/", readSize, func(_ string, size int64, there bool) {
		if !there {
			size = -size
		}
		shared.bytes.Add(size)
	})
	s.shared = shared
	shared.behind(s.storeOffered)
	return s, nil
}

// readSize reads how large a copy is. Servers of before do not tell.
func readSize(text []byte) (int64, error) {
	size, _ := strconv.ParseInt(string(text), 10, 64)
	return max(size, 0), nil
}

// behind does something that nobody waits for but flush, unless that has begun.
func (s *shared) behind(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.flushed {
		s.work.Go(f)
	}
}

func dataKey(id string) string { return state.Key("data", id) }

func indexOf(of SessionID) string { return state.Key("of", of.Owner, of.Session) + "/" }

// offer has an artifact that is complete stored soon, unless it is too large.
func (s *shared) offer(k *storedArtifact, size uint64) {
	if s == nil || size > maxShared {
		return
	}
	select {
	case s.offered <- k:
	default:
	}
}

// storeOffered stores what is offered, until flush.
func (s *Store) storeOffered() {
	for k := range s.shared.offered {
		s.mu.Lock()
		info, gone := k.info, k.gone
		s.mu.Unlock()
		data, err := os.ReadFile(k.path)
		if err != nil || gone {
			continue
		}
		s.shared.noted(s.shared.store(k.session, info, data))
		s.mu.Lock()
		gone = k.gone
		s.mu.Unlock()
		if gone { // meanwhile
			s.shared.remove(indexOf(k.session) + info.ID)
		}
	}
}

// noted counts what could not be stored, and tells when that begins: such an artifact ends with
// this server.
func (s *shared) noted(err error) {
	if err == nil || errors.Is(err, state.ErrTooLarge) {
		s.failing = false
		return
	}
	s.failed.Add(1)
	if !s.failing && s.ctx.Err() == nil {
		s.config.Logger.Warn("artifacts cannot be copied to where other replicas find them: they end with this one", zap.Error(err))
	}
	s.failing = true
}

// Uncopied returns how many artifacts were not copied to where other servers find them, for there was
// no room, or the state was away.
func (s *Store) Uncopied() uint64 {
	if s.shared == nil {
		return 0
	}
	return s.shared.failed.Load()
}

func (s *shared) store(of SessionID, info Info, data []byte) error {
	head, err := json.Marshal(recordOf(of, info))
	if err != nil {
		return err
	}
	value := bytes.NewBuffer(append(head, '\n'))
	packed, err := gzip.NewWriterLevel(value, gzip.BestSpeed)
	if err != nil {
		return err
	}
	packed.Write(data[:min(len(data), int(info.Size))]) // a buffer takes all
	packed.Close()
	left := time.Until(info.Expires)
	if value.Len() > state.MaxValue || left <= 0 {
		return state.ErrTooLarge
	}
	key, size := indexOf(of)+info.ID, int64(value.Len()+entryBytes)
	s.makeRoom(size)
	revision, err := s.entries.Put(s.ctx, key, strconv.AppendInt(nil, size, 10), left) // first: what is found by nobody is removed by nobody
	if err == nil {
		s.copies.Note(key, size, revision)
		_, err = s.entries.Put(s.ctx, dataKey(info.ID), value.Bytes(), left)
	}
	return err
}

// A copied is a copy of an artifact that is stored.
type copied struct {
	key      string
	size     int64
	revision state.Revision
}

// makeRoom removes the oldest copies of those who have the most, until there is room for one more.
func (s *shared) makeRoom(size int64) {
	if s.bytes.Load()+size <= s.config.Room {
		return
	}
	byTenant, bytes, total := make(map[string][]copied), make(map[string]int64), size
	for _, key := range s.copies.Keys("") {
		one, revision, there := s.copies.Get(key)
		if parts := state.Parts(key); there && len(parts) == 4 {
			tenant := s.config.Tenant(parts[1])
			byTenant[tenant] = append(byTenant[tenant], copied{key, one, revision})
			bytes[tenant] += one
			total += one
		}
	}
	for _, list := range byTenant {
		slices.SortFunc(list, func(a, b copied) int { return cmp.Compare(a.revision, b.revision) })
	}
	for total > s.config.Room-s.config.Room/8 && s.ctx.Err() == nil { // so that this is seldom
		most := ""
		for tenant := range byTenant {
			if bytes[tenant] > bytes[most] {
				most = tenant
			}
		}
		if len(byTenant[most]) == 0 {
			return
		}
		oldest := byTenant[most][0]
		byTenant[most] = byTenant[most][1:]
		bytes[most] -= oldest.size
		total -= oldest.size
		s.remove(oldest.key)
	}
}

// read returns an artifact of an owner that another server made, or this one before it was
// removed here, and its session.
func (s *shared) read(owner, id string) (Info, string, []byte, error) {
	if s == nil || !IsID(id) {
		return Info{}, "", nil, ErrNotFound
	}
	entry, err := s.entries.Get(s.ctx, dataKey(id))
	if errors.Is(err, state.ErrNotFound) {
		return Info{}, "", nil, ErrNotFound
	}
	if err != nil {
		return Info{}, "", nil, err
	}
	head, packed, _ := bytes.Cut(entry.Value, []byte("\n"))
	var r record
	if err := json.Unmarshal(head, &r); err != nil || r.Version > recordVersion || r.Owner != owner || !r.Expires.After(time.Now()) {
		return Info{}, "", nil, ErrNotFound
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Info{}, "", nil, err
	}
	data, err := io.ReadAll(io.LimitReader(unpacked, maxShared))
	if err == nil && uint64(len(data)) != r.Size {
		err = fmt.Errorf("what is stored of artifact %s has %d bytes, not %d", id, len(data), r.Size)
	}
	return r.info(id), r.Session, data, err
}

// end removes the copies of the artifacts of a session, behind the caller.
func (s *shared) end(of SessionID) {
	if s == nil {
		return
	}
	s.behind(func() {
		keys, _ := s.copiesOf(of) // what it misses goes with its time
		for _, key := range keys {
			s.remove(key)
		}
	})
}

// copiesOf returns the keys of the copies of a session, the newest first.
func (s *shared) copiesOf(of SessionID) (keys []string, err error) {
	var found []copied
	err = state.Snapshot(s.ctx, s.entries, indexOf(of), func(e state.Entry) { found = append(found, copied{key: e.Key, revision: e.Revision}) })
	slices.SortFunc(found, func(a, b copied) int { return cmp.Compare(b.revision, a.revision) })
	for _, one := range found {
		keys = append(keys, one.key)
	}
	return keys, err
}

// evicted removes the copy of an artifact that had to make room, behind the caller.
func (s *shared) evicted(k *storedArtifact) {
	if s != nil && k.info.Size <= maxShared {
		s.behind(func() { s.remove(indexOf(k.session) + k.info.ID) })
	}
}

// remove removes an artifact by its key among those of its session.
func (s *shared) remove(key string) {
	if s.entries.Delete(s.ctx, dataKey(state.LastPart(key)), 0) == nil && s.entries.Delete(s.ctx, key, 0) == nil {
		s.copies.Forget(key)
	}
}

// flush waits for what is not stored yet, for a while, and takes no more.
func (s *shared) flush() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.flushed = true
	s.mu.Unlock()
	close(s.offered)
	timer := time.AfterFunc(flushTime, s.cancel)
	defer timer.Stop()
	s.work.Wait()
	s.cancel()
}

// maxBrought is how many artifacts of a session are brought to where it goes on when they are listed.
const maxBrought = 100

// Moved says that a session came from another server: its artifacts are brought here when they are
// asked for.
func (s *Store) Moved(of SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.moved[of] = true
	}
}

// here returns an artifact of a session that is at this server; moved says that the session came
// from another.
func (s *Store) here(of SessionID, id string) (info Info, path string, found, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, moved = s.moved[of]
	k := s.byID[id]
	if k == nil || k.session != of {
		return Info{}, "", false, moved
	}
	return k.info, k.path, true, moved
}

// bringAll brings the newest artifacts of a session here, once.
func (s *Store) bringAll(of SessionID) {
	s.mu.Lock()
	wanted := s.moved[of]
	s.mu.Unlock()
	if !wanted {
		return
	}
	keys, err := s.shared.copiesOf(of)
	for _, key := range slices.Backward(keys[:min(len(keys), maxBrought)]) {
		s.bring(of, state.LastPart(key)) // or it is not listed
	}
	if err != nil {
		return // the next list tries again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved[of] { // the session may have ended meanwhile
		s.moved[of] = false
	}
}

// bring brings an artifact here that another server made in a session.
func (s *Store) bring(of SessionID, id string) error {
	s.bringing.Lock()
	defer s.bringing.Unlock()
	if _, _, found, _ := s.here(of, id); found {
		return nil
	}
	info, session, data, err := s.shared.read(of.Owner, id)
	if err != nil {
		return err
	}
	if session != of.Session {
		return ErrNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	dir, err := s.dir()
	if err == nil {
		err = s.makeRoom()
	}
	if err != nil {
		return err
	}
	k := &storedArtifact{session: of, path: filepath.Join(dir, id)}
	if n, _ := s.reserve(k, int64(len(data))); n < int64(len(data)) {
		s.charge(k, -n)
		return ErrNotFound
	}
	if err := os.WriteFile(k.path, data, 0o600); err != nil {
		s.charge(k, -int64(len(data)))
		os.Remove(k.path)
		return err
	}
	k.info = info
	s.byID[id] = k
	s.oldest = append(s.oldest, k)
	s.watch()
	return nil
}
