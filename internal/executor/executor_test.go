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

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// callFunc is a call that is a function.
type callFunc func(ctx context.Context, out tools.Sink) (tools.Result, error)

func (callFunc) Effects() []tools.Effect { return nil }

func (f callFunc) Run(ctx context.Context, out tools.Sink) (tools.Result, error) { return f(ctx, out) }

// waits is a call that does nothing until it is told to stop.
func waits(ctx context.Context, _ tools.Sink) (tools.Result, error) {
	<-ctx.Done()
	return tools.TextResult("half"), context.Cause(ctx)
}

func says(text string) callFunc {
	return func(context.Context, tools.Sink) (tools.Result, error) { return tools.TextResult(text), nil }
}

// fixture is an executor and a session to run calls in.
type fixture struct {
	*executor.Executor
	t       *testing.T
	session *session.Session
}

func newFixture(t *testing.T, config executor.Config) *fixture {
	t.Helper()
	config.Logger = zap.NewNop()
	store := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAllow},
	})
	t.Cleanup(store.Close)
	s, err := store.Get("alice", "")
	if err != nil {
		t.Fatal(err)
	}
	e := executor.New(config)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Drain(ctx, "end of test")
		e.Close()
	})
	return &fixture{Executor: e, t: t, session: s}
}

func (f *fixture) order(call callFunc) executor.Order {
	return executor.Order{Owner: "alice", Session: f.session, Tool: "test", Call: call}
}

func (f *fixture) start(order executor.Order) *executor.Execution {
	f.t.Helper()
	x, err := f.Start(context.Background(), order)
	if err != nil {
		f.t.Fatal(err)
	}
	return x
}

// read returns the events after a number, to the last.
func read(t *testing.T, x *executor.Execution, after uint64) []executor.Event {
	t.Helper()
	var events []executor.Event
	for event, err := range x.Events(context.Background(), after) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

func finished(t *testing.T, x *executor.Execution) executor.Finished {
	t.Helper()
	<-x.Done()
	f, ok := x.Finished()
	if !ok {
		t.Fatal("done without an end")
	}
	return f
}

func kinds(events []executor.Event) string {
	var words []string
	for _, event := range events {
		name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", event.Body), "executor."))
		words = append(words, fmt.Sprintf("%d:%s", event.Seq, name))
	}
	return strings.Join(words, " ")
}

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
	for _, err := range x.Events(context.Background(), 7) {
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
		f := newFixture(t, executor.Config{ProgressInterval: 100 * time.Millisecond})
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

func TestTimeoutKeepsWhatWasProduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		order := f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("so far")})
			return waits(ctx, out)
		})
		order.Timeout = 3 * time.Second
		begin := time.Now()
		x := f.start(order)
		end := finished(t, x)
		if end.Outcome != executor.TimedOut || time.Since(begin) != 3*time.Second {
			t.Errorf("%v after %s, want timed_out after 3s", end.Outcome, time.Since(begin))
		}
		if len(end.Result.Content) != 2 || end.Result.Content[0] != tools.Text("half") {
			t.Errorf("content %q, want what was produced and the reason", end.Result.Content)
		}
		if got := kinds(read(t, x, 0)); got != "1:accepted 2:started 3:output 4:finished" {
			t.Error(got)
		}
	})
}

func TestTimeoutLimits(t *testing.T) {
	f := newFixture(t, executor.Config{DefaultTimeout: time.Minute, MaxTimeout: time.Hour})
	for _, c := range []struct{ asked, want time.Duration }{
		{0, time.Minute}, {time.Second, time.Second}, {48 * time.Hour, time.Hour},
	} {
		order := f.order(says("ok"))
		order.Timeout = c.asked
		if got := f.start(order).Order.Timeout; got != c.want {
			t.Errorf("timeout %s became %s, want %s", c.asked, got, c.want)
		}
	}
}

func TestToolThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{StopGrace: 5 * time.Second})
		release := make(chan struct{})
		x := f.start(f.order(func(_ context.Context, out tools.Sink) (tools.Result, error) {
			<-release
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("too late")})
			return tools.TextResult("too late"), nil
		}))
		synctest.Wait()
		begin := time.Now()
		x.Cancel("enough", "alice")
		end := finished(t, x)
		if end.Outcome != executor.Cancelled || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %s, want cancelled after 5s", end.Outcome, time.Since(begin))
		}
		close(release)
		synctest.Wait()
		if got := kinds(read(t, x, 0)); got != "1:accepted 2:started 3:finished" {
			t.Errorf("after the end: %s", got)
		}
	})
}

func TestCancel(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(waits))
	x.Cancel("first", "alice")
	x.Cancel("second", "bob")
	end := finished(t, x)
	x.Cancel("third", "carol")
	if end.Outcome != executor.Cancelled || *end.Cancelled != (executor.Cancellation{Reason: "first", By: "alice"}) {
		t.Errorf("%v by %+v, want the first canceller", end.Outcome, end.Cancelled)
	}
}

func TestSuccessWinsOverALateCancel(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(func(ctx context.Context, _ tools.Sink) (tools.Result, error) {
		<-ctx.Done()
		return tools.TextResult("it was done already"), nil
	}))
	x.Cancel("", "alice")
	if end := finished(t, x); end.Outcome != executor.Succeeded {
		t.Errorf("%v, want succeeded: the tool did what it was asked", end.Outcome)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) {
		panic("secret")
	}))
	end := finished(t, x)
	if end.Outcome != executor.Failed || end.Failure.Code != "internal" || !strings.Contains(end.Failure.Message, x.ID) {
		t.Errorf("%v %+v, want failed, internal, with the id", end.Outcome, end.Failure)
	}
	if strings.Contains(end.Failure.Message, "secret") {
		t.Error("the panic's text reached the client")
	}
}

func TestFailures(t *testing.T) {
	f := newFixture(t, executor.Config{})
	fail := func(err error) *executor.Failure {
		x := f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) { return tools.Result{}, err }))
		return finished(t, x).Failure
	}
	if got := fail(errors.New("no luck")); got.Code != "failed" || got.Message != "no luck" {
		t.Errorf("plain error: %+v", got)
	}
	wrapped := fmt.Errorf("reading: %w", &tools.Failure{Code: "busy", Message: "busy", Retryable: true})
	if got := fail(wrapped); got.Code != "busy" || !got.Retryable || got.Message != "reading: busy" {
		t.Errorf("wrapped failure: %+v", got)
	}
	if got := fail(errors.New("bad \xff byte")); got.Message != "bad \uFFFD byte" {
		t.Errorf("invalid UTF-8: %q", got.Message)
	}
}

func TestDisconnect(t *testing.T) {
	for _, c := range []struct {
		name    string
		what    executor.OnDisconnect
		outcome executor.Outcome
		after   time.Duration
	}{
		{"grace", executor.Grace, executor.Cancelled, 30 * time.Second},
		{"at once", executor.CancelAtOnce, executor.Cancelled, 0},
		{"detach", executor.Detach, executor.TimedOut, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, executor.Config{DisconnectGrace: 30 * time.Second, DefaultTimeout: time.Minute})
				order := f.order(waits)
				order.OnDisconnect = c.what
				begin := time.Now()
				x := f.start(order)
				readTwo(t, x)
				end := finished(t, x)
				if end.Outcome != c.outcome || time.Since(begin) != c.after {
					t.Errorf("%v after %s, want %v after %s", end.Outcome, time.Since(begin), c.outcome, c.after)
				}
			})
		})
	}
}

// readTwo reads the first two events and leaves.
func readTwo(t *testing.T, x *executor.Execution) {
	t.Helper()
	for event, err := range x.Events(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Seq == 2 {
			return
		}
	}
}

func TestComingBackEndsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{DisconnectGrace: 30 * time.Second, DefaultTimeout: time.Hour})
		x := f.start(f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			select {
			case <-time.After(5 * time.Minute):
				return tools.TextResult("done"), nil
			case <-ctx.Done():
				return tools.Result{}, context.Cause(ctx)
			}
		}))
		for range 3 {
			readTwo(t, x)
			time.Sleep(29 * time.Second)
		}
		events := read(t, x, 2)
		if end := events[len(events)-1].Body.(executor.Finished); end.Outcome != executor.Succeeded {
			t.Errorf("%v, want succeeded", end.Outcome)
		}
	})
}

func TestSameCallID(t *testing.T) {
	f := newFixture(t, executor.Config{})
	runs := 0
	order := f.order(func(context.Context, tools.Sink) (tools.Result, error) {
		runs++
		return tools.TextResult("once"), nil
	})
	order.CallID, order.Digest = "call-1", [32]byte{1}
	var wg sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		wg.Go(func() { ids[i] = f.start(order).ID })
	}
	wg.Wait()
	finished(t, f.start(order))
	if len(slices.Compact(ids)) != 1 || runs != 1 {
		t.Errorf("%d runs as %v, want one", runs, ids)
	}
	order.Digest = [32]byte{2}
	if _, err := f.Start(context.Background(), order); !errors.Is(err, executor.ErrConflict) {
		t.Errorf("other input: %v, want ErrConflict", err)
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Retention: time.Minute, MaxRetained: 3})
		var all []*executor.Execution
		for range 5 {
			x := f.start(f.order(says("ok")))
			finished(t, x)
			all = append(all, x)
			time.Sleep(10 * time.Second)
		}
		known := func() (n int) {
			for _, x := range all {
				if _, err := f.Find("alice", x.ID); err == nil {
					n++
				}
			}
			return n
		}
		if n := known(); n != 3 {
			t.Errorf("%d kept, want 3", n)
		}
		time.Sleep(35 * time.Second) // 65, 55 and 45 seconds after their ends
		if n := known(); n != 2 {
			t.Errorf("%d kept after a minute, want 2", n)
		}
		time.Sleep(time.Minute)
		if n := known(); n != 0 {
			t.Errorf("%d kept after two minutes, want none", n)
		}
		if used := f.Stats().LogBytes; used != 0 {
			t.Errorf("%d bytes of log left", used)
		}
	})
}

func TestSlowReaderIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{MaxLogBytes: 200_000, ReaderPatience: time.Second})
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
		for event, err := range x.Events(context.Background(), 0) {
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
	f := newFixture(t, executor.Config{MaxLogBytes: 200_000, ReaderPatience: time.Minute})
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
				for range x.Events(context.Background(), 0) {
					<-release
				}
			})
		}
	}
	n := 0
	reader := func() {
		followers.Go(func() {
			for event, err := range x.Events(context.Background(), 0) {
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
		synctest.Wait()
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

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Heartbeat: 15 * time.Second})
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
	f := newFixture(t, executor.Config{LogMemory: 1 << 20, MaxLogBytes: 1 << 20})
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
	f := newFixture(t, executor.Config{MaxResultBytes: 10})
	x := f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) {
		return tools.Result{Content: []tools.Content{
			tools.Text("ab\xffcd"), tools.JSON(`{"large":true}`), tools.Text("äöü"),
		}}, nil
	}))
	end := finished(t, x)
	want := []tools.Content{tools.Text("ab\uFFFDcd"), tools.Text("ä")}
	if !slices.EqualFunc(end.Result.Content, want, func(a, b tools.Content) bool { return a == b }) {
		t.Errorf("content %q, want %q", end.Result.Content, want)
	}
	if end.TotalBytes != 7+14+6 || end.KeptBytes != 7+2 {
		t.Errorf("%d of %d bytes kept, want 9 of 27", end.KeptBytes, end.TotalBytes)
	}
}

func TestFullAndDraining(t *testing.T) {
	f := newFixture(t, executor.Config{MaxRunning: 2})
	first, second := f.start(f.order(waits)), f.start(f.order(waits))
	if _, err := f.Start(context.Background(), f.order(waits)); !errors.Is(err, executor.ErrFull) {
		t.Errorf("third: %v, want ErrFull", err)
	}
	first.Cancel("", "alice")
	<-first.Done()
	third := f.start(f.order(waits))

	ctx, cancel := context.WithCancel(context.Background())
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		f.Drain(ctx, "going down")
	}()
	for !f.Draining() {
		third.Info()
	}
	if _, err := f.Start(context.Background(), f.order(waits)); !errors.Is(err, executor.ErrDraining) {
		t.Errorf("while draining: %v, want ErrDraining", err)
	}
	cancel()
	<-drained
	for _, x := range []*executor.Execution{second, third} {
		if end := finished(t, x); end.Outcome != executor.Cancelled || end.Cancelled.Reason != "going down" {
			t.Errorf("%v %+v, want cancelled with the reason", end.Outcome, end.Cancelled)
		}
	}
}

func TestList(t *testing.T) {
	f := newFixture(t, executor.Config{})
	var want []string
	for range 7 {
		x := f.start(f.order(says("ok")))
		finished(t, x)
		want = append([]string{x.ID}, want...)
	}
	var got []string
	all := func(*executor.Execution) bool { return true }
	for after, pages := uint64(0), 0; pages < 3; pages++ {
		page, next := f.List("alice", all, after, 3)
		for _, x := range page {
			got = append(got, x.ID)
		}
		if after = next; next == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if page, _ := f.List("bob", all, 0, 10); len(page) != 0 {
		t.Error("bob sees executions of alice")
	}
}

func TestSomebodyElses(t *testing.T) {
	f := newFixture(t, executor.Config{})
	x := f.start(f.order(says("ok")))
	if _, err := f.Find("bob", x.ID); !errors.Is(err, executor.ErrNotFound) {
		t.Errorf("Find: %v, want ErrNotFound", err)
	}
	if _, err := f.FindCall("bob", "", x.Order.CallID); !errors.Is(err, executor.ErrNotFound) {
		t.Errorf("FindCall: %v, want ErrNotFound", err)
	}
	if found, err := f.FindCall("alice", "", x.Order.CallID); err != nil || found != x {
		t.Errorf("FindCall of the owner: %v", err)
	}
}

// BenchmarkOutput measures output on its way through the log to one reader.
func BenchmarkOutput(b *testing.B) {
	e := executor.New(executor.Config{Logger: zap.NewNop()})
	store := session.NewStore(session.Config{WorkspaceRoot: b.TempDir()})
	s, err := store.Get("alice", "")
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, executor.MaxChunk)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	x, err := e.Start(b.Context(), executor.Order{Owner: "alice", Session: s, Call: callFunc(
		func(_ context.Context, out tools.Sink) (tools.Result, error) {
			for b.Loop() {
				out.Emit(tools.Output{Stream: tools.Stdout, Data: data})
			}
			return tools.Result{}, nil
		})})
	if err != nil {
		b.Fatal(err)
	}
	for event, err := range x.Events(b.Context(), 0) {
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
