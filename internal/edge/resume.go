// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what is kept for clients that come back.
const (
	maxKept       = 16 << 20 // bytes of messages, of all sessions
	maxKeptEvents = 1000     // of a stream
	maxKeptEnded  = 32       // streams of a session whose answer was sent
)

// streams keeps what was sent on streams, so that a client that lost its connection gets
// what came after the last event it has, and knows who still listens. It is the
// [mcp.EventStore] of the SDK, whose own forgets no stream before its session ends.
type streams struct {
	patience time.Duration // for a client to come back
	limit    int           // of bytes

	mu       sync.Mutex
	bytes    int
	sessions map[string]*keptSession
}

// keptSession is what is kept of a session.
type keptSession struct {
	bytes   int
	streams map[string]*stream
	ended   []*stream // whose answer was sent, the oldest first
	lost    int       // streams to which nobody listens before that
}

// stream is what is kept of one stream: of a request, or the one of the session itself,
// whose id is empty.
type stream struct {
	id      string
	request *request // nil for that of the session
	first   int      // the number of the first event
	events  [][]byte

	listening int         // connections
	lost      *time.Timer // runs while there is none, until there will be none
}

func newStreams(patience time.Duration) *streams {
	return &streams{patience: patience, limit: maxKept, sessions: make(map[string]*keptSession)}
}

// Open implements [mcp.EventStore].
func (k *streams) Open(ctx context.Context, session, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[session]
	if s == nil {
		s = &keptSession{streams: make(map[string]*stream)}
		k.sessions[session] = s
	}
	opened := &stream{id: id}
	if id != "" {
		opened.request, _ = ctx.Value(requestKey{}).(*request)
		opened.listening = 1
		opened.request.stream = id
	}
	s.streams[id] = opened
	return nil
}

// Append implements [mcp.EventStore].
func (k *streams) Append(_ context.Context, session, id string, event []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[session]
	if s == nil || s.streams[id] == nil {
		return fmt.Errorf("the stream %q has ended", id)
	}
	stream := s.streams[id]
	stream.events = append(stream.events, event)
	k.count(s, len(event))
	if len(stream.events) > maxKeptEvents {
		k.dropFirst(s, stream)
	}
	for k.bytes > k.limit {
		k.makeRoom()
	}
	return nil
}

func (k *streams) count(s *keptSession, bytes int) {
	s.bytes += bytes
	k.bytes += bytes
}

func (k *streams) dropFirst(s *keptSession, stream *stream) {
	k.count(s, -len(stream.events[0]))
	stream.events = slices.Delete(stream.events, 0, 1)
	stream.first++
}

func (k *streams) drop(s *keptSession, stream *stream) {
	for _, event := range stream.events {
		k.count(s, -len(event))
	}
	delete(s.streams, stream.id)
}

// makeRoom forgets something of the session that has most: a stream whose answer was
// sent or, if there is none, the first event of the longest.
func (k *streams) makeRoom() {
	var most *keptSession
	for _, s := range k.sessions {
		if most == nil || s.bytes > most.bytes {
			most = s
		}
	}
	if len(most.ended) > 0 {
		k.drop(most, most.ended[0])
		most.ended = most.ended[1:]
		return
	}
	var longest *stream
	for _, s := range most.streams {
		if longest == nil || len(s.events) > len(longest.events) {
			longest = s
		}
	}
	k.dropFirst(most, longest)
}

// After implements [mcp.EventStore]. Who opens the stream of a session anew, after no
// event, does not get what was sent before.
func (k *streams) After(_ context.Context, session, id string, last int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		events, err := k.after(session, id, last)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, event := range events {
			if !yield(event, nil) {
				return
			}
		}
	}
}

func (k *streams) after(session, id string, last int) ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[session]
	if s == nil || s.streams[id] == nil {
		return nil, fmt.Errorf("the stream %q: %w", id, mcp.ErrEventsPurged)
	}
	sent := s.streams[id]
	if id == "" && last < 0 {
		k.drop(s, sent)
		s.streams[id] = new(stream)
		return nil, nil
	}
	from := last + 1 - sent.first
	if from < 0 || from > len(sent.events) {
		return nil, fmt.Errorf("the stream %q after event %d: %w", id, last, mcp.ErrEventsPurged)
	}
	return slices.Clone(sent.events[from:]), nil
}

// SessionClosed implements [mcp.EventStore].
func (k *streams) SessionClosed(_ context.Context, session string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[session]
	if s == nil {
		return nil
	}
	for _, stream := range s.streams {
		if stream.lost != nil {
			stream.lost.Stop()
		}
	}
	k.bytes -= s.bytes
	delete(k.sessions, session)
	return nil
}

// streamOf returns the stream that a value of Last-Event-ID is about.
func streamOf(event string) string {
	id, _, _ := strings.Cut(event, "_")
	return id
}

// heard says that a connection listens to a stream again.
func (k *streams) heard(session, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if stream := k.of(session, id); stream != nil {
		stream.listening++
		k.found(k.sessions[session], stream)
	}
}

// left says that a connection no longer listens to a stream: it was lost, or all was sent
// that there is to send.
func (k *streams) left(session, id string, lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stream := k.of(session, id)
	if stream == nil {
		return
	}
	if stream.listening--; stream.listening > 0 {
		return
	}
	if stream.request.answered.Load() && !lost {
		k.end(k.sessions[session], stream)
		return
	}
	k.sessions[session].lost++
	stream.lost = time.AfterFunc(k.patience, func() { k.giveUp(session, stream) })
}

// giveUp ends a request whose client did not come back in time.
func (k *streams) giveUp(session string, stream *stream) {
	k.mu.Lock()
	s := k.sessions[session]
	gone := s != nil && s.streams[stream.id] == stream && stream.listening == 0
	if gone {
		k.found(s, stream)
		k.end(s, stream)
	}
	k.mu.Unlock()
	if gone {
		stream.request.leave()
	}
}

// found says that a stream is no longer lost.
func (k *streams) found(s *keptSession, stream *stream) {
	if stream.lost != nil {
		stream.lost.Stop()
		stream.lost = nil
		s.lost--
	}
}

// lost returns how many requests of a session nobody listens to, for now.
func (k *streams) lost(session string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.sessions[session]; s != nil {
		return s.lost
	}
	return 0
}

// of returns the stream of a request, or nil.
func (k *streams) of(session, id string) *stream {
	if s := k.sessions[session]; s != nil && id != "" {
		return s.streams[id]
	}
	return nil
}

// end keeps a stream whose answer was sent for a while.
func (k *streams) end(s *keptSession, stream *stream) {
	if slices.Contains(s.ended, stream) {
		return
	}
	s.ended = append(s.ended, stream)
	if len(s.ended) > maxKeptEnded {
		k.drop(s, s.ended[0])
		s.ended = slices.Delete(s.ended, 0, 1)
	}
}
