// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// duplicates is how long the engine knows which records it has: longer than the client tries to send one.
const duplicates = 2 * time.Minute

// logSpace is a log of the engine.
type logSpace struct {
	e       *engine
	stream  jetstream.Stream
	prefix  string // of subjects
	storage jetstream.StorageType
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
	l = &logSpace{e: e, stream: stream, prefix: prefix, storage: c.Storage}
	e.logs[s.Name] = l
	return l, nil
}

// recordSubject ends the subject of all records, as those have it that are stored already.
const recordSubject = "calls"

func (l *logSpace) Append(ctx context.Context, data []byte) (uint64, error) {
	subject, packed, err := pack(recordSubject, data)
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

func (l *logSpace) Read(ctx context.Context, from uint64, limit int) (records []Record, _ error) {
	for from = max(from, 1); len(records) < limit; from++ {
		m, err := l.next(ctx, from)
		if errors.Is(err, ErrNotFound) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		from = m.Sequence
		records = append(records, Record{Seq: m.Sequence, Data: m.Data})
	}
	return records, nil
}

// next returns the first record at a number or after it.
func (l *logSpace) next(ctx context.Context, from uint64) (*jetstream.RawStreamMsg, error) {
	if err := l.e.condition.refuses(); err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := l.stream.GetMsg(short, from, jetstream.WithGetMsgSubject(l.prefix+">"))
	return m, l.e.failure(ctx, err)
}
