// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace makes spans and hands them on in batches. How they are written
// and to whom they go is up to its caller.
package trace

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config says which calls are traced and what becomes of their spans. Zero
// fields take the defaults named, which are OpenTelemetry's.
type Config struct {
	// Sampler chooses the traces whose spans are exported.
	Sampler Sampler

	// Export takes spans that have ended. It is called by one goroutine.
	Export func(context.Context, []*Span) error

	// Lost is told of spans that did not get through.
	Lost func(error)

	Delay   time.Duration // that a span waits for others at most; 5 s
	Timeout time.Duration // of one export; 30 s
	Queue   int           // spans that wait at most, before they are dropped; 2,048
	Batch   int           // spans in one export at most; 512
}

// A Tracer makes spans. It is safe for concurrent use; a nil one makes none.
// Make one with [New], and shut it down after use.
type Tracer struct {
	config  Config
	queue   chan *Span
	dropped atomic.Int64

	stop   func()
	ending chan struct{} // closed by stop
	done   chan struct{} // closed when everything was exported
	cancel context.CancelFunc
}

// New returns a tracer, which has a goroutine until it is shut down.
func New(config Config) *Tracer {
	orDefault(&config.Delay, 5*time.Second)
	orDefault(&config.Timeout, 30*time.Second)
	orDefault(&config.Queue, 2048)
	orDefault(&config.Batch, 512)
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tracer{
		config: config, queue: make(chan *Span, config.Queue),
		ending: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	t.stop = sync.OnceFunc(func() { close(t.ending) })
	go t.run(ctx)
	return t
}

func orDefault[T comparable](value *T, preset T) {
	if *value == *new(T) {
		*value = preset
	}
}

// Shutdown exports what has ended. What ends later is dropped, and what could
// not be exported until ctx ends is an error.
func (t *Tracer) Shutdown(ctx context.Context) error {
	t.stop()
	defer t.cancel()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		t.cancel()
		<-t.done
		return context.Cause(ctx)
	}
}

// run gathers spans and exports them.
func (t *Tracer) run(ctx context.Context) {
	defer close(t.done)
	var batch []*Span
	var late <-chan time.Time // when the oldest of the batch has waited long enough
	for {
		select {
		case span := <-t.queue:
			if batch = append(batch, span); len(batch) == 1 {
				late = time.After(t.config.Delay)
			}
			if len(batch) < t.config.Batch {
				continue
			}
		case <-late:
		case <-t.ending:
			t.rest(ctx, batch)
			return
		}
		t.export(ctx, batch)
		batch, late = nil, nil
	}
}

// rest exports a batch and all that waits.
func (t *Tracer) rest(ctx context.Context, batch []*Span) {
	for {
		select {
		case span := <-t.queue:
			if batch = append(batch, span); len(batch) == t.config.Batch {
				t.export(ctx, batch)
				batch = nil
			}
		default:
			t.export(ctx, batch)
			return
		}
	}
}

func (t *Tracer) export(ctx context.Context, batch []*Span) {
	if n := t.dropped.Swap(0); n > 0 {
		t.config.Lost(fmt.Errorf("%d spans were dropped, for more than %d waited", n, t.config.Queue))
	}
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, t.config.Timeout)
	defer cancel()
	if err := t.config.Export(ctx, batch); err != nil {
		t.config.Lost(err)
	}
}

// A Span is what is known of one call. Until it ends it is used by one
// goroutine. The methods of a nil span do nothing.
type Span struct {
	TraceID    [16]byte
	ID, Parent [8]byte // Parent is zero for the first span of a trace
	State      string  // as the caller sent it
	Name       string
	Begin, End time.Time
	Attributes []Attribute
	Error      string // why the call failed; empty if it did not

	tracer  *Tracer
	sampled bool
}

// An Attribute is something that is known of a call.
type Attribute struct{ Key, Value string }

// Start begins the span of a call. parent and state are the headers traceparent
// and tracestate of W3C; without a parent that can be read, it begins a trace.
func (t *Tracer) Start(name, parent, state string) *Span {
	if t == nil {
		return nil
	}
	s := &Span{Name: name, Begin: time.Now(), tracer: t}
	from, ok := parseParent(parent)
	if ok {
		s.TraceID, s.Parent, s.State = from.trace, from.span, checkState(state)
	} else {
		fillRandom(s.TraceID[:])
	}
	fillRandom(s.ID[:])
	s.sampled = t.config.Sampler.samples(s.TraceID, ok, from.sampled)
	return s
}

// Trace returns the id of the trace as it is written; empty if there is none.
func (s *Span) Trace() string {
	if s == nil {
		return ""
	}
	return hex.EncodeToString(s.TraceID[:])
}

// Sampled reports whether the span is exported.
func (s *Span) Sampled() bool { return s != nil && s.sampled }

// Set notes something about the call.
func (s *Span) Set(key, value string) {
	if s != nil && s.sampled {
		s.Attributes = append(s.Attributes, Attribute{key, value})
	}
}

// Finish ends the span. failure says why the call failed; empty if it did not.
func (s *Span) Finish(failure string) {
	if s == nil || !s.sampled {
		return
	}
	s.End, s.Error = time.Now(), failure
	select {
	case s.tracer.queue <- s:
	default:
		s.tracer.dropped.Add(1)
	}
}
