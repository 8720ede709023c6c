// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"encoding/json"
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
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// callFunc is a call that is a function.
type callFunc func(ctx context.Context, out tools.Sink) (tools.Result, error)

func (callFunc) Input() json.RawMessage  { return json.RawMessage("{}") }
func (callFunc) Effects() []tools.Effect { return nil }

func (f callFunc) Run(ctx context.Context, _ tools.Rights, out tools.Sink) (tools.Result, error) {
	return f(ctx, out)
}

// waits is a call that does nothing until it has to stop.
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
	t        *testing.T
	sessions *session.Store
	session  *session.Session
}

func newSessions(t *testing.T) *session.Store {
	store := session.NewStore(session.Config{
		WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly,
		Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAllow},
	})
	t.Cleanup(store.Close)
	return store
}

// testSteps takes part in some steps.
type testSteps struct {
	executor.NoSteps
	proposed func(*executor.Execution)
	starting func()
	rejudge  func(*executor.Execution) policy.Verdict
}

func (s testSteps) Proposed(x *executor.Execution) *executor.Refusal {
	if s.proposed != nil {
		s.proposed(x)
	}
	return nil
}

func (s testSteps) Starting(*executor.Execution) *executor.Refusal {
	if s.starting != nil {
		s.starting()
	}
	return nil
}

func (s testSteps) Rejudge(x *executor.Execution, call tools.Call) executor.Rejudged {
	if s.rejudge != nil {
		return executor.Rejudged{Verdict: s.rejudge(x)}
	}
	return s.NoSteps.Rejudge(x, call)
}

func newFixture(t *testing.T, config executor.Config) *fixture {
	t.Helper()
	config.Logger = zap.NewNop()
	if config.Sessions == nil {
		config.Sessions = newSessions(t)
	}
	s, err := config.Sessions.Get("alice", "")
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
	return &fixture{Executor: e, t: t, sessions: config.Sessions, session: s}
}

func (f *fixture) order(call callFunc) *executor.Job {
	return &executor.Job{Order: executor.Order{Session: f.session.Ref(), Tool: "test"}, Call: call}
}

func (f *fixture) start(order *executor.Job) *executor.Execution {
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
	for event, err := range x.Events(context.Background(), after, true) {
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

func TestTimeoutKeepsWhatWasProduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{})
		order := f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
			out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("so far")})
			result, err := waits(ctx, out)
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				t.Errorf("the tool is stopped by %v, want a deadline", cause)
			}
			return result, err
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
	f := newFixture(t, executor.Config{Limits: executor.Limits{DefaultTimeout: time.Minute, MaxTimeout: time.Hour}})
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
		f := newFixture(t, executor.Config{Limits: executor.Limits{StopGrace: 5 * time.Second}})
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
				f := newFixture(t, executor.Config{Limits: executor.Limits{DisconnectGrace: 30 * time.Second, DefaultTimeout: time.Minute}})
				order := f.order(func(ctx context.Context, out tools.Sink) (tools.Result, error) {
					out.Emit(tools.Output{Stream: tools.Stdout, Data: []byte("begun")})
					return waits(ctx, out)
				})
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
	for event, err := range x.Events(context.Background(), 0, true) {
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
		f := newFixture(t, executor.Config{Limits: executor.Limits{DisconnectGrace: 30 * time.Second, DefaultTimeout: time.Hour}})
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

// TestEndIsSeenWhole proves that an execution that counts as ended has its end.
func TestEndIsSeenWhole(t *testing.T) {
	f := newFixture(t, executor.Config{})
	var wg sync.WaitGroup
	for i := range 200 {
		order := f.order(says("ok"))
		order.CallID = fmt.Sprint("call-", i)
		for range 2 { // two clients with one call id
			wg.Go(func() {
				x := f.start(order)
				for x.Info().State != executor.Ended {
				}
				if info := x.Info(); info.LastSeq != 3 || info.Outcome != executor.Succeeded {
					t.Errorf("ended with %+v", info)
				}
				if got := kinds(read(t, x, 0)); got != "1:accepted 2:started 3:finished" {
					t.Error(got)
				}
			})
		}
	}
	wg.Wait()
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{Retention: time.Minute, MaxRetained: 3}})
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

func TestFullAndDraining(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{MaxRunning: 2}})
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
	for after, pages := "", 0; pages < 3; pages++ {
		page, next, err := f.List("alice", all, after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page {
			got = append(got, x.ID)
		}
		if after = next; next == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if page, _, _ := f.List("bob", all, "", 10); len(page) != 0 {
		t.Error("bob sees executions of alice")
	}
	other := newFixture(t, executor.Config{})
	for _, after := range []string{"0", "3", "../x", strings.Repeat("a", 26), other.start(other.order(says("ok"))).ID} {
		if _, _, err := f.List("alice", all, after, 3); !errors.Is(err, executor.ErrNotFound) {
			t.Errorf("after %q: %v", after, err)
		}
	}
}

// TestIDs: ids are told apart from those of others and from other spellings, and do not
// tell how many there are.
func TestIDs(t *testing.T) {
	f, other := newFixture(t, executor.Config{}), newFixture(t, executor.Config{})
	seen := make(map[string]bool)
	for range 100 {
		x := f.start(f.order(says("ok")))
		if len(x.ID) != 26 || strings.Trim(x.ID, "abcdefghijklmnopqrstuvwxyz234567") != "" || seen[x.ID] || seen[x.ID[:8]] {
			t.Errorf("id %q", x.ID)
		}
		seen[x.ID], seen[x.ID[:8]] = true, true
		if found, err := f.Find("alice", x.ID); err != nil || found != x {
			t.Errorf("%q is not found: %v", x.ID, err)
		}
		for _, id := range []string{strings.ToUpper(x.ID), x.ID + "a", x.ID[:25], x.ID[1:] + x.ID[:1], x.ID[:25] + "\n", "", " " + x.ID} {
			if _, err := f.Find("alice", id); !errors.Is(err, executor.ErrNotFound) {
				t.Errorf("%q is found by %q", x.ID, id)
			}
		}
		if _, err := other.Find("alice", x.ID); !errors.Is(err, executor.ErrNotFound) {
			t.Errorf("%q is found elsewhere: %v", x.ID, err)
		}
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

// TestCancelledWhileRegistered: a call that is cancelled before its tool begins does
// not run.
func TestCancelledWhileRegistered(t *testing.T) {
	f := newFixture(t, executor.Config{Steps: testSteps{proposed: func(x *executor.Execution) { // it is known by now
		x.Cancel("changed my mind", "alice")
	}}})
	x := f.start(f.order(func(context.Context, tools.Sink) (tools.Result, error) {
		t.Error("it ran")
		return tools.Result{}, nil
	}))
	if end := finished(t, x); end.Outcome != executor.Cancelled || end.Cancelled.Reason != "changed my mind" {
		t.Errorf("it ended with %+v", end)
	}
	if got := kinds(read(t, x, 0)); got != "1:accepted 2:finished" {
		t.Error(got)
	}
}

// TestWatchTellsTheLastEnds: who is busy while a server stops is told how the last calls ended.
func TestWatchTellsTheLastEnds(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, executor.Config{})
			x := f.start(f.order(waits))
			var states []executor.State
			for seen, info := range f.Watch(t.Context(), "alice", func(*executor.Execution) bool { return true }) {
				if seen == nil {
					continue
				}
				if states = append(states, info.State); info.State != executor.Ended {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					f.Drain(ctx, "going down")
				}
			}
			if len(states) != 2 || states[1] != executor.Ended {
				t.Errorf("%s went through %v", x.ID, states)
			}
		})
	}
}
