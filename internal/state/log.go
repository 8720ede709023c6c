// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	maxQueued      = 4096    // records that wait to be written
	maxQueuedBytes = 8 << 20 // and what they have
	maxFlying      = 256     // records that are sent before the first is acknowledged
	// persistence is how long a record is tried to be written, elections included.
	persistence = 90 * time.Second
	// duplicates is how long the engine knows which records it has: longer than they are tried.
	duplicates = 2 * time.Minute
)

// logSpace is a log of the engine.
type logSpace struct {
	e       *engine
	stream  jetstream.Stream
	prefix  string // of subjects
	storage jetstream.StorageType

	queue    chan queued
	bytes    atomic.Int64 // in the queue
	ctx      context.Context
	stop     context.CancelFunc
	finished chan struct{} // closed when the writer has ended
}

// queued is a record that waits, or without a message, somebody who waits for those before.
type queued struct {
	message *nats.Msg
	since   time.Time
	done    func(error)
}

func (e *engine) logName(name string) string { return "LOG_" + e.prefix + "-" + name }

func (e *engine) Log(ctx context.Context, s Space) (Log, error) {
	e.mu.Lock()
	l := e.logs[s.Name]
	e.mu.Unlock()
	if l != nil {
		return l, nil
	}
	prefix := e.prefix + ".log." + s.Name + "."
	c, err := e.space(s, e.logName(s.Name), prefix+">")
	if err != nil {
		return nil, err
	}
	c.Discard = jetstream.DiscardOld
	c.Duplicates = min(duplicates, cmp.Or(s.MaxAge, duplicates))
	if s.Relaxed && c.Replicas == 1 && c.Storage == jetstream.FileStorage {
		c.PersistMode = jetstream.AsyncPersistMode
	}
	stream, err := e.provide(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", s.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.logs[s.Name]; l != nil {
		return l, nil
	}
	if e.closed {
		return nil, fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	l = &logSpace{e: e, stream: stream, prefix: prefix, storage: c.Storage, queue: make(chan queued, maxQueued), finished: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	e.logs[s.Name] = l
	go l.write()
	return l, nil
}

func (l *logSpace) Append(ctx context.Context, topic string, data []byte) (uint64, error) {
	subject, packed, err := pack(topic, data)
	if err == nil {
		err = l.e.condition.refuses()
	}
	if err != nil {
		return 0, err
	}
	if err := l.e.mayWrite(l.storage, len(packed)); err != nil {
		return 0, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ack, err := l.e.js.Publish(short, l.prefix+subject, packed, jetstream.WithMsgID(nuid.Next()))
	if err != nil {
		return 0, l.e.failure(ctx, err)
	}
	return ack.Sequence, nil
}

func (l *logSpace) AppendAsync(topic string, data []byte, done func(error)) error {
	subject, packed, err := pack(topic, data)
	if err != nil {
		return err
	}
	if l.ctx.Err() != nil {
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	if done == nil {
		done = func(error) {}
	}
	size := int64(len(packed))
	if l.bytes.Add(size) > maxQueuedBytes {
		l.bytes.Add(-size)
		return ErrBusy
	}
	m := nats.NewMsg(l.prefix + subject)
	m.Data = packed
	m.Header.Set(jetstream.MsgIDHeader, nuid.Next())
	select {
	case l.queue <- queued{m, time.Now(), done}:
		return nil
	default:
		l.bytes.Add(-size)
		return ErrBusy
	}
}

func (l *logSpace) Flush(ctx context.Context) error {
	reached := make(chan struct{})
	select {
	case l.queue <- queued{done: func(error) { close(reached) }}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return nil
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return nil
	}
}

func (l *logSpace) close(ctx context.Context) error {
	err := l.Flush(ctx)
	l.stop()
	<-l.finished
	if err != nil {
		return fmt.Errorf("%w: records of a log were not written", ErrUnavailable)
	}
	return nil
}

// write writes what is queued, in its order, until the log is closed.
func (l *logSpace) write() {
	defer close(l.finished)
	for {
		select {
		case <-l.ctx.Done():
			l.refuseQueued()
			return
		case first := <-l.queue:
			l.writeAll(l.gather(first))
		}
	}
}

// gather takes what waits behind first, up to what may be sent at once.
func (l *logSpace) gather(first queued) []queued {
	batch := []queued{first}
	for len(batch) < maxFlying {
		select {
		case next := <-l.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (l *logSpace) refuseQueued() {
	for {
		select {
		case q := <-l.queue:
			l.end(q, fmt.Errorf("%w: it is closed", ErrUnavailable))
		default:
			return
		}
	}
}

func (l *logSpace) end(q queued, err error) {
	if q.message != nil {
		l.bytes.Add(-int64(len(q.message.Data)))
	}
	q.done(err)
}

// writeAll sends a batch, and again what the engine did not take, until all have their end.
func (l *logSpace) writeAll(batch []queued) {
	for {
		batch = l.send(batch)
		if len(batch) == 0 {
			return
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(100 * time.Millisecond): // an engine that elects its leader is asked again
		}
	}
}

// send sends records and returns those to be sent again.
func (l *logSpace) send(batch []queued) (again []queued) {
	acks := make([]jetstream.PubAckFuture, len(batch))
	failures := make([]error, len(batch))
	for i, q := range batch {
		if q.message == nil {
			continue
		}
		if failures[i] = l.e.mayWrite(l.storage, len(q.message.Data)); failures[i] == nil {
			q.message.Reply = "" // the client's own, of the last attempt
			ack, err := l.e.js.PublishMsgAsync(q.message, jetstream.WithRetryAttempts(0))
			acks[i], failures[i] = ack, l.e.failure(context.Background(), err)
		}
	}
	for i, q := range batch {
		err := failures[i]
		if acks[i] != nil {
			select {
			case <-acks[i].Ok():
			case failed := <-acks[i].Err():
				err = l.e.failure(context.Background(), failed)
			}
		}
		retry := errors.Is(err, ErrUnavailable) && l.ctx.Err() == nil && time.Since(q.since) < persistence
		if retry || q.message == nil && len(again) > 0 {
			again = append(again, q) // who waits, waits for those before
			continue
		}
		l.end(q, err)
	}
	return again
}

func (l *logSpace) Read(ctx context.Context, topic string, from uint64, limit int) ([]Record, error) {
	filter, err := selection(topic)
	if err != nil {
		return nil, err
	}
	var records []Record
	for from = max(from, 1); len(records) < limit; from++ {
		m, err := l.next(ctx, from, l.prefix+filter)
		if errors.Is(err, ErrNotFound) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		from = m.Sequence
		text, data := unpack(strings.TrimPrefix(m.Subject, l.prefix), m.Data)
		if selects(topic, text) {
			records = append(records, Record{Seq: m.Sequence, Topic: text, Time: m.Time, Data: data})
		}
	}
	return records, nil
}

func (l *logSpace) next(ctx context.Context, from uint64, filter string) (*jetstream.RawStreamMsg, error) {
	if err := l.e.condition.refuses(); err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := l.stream.GetMsg(short, from, jetstream.WithGetMsgSubject(filter))
	return m, l.e.failure(ctx, err)
}

// selection returns the subjects of a topic, or of those below it.
func selection(topic string) (filter string, err error) {
	if below(topic) {
		return filterOf(topic)
	}
	filter, _, err = subjectOf(topic)
	return filter, err
}

func below(topic string) bool { return topic == "" || strings.HasSuffix(topic, "/") }

// selects reports whether text is of a topic: filters let some through that are not.
func selects(topic, text string) bool {
	return text == topic || below(topic) && strings.HasPrefix(text, topic)
}
