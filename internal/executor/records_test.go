// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestLargeResults: large ends that wait together to be stored are stored all.
func TestLargeResults(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	open := func(run uint64) *executor.Records {
		records, err := executor.OpenRecords(t.Context(), executor.RecordsConfig{
			Engine: engine, Run: run, Key: [16]byte{1}, Retention: time.Hour, HistoryBytes: 64 << 20, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	records := open(1)
	f := newFixture(t, executor.Config{Records: records})
	sizes := []int{200 << 10, 900 << 10, 200 << 10, 900 << 10, 200 << 10, 900 << 10}
	begin := make(chan struct{})
	job := func(i int) *executor.Job {
		job := f.named(fmt.Sprint("call-", i), byte(i+1), func(context.Context, tools.Sink) (tools.Result, error) {
			<-begin
			return tools.TextResult(strings.Repeat("x", sizes[i])), nil
		})
		job.ConcurrencySafe = true
		return job
	}
	var all []*executor.Execution
	for i := range sizes {
		all = append(all, f.start(job(i)))
	}
	close(begin)
	for _, x := range all {
		finished(t, x)
	}
	f.Drain(t.Context(), "end of a run") // what ended is queued then
	records.Close()
	if n := records.Stats().Dropped; n != 0 {
		t.Errorf("%d were left out", n)
	}

	records = open(2)
	defer records.Close()
	next := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: f.sessions, Records: records})
	defer next.Close()
	for i, x := range all {
		found, err := next.Find("alice", x.ID)
		if err != nil {
			t.Fatal(err)
		}
		if end := finished(t, found); end.Outcome != executor.Succeeded || len(fmt.Sprint(end.Result.Content[0])) != sizes[i] {
			t.Errorf("call %d: %v %+v", i, end.Outcome, end.Failure)
		}
	}
}

// TestRecordOfALaterVersion: what a later version recorded is told to be that, and is not
// said to be nothing.
func TestRecordOfALaterVersion(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	config := executor.RecordsConfig{Engine: engine, Run: 1, Key: [16]byte{1}, Retention: time.Hour, HistoryBytes: 1 << 20, Logger: zap.NewNop()}
	first, err := executor.OpenRecords(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, executor.Config{Records: first})
	x := f.start(f.named("call", 1, func(context.Context, tools.Sink) (tools.Result, error) { return tools.TextResult("done"), nil }))
	finished(t, x)
	first.Close()

	// The later version had the claim alone: the history is another engine's.
	claims, err := engine.KV(t.Context(), state.Space{Name: "calls", MaxBytes: 512 << 20})
	if err != nil {
		t.Fatal(err)
	}
	later, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	moved, err := later.KV(t.Context(), state.Space{Name: "calls", MaxBytes: 512 << 20})
	if err != nil {
		t.Fatal(err)
	}
	watching, done := context.WithCancel(t.Context())
	claims.Watch(watching, "", func(e state.Entry) {
		if e.Key == "" {
			done()
		} else if _, err := moved.Put(t.Context(), e.Key, bytes.Replace(e.Value, []byte(`{"v":1,`), []byte(`{"v":2,`), 1), 0); err != nil {
			t.Error(err)
		}
	})
	config.Engine, config.Run = later, 2
	second, err := executor.OpenRecords(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	next := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: f.sessions, Records: second})
	defer next.Close()
	found, err := next.Find("alice", x.ID)
	if err != nil {
		t.Fatal(err)
	}
	if end := finished(t, found); end.Outcome != executor.Lost || !strings.Contains(end.Failure.Message, "a later version") {
		t.Errorf("%v: %+v", end.Outcome, end.Failure)
	}
}

// TestClaims: of many that make the same call at the same time, one runs it; after a
// restart nobody does, and what ended is told as it was.
func TestClaims(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	open := func(run uint64) *executor.Records {
		records, err := executor.OpenRecords(t.Context(), executor.RecordsConfig{
			Engine: engine, Run: run, Key: [16]byte{1}, Retention: 3600e9, HistoryBytes: 1 << 20, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	var runs [8]atomic.Int32
	call := func(f *fixture, i int, safe bool) *executor.Job {
		job := f.named(fmt.Sprint("call-", i), byte(i+1), func(context.Context, tools.Sink) (tools.Result, error) {
			runs[i].Add(1)
			return tools.TextResult(fmt.Sprint("result ", i)), nil
		})
		job.ConcurrencySafe = safe
		return job
	}
	records := open(1)
	f := newFixture(t, executor.Config{Records: records})
	var mu sync.Mutex
	ids := make(map[string]string)
	var all sync.WaitGroup
	for range 8 {
		for i := range runs {
			all.Go(func() {
				x, err := f.Start(t.Context(), call(f, i, i%2 == 0))
				if err != nil {
					t.Error(err)
					return
				}
				finished(t, x)
				mu.Lock()
				defer mu.Unlock()
				ids[x.Order.CallID] = x.ID
			})
		}
	}
	all.Wait()
	if err := records.Close(); err != nil { // flushes what only reads
		t.Fatal(err)
	}
	if stats := records.Stats(); stats.Queued != 0 || stats.Dropped != 0 {
		t.Errorf("%+v", stats)
	}

	records = open(2)
	defer records.Close()
	next := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: f.sessions, Records: records})
	defer next.Close()
	for i := range runs {
		x, err := next.Start(t.Context(), call(f, i, i%2 == 0))
		if err != nil {
			t.Fatal(err)
		}
		end := finished(t, x)
		if x.ID != ids[x.Order.CallID] || end.Outcome != executor.Succeeded || fmt.Sprint(end.Result.Content[0]) != fmt.Sprint("result ", i) {
			t.Errorf("call %d is %s and ended with %+v", i, x.ID, end)
		}
		if found, err := next.Find("alice", x.ID); err != nil || found.ID != x.ID {
			t.Errorf("by its id: %v", err)
		}
		if _, err := next.Find("bob", x.ID); !errors.Is(err, executor.ErrNotFound) {
			t.Errorf("somebody else finds it: %v", err)
		}
		other := call(f, i, true)
		other.Digest[5] = 9
		if _, err := next.Start(t.Context(), other); !errors.Is(err, executor.ErrConflict) {
			t.Errorf("another call under the id: %v", err)
		}
		if n := runs[i].Load(); n != 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
}

// TestTenantsKeepTheirOwn: a tenant that makes many calls pushes out its own results, and not
// those of another.
func TestTenantsKeepTheirOwn(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	open := func(run uint64) *executor.Records {
		records, err := executor.OpenRecords(t.Context(), executor.RecordsConfig{
			Engine: engine, Run: run, Key: [16]byte{1}, Retention: time.Hour, HistoryBytes: 1 << 20, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	records := open(1)
	f := newFixture(t, executor.Config{Records: records})
	call := func(owner auth.Owner, id string, size int) *executor.Execution {
		s, err := f.sessions.Get(owner, "")
		if err != nil {
			t.Fatal(err)
		}
		job := f.named(id, 1, func(context.Context, tools.Sink) (tools.Result, error) {
			return tools.TextResult(strings.Repeat("x", size)), nil
		})
		job.Session = s.Ref()
		x := f.start(job)
		finished(t, x)
		return x
	}
	small := auth.NewOwner("small", "agent")
	first := call(small, "first", 10)
	for i := range 8 {
		call(auth.NewOwner("loud", "agent"), fmt.Sprint("loud-", i), 500<<10)
		call("alice", fmt.Sprint("alice-", i), 500<<10)
	}
	records.Close()
	records = open(2)
	defer records.Close()
	next := executor.New(executor.Config{Logger: zap.NewNop(), Sessions: f.sessions, Records: records})
	defer next.Close()
	found, err := next.Find(small, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if end := finished(t, found); end.Outcome != executor.Succeeded {
		t.Errorf("another tenant pushed it out: %+v", end.Failure)
	}
	page, _, err := next.List(auth.NewOwner("loud", "agent"), func(*executor.Execution) bool { return true }, "", 100)
	if err != nil || len(page) != 8 {
		t.Errorf("%d of its executions are listed, %v", len(page), err)
	}
}

// TestWatchReadsNothing: who watches is told of executions of this run alone, and nothing that is
// stored is read for it.
func TestWatchReadsNothing(t *testing.T) {
	engine, err := state.Open(t.Context(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	config := executor.RecordsConfig{Engine: engine, Run: 1, Key: [16]byte{1}, Retention: time.Hour, HistoryBytes: 1 << 20, Logger: zap.NewNop()}
	records, err := executor.OpenRecords(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, executor.Config{Records: records})
	finished(t, f.start(f.order(says("before"))))
	records.Close()

	config.Run = 2
	if records, err = executor.OpenRecords(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	next := newFixture(t, executor.Config{Records: records, Sessions: f.sessions})
	all := func(*executor.Execution) bool { return true }
	if page, _, err := next.List("alice", all, "", 10); len(page) != 1 || err != nil {
		t.Fatalf("%d executions are stored: %v", len(page), err)
	}
	x := next.start(next.order(waits))
	asked := func(one *executor.Execution) bool {
		if one.ID != x.ID {
			t.Errorf("%s was looked at, which is of another run", one.ID)
		}
		return true
	}
	for one := range next.Watch(t.Context(), "alice", asked) {
		if one == nil {
			break
		}
	}
}
