// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/state"
)

const (
	// maxShared is how large an artifact may be that other servers can read once this one has
	// ended; compressed, it has to fit into one entry.
	maxShared = 8 << 20

	// maxOffered is how many wait to be stored. Of more, the newest stay here alone.
	maxOffered = 64

	// flushTime is how long Close waits for what is not stored yet.
	flushTime = 5 * time.Second
)

// shared has copies of small artifacts in a state that several servers have. They are stored
// behind the calls that made them. A nil one has nothing.
//
// An artifact is an entry by its id; an empty one by its session finds it when that ends.
type shared struct {
	entries state.KV
	offered chan *kept
	work    sync.WaitGroup
	ctx     context.Context //nolint:containedctx // ends with the store
	cancel  context.CancelFunc
}

// OpenShared returns a store whose small artifacts can be read by other servers that have the
// same entries, for as long as they are kept, also when this one has ended.
func OpenShared(config Config, entries state.KV) (*Store, error) {
	s, err := Open(config)
	if err != nil {
		return nil, err
	}
	s.shared = &shared{entries: entries, offered: make(chan *kept, maxOffered)}
	s.shared.ctx, s.shared.cancel = context.WithCancel(context.Background())
	s.shared.work.Go(s.storeOffered)
	return s, nil
}

func dataKey(id string) string { return state.Key("data", id) }

func indexOf(of SessionID) string { return state.Key("of", of.Owner, of.Session) + "/" }

// offer has an artifact that is complete stored soon, unless it is too large.
func (s *shared) offer(k *kept, size uint64) {
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
		s.shared.store(k.session, info, data) // or it ends with this server
		s.mu.Lock()
		over := k.over
		s.mu.Unlock()
		if over {
			s.shared.remove(indexOf(k.session) + info.ID)
		}
	}
}

func (s *shared) store(of SessionID, info Info, data []byte) error {
	head, err := json.Marshal(record{recordVersion, of.Owner, of.Session, info.Name, info.MediaType, info.Size, info.Written, info.Incomplete, info.Expires.Round(0)})
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
	if _, err = s.entries.Put(s.ctx, indexOf(of)+info.ID, nil, left); err == nil { // first: what is found by nobody is removed by nobody
		_, err = s.entries.Put(s.ctx, dataKey(info.ID), value.Bytes(), left)
	}
	return err
}

// read returns an artifact of an owner that another server made, or this one before it was
// removed here.
func (s *shared) read(owner, id string) (Info, []byte, error) {
	if s == nil || !IsID(id) {
		return Info{}, nil, ErrNotFound
	}
	entry, err := s.entries.Get(s.ctx, dataKey(id))
	if errors.Is(err, state.ErrNotFound) {
		return Info{}, nil, ErrNotFound
	}
	if err != nil {
		return Info{}, nil, err
	}
	head, packed, _ := bytes.Cut(entry.Value, []byte("\n"))
	var r record
	if err := json.Unmarshal(head, &r); err != nil || r.Version > recordVersion || r.Owner != owner || !r.Expires.After(time.Now()) {
		return Info{}, nil, ErrNotFound
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Info{}, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(unpacked, maxShared))
	if err == nil && uint64(len(data)) != r.Size {
		err = fmt.Errorf("what is stored of artifact %s has %d bytes, not %d", id, len(data), r.Size)
	}
	return Info{
		ID: id, Name: r.Name, MediaType: r.MediaType, Size: r.Size, Written: r.Written, Complete: r.Incomplete == "", Incomplete: r.Incomplete, Expires: r.Expires,
	}, data, err
}

// end removes the copies of the artifacts of a session, behind the caller.
func (s *shared) end(of SessionID) {
	if s == nil || s.ctx.Err() != nil {
		return
	}
	s.work.Go(func() {
		var keys []string
		state.Snapshot(s.ctx, s.entries, indexOf(of), func(e state.Entry) { keys = append(keys, e.Key) }) // what it misses goes with its time
		for _, key := range keys {
			s.remove(key)
		}
	})
}

// remove removes an artifact by its key among those of its session.
func (s *shared) remove(key string) {
	parts := state.Parts(key)
	s.entries.Delete(s.ctx, dataKey(parts[len(parts)-1]), 0)
	s.entries.Delete(s.ctx, key, 0)
}

// flush waits for what is not stored yet, for a while, and takes no more.
func (s *shared) flush() {
	if s == nil || s.ctx.Err() != nil {
		return
	}
	close(s.offered)
	timer := time.AfterFunc(flushTime, s.cancel)
	defer timer.Stop()
	s.work.Wait()
	s.cancel()
}
