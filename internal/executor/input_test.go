// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/tools"
)

// reader is a call that keeps the data it is sent until the end of it.
type reader struct {
	slow bool // takes one byte at a time and then waits for go
	next chan struct{}

	mu      sync.Mutex
	data    []byte
	signals []tools.Input
	ready   chan struct{} // closed when it listens
}

func newReader() *reader { return &reader{ready: make(chan struct{}), next: make(chan struct{})} }

func (r *reader) run(ctx context.Context, out tools.Sink) (tools.Result, error) {
	end := make(chan struct{})
	stop := out.Listen(ctx, func(ctx context.Context, in tools.Input) (int, error) {
		switch in := in.(type) {
		case tools.Data:
			for i, b := range in {
				if r.slow {
					select {
					case <-r.next:
					case <-ctx.Done():
						return i, ctx.Err()
					}
				}
				r.mu.Lock()
				r.data = append(r.data, b)
				r.mu.Unlock()
			}
			return len(in), nil
		case tools.EndOfInput:
			close(end)
		case tools.WindowSize:
			return 0, tools.Failf("no_terminal", "There is no terminal.")
		default:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.signals = append(r.signals, in)
		}
		return 0, nil
	})
	defer stop()
	close(r.ready)
	select {
	case <-end:
		return tools.TextResult(string(r.data)), nil
	case <-ctx.Done():
		return tools.Result{}, context.Cause(ctx)
	}
}

func at(n uint64) *uint64 { return &n }

func TestInput(t *testing.T) {
	f := newFixture(t, executor.Config{})
	r := newReader()
	x := f.start(f.order(r.run))
	<-r.ready
	ctx := t.Context()
	for _, step := range []struct {
		name   string
		offset *uint64
		data   string
		taken  uint64
		err    error
	}{
		{"first", at(0), "one", 3, nil},
		{"again", at(0), "one", 3, nil},
		{"overlapping", at(1), "ne two", 7, nil},
		{"behind all", nil, "!", 8, nil},
		{"a gap", at(10), "x", 8, executor.ErrGap},
		{"nothing", nil, "", 8, nil},
		{"nothing, after a gap", at(9), "", 8, executor.ErrGap},
	} {
		taken, err := x.Write(ctx, step.offset, []byte(step.data))
		if taken != step.taken || !errors.Is(err, step.err) {
			t.Errorf("%s: %d, %v, want %d, %v", step.name, taken, err, step.taken, step.err)
		}
	}
	if err := x.Control(ctx, tools.WindowSize{Rows: 1, Columns: 1}); !errors.Is(err, executor.ErrNoInput) {
		t.Errorf("what the tool refuses: %v", err)
	}
	if _, err := x.EndInput(ctx, at(9)); !errors.Is(err, executor.ErrGap) {
		t.Errorf("end after a gap: %v", err)
	}
	if taken, err := x.EndInput(ctx, nil); taken != 8 || err != nil {
		t.Errorf("end: %d, %v", taken, err)
	}
	if got := finished(t, x); got.Result.Content[0] != tools.Text("one two!") {
		t.Errorf("the call got %q", got.Result.Content)
	}

	// What was taken can be sent again, also now; nothing else can.
	if taken, err := x.Write(ctx, at(4), []byte("two!")); taken != 8 || err != nil {
		t.Errorf("again, after the end: %d, %v", taken, err)
	}
	if taken, err := x.EndInput(ctx, at(8)); taken != 8 || err != nil {
		t.Errorf("end, again: %d, %v", taken, err)
	}
	if _, err := x.Write(ctx, at(8), []byte("more")); !errors.Is(err, executor.ErrNoInput) {
		t.Errorf("more, after the end: %v", err)
	}
	if err := x.Control(ctx, tools.Signal("INT")); !errors.Is(err, executor.ErrNoInput) {
		t.Errorf("a signal after the end: %v", err)
	}
}

// TestInputIsTakenOnce lets many callers send the same data in pieces of their
// own at the same time.
func TestInputIsTakenOnce(t *testing.T) {
	f := newFixture(t, executor.Config{})
	r := newReader()
	x := f.start(f.order(r.run))
	<-r.ready
	data := make([]byte, 10_000)
	for i := range data {
		data[i] = byte(rand.IntN(256))
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for n := 0; n < len(data); {
				size := min(1+rand.IntN(50), len(data)-n)
				taken, err := x.Write(t.Context(), at(uint64(n)), data[n:n+size])
				if err != nil || taken < uint64(n+size) {
					t.Errorf("at %d: %d, %v", n, taken, err)
					return
				}
				n += size
			}
		})
	}
	callers.Wait()
	if _, err := x.EndInput(t.Context(), at(uint64(len(data)))); err != nil {
		t.Fatal(err)
	}
	finished(t, x)
	if !bytes.Equal(r.data, data) {
		t.Errorf("the call got %d bytes that are not those sent", len(r.data))
	}
}

// TestInputWaits proves that data waits for the tool no longer than its caller
// does, that what was taken by then counts, and that signals do not wait for
// it.
func TestInputWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		r := newReader()
		r.slow = true
		x := f.start(f.order(r.run))
		<-r.ready
		ctx, cancel := context.WithCancelCause(t.Context())
		type answer struct {
			taken uint64
			err   error
		}
		answers := make(chan answer, 2)
		write := func(ctx context.Context) {
			taken, err := x.Write(ctx, at(0), []byte("abc"))
			answers <- answer{taken, err}
		}
		go write(ctx)
		r.next <- struct{}{}
		synctest.Wait()
		if err := x.Control(t.Context(), tools.Signal("INT")); err != nil || len(r.signals) != 1 {
			t.Errorf("signal while data waits: %v", err)
		}
		left := errors.New("left")
		cancel(left)
		if got := <-answers; got.taken != 1 || !errors.Is(got.err, left) {
			t.Errorf("data that waited: %+v", got)
		}

		// The rest follows, and one more waits for its turn until the call ends.
		go write(t.Context())
		go write(t.Context())
		r.next <- struct{}{}
		synctest.Wait()
		x.Cancel("", "test")
		for range 2 {
			if got := <-answers; got.taken != 2 || !errors.Is(got.err, executor.ErrNoInput) {
				t.Errorf("data of a call that was cancelled: %+v", got)
			}
		}
		<-x.Done()
		if string(r.data) != "ab" {
			t.Errorf("the call got %q", r.data)
		}
	})
}

func TestNoInput(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(func(ctx context.Context, _ tools.Sink) (tools.Result, error) {
		<-ctx.Done()
		return tools.Result{}, context.Cause(ctx)
	}))
	if _, err := x.Write(t.Context(), nil, []byte("x")); !errors.Is(err, executor.ErrNoInput) {
		t.Errorf("data for a call that does not listen: %v", err)
	}
	if err := x.Control(t.Context(), tools.Signal("INT")); !errors.Is(err, executor.ErrNoInput) {
		t.Errorf("a signal for a call that does not listen: %v", err)
	}
}
