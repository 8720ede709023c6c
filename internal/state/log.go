// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
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
