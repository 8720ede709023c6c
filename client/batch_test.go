// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/client"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

func add(t *testing.T, batch *client.Batch, id, tool, input string) {
	t.Helper()
	if _, err := batch.Call(client.Call{ID: id, Tool: tool, Input: input}); err != nil {
		t.Fatal(err)
	}
}

func addErr(batch *client.Batch, id string) error {
	_, err := batch.Call(client.Call{ID: id, Tool: "list_dir"})
	return err
}

func wantResults(t *testing.T, results []client.BatchResult, want string) {
	t.Helper()
	var lines []string
	for _, result := range results {
		lines = append(lines, fmt.Sprint(result.CallID, " ", result.Finished.GetOutcome(), " ", status.Code(result.Err)))
	}
	if got := strings.Join(lines, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// record is what happened in a batch.
type record struct {
	t         *testing.T
	number    uint64
	sequences map[string]uint64
	results   map[string]*pb.Finished
	summary   *pb.BatchFinished
}

// follow reads the events of a batch to the end, and holds that each comes once and in
// order. It passes each to happened first.
func follow(t *testing.T, batch *client.Batch, happened func(id string, event *pb.Event)) *record {
	t.Helper()
	r := &record{t: t, sequences: make(map[string]uint64), results: make(map[string]*pb.Finished)}
	for event, err := range batch.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if r.summary != nil || event.GetSequence() != r.number+1 {
			t.Errorf("event %v after %d", event, r.number)
		}
		r.number, r.summary = event.GetSequence(), event.GetFinished()
		call := event.GetCall()
		if call == nil || call.GetEvent().GetHeartbeat() != nil {
			continue
		}
		id := call.GetCallId()
		if r.results[id] != nil || call.GetEvent().GetSequence() != r.sequences[id]+1 {
			t.Errorf("%s: event %v after %d", id, call.GetEvent(), r.sequences[id])
		}
		r.sequences[id] = call.GetEvent().GetSequence()
		if finished := call.GetEvent().GetFinished(); finished != nil {
			r.results[id] = finished
		}
		if happened != nil {
			happened(id, call.GetEvent())
		}
	}
	return r
}

func (r *record) want(id string, outcome pb.Outcome, text string) {
	r.t.Helper()
	if finished := r.results[id]; finished.GetOutcome() != outcome || !strings.Contains(client.Text(finished), text) {
		r.t.Errorf("%s ended with %v, want %v and %q", id, finished, outcome, text)
	}
}

// TestBatch tries batches against one server.
func TestBatch(t *testing.T) {
	server, wire := start(t)
	t.Run("results", func(t *testing.T) {
		batch := agent(t, server.Address, pb.Mode_MODE_ALLOW).Batch(t.Context(), nil)
		add(t, batch, "write", "write_file", `{"path": "a", "content": "one"}`)
		add(t, batch, "read", "read_file", `{"path": "a"}`)
		add(t, batch, "missing", "read_file", `{"path": "b"}`)
		add(t, batch, "malformed", "", `{}`)
		add(t, batch, "read", "read_file", `{"path": "c"}`)                   // twice
		add(t, batch, strings.Repeat("x", 257), "read_file", `{"path": "a"}`) // too long
		add(t, batch, "last", "read_file", `{"path": "a"}`)
		results, err := batch.Results()
		if err != nil {
			t.Fatal(err)
		}
		wantResults(t, results, "write OUTCOME_SUCCEEDED OK, read OUTCOME_SUCCEEDED OK, missing OUTCOME_FAILED OK, malformed OUTCOME_UNSPECIFIED InvalidArgument, "+
			"read OUTCOME_UNSPECIFIED AlreadyExists, "+strings.Repeat("x", 257)+" OUTCOME_UNSPECIFIED InvalidArgument, last OUTCOME_SUCCEEDED OK")
		if !strings.Contains(client.Text(results[1].Finished), "one") {
			t.Errorf("what came after the write read %v", results[1].Finished)
		}
		if _, err := batch.Call(client.Call{Tool: "list_dir"}); !errors.Is(err, client.ErrClosed) {
			t.Errorf("a call after the end: %v", err)
		}
		if err := batch.Interrupt("late"); !errors.Is(err, client.ErrDetached) {
			t.Errorf("an order after the end: %v", err)
		}
	})
	t.Run("steered", func(t *testing.T) {
		batch := agent(t, server.Address, pb.Mode_MODE_ALLOW).Batch(t.Context(), &pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL})
		add(t, batch, "nap", "bash", `{"command": "echo up; sleep 60"}`)
		add(t, batch, "next", "list_dir", `{}`)
		r := follow(t, batch, func(id string, event *pb.Event) {
			if event.GetOutput() != nil {
				if err := batch.Interrupt("The user spoke."); err != nil {
					t.Error(err)
				}
			}
			if id == "next" && event.GetFinished() != nil {
				if err := batch.Cancel(t.Context(), "nap", "enough"); err != nil {
					t.Error(err)
				}
				batch.Close()
			}
		})
		r.want("next", pb.Outcome_OUTCOME_SKIPPED, "The user spoke.")
		r.want("nap", pb.Outcome_OUTCOME_CANCELLED, "enough")
	})
	t.Run("steered while somebody waits for the results", func(t *testing.T) {
		c := agent(t, server.Address, pb.Mode_MODE_ALLOW)
		batch := c.Batch(t.Context(), &pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL})
		add(t, batch, "nap", "sleep", `{"duration_ms": 60000}`)
		add(t, batch, "next", "list_dir", `{}`)
		for event, err := range batch.Events() { // the server has it
			if err != nil {
				t.Fatal(err)
			}
			if event.GetStarted() != nil {
				break
			}
		}
		steered := make(chan error, 1)
		go func() {
			for event, err := range c.WatchBatch(t.Context(), batch.ID()).Events() {
				switch {
				case err != nil:
					steered <- err
					return
				case event.GetCall().GetEvent().GetProgress() != nil: // a while later
					steered <- errors.Join(batch.Interrupt("The user spoke."), addErr(batch, "added"), batch.Message("wake up"))
					return
				}
			}
		}()
		results, err := batch.Results()
		if err := errors.Join(err, <-steered); err != nil {
			t.Fatal(err)
		}
		wantResults(t, results, "nap OUTCOME_SUCCEEDED OK, next OUTCOME_SKIPPED OK, added OUTCOME_SUCCEEDED OK")
		if err := addErr(batch, "late"); !errors.Is(err, client.ErrClosed) {
			t.Errorf("a call after the results: %v", err)
		}
	})
	t.Run("steered once closed", func(t *testing.T) {
		batch := agent(t, server.Address, pb.Mode_MODE_ALLOW).Batch(t.Context(), nil)
		add(t, batch, "nap", "sleep", `{"duration_ms": 60000}`)
		batch.Close()
		r := follow(t, batch, func(id string, event *pb.Event) {
			if event.GetStarted() != nil {
				if err := batch.Message("wake up"); err != nil {
					t.Error(err)
				}
			}
		})
		r.want("nap", pb.Outcome_OUTCOME_SUCCEEDED, "")
	})
	t.Run("watched again", func(t *testing.T) {
		c := agent(t, server.Address, pb.Mode_MODE_ALLOW)
		ctx, leave := context.WithCancel(t.Context())
		batch := c.Batch(ctx, &pb.BatchStart{OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_DETACH})
		add(t, batch, "gate", "bash", `{"command": "`+gate+`"}`)
		add(t, batch, "twice", "list_dir", `{}`)
		add(t, batch, "twice", "list_dir", `{}`)
		refused := 0
		for event, err := range batch.Events() { // as a process that ends does
			if err != nil {
				t.Fatal(err)
			}
			if event.GetRefused() != nil || event.GetCall().GetEvent().GetOutput() != nil {
				if refused++; refused == 2 {
					break
				}
			}
		}
		leave()
		again := connect(t, wire.Address, client.Options{Token: "the-token-of-agent", Session: sessionOf(t, c)}).WatchBatch(t.Context(), batch.ID())
		if err := errors.Join(again.Interrupt(""), addErr(again, "more")); !errors.Is(err, client.ErrDetached) || !errors.Is(err, client.ErrClosed) {
			t.Errorf("a batch that is watched was steered: %v", err)
		}
		if _, err := client.Result(c.Execute(t.Context(), client.Call{Tool: "write_file", Input: `{"path": "go-on", "content": ""}`})); err != nil {
			t.Fatal(err)
		}
		wire.CutAfter(200)
		results, err := again.Results()
		if err != nil {
			t.Fatal(err)
		}
		wantResults(t, results, "gate OUTCOME_SUCCEEDED OK, twice OUTCOME_SUCCEEDED OK, twice OUTCOME_UNSPECIFIED AlreadyExists")
		if _, err := c.WatchBatch(t.Context(), "another").Results(); status.Code(err) != codes.NotFound {
			t.Errorf("a batch that is not there: %v", err)
		}
	})
	t.Run("cancelled once closed", func(t *testing.T) {
		batch := agent(t, server.Address, pb.Mode_MODE_ALLOW).Batch(t.Context(), nil)
		add(t, batch, "nap", "bash", `{"command": "sleep 60"}`)
		add(t, batch, "one", "write_file", `{"path": "one", "content": "x"}`)
		add(t, batch, "two", "write_file", `{"path": "two", "content": "x"}`)
		batch.Close()
		there := 0
		r := follow(t, batch, func(id string, event *pb.Event) {
			if event.GetStarted() != nil || id != "nap" && event.GetAccepted() != nil {
				if there++; there == 3 {
					if err := batch.Cancel(t.Context(), "", "enough"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for _, id := range []string{"nap", "one", "two"} {
			r.want(id, pb.Outcome_OUTCOME_CANCELLED, "enough")
		}
	})
	t.Run("cut", func(t *testing.T) { cutBatch(t, server, wire) })
	t.Run("refused", func(t *testing.T) {
		_, err := agent(t, server.Address, pb.Mode_MODE_ALLOW).In("nowhere").Batch(t.Context(), nil).Results()
		if status.Code(err) != codes.NotFound {
			t.Errorf("a session that is not there: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		batch := agent(t, server.Address, pb.Mode_MODE_ALLOW).Batch(ctx, nil)
		cancel()
		if _, err := batch.Results(); status.Code(err) != codes.Canceled {
			t.Errorf("a batch that was left: %v", err)
		}
	})
}

// cutBatch cuts the connection under a batch, which takes calls after that, too.
func cutBatch(t *testing.T, server *sdktest.Server, wire *sdktest.Wire) {
	direct := agent(t, server.Address, pb.Mode_MODE_ALLOW)
	c := connect(t, wire.Address, client.Options{Token: "the-token-of-agent", Session: sessionOf(t, direct)})
	batch := c.Batch(t.Context(), &pb.BatchStart{Strategy: pb.BatchStrategy_BATCH_STRATEGY_PARALLEL})
	add(t, batch, "gate", "bash", `{"command": "`+gate+`"}`)
	add(t, batch, "first", "bash", `{"command": "echo first >>ran"}`)
	once := false
	r := follow(t, batch, func(id string, event *pb.Event) {
		if id == "gate" && event.GetOutput() != nil && !once {
			once = true
			wire.Cut()
			add(t, batch, "second", "bash", `{"command": "echo second >>ran"}`)
			if _, err := client.Result(direct.Execute(t.Context(), client.Call{Tool: "write_file", Input: `{"path": "go-on", "content": ""}`})); err != nil {
				t.Error(err)
			}
			batch.Close()
		}
	})
	r.want("gate", pb.Outcome_OUTCOME_SUCCEEDED, "waiting\non")
	r.want("first", pb.Outcome_OUTCOME_SUCCEEDED, "")
	r.want("second", pb.Outcome_OUTCOME_SUCCEEDED, "")
	if len(r.summary.GetCalls()) < 3 {
		t.Errorf("the summary has %v", r.summary)
	}
	cuts := 0
	wire.CutAfter(0)
	for i := range 12 { // cut at any moment, each call runs once
		batch := c.Batch(t.Context(), nil)
		for _, name := range []string{"a", "b", "c"} {
			add(t, batch, fmt.Sprint(name, i), "bash", `{"command": "echo x >>ran"}`)
		}
		results, err := batch.Results()
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			if result.Finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				t.Errorf("batch %d: %v", i, result)
			}
		}
		if wire.CutAfter(150 * (i + 1)) {
			cuts++
		}
	}
	wire.Cut()
	if cuts < 6 {
		t.Errorf("%d batches were cut: the wire is cut too late", cuts)
	}
	finished, err := client.Result(direct.Execute(t.Context(), client.Call{Tool: "bash", Input: `{"command": "wc -l <ran"}`}))
	if err != nil || strings.TrimSpace(client.Text(finished)) != "38" {
		t.Errorf("38 calls ran %q times: %v", client.Text(finished), err)
	}
}

// TestBatchRestart kills the server under a batch: calls that it had are lost, and one
// that comes later runs on the server in its place.
func TestBatchRestart(t *testing.T) {
	server, _ := start(t)
	c := connect(t, server.Address, client.Options{Token: "the-token-of-agent"})
	batch := c.Batch(t.Context(), nil)
	add(t, batch, "done", "list_dir", `{}`)
	add(t, batch, "running", "bash", `{"command": "echo up; sleep 60"}`)
	add(t, batch, "waiting", "bash", `{"command": "echo waited"}`)
	r := follow(t, batch, func(id string, event *pb.Event) {
		if event.GetOutput() != nil {
			server.Kill()
			server.Restart()
		}
		if id == "running" && event.GetFinished() != nil {
			add(t, batch, "later", "list_dir", `{}`)
			batch.Close()
		}
	})
	r.want("done", pb.Outcome_OUTCOME_SUCCEEDED, "")
	r.want("running", pb.Outcome_OUTCOME_LOST, "may have run")
	r.want("waiting", pb.Outcome_OUTCOME_LOST, "may have run")
	r.want("later", pb.Outcome_OUTCOME_SUCCEEDED, "")
}

// TestBatchUnended has a server end a batch before its calls: each has an ending all the
// same, and none is sent for ever.
func TestBatchUnended(t *testing.T) {
	batch := connect(t, sdktest.FakeUnended(t), client.Options{}).Batch(t.Context(), nil)
	for _, id := range []string{"refused", "heard", "unheard"} {
		add(t, batch, id, "any", "")
	}
	results, err := batch.Results()
	if err != nil || len(results) != 3 {
		t.Fatal(results, err)
	}
	if status.Code(results[0].Err) != codes.InvalidArgument || results[0].CallID != "refused" {
		t.Errorf("refused under a cut id: %v", results[0])
	}
	for _, result := range results[1:] {
		if result.Finished.GetOutcome() != pb.Outcome_OUTCOME_LOST {
			t.Errorf("%v, want LOST", result)
		}
	}
}

// TestBatchUnsent cancels calls that no server has: they end, and are never sent.
func TestBatchUnsent(t *testing.T) {
	batch := connect(t, "127.0.0.1:1", client.Options{}).Batch(t.Context(), nil)
	add(t, batch, "a", "any", "")
	add(t, batch, "b", "any", "")
	if err := batch.Interrupt(""); !errors.Is(err, client.ErrDetached) || !strings.Contains(err.Error(), "not connected yet") {
		t.Errorf("an order before there is a stream: %v", err)
	}
	if err := batch.Cancel(t.Context(), "", "enough"); err != nil {
		t.Fatal(err)
	}
	results, err := batch.Results()
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, result := range results {
		if result.Finished.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || result.Finished.GetCancellation().GetReason() != "enough" {
			t.Errorf("%v, want CANCELLED", result)
		}
	}
	if err := batch.Interrupt(""); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("an order after Close: %v", err)
	}
}

// TestBatchTooLarge holds that an input which no message has room for ends its call alone.
func TestBatchTooLarge(t *testing.T) {
	server, _ := start(t)
	batch := agent(t, server.Address, pb.Mode_MODE_ALLOW).Batch(t.Context(), nil)
	add(t, batch, "a", "write_file", `{"path": "a", "content": "x"}`)
	add(t, batch, "b", "write_file", `{"path": "b", "content": "`+strings.Repeat("x", 5_000_000)+`"}`)
	add(t, batch, "c", "read_file", `{"path": "a"}`)
	results, err := batch.Results()
	if err != nil {
		t.Fatal(err)
	}
	wantResults(t, results, "a OUTCOME_SUCCEEDED OK, b OUTCOME_INVALID_INPUT OK, c OUTCOME_SUCCEEDED OK")
}

// TestManyCalls adds calls that nobody reads of: the client neither waits nor
// keeps anything back when it is closed. Read to the end, each call has its result.
func TestManyCalls(t *testing.T) {
	server, _ := start(t)
	for _, read := range []bool{false, true} {
		c := connect(t, server.Address, client.Options{Token: "the-token-of-agent"})
		batch := c.Batch(t.Context(), nil)
		for i := range 10_000 {
			add(t, batch, fmt.Sprint(read, i), "list_dir", "")
		}
		if !read {
			c.Close()
			for _, err := range batch.Events() {
				if err != nil && status.Code(err) != codes.Canceled {
					t.Error(err)
				}
			}
			continue
		}
		results, err := batch.Results()
		if err != nil || len(results) != 10_000 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		refused := 0
		for i, result := range results {
			if result.CallID != fmt.Sprint(read, i) || result.Err == nil && result.Finished == nil {
				t.Fatalf("result %d is %v", i, result)
			}
			if status.Code(result.Err) == codes.ResourceExhausted {
				refused++
			}
		}
		if refused != 9_000 { // max_batch_calls
			t.Errorf("%d calls were beyond what a batch has", refused)
		}
	}
}

// TestLeftHalfWay leaves a call and a batch after an event: their streams end, and no
// goroutine stays, which TestMain looks at.
func TestLeftHalfWay(t *testing.T) {
	c := connect(t, sdktest.FakeEndless(t), client.Options{})
	for event, err := range c.Execute(t.Context(), client.Call{Tool: "any"}) {
		if err != nil || event.GetSequence() != 1 {
			t.Fatal(event, err)
		}
		break
	}
	ctx, leave := context.WithCancel(t.Context())
	batch := c.Batch(ctx, nil)
	add(t, batch, "a", "any", "")
	number := uint64(0)
	for event, err := range batch.Events() {
		if number++; err != nil || event.GetSequence() != number {
			t.Fatal(event, err)
		}
		if event.GetSteeringPoint() != nil {
			break
		}
	}
	leave()
	if _, err := c.Tools.GetExecution(t.Context(), &pb.GetExecutionRequest{}); err != nil { // when both streams have ended
		t.Fatal(err)
	}
	for _, err := range batch.Events() {
		if status.Code(err) != codes.Canceled {
			t.Errorf("a batch that was left: %v", err)
		}
	}
}
