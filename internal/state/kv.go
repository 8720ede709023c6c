// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	kvStream        = "KV_" // as the client's own watches expect it
	operationHeader = "KV-Operation"
	deleteOperation = "DEL"
)

// kvSpace is a bucket of the engine.
type kvSpace struct {
	e       *engine
	stream  jetstream.Stream
	bucket  jetstream.KeyValue
	prefix  string // of subjects
	storage jetstream.StorageType
}

func (e *engine) bucketName(name string) string { return e.prefix + "-" + name }

func (e *engine) KV(ctx context.Context, s Space) (KV, error) {
	kv, err := e.bucket(ctx, s)
	if err != nil {
		return nil, err
	}
	return kv, nil
}

func (e *engine) bucket(ctx context.Context, s Space) (*kvSpace, error) {
	e.mu.Lock()
	kv := e.kvs[s.Name]
	e.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	bucket := e.bucketName(s.Name)
	prefix := "$KV." + bucket + "."
	c, err := e.space(s, kvStream+bucket, prefix+">")
	if err != nil {
		return nil, err
	}
	c.MaxMsgsPerSubject = 1
	c.Discard = jetstream.DiscardNew
	c.AllowRollup = true
	c.DenyDelete = true
	c.AllowMsgTTL = true
	c.SubjectDeleteMarkerTTL = markerAge
	stream, err := e.provide(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", s.Name, err)
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	native, err := e.js.KeyValue(short, bucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", s.Name, e.failure(ctx, err))
	}
	kv = &kvSpace{e, stream, native, prefix, c.Storage}
	e.mu.Lock()
	e.kvs[s.Name] = kv
	e.mu.Unlock()
	return kv, nil
}

func (k *kvSpace) Get(ctx context.Context, key string) (Entry, error) {
	subject, _, err := subjectOf(key)
	if err == nil {
		err = k.e.condition.refuses()
	}
	if err != nil {
		return Entry{}, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	entry, there, err := k.last(short, subject)
	switch {
	case err != nil:
		return Entry{}, k.e.failure(ctx, err)
	case !there:
		return Entry{}, ErrNotFound
	}
	return entry, nil
}

// last returns what the bucket has under a subject. Where it was deleted, the revision
// is that of the marker.
func (k *kvSpace) last(ctx context.Context, subject string) (entry Entry, there bool, err error) {
	m, err := k.stream.GetLastMsgForSubject(ctx, k.prefix+subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, err
	}
	entry.Revision = Revision(m.Sequence)
	if m.Header.Get(operationHeader) != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "" {
		return entry, false, nil
	}
	entry.Key, entry.Value = unpack(subject, m.Data)
	return entry, true, nil
}

func (k *kvSpace) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (Revision, error) {
	return k.replace(ctx, 0, key, value, ttl, "", func(_ Revision, there bool) bool { return !there })
}

func (k *kvSpace) Update(ctx context.Context, key string, value []byte, last Revision, ttl time.Duration) (Revision, error) {
	if last == 0 {
		return k.Create(ctx, key, value, ttl)
	}
	return k.replace(ctx, last, key, value, ttl, "", func(now Revision, there bool) bool { return there && now == last })
}

func (k *kvSpace) Put(ctx context.Context, key string, value []byte, ttl time.Duration) (Revision, error) {
	if err := k.e.condition.refuses(); err != nil {
		return 0, err
	}
	return k.write(ctx, key, value, ttl, "", nil)
}

func (k *kvSpace) Delete(ctx context.Context, key string, last Revision) error {
	err := k.e.condition.refuses()
	if err != nil {
		return err
	}
	if last == 0 {
		_, err = k.write(ctx, key, nil, markerAge, deleteOperation, nil)
	} else {
		_, err = k.replace(ctx, last, key, nil, markerAge, deleteOperation, func(now Revision, there bool) bool { return there && now == last })
	}
	if errors.Is(err, ErrFull) {
		return k.purge(ctx, key, last)
	}
	return err
}

// purge removes an entry where there is no room to note that it is gone.
func (k *kvSpace) purge(ctx context.Context, key string, last Revision) error {
	subject, _, err := subjectOf(key)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(k.prefix + subject)}
	if last != 0 {
		options = append(options, jetstream.WithPurgeSequence(uint64(last)+1)) // what is newer stays
	}
	if err := k.stream.Purge(short, options...); err != nil {
		return k.e.failure(ctx, err)
	}
	_, there, err := k.last(short, subject)
	if err == nil && there && last != 0 {
		return ErrConflict
	}
	return k.e.failure(ctx, err)
}

// replace writes if what is there has the revision last. The engine sometimes says
// that it has not although it has, and a deleted entry has a revision too: so what is
// there is read, and while may agrees, the write is tried again.
func (k *kvSpace) replace(ctx context.Context, last Revision, key string, value []byte, ttl time.Duration, operation string, may func(Revision, bool) bool) (Revision, error) {
	subject, _, err := subjectOf(key)
	if err == nil {
		err = k.e.condition.refuses()
	}
	if err != nil {
		return 0, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := time.Millisecond; ; wait *= 2 {
		revision, err := k.write(short, key, value, ttl, operation, &last)
		if !errors.Is(err, ErrConflict) {
			return revision, k.late(ctx, err)
		}
		now, there, err := k.last(short, subject)
		if err != nil {
			return 0, k.e.failure(ctx, err)
		}
		if !may(now.Revision, there) {
			return 0, ErrConflict
		}
		last = now.Revision
		select {
		case <-short.Done():
			return 0, k.late(ctx, short.Err())
		case <-time.After(wait):
		}
	}
}

// late tells the end of our own patience from that of the caller's context.
func (k *kvSpace) late(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return k.e.failure(ctx, err)
	}
	return err
}

func (k *kvSpace) write(ctx context.Context, key string, value []byte, ttl time.Duration, operation string, last *Revision) (Revision, error) {
	subject, data, err := pack(key, value)
	if err != nil {
		return 0, err
	}
	m := nats.NewMsg(k.prefix + subject)
	m.Data = data
	if operation == "" { // what is deleted makes room
		if err := k.e.mayWrite(k.storage, len(data)); err != nil {
			return 0, err
		}
	} else {
		m.Header.Set(operationHeader, operation)
	}
	var options []jetstream.PublishOpt
	if ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(wholeSeconds(ttl)))
	}
	if last != nil {
		options = append(options, jetstream.WithExpectLastSequencePerSubject(uint64(*last)))
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ack, err := k.e.js.PublishMsg(short, m, options...)
	if err != nil {
		return 0, k.e.failure(ctx, err)
	}
	return Revision(ack.Sequence), nil
}

// wholeSeconds rounds up: the engine cuts off what is less than a second.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

func (k *kvSpace) Watch(ctx context.Context, prefix string, f func(Entry)) error {
	filter, err := filterOf(prefix)
	if err != nil {
		return err
	}
	k.e.mu.Lock()
	cut := k.e.cut
	k.e.mu.Unlock()
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	impatient := time.AfterFunc(patience, cancel) // the beginning must not take longer, what follows may
	newest, err := k.newest(watching, filter)
	var watcher jetstream.KeyWatcher
	if err == nil {
		watcher, err = k.bucket.Watch(watching, filter)
	}
	if !impatient.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if watcher != nil {
		defer func() {
			watcher.Stop()
			go func() {
				for range watcher.Updates() { // else the subscription would wait for ever for its reader
				}
			}()
		}()
	}
	if err != nil {
		return k.e.failure(ctx, err)
	}
	long := make(map[string]string) // keys of entries whose subjects do not tell them
	var seen uint64
	var late <-chan time.Time // set when the server that watches has told what it has
	for {
		select {
		case <-late:
			return ErrWatchCut
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-cut:
			return ErrWatchCut
		case update, ok := <-watcher.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return context.Cause(ctx)
			case !ok:
				return ErrWatchCut
			case update == nil:
				late = time.After(patience)
			default:
				seen = max(seen, update.Revision())
				if entry := watched(update, long); entry.Key != "" && strings.HasPrefix(entry.Key, prefix) {
					f(entry)
				}
			}
			if late != nil && seen >= newest {
				late = nil
				f(Entry{})
			}
		}
	}
}

// newest returns the number of the last write below a filter, as the leader of the bucket knows it. Of a
// cluster any server may watch, and one that is behind has told all that it has before that is all.
func (k *kvSpace) newest(ctx context.Context, filter string) (uint64, error) {
	if k.e.local != nil {
		return 0, nil // there is no other
	}
	m, err := k.stream.GetLastMsgForSubject(ctx, k.prefix+filter)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return m.Sequence, nil
}

// watched translates an update. Its key is empty when it is of an entry nobody was told of.
func watched(update jetstream.KeyValueEntry, long map[string]string) Entry {
	subject := update.Key()
	entry := Entry{Revision: Revision(update.Revision()), Deleted: update.Operation() != jetstream.KeyValuePut}
	entry.Key, entry.Value = unpack(subject, update.Value())
	_, whole := textOf(subject)
	switch {
	case whole:
	case entry.Deleted:
		entry.Key = long[subject]
		delete(long, subject)
	default:
		long[subject] = entry.Key
	}
	if entry.Deleted {
		entry.Value = nil
	}
	return entry
}
