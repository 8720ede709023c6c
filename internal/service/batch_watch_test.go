// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestBatchReaderThatStops: a client that sends and never reads is held up, and no other.
func TestBatchReaderThatStops(t *testing.T) {
	s := serve(t, func(c *service.Config) {
		c.Executor.ReaderPatience, c.Executor.MaxBatchCalls = 10*time.Millisecond, 100
	})
	b := s.dial("").batch(&pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_PARALLEL})
	sent := make(chan int)
	go func() {
		n := 0
		for b.stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: asJSON("flood", `{"bytes":200000}`)}}) == nil {
			n++
		}
		sent <- n
	}()
	other := s.dial("")
	for range 20 {
		if got := other.run(asJSON("count", `{}`)); got.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatal(got)
		}
	}
	b.cancel()
	<-sent
	// What it began ends, and its log is bounded.
	waitFor(t, func() bool {
		return strings.Contains(metricsText(t, s.metrics), "\ntoolserver_running 0\n")
	})
}

// TestWatchBatch: after a lost stream the batch is read on from every number, and as a
// whole, with the same events.
func TestWatchBatch(t *testing.T) {
	s := serve(t, withTokens)
	c := s.dial("alice-alice-alice")
	b := c.batch(&pb.BatchStart{BatchId: proto.String("watched"), OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_DETACH})
	b.call("sleeps", "sleep", `{"duration_ms":600000}`)
	b.call("floods", "flood", `{"bytes":100000}`)
	b.call("no", "count", `{"bad":1}`)
	b.call("long"+strings.Repeat("x", 300), "count", `{}`)
	b.until(func(e *pb.BatchEvent) bool { return e.GetRefused() != nil })
	b.cancel() // the stream is lost

	watch := func(after uint64) *batch {
		stream, err := c.WatchBatch(timeout(t), &pb.WatchBatchRequest{BatchId: "watched", AfterSequence: after})
		if err != nil {
			t.Fatal(err)
		}
		w := &batch{t: t}
		for {
			response, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				checkBatch(t, w.events, after)
				return w
			}
			if err != nil {
				t.Fatal(err)
			}
			w.events = append(w.events, response.GetEvent())
			if response.GetEvent().GetCall().GetCallId() == "sleeps" && response.GetEvent().GetCall().GetEvent().GetStarted() != nil {
				// All that follows is for who watches.
				if _, err := c.Cancel(timeout(t), &pb.CancelRequest{CallId: "sleeps"}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	whole := watch(0)
	for i, event := range b.events {
		if !proto.Equal(event, whole.events[i]) {
			t.Errorf("event %d was\n%v, and is\n%v", i+1, event, whole.events[i])
		}
	}
	if got := whole.results()["sleeps"].GetOutcome(); got != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("sleeps ended with %v", got)
	}
	for after := range len(whole.events) {
		again := watch(uint64(after))
		for i, event := range again.events {
			if !proto.Equal(event, whole.events[after+i]) {
				t.Fatalf("after %d, event %d is\n%v, want\n%v", after, i, event, whole.events[after+i])
			}
		}
	}

	status := func(c *client, request *pb.WatchBatchRequest) error {
		stream, err := c.WatchBatch(timeout(t), request)
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	wantCode(t, status(c, &pb.WatchBatchRequest{BatchId: "watched", AfterSequence: 1000}), codes.OutOfRange, "1000")
	wantCode(t, status(c, &pb.WatchBatchRequest{BatchId: "other"}), codes.NotFound, "other")
	wantCode(t, status(c, &pb.WatchBatchRequest{}), codes.InvalidArgument, "batch_id")
	wantCode(t, status(s.dial("bob-bob-bob-bob-bob"), &pb.WatchBatchRequest{BatchId: "watched"}), codes.NotFound)
}

// TestBatchDisconnect: what becomes of the calls when nobody follows the batch.
func TestBatchDisconnect(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	for _, test := range []struct {
		on   pb.OnDisconnect
		want pb.Outcome
	}{
		{pb.OnDisconnect_ON_DISCONNECT_CANCEL, pb.Outcome_OUTCOME_CANCELLED},
		{pb.OnDisconnect_ON_DISCONNECT_DETACH, pb.Outcome_OUTCOME_SUCCEEDED},
		{pb.OnDisconnect_ON_DISCONNECT_GRACE, pb.Outcome_OUTCOME_SUCCEEDED},
	} {
		id := test.on.String()
		b := c.batch(&pb.BatchStart{BatchId: &id, OnDisconnect: test.on, Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL})
		b.call(id+"-1", "listens", `{}`)
		b.until(isStarted(id + "-1"))
		b.call(id+"-2", "count", `{}`)
		b.until(func(e *pb.BatchEvent) bool {
			return e.GetCall().GetCallId() == id+"-2" && e.GetCall().GetEvent().GetAccepted() != nil
		})
		b.cancel()
		if test.want == pb.Outcome_OUTCOME_SUCCEEDED {
			waitFor(t, func() bool {
				_, err := c.WriteInput(timeout(t), &pb.WriteInputRequest{CallId: id + "-1", Input: &pb.WriteInputRequest_End{End: &pb.EndOfInput{}}})
				return err == nil
			})
		} else { // a stream that came before the end of the other would keep the calls alive
			waitFor(t, func() bool {
				got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: id + "-1"})
				return err == nil && got.GetExecution().GetFinished() != nil
			})
		}
		stream, err := c.WatchBatch(timeout(t), &pb.WatchBatchRequest{BatchId: id})
		if err != nil {
			t.Fatal(err)
		}
		var last *pb.BatchEvent
		for {
			response, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			last = response.GetEvent()
		}
		calls := last.GetFinished().GetCalls()
		if len(calls) != 2 || calls[0].GetOutcome() != test.want || calls[1].GetOutcome() != test.want {
			t.Errorf("%v: %v", test.on, calls)
		}
	}
}

// TestBatchAgain: calls that ran before are followed, not run again, whoever brought them.
func TestBatchAgain(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	before := runs.Load()
	for i := range 3 {
		b := c.batch(&pb.BatchStart{})
		b.call("one", "count", `{}`)
		b.call("two", "count", `{}`)
		b.call("two", "count", `{}`)
		b.end()
		if len(b.results()) != 2 || len(b.refused()) != 1 {
			t.Errorf("round %d: %v", i, b.events)
		}
	}
	b := c.batch(&pb.BatchStart{})
	b.call("one", "flood", `{"bytes":1}`)
	b.end()
	if got := codes.Code(b.refused()["one"].GetCode()); got != codes.AlreadyExists {
		t.Errorf("the id of another call: %v", got)
	}
	if n := runs.Load() - before; n != 2 {
		t.Errorf("%d runs", n)
	}
}

// TestBatchAnswer: the results of a batch have no more text together than it asks for.
func TestBatchAnswer(t *testing.T) {
	s := serve(t)
	s.write("large.txt", strings.Repeat("some line of text\n", 200))
	b := s.dial("").batch(&pb.BatchStart{Answer: &pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: 9000}}})
	for range 10 {
		b.call("", "read_file", `{"path":"large.txt"}`)
	}
	b.end()
	total, cut := 0, 0
	for _, finished := range b.results() {
		total += len(text(finished))
		if finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("%v", finished)
		}
		if finished.GetTruncation() != nil {
			cut++
		}
	}
	if total > 9000 || total < 7000 || cut == 0 {
		t.Errorf("%d characters in all, %d cut", total, cut)
	}
}

// TestBatchAndShutdown: an open batch does not hold up the server, and has its end.
func TestBatchAndShutdown(t *testing.T) {
	s := serve(t)
	b := s.dial("").batch(&pb.BatchStart{})
	b.call("sleeps", "sleep", `{"duration_ms":600000}`)
	b.until(isStarted("sleeps"))
	idle := s.dial("").batch(&pb.BatchStart{})
	idle.next()
	s.shutdown()
	for _, b := range []*batch{b, idle} {
		b.until(func(e *pb.BatchEvent) bool { return e.GetFinished() != nil })
		checkBatch(t, b.events, 0)
	}
}

// TestBatchIsForgotten: a batch is kept as long as an execution.
func TestBatchIsForgotten(t *testing.T) {
	s := serve(t, func(c *service.Config) {
		c.Executor = executor.Config{Limits: executor.Limits{Retention: time.Millisecond}}
	})
	c := s.dial("")
	b := c.batch(&pb.BatchStart{BatchId: proto.String("short")})
	b.call("", "count", `{}`)
	b.end()
	waitFor(t, func() bool {
		stream, err := c.WatchBatch(timeout(t), &pb.WatchBatchRequest{BatchId: "short"})
		if err == nil {
			_, err = stream.Recv()
		}
		return err != nil
	})
	again := c.batch(&pb.BatchStart{BatchId: proto.String("short")})
	again.end()
}
