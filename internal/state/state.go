// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package state keeps what outlives a process and what replicas share: entries that
// are compared and set, numbered logs, and messages between replicas. It is the only
// package that knows by what engine: one in the process, on a directory or in memory,
// or a cluster beside it, all by the same code.
//
// Keys, topics and subjects are text of any kind and length; see Key. Names of buckets
// and logs are the program's own: lower-case letters, digits and "_".
//
// What a write that failed with ErrUnavailable did is unknown: read before trying again.
//
// Locks: each type has one, and takes no other while it holds it. None is held while NATS is asked.
//
// Goroutines: an engine that outlives the process or is elsewhere has one that asks whether it can be used;
// one on a directory has another that mends what its disk lost. Close ends both, and waits. A [Mirror] has one until the
// context it was made with is done. A watch that has ended has one that empties what the subscription still holds.
package state

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNotFound: there is no entry of this key, or no more.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the entry is not as the writer assumed. It is no proof that
	// another writer won, for the first attempt of the same one may have. Read again.
	ErrConflict = errors.New("the entry has changed: read it again")
	// ErrUnavailable: the engine did not answer in time, or cannot decide. It comes
	// within two seconds, unless a context ends first.
	ErrUnavailable = errors.New("the state engine is unavailable")
	// ErrFull: the bucket or the disk has no room. Reads go on.
	ErrFull = errors.New("there is no room for more state")
	// ErrTooLarge: a value has more than MaxValue bytes.
	ErrTooLarge = errors.New("the value is too large")
	// ErrWatchCut: changes may have been missed. Watch again, and forget what the
	// new snapshot does not have.
	ErrWatchCut = errors.New("the watch was cut off: begin again")
	// ErrDamaged: what is in a directory is not what was written there.
	ErrDamaged = errors.New("the state is damaged")
)

// MaxValue is how many bytes a value or a record may have.
const MaxValue = 960 << 10

// A Revision numbers the writes of a bucket. 0 is none.
type Revision uint64

// An Entry is a value under a key.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
	Deleted  bool // in watches alone: the entry was deleted, or is past its time
}

// A KV is a bucket of entries. A ttl of 0 is for ever; others are rounded up to
// seconds, and an entry never goes early.
type KV interface {
	// Get returns an entry as the leader has it. In a partition it can be old:
	// what must hold is decided by a write.
	Get(ctx context.Context, key string) (Entry, error)

	// Create writes an entry that is not there, or ErrConflict. Of many that race,
	// one wins.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (Revision, error)

	// Update writes an entry whose revision is last, or ErrConflict. Its time
	// begins again.
	Update(ctx context.Context, key string, value []byte, last Revision, ttl time.Duration) (Revision, error)

	// Put writes an entry, whatever is there.
	Put(ctx context.Context, key string, value []byte, ttl time.Duration) (Revision, error)

	// Delete removes an entry whose revision is last, or ErrConflict; with 0,
	// whatever is there, if anything.
	Delete(ctx context.Context, key string, last Revision) error

	// Watch calls f with every entry below a prefix, then once with the zero
	// Entry, then with each change, one at a time; an entry that changes quickly
	// may be seen in its last form only, and the same form twice. The prefix is
	// empty or ends in "/". Watch returns when ctx is done, with its error, or
	// with ErrWatchCut. A watch costs something: one for each bucket will do.
	Watch(ctx context.Context, prefix string, f func(Entry)) error
}

// A Record is one entry of a log.
type Record struct {
	Seq   uint64 // grows in the log, with gaps in a topic
	Topic string
	Time  time.Time // when it was stored
	Data  []byte
}

// A Log is a numbered log of many topics.
type Log interface {
	// Append stores a record and returns its number.
	Append(ctx context.Context, topic string, data []byte) (seq uint64, err error)

	// Read returns records of a topic in their order, at most limit, the first
	// at from or after it. An empty topic stands for all, and one that ends in
	// "/" for those below it.
	Read(ctx context.Context, topic string, from uint64, limit int) ([]Record, error)
}

// A Space is where a bucket or a log is kept, and how much of it. What all replicas
// ask for last is in force.
type Space struct {
	Name string

	// MaxBytes bounds what is kept; 0 is 64 MiB. A bucket that is full refuses
	// writes with ErrFull until some entries are deleted or past their time. Of
	// entries that are there an engine in this process takes new values that are no
	// larger; a cluster takes none. A log forgets its oldest records.
	MaxBytes int64

	// MaxAge is how long a record or an entry is kept; 0 is for ever.
	MaxAge time.Duration

	// Volatile keeps it in memory: a restart of the engine forgets it.
	Volatile bool
}

// A Usage tells how full a space is.
type Usage struct {
	Name     string
	Log      bool
	Bytes    uint64
	MaxBytes uint64
}

// An Engine keeps buckets and logs. All of it may be used by many at once.
type Engine interface {
	KV(ctx context.Context, space Space) (KV, error)
	Log(ctx context.Context, space Space) (Log, error)

	// Health asks whether the engine can read and decide writes: it is nil, ErrUnavailable
	// or ErrFull, with the reason.
	Health(ctx context.Context) error

	// Condition is what Health said last, at no cost. An engine that cannot be used is asked
	// every second, and so is one where something failed. While it is ErrUnavailable,
	// operations on entries and logs are refused at once.
	Condition() error

	// Notify has f called with the condition when it changes, and now if the engine cannot be
	// used. It must not block.
	Notify(f func(error))

	// Usage tells of all spaces, by name.
	Usage(ctx context.Context) ([]Usage, error)

	// Close flushes logs, for two seconds at most, and ends watches, handlers and
	// subscriptions.
	Close() error
}
