// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestEventsOfACall(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
		out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("one")})
		out.Emit(tools.Output{Stream: tools.Stderr, Data: []byte("two")})
		out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("three")})
		return tools.TextResult("done"), nil
	}))
	events := read(t, x, 0)
	want := "1:accepted 2:started 3:output 4:output 5:output 6:finished"
	if got := kinds(events); got != want {
		t.Fatalf("events %s, want %s", got, want)
	}
	if o := events[4].Body.(executor.Output); o.Offset != 3 || string(o.Data) != "three" {
		t.Errorf("third chunk %+v, want offset 3", o)
	}
	if got := kinds(read(t, x, 4)); got != "5:output 6:finished" {
		t.Errorf("after 4: %s", got)
	}
	if got := kinds(read(t, x, 6)); got != "" {
		t.Errorf("after the last: %s", got)
	}
	for _, err := range x.Events(context.Background(), 7, true) {
		if !errors.Is(err, executor.ErrAhead) {
			t.Errorf("after an event yet to be: %v, want ErrAhead", err)
		}
	}
}

func TestOutputIsChunkedAndCopied(t *testing.T) {
	f := newFixture(t, executor.Config{})
	want := bytes.Repeat([]byte("0123456789abcde\n"), 6000) // 96,000 bytes
	x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
		data := slices.Clone(want)
		out.Emit(tools.Output{Stream: tools.Stdout, Data: data})
		clear(data)
		return tools.Result{}, nil
	}))
	var got []byte
	for _, event := range read(t, x, 0) {
		if o, ok := event.Body.(executor.Output); ok {
			if len(o.Data) > executor.MaxChunk || o.Offset != uint64(len(got)) {
				t.Errorf("chunk of %d bytes at %d, after %d", len(o.Data), o.Offset, len(got))
			}
			got = append(got, o.Data...)
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("output was altered")
	}
	if n := finished(t, x).OutputBytes; n != uint64(len(want)) {
		t.Errorf("output bytes %d, want %d", n, len(want))
	}
}

func TestProgressIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{ProgressInterval: 100 * time.Millisecond}})
		x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
			for i := range 1000 {
				out.Emit(tools.Progress{Done: float64(i)})
				time.Sleep(time.Millisecond)
			}
			out.Emit(tools.Progress{Done: 1000})
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("x")})
			return tools.Result{}, nil
		}))
		events := read(t, x, 0)
		var last float64 = -1
		reports := 0
		for i, event := range events {
			if event.Seq != uint64(i+1) {
				t.Fatalf("event %d has number %d", i+1, event.Seq)
			}
			if p, ok := event.Body.(executor.Progress); ok {
				reports++
				if p.Done <= last {
					t.Errorf("progress went from %v to %v", last, p.Done)
				}
				last = p.Done
			}
		}
		if reports < 10 || reports > 13 {
			t.Errorf("%d reports in a second, want about 11", reports)
		}
		if last != 1000 {
			t.Errorf("the newest report is %v, want 1000: it must come before the output after it", last)
		}
	})
}

func TestSlowReaderIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{MaxLogBytes: 200_000, ReaderPatience: time.Second}})
		total := 0
		x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
			time.Sleep(time.Second)
			for range 100 {
				out.Emit(tools.Output{Stream: tools.Stdout, Data: make([]byte, 30_000)})
				total += 30_000
			}
			return tools.Result{}, nil
		}))
		begin := time.Now()
		var seen []uint64
		skipped := 0
		for event, err := range x.Events(context.Background(), 0, true) {
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := event.Body.(executor.Skipped); ok {
				skipped++
				if s.First != seen[len(seen)-1]+1 {
					t.Errorf("skipped from %d after %d", s.First, seen[len(seen)-1])
				}
			} else if len(seen) > 0 && event.Seq != seen[len(seen)-1]+1 {
				t.Errorf("event %d after %d", event.Seq, seen[len(seen)-1])
			}
			seen = append(seen, event.Seq)
			if event.Seq == 3 {
				<-x.Done() // stops reading until the end
				if held := time.Since(begin); held > 3*time.Second {
					t.Errorf("a reader that stopped held the tool up for %s", held)
				}
			}
		}
		if skipped != 1 || total != 3_000_000 {
			t.Errorf("%d notes of skipped events and %d bytes, want 1 and all", skipped, total)
		}
		if f.Stats().DroppedEvents == 0 {
			t.Error("no drops were counted")
		}
	})
}

func TestReaderThatReadsGetsEverything(t *testing.T) {
	for _, first := range []string{"the reader", "those that stop"} {
		t.Run(first+" first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { readsEverything(t, first == "the reader") })
		})
	}
}

// readsEverything reads much output beside ten readers that take one event and
// stop.
func readsEverything(t *testing.T, readerFirst bool) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{MaxLogBytes: 200_000, ReaderPatience: time.Minute}})
	const chunks = 2000
	begin := make(chan struct{})
	x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
		<-begin
		for range chunks {
			out.Emit(tools.Output{Stream: tools.Stdout, Data: make([]byte, 10_000)})
		}
		return tools.Result{}, nil
	}))
	var followers sync.WaitGroup
	release := make(chan struct{})
	stop := func() {
		for range 10 {
			followers.Go(func() {
				for range x.Events(context.Background(), 0, true) {
					<-release
				}
			})
		}
	}
	n := 0
	reader := func() {
		followers.Go(func() {
			for event, err := range x.Events(context.Background(), 0, true) {
				switch body := event.Body.(type) {
				case executor.Skipped:
					t.Errorf("events from %d were skipped", body.First)
				case executor.Output:
					n += len(body.Data)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	order := []func(){stop, reader}
	if readerFirst {
		order = []func(){reader, stop}
	}
	for _, follow := range order {
		follow()
		time.Sleep(time.Second) // until it has the first events
	}
	start := time.Now()
	close(begin)
	<-x.Done()
	if held := time.Since(start); readerFirst && held != 0 || held > time.Minute {
		t.Errorf("readers that stopped held the tool up for %s", held)
	}
	close(release)
	followers.Wait()
	if n != chunks*10_000 {
		t.Errorf("%d bytes, want %d", n, chunks*10_000)
	}
}

// TestEventsComeAtOnce: no event waits for the next one.
func TestEventsComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		begin := time.Now()
		x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
			time.Sleep(5 * time.Millisecond)
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("text")})
			time.Sleep(time.Second)
			return tools.Result{}, nil
		}))
		var got []string
		for event, err := range x.Events(context.Background(), 0, true) {
			if err != nil {
				t.Fatal(err)
			}
			_, kind, _ := strings.Cut(kinds([]executor.Event{event}), ":")
			got = append(got, kind+" "+time.Since(begin).String())
		}
		if got, want := strings.Join(got, ", "), "accepted 0s, started 0s, output 5ms, finished 1.005s"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestCallerLeavesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		order := f.order(waits)
		order.OnDisconnect = executor.CancelAtOnce
		x := f.start(order)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(5*time.Millisecond, cancel)
		begin := time.Now()
		for event, err := range x.Events(ctx, 0, true) {
			if err != nil {
				break
			}
			t.Logf("%v", event)
		}
		if end := finished(t, x); end.Outcome != executor.Cancelled || time.Since(begin) != 5*time.Millisecond {
			t.Errorf("%v after %s, want cancelled after 5ms", end.Outcome, time.Since(begin))
		}
	})
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{Heartbeat: 15 * time.Second}})
		x := f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) {
			time.Sleep(40 * time.Second)
			return tools.Result{}, nil
		}))
		want := "1:accepted 2:started 2:heartbeat 2:heartbeat 3:finished"
		if got := kinds(read(t, x, 0)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestMemoryOfAllLogsIsBounded(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{LogMemory: 1 << 20, MaxLogBytes: 1 << 20}})
	var wg sync.WaitGroup
	for range 20 {
		x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
			for range 100 {
				out.Emit(tools.Output{Stream: tools.Stdout, Data: make([]byte, 20_000)})
			}
			return tools.Result{}, nil
		}))
		wg.Go(func() { <-x.Done() })
	}
	wg.Wait()
	if used, most := f.Stats().LogBytes, int64(1<<20+20*3*executor.MaxChunk); used > most {
		t.Errorf("%d bytes in logs, want at most %d", used, most)
	}
}

func TestResultIsTrimmed(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{MaxResultBytes: 10}})
	ends := func(content ...tools.Content) executor.Finished {
		return finished(t, f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) {
			return tools.Result{Content: content}, nil
		})))
	}
	end := ends(tools.Text("ab\xffcd"), tools.Text("äöü"))
	want := []tools.Content{tools.Text("ab\uFFFDcd"), tools.Text("ä")}
	if end.Outcome != executor.Succeeded || !slices.EqualFunc(end.Result.Content, want, func(a, b tools.Content) bool { return a == b }) {
		t.Errorf("%v %q, want %q", end.Outcome, end.Result.Content, want)
	}
	if end.TotalBytes != 5+6 || end.KeptBytes != 7+2 {
		t.Errorf("%d of %d bytes kept, want 9 of 11", end.KeptBytes, end.TotalBytes)
	}
	// A piece that is lost as a whole is no success.
	end = ends(tools.JSON(`{"large":true}`))
	if end.Outcome != executor.Failed || end.Failure.Code != "result_too_large" || len(end.Result.Content) != 1 {
		t.Errorf("%v %+v %q, want failed: result_too_large", end.Outcome, end.Failure, end.Result.Content)
	}
}

// TestReasonIsKept proves that a model reads why a call did not succeed, however
// much it produced before.
func TestReasonIsKept(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{MaxResultBytes: 1000}})
	x := f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) {
		return tools.TextResult(strings.Repeat("x", 5000)), errors.New("out of luck")
	}))
	end := finished(t, x)
	if n := len(end.Result.Content); n != 2 || end.Result.Content[n-1] != tools.Text("out of luck") {
		t.Errorf("content %.100q", end.Result.Content)
	}
}

// TestWhateverToolsReportCanBeSent gives events what no message could carry.
func TestWhateverToolsReportCanBeSent(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
		out.Emit(tools.Progress{Message: "caf\xe9", Unit: strings.Repeat("u", 1000)})
		out.Emit(tools.UserMessage{Message: "\xff" + strings.Repeat("m", 1<<20), Attachments: []tools.Attachment{{Path: "\xff"}}})
		out.Emit(tools.Partial{Content: []tools.Content{tools.Text("\xff"), tools.JSON("\xff"), tools.Artifact{Name: "\xff"}}})
		return tools.Result{Details: []byte("\xff")}, errors.New(strings.Repeat("e", 4<<20))
	}))
	for _, event := range read(t, x, 0) {
		text := fmt.Sprintf("%s", event.Body)
		if !utf8.ValidString(text) || len(text) > 100_000 {
			t.Errorf("%T of %d bytes cannot be sent", event.Body, len(text))
		}
	}
}

// TestOutputAfterACancel proves that a caller that reads gets what a tool wrote
// while it was stopping.
func TestOutputAfterACancel(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{MaxLogBytes: 200_000}})
	x := f.start(f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
		<-ctx.Done()
		for range 100 {
			out.Emit(tools.Output{Stream: tools.Stdout, Data: make([]byte, 20_000)})
		}
		return tools.Result{}, context.Cause(ctx)
	}))
	n := 0
	for event, err := range x.Events(context.Background(), 0, true) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Seq == 2 {
			x.Cancel("enough", "alice")
		}
		if o, ok := event.Body.(executor.Output); ok {
			n += len(o.Data)
		}
	}
	if n != 100*20_000 {
		t.Errorf("%d bytes, want %d", n, 100*20_000)
	}
}

// BenchmarkOutput measures output on its way through the log to one reader.
func BenchmarkOutput(b *testing.B) {
	store := session.NewStore(session.Config{WorkspaceRoot: b.TempDir()})
	e := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: store})
	s, err := store.Get("alice", "")
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, executor.MaxChunk)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	x, err := e.Start(b.Context(), &executor.Job{Order: executor.Order{Session: s.Ref()}, Call: callFunc(
		func(_ context.Context, out tools.Sink) (tools.Result, error) {
			for b.Loop() {
				out.Emit(tools.Output{Stream: tools.Stdout, Data: data})
			}
			return tools.Result{}, nil
		})})
	if err != nil {
		b.Fatal(err)
	}
	for event, err := range x.Events(b.Context(), 0, true) {
		if _, skipped := event.Body.(executor.Skipped); skipped || err != nil {
			b.Fatal("skipped", err)
		}
		if output, ok := event.Body.(executor.Output); ok {
			output.Release()
		}
	}
	e.Drain(b.Context(), "")
	e.Close()
	store.Close()
}
