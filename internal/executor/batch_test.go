// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/tools"
)

// readBatch reads a batch from after a number to its end.
func readBatch(t *testing.T, b *executor.Batch, after uint64) (events []executor.BatchEvent) {
	t.Helper()
	r, err := b.Follow(after)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		event, ok, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return events
		}
		events = append(events, event)
	}
}

// TestBatchSheds: a batch knows the order of its newest events. Who comes late has one
// event of each call in the place of those that are gone, and every ending.
func TestBatchSheds(t *testing.T) {
	f := newFixture(t, executor.Config{})
	b, err := f.NewBatch(executor.BatchOrder{Session: f.session.Ref(), Strategy: executor.Sequential})
	if err != nil {
		t.Fatal(err)
	}
	quick, _ := b.Start(t.Context(), f.order(func(context.Context, tools.Sink) (tools.Result, error) {
		return tools.TextResult("quick"), nil
	}), "quick", 0)
	<-quick.Done()
	const chunks = 100_000
	flood, _ := b.Start(t.Context(), f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
		for range chunks {
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("x")})
		}
		return tools.TextResult("flooded"), nil
	}), "flood", 0)
	<-flood.Done()
	b.Close()
	events := readBatch(t, b, 0)

	ends := make(map[int]executor.Outcome)
	number, seq := uint64(0), uint64(0)
	for _, event := range events {
		call, ok := event.Body.(executor.CallEvent)
		if !ok {
			number = event.Number
			continue
		}
		skipped, gone := call.Event.Body.(executor.Skipped)
		if finished, ok := call.Event.Body.(executor.Finished); ok {
			if ends[call.Position] != 0 {
				t.Fatalf("call %d ended twice", call.Position)
			}
			ends[call.Position] = finished.Outcome
		}
		if call.Position == 2 {
			if !gone && call.Event.Seq != seq+1 || gone && skipped.First != seq+1 {
				t.Fatalf("after event %d of the call comes %+v", seq, call.Event)
			}
			seq = call.Event.Seq
		}
		if event.Number < number {
			t.Fatalf("number %d after %d", event.Number, number)
		}
		number = event.Number
	}
	if ends[1] != executor.Succeeded || ends[2] != executor.Succeeded || seq != chunks+3 {
		t.Errorf("ends %v, last event %d", ends, seq)
	}
	last, ok := events[len(events)-1].Body.(executor.BatchFinished)
	if !ok || len(last.Calls) != 2 || len(events) > 1<<16+2 {
		t.Errorf("%d events, the last %+v", len(events), events[len(events)-1])
	}
	// From where the order is known, the numbers are as they were.
	middle := events[len(events)/2]
	again := readBatch(t, b, middle.Number)
	if len(again) != len(events)-len(events)/2-1 || again[0].Number != middle.Number+1 {
		t.Errorf("%d events after %d", len(again), middle.Number)
	}
	// Who has some of what stands in for others goes on with all of it.
	if again := readBatch(t, b, events[0].Number); len(again) != len(events) {
		t.Errorf("%d events after the first of %d", len(again), len(events))
	}
}

// TestBatchRefusals proves that refusals do not fill the memory.
func TestBatchRefusals(t *testing.T) {
	f := newFixture(t, executor.Config{})
	for range 3 {
		b, err := f.NewBatch(executor.BatchOrder{Session: f.session.Ref()})
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		for ; b.AwaitRoom(t.Context()) == nil; taken++ {
			b.RefuseOrder("x", executor.ErrNotFound)
		}
		if err := b.AwaitRoom(t.Context()); taken != 1<<14+1 || !errors.Is(err, executor.ErrBatchFull) {
			t.Errorf("%d orders, then %v", taken, err)
		}
		b.Close()
	}
}

// TestBatchHeartbeat: a stream of a batch in which nothing happens tells that the server is
// there, and its numbers go on as if it had not.
func TestBatchHeartbeat(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{Heartbeat: time.Millisecond}})
	b, err := f.NewBatch(executor.BatchOrder{Session: f.session.Ref()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	beats := 0
	for want := uint64(1); ; {
		event, ok, err := r.Next(t.Context())
		if err != nil || !ok {
			t.Fatalf("%+v, %t, %v", event, ok, err)
		}
		if _, beat := event.Body.(executor.Heartbeat); beat {
			if event.Number != want-1 {
				t.Fatalf("a heartbeat with number %d after event %d", event.Number, want-1)
			}
			if beats++; beats == 2 {
				b.Close()
			}
			continue
		}
		if event.Number != want {
			t.Fatalf("event %d, want %d", event.Number, want)
		}
		want++
		if _, last := event.Body.(executor.BatchFinished); last {
			break
		}
	}
}

// TestBatchFollowersLeave: who has read a batch follows none of its calls any more, also
// of those that had ended before.
func TestBatchFollowersLeave(t *testing.T) {
	f := newFixture(t, executor.Config{})
	b, err := f.NewBatch(executor.BatchOrder{Session: f.session.Ref()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := b.Start(t.Context(), f.order(func(context.Context, tools.Sink) (tools.Result, error) { return tools.TextResult("x"), nil }), "x", 0)
	<-x.Done()
	late, err := b.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := x.Info().Followers; got < 2 {
		t.Errorf("%d followers, want both readers", got)
	}
	b.Close()
	r.Close()
	late.Close()
	if got := x.Info().Followers; got != 0 {
		t.Errorf("%d followers are left", got)
	}
}

// TestKeptBatchesAreCounted: what is kept of batches is part of the memory for logs, and
// goes when that is used up.
func TestKeptBatchesAreCounted(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{LogMemory: 64 << 10}})
	var ids []string
	for range 20 {
		b, err := f.NewBatch(executor.BatchOrder{Session: f.session.Ref()})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			b.RefuseOrder("x", executor.ErrNotFound)
		}
		b.Close()
		ids = append(ids, b.ID)
	}
	used := f.Stats().LogBytes
	if used == 0 || used > 64<<10 {
		t.Errorf("%d bytes are in use", used)
	}
	if _, err := f.FindBatch(f.session.Ref(), ids[0]); !errors.Is(err, executor.ErrNotFound) {
		t.Errorf("the oldest batch: %v", err)
	}
	if _, err := f.FindBatch(f.session.Ref(), ids[len(ids)-1]); err != nil {
		t.Errorf("the newest batch: %v", err)
	}
}
