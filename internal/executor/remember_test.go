// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
)

func (f *fixture) named(id string, digest byte, call callFunc) *executor.Job {
	order := f.order(call)
	order.CallID, order.Digest = id, [32]byte{digest, 1}
	return order
}

// TestCallIDOutlivesItsResult: a call id is known as long as its session, and what
// it stood for is not run again.
func TestCallIDOutlivesItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{Retention: time.Minute}})
		order := f.named("a", 1, says("hello"))
		order.AsSent = 77
		first := f.start(order)
		finished(t, first)
		denied := f.named("b", 2, nil)
		denied.Refusal = executor.Refuse(executor.Denied, "denied", "")
		finished(t, f.start(denied))
		end := first.Info().Ended
		time.Sleep(24 * time.Hour)

		if _, err := f.Find("alice", first.ID); !errors.Is(err, executor.ErrNotFound) {
			t.Errorf("by its execution id: %v", err)
		}
		again := f.named("a", 1, func(context.Context, tools.Sink) (tools.Result, error) {
			t.Error("it ran again")
			return tools.Result{}, nil
		})
		x := f.start(again)
		if x.ID != first.ID || x.Order.Tool != "test" {
			t.Errorf("execution %s of %s, want %s", x.ID, x.Order.Tool, first.ID)
		}
		if got := kinds(read(t, x, 0)); got != "2:skipped 3:finished" {
			t.Errorf("its events: %s", got)
		}
		if got := kinds(read(t, x, 2)); got != "3:finished" {
			t.Errorf("its events after 2: %s", got)
		}
		lost := finished(t, x)
		if lost.Outcome != executor.Lost || lost.Failure.Code != "result_lost" || lost.LostResult == nil ||
			lost.LostResult.Outcome != executor.Succeeded || !lost.LostResult.Ended.Equal(end.Truncate(time.Second)) ||
			!strings.Contains(lost.Failure.Message, "not run again") || !strings.Contains(lost.LostResult.Reason, "1m0s") {
			t.Errorf("it ended with %+v, %+v", lost, lost.LostResult)
		}
		if info := x.Info(); info.State != executor.Ended || info.Outcome != executor.Succeeded || info.LastSeq != 3 {
			t.Errorf("%+v", info)
		}
		x.Cancel("late", "alice")

		// The same text is enough, and whoever has the id finds it.
		sent := &executor.Job{Order: executor.Order{Session: f.session.Ref(), CallID: "a"}, AsSent: 77}
		if !f.KnownAsSent(sent) {
			t.Error("the same text is not known")
		}
		if found, err := f.FindCall("alice", "", "b"); err != nil || found.Info().Outcome != executor.Denied {
			t.Errorf("%v, %v", found, err)
		}
		if _, err := f.Start(t.Context(), f.named("a", 9, says("other"))); !errors.Is(err, executor.ErrConflict) {
			t.Errorf("another call with its id: %v", err)
		}
		if _, err := f.FindCall("bob", "", "a"); !errors.Is(err, executor.ErrNotFound) {
			t.Errorf("somebody else: %v", err)
		}
	})
}

// TestCallIDsEndWithTheirSession: a later session with the same id knows nothing.
func TestCallIDsEndWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{Retention: time.Minute}})
		store := f.sessions
		ran := 0
		call := func() {
			t.Helper()
			order := f.named("a", 1, func(context.Context, tools.Sink) (tools.Result, error) { ran++; return tools.Result{}, nil })
			s, err := store.Get("alice", "work")
			if err != nil {
				t.Fatal(err)
			}
			order.Session = s.Ref()
			finished(t, f.start(order))
			time.Sleep(time.Hour)
		}
		for want := 1; want <= 2; want++ {
			if _, err := store.Create("alice", session.Request{ID: "work"}); err != nil {
				t.Fatal(err)
			}
			call()
			call()
			if ran != want {
				t.Fatalf("it ran %d times, want %d", ran, want)
			}
			if _, err := store.Remove("alice", "work"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTooManyCallIDs: the oldest are forgotten, and their number is known.
func TestTooManyCallIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{MaxRetained: 1, MaxRemembered: 40}})
		for i := range 101 {
			finished(t, f.start(f.named(fmt.Sprint(i), 1, says("x"))))
			synctest.Wait() // it is kept a moment after its end
		}
		known := 0
		for i := range 101 {
			if _, err := f.FindCall("alice", "", fmt.Sprint(i)); err == nil {
				known++
			} else if known > 0 {
				t.Fatalf("call %d is forgotten, and an older one is known", i)
			}
		}
		if forgotten := f.ForgottenCalls(f.session.Ref()); known < 31 || known > 41 || forgotten != uint64(101-known) {
			t.Errorf("%d are known and %d forgotten", known, forgotten)
		}
	})
}

// TestTooManyCallIDsOfAll: the session that has most gives.
func TestTooManyCallIDsOfAll(t *testing.T) {
	f := newFixture(t, executor.Config{Limits: executor.Limits{MaxRetained: 1, MaxRemembered: 1000, MaxRememberedAll: 50}})
	other, err := f.sessions.Get("bob", "")
	if err != nil {
		t.Fatal(err)
	}
	order := f.named("his", 1, says("x"))
	order.Session = other.Ref()
	finished(t, f.start(order))
	for i := range 200 {
		finished(t, f.start(f.named(fmt.Sprint(i), 1, says("x"))))
	}
	if _, err := f.FindCall("bob", "", "his"); err != nil {
		t.Error(err)
	}
	if n := f.ForgottenCalls(f.session.Ref()); n < 149 || n > 165 {
		t.Errorf("%d are forgotten", n)
	}
}

// TestRememberedCallIsSmall measures what one costs.
func TestRememberedCallIsSmall(t *testing.T) {
	const n = 10_000
	store := session.NewStore(session.Config{WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly, Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAllow}})
	defer store.Close()
	s, err := store.Get("alice", "")
	if err != nil {
		t.Fatal(err)
	}
	e := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: store, Limits: executor.Limits{MaxRetained: 1}})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	for i := range n {
		order := &executor.Job{
			Order: executor.Order{Session: s.Ref(), Tool: "test", CallID: fmt.Sprintf("%0200d", i), Digest: [32]byte{1}}, Call: says("hello"),
		}
		x, err := e.Start(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		<-x.Done()
	}
	if each := (heap() - before) / n; each > 200 {
		t.Errorf("%d bytes for each call id", each)
	} else {
		t.Logf("%d bytes for each call id", each)
	}
	e.Drain(t.Context(), "end of test")
	e.Close()
}

// TestLateEndOfAnEarlierSession: a call of a session that was closed ends late, and
// takes nothing from what is known of a later session with the same id.
func TestLateEndOfAnEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, executor.Config{Limits: executor.Limits{Retention: time.Minute}})
		open := func() {
			t.Helper()
			var err error
			if f.session, err = f.sessions.Create("alice", session.Request{ID: "work"}); err != nil {
				t.Fatal(err)
			}
		}
		open()
		release := make(chan struct{})
		late := f.start(f.named("late", 1, func(context.Context, tools.Sink) (tools.Result, error) {
			<-release
			return tools.Result{}, nil
		}))
		f.session.Enter() // somebody else uses it still, such as a download
		defer f.session.Leave()
		if _, err := f.sessions.Remove("alice", "work"); err != nil {
			t.Fatal(err)
		}
		open()
		first := f.start(f.named("a", 2, says("hello")))
		finished(t, first)
		time.Sleep(2 * time.Minute) // it is no longer kept
		close(release)
		finished(t, late)
		time.Sleep(2 * time.Minute)
		if x := f.start(f.named("a", 2, says("hello"))); x.ID != first.ID {
			t.Error("it ran again")
		}
	})
}
