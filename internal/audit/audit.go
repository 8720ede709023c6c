// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit keeps a record of every step of every call, as lines of JSON
// that are chained by hashes, so that it shows when one is removed, changed,
// moved or inserted.
//
// # The chain
//
// A record is one line: a JSON object in UTF-8 and a newline. Its last member is
//
//	,"hash":"<64 digits of 0-9 a-f>"}
//
// and that is the SHA-256 of all bytes of the line before it, from the opening
// brace to the byte before the comma. Among them is "prev", the hash of the
// record before, so that a hash stands for everything up to it; the first record
// of a chain has 64 zeros there. Records are numbered by "seq" without gaps. A
// shell can check a line:
//
//	printf %s "${line%,\"hash\":*}" | sha256sum
//
// The first record of a file has seq 1, or the step "continued" where the chain
// goes on from another file. What a chain cannot show by itself is that its end
// was removed, or that all of it was written anew: for that, the hash of some
// record has to be known from elsewhere.
//
// Goroutines: a [Log] has one, which alone numbers, hashes and writes, until Close. Log.mu is the only lock; it
// guards the queue, and is not held while the disk is waited for.
package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/size"
	"go.uber.org/zap"
)

var (
	// ErrClosed says that the log was closed.
	ErrClosed = errors.New("the audit log is closed")
	// ErrUnavailable is wrapped by the errors about records that cannot be
	// written.
	ErrUnavailable = errors.New("the audit log cannot be written")
	// ErrLocked says that another server writes the log.
	ErrLocked = errors.New("the audit log is written by another server")
)

// Config is the section "audit" of the configuration.
type Config struct {
	File   string `yaml:"file"`   // empty: records go to standard output alone, or nowhere
	Stdout bool   `yaml:"stdout"` // records go to standard output, too
	Inputs bool   `yaml:"inputs"` // records of calls have their inputs

	// Required makes [Log.Append] return an error for a record that cannot be
	// written, so that the call can be refused. Without it, records that could
	// not be kept in memory either are counted, and the log says how many are
	// missing as soon as it can.
	Required bool `yaml:"required"`

	// Sync is when records are forced to the disk.
	Sync Sync `yaml:"sync"`

	// MaxBytes is about how large a file becomes before the next one is begun; 0
	// means that there is only one. Keep is how many full files are kept beside
	// the newest; 0 means all.
	MaxBytes size.Bytes `yaml:"max_bytes"`
	Keep     int        `yaml:"keep"`
}

// Off says that no audit log is kept.
func (c Config) Off() bool { return c.File == "" && !c.Stdout }

// Options is how a log is kept.
type Options struct {
	Config

	// Copy gets every record that was written; nil means standard output, if the
	// configuration says so. An error of it is logged, and nothing else; but where it
	// blocks, the log waits.
	Copy io.Writer

	// Interval is how often records are forced to the disk with SyncInterval; 0 means
	// every second.
	Interval time.Duration

	// MaxQueued is how many bytes of records wait in memory at most, while the
	// disk does not take them; 0 means 16 MiB.
	MaxQueued int

	// Logger is told, once, that records cannot be written, and when they can be
	// again. Nil means nobody is.
	Logger *zap.Logger

	wrap func(file) file // what tests put around files
}

// Sync is when records are forced to the disk. They are given to the operating
// system within milliseconds in any case, and survive the death of the server
// from there; what Sync is about is the death of the machine.
type Sync int

const (
	SyncNone     Sync = iota // when the operating system sees fit
	SyncInterval             // every interval
	SyncAlways               // before Append returns
)

var syncNames = []string{"none", "interval", "always"}

// UnmarshalText reads the name of a way to sync.
func (s *Sync) UnmarshalText(text []byte) error {
	i := slices.Index(syncNames, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no way to sync: want %s", text, strings.Join(syncNames, ", "))
	}
	*s = Sync(i)
	return nil
}

func (s Sync) String() string { return syncNames[s] }

// patience is how long records are gathered before they are written, retryAfter
// how long to wait when they could not be, maxSpare how much memory is kept.
const (
	patience   = 2 * time.Millisecond
	retryAfter = time.Second

	maxSpare = 4096 // records
)

// A Log is a chain that is written. Its methods are safe for concurrent use.
// Append does not wait for the disk, unless the log was opened with SyncAlways:
// records are numbered, hashed and written by one goroutine behind it.
type Log struct {
	options Options
	logger  *zap.Logger
	chain   *chain // used by the goroutine alone, once it runs

	wake    chan struct{} // there is something to write
	hurry   chan struct{} // somebody waits for it
	closing chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	next    *batch
	spare   []Record // memory for those of the batch after next
	queued  int      // bytes of records that are not written
	taken   int      // those of them that are being written
	lost    uint64
	allLost uint64
	failing error
	head    Head
	closed  bool
	result  error // of Close
}

// A batch is what is written together.
type batch struct {
	records []Record
	wanted  bool // by Flush
	done    chan struct{}
	err     error // set before done is closed
}

// renew puts a new batch in place of the next one, which it returns; l.mu must
// be held. The memory for its records is used again.
func (l *Log) renew() *batch {
	old := l.next
	l.next = &batch{records: l.spare, done: make(chan struct{})}
	l.spare = nil
	return old
}

// Open opens a log to append to it, or begins one. Without a file, records go to
// options.Copy alone and the chain is a new one.
//
// A file must end with a whole record: if a crash has torn the last line, that is
// put aside beside the file and recorded. A file that ends with something else is
// an error.
func Open(options Options) (*Log, error) {
	if options.Copy == nil && options.Stdout {
		options.Copy = os.Stdout
	}
	if options.File == "" && options.Copy == nil {
		return nil, errors.New("audit: there is nothing to write to")
	}
	if options.File != "" {
		options.File = filepath.Clean(options.File) // as the names of full files are found
	}
	if options.Interval == 0 {
		options.Interval = time.Second
	}
	if options.MaxQueued == 0 {
		options.MaxQueued = 16 << 20
	}
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	chain, err := openChain(options.File, options)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	l := &Log{
		options: options, logger: options.Logger, chain: chain,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		closing: make(chan struct{}), stopped: make(chan struct{}),
		head: chain.head,
	}
	l.renew()
	go l.run()
	return l, nil
}

// Append records a step; a nil log keeps none. The error is nil unless the log is closed
// or Required; then it says that the record is not, or may not be, in the log.
func (l *Log) Append(record Record) error {
	if l == nil {
		return nil
	}
	if record.Time.IsZero() {
		record.Time = time.Now()
	}
	size := record.size()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	full := l.queued+size > l.options.MaxQueued
	if full || l.options.Required && l.failing != nil {
		err := l.lose(full)
		l.mu.Unlock()
		return err
	}
	batch := l.next
	batch.records = append(batch.records, record)
	l.queued += size
	first := len(batch.records) == 1
	wait := l.options.Sync == SyncAlways && l.failing == nil
	l.mu.Unlock()
	if first {
		signal(l.wake)
	}
	if !wait {
		return nil
	}
	<-batch.done
	if !l.options.Required {
		return nil
	}
	return batch.err
}

// Required reports whether nothing may happen that is not recorded.
func (l *Log) Required() bool { return l.options.Required }

// lose counts a record that is not kept; l.mu must be held.
func (l *Log) lose(full bool) error {
	if l.lost++; l.lost == 1 {
		l.logger.Error("records of the audit log are lost", zap.Bool("queue_full", full), zap.NamedError("cause", l.failing))
	}
	l.allLost++
	signal(l.wake) // to note the gap
	switch {
	case !l.options.Required:
		return nil
	case l.failing != nil:
		return l.failing
	default:
		return fmt.Errorf("%w: too many records wait for the disk", ErrUnavailable)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // signalled already
	}
}

// Flush returns when all that was appended before is written and on the disk.
func (l *Log) Flush() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	batch := l.next
	batch.wanted = true
	l.mu.Unlock()
	signal(l.wake)
	signal(l.hurry)
	<-batch.done
	return batch.err
}

// Stats is how a log fares.
type Stats struct {
	// Head is the last record that was written. Kept elsewhere, its hash shows
	// that the log up to here is what it was.
	Head Head

	// Queued is how many bytes of records wait in memory, Lost how many records
	// were lost since Open.
	Queued int
	Lost   uint64

	// Failing is why records cannot be written just now; nil when they can.
	Failing error
}

// Stats returns how the log fares.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{l.head, l.queued, l.allLost, l.failing}
}

// Close writes what was appended, notes the end, and forces it to the disk. The
// error says that not all of it could be written.
func (l *Log) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		close(l.closing)
	}
	<-l.stopped
	return l.result
}

// run writes what is appended until the log is closed.
func (l *Log) run() {
	defer close(l.stopped)
	var retry, sync <-chan time.Time
	for {
		flush := false
		select {
		case <-l.wake:
			if retry == nil {
				l.gather()
			} else if !l.wanted() {
				continue
			}
		case <-retry:
		case <-sync:
			sync, flush = nil, true
		case <-l.closing:
			l.result = l.end()
			return
		}
		if l.write(flush) != nil {
			retry = time.After(retryAfter)
			continue
		}
		retry = nil
		if sync == nil && l.chain.unsynced && l.options.Sync == SyncInterval {
			sync = time.After(l.options.Interval)
		}
	}
}

// gather waits a little for more to write.
func (l *Log) gather() {
	if l.options.Sync == SyncAlways {
		return // others come while the disk is at work
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hurry:
	case <-l.closing:
	}
}

// wanted reports whether somebody waits for what is written next.
func (l *Log) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next.wanted
}

// write writes what waits, and tells those who wait for it. What cannot be
// written stays in the chain, for the next time.
func (l *Log) write(flush bool) error {
	l.mu.Lock()
	batch, lost := l.renew(), l.lost
	l.taken = l.queued
	if l.chain.stuck() {
		lost = 0 // one note about them is enough, once it can be written
	}
	l.lost -= lost
	l.mu.Unlock()

	err := l.chain.follow()
	for i := range batch.records {
		l.chain.add(&batch.records[i])
	}
	if lost > 0 {
		l.chain.add(&Record{Step: Gap, Count: lost, Reason: "these records could not be written"})
	}
	if err == nil {
		err = l.chain.write()
	}
	if always := l.options.Sync == SyncAlways && len(batch.records) > 0; err == nil && (flush || always || batch.wanted || l.chain.syncFailed) {
		err = l.chain.sync()
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	l.settle(err, batch)
	batch.err = err
	close(batch.done)
	return err
}

// settle notes how a write ended.
func (l *Log) settle(err error, batch *batch) {
	clear(batch.records) // of what they point to
	l.mu.Lock()
	if cap(batch.records) <= maxSpare {
		l.spare = batch.records[:0]
	}
	before := l.failing
	l.failing, l.head = err, l.chain.head
	if err == nil {
		l.queued -= l.taken
		l.taken = 0
		if l.lost > 0 {
			signal(l.wake)
		}
	}
	l.mu.Unlock()
	if err != nil && before == nil {
		l.logger.Error("the audit log cannot be written", zap.Error(err), zap.Bool("calls_are_refused", l.options.Required))
	}
	if err == nil && before != nil {
		l.logger.Info("the audit log can be written again")
	}
}

// end writes the rest and closes the chain.
func (l *Log) end() error {
	err := l.write(false)
	if err == nil && l.Stats().Lost > 0 {
		err = l.write(false) // the note about what was lost meanwhile
	}
	if err == nil {
		l.chain.add(&Record{Step: Closed})
		err = l.chain.write()
	}
	if err == nil {
		err = l.chain.sync()
	}
	l.mu.Lock()
	l.head = l.chain.head
	if l.queued > 0 {
		err = fmt.Errorf("records of about %d bytes are lost: %w", l.queued, err)
	}
	l.mu.Unlock()
	return errors.Join(err, l.chain.close())
}
