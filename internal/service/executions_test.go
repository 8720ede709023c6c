// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestACall(t *testing.T) {
	s := serve(t)
	s.write("hello.txt", "one\ntwo\n")
	c := s.dial("")
	events, err := c.call(&pb.ExecuteToolRequest{
		Tool: "Read", CallId: proto.String("toolu_1"), Purpose: "to see",
		Input: mustStruct(t, map[string]any{"path": "hello.txt"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	checkNumbers(t, events, 0)
	accepted := events[0].GetAccepted()
	if accepted.GetTool() != "read_file" || accepted.GetCallId() != "toolu_1" || accepted.GetSessionId() != "default" ||
		accepted.GetVerdict().GetAction() != pb.Action_ACTION_ALLOW || accepted.GetVerdict().GetRule() == "" {
		t.Errorf("accepted %v", accepted)
	}
	if events[1].GetStarted() == nil {
		t.Errorf("second event %v, want started", events[1])
	}
	if got := text(events[2].GetFinished()); got != "1\tone\n2\ttwo\n" {
		t.Errorf("text %q", got)
	}

	got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: "toolu_1"})
	if err != nil {
		t.Fatal(err)
	}
	x := got.GetExecution()
	if x.GetExecutionId() != events[0].GetExecutionId() || x.GetState() != pb.ExecutionState_EXECUTION_STATE_FINISHED ||
		x.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || x.GetPurpose() != "to see" || x.GetLastSequence() != 3 ||
		!proto.Equal(x.GetFinished(), events[2].GetFinished()) {
		t.Errorf("execution %v", x)
	}
	list, err := c.ListExecutions(timeout(t), &pb.ListExecutionsRequest{Tool: "read_file"})
	if err != nil || len(list.GetExecutions()) != 1 || list.GetExecutions()[0].GetFinished() != nil {
		t.Errorf("list %v, %v", list, err)
	}
}

func TestProgressAndCancel(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	stream, first := c.begin(asJSON("sleep", `{"duration_ms":600000}`))
	id := first.GetExecutionId()
	for moved := false; !moved; {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		p := response.GetEvent().GetProgress()
		moved = p.GetTotal() == 600000 && p.GetUnit() == "ms"
	}
	for range 2 { // the second changes nothing
		response, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: id, Reason: "changed my mind"})
		if err != nil {
			t.Fatal(err)
		}
		end := response.GetExecution().GetFinished()
		if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || end.GetCancellation().GetReason() != "changed my mind" ||
			end.GetCancellation().GetBy() != "local" {
			t.Errorf("final state %v", end)
		}
	}
	events, err := rest(stream)
	if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("stream ended with %v, %v", events[len(events)-1], err)
	}
}

func TestCancelByCallID(t *testing.T) {
	c := serve(t).dial("")
	request := asJSON("sleep", `{"duration_ms":600000}`)
	request.CallId = proto.String("mine")
	stream, _ := c.begin(request)
	if _, err := c.Cancel(timeout(t), &pb.CancelRequest{SessionId: "default", CallId: "mine"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rest(stream); err != nil {
		t.Fatal(err)
	}
	// A cancelled call id is used up: the same call returns the same end.
	end := c.run(request)
	if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("re-used: %v, want cancelled", end.GetOutcome())
	}
}

func TestTimeout(t *testing.T) {
	c := serve(t).dial("")
	request := asJSON("sleep", `{"duration_ms":600000}`)
	request.Timeout = durationpb.New(50 * time.Millisecond)
	end := c.run(request)
	if end.GetOutcome() != pb.Outcome_OUTCOME_TIMED_OUT || !strings.Contains(text(end), "Waited") {
		t.Errorf("%v %q, want timed out with what was produced", end.GetOutcome(), text(end))
	}
}

// TestOneCallIDManyClients lets clients race on one call id: it runs once, and
// all see the same execution.
func TestOneCallIDManyClients(t *testing.T) {
	s := serve(t)
	before := runs.Load()
	var wg sync.WaitGroup
	ids := make([]string, 50)
	for i := range ids {
		c := s.dial("")
		wg.Go(func() {
			events, err := c.call(&pb.ExecuteToolRequest{Tool: "count", CallId: proto.String("race"), InputJson: []byte(`{}`)})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = events[0].GetExecutionId()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("executions %v, want one", ids)
		}
	}
	if n := runs.Load() - before; n != 1 {
		t.Errorf("ran %d times", n)
	}
	c := s.dial("")
	_, err := c.call(&pb.ExecuteToolRequest{Tool: "sleep", CallId: proto.String("race"), InputJson: []byte(`{}`)})
	wantCode(t, err, codes.AlreadyExists, "race", "count")
	_, err = c.call(&pb.ExecuteToolRequest{Tool: "count", CallId: proto.String("race"), InputJson: []byte(`{"x":1}`)})
	wantCode(t, err, codes.AlreadyExists, "race")
	created, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	end := c.run(&pb.ExecuteToolRequest{Tool: "count", CallId: proto.String("race"), SessionId: created.GetSession().GetSessionId()})
	if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || runs.Load()-before != 2 {
		t.Error("another session has call ids of its own")
	}
}

// TestReconnects breaks the stream of a flood of events a thousand times at
// random places and continues after the last number seen: all events arrive,
// each once.
func TestReconnects(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.MaxLogBytes = 96 << 20 })
	c := s.dial("")
	const size = 50 << 20 // in pieces of 32 KiB, of which one or two come before a break
	_, first := c.begin(asJSON("flood", fmt.Sprintf(`{"bytes":%d}`, size)))
	id := first.GetExecutionId()
	var seen uint64
	var got int
	breaks := 0
	for ended := false; !ended; {
		ctx, cancel := context.WithCancel(timeout(t))
		stream, err := c.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: id, AfterSequence: seen})
		if err != nil {
			t.Fatal(err)
		}
		for n := 1 + rand.IntN(2); n > 0 && !ended; n-- {
			response, err := stream.Recv()
			if err != nil {
				t.Fatalf("after %d: %v", seen, err)
			}
			event := response.GetEvent()
			if event.GetSequence() != seen+1 {
				t.Fatalf("event %d after %d", event.GetSequence(), seen)
			}
			seen = event.GetSequence()
			if o := event.GetOutput(); o != nil {
				if o.GetOffset() != uint64(got) {
					t.Fatalf("offset %d after %d bytes", o.GetOffset(), got)
				}
				got += len(o.GetData())
			}
			ended = event.GetFinished() != nil
		}
		cancel()
		breaks++
	}
	if breaks < 1000 || got != size {
		t.Errorf("%d reconnects, %d of %d bytes", breaks, got, size)
	}
	t.Logf("%d reconnects, %d events", breaks, seen)
}

// TestStoppedReader never reads a stream: the execution ends all the same, and
// memory stays bounded.
func TestStoppedReader(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.ReaderPatience = 50 * time.Millisecond })
	c := s.dial("")
	_, first := c.begin(asJSON("flood", fmt.Sprintf(`{"bytes":%d}`, 256<<20)))
	watch, err := s.dial("").WatchExecution(timeout(t), &pb.WatchExecutionRequest{ExecutionId: first.GetExecutionId(), AfterSequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	var seen uint64 = 1
	for {
		response, err := watch.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		event := response.GetEvent()
		if skipped := event.GetSkipped(); skipped != nil {
			if skipped.GetFirst() != seen+1 {
				t.Errorf("skipped from %d after %d", skipped.GetFirst(), seen)
			}
		} else if event.GetSequence() != seen+1 && event.GetHeartbeat() == nil {
			t.Fatalf("event %d after %d", event.GetSequence(), seen)
		}
		seen = event.GetSequence()
	}
}

// TestKilledClient kills a client process with SIGKILL while its call runs: the
// execution goes on, can be followed by another client, and is cancelled when
// nobody comes.
func TestKilledClient(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.DisconnectGrace = 300 * time.Millisecond })
	c := s.dial("")
	for _, comesBack := range []bool{true, false} {
		id := killedClient(t, s.address)
		if comesBack {
			watch, err := c.WatchExecution(timeout(t), &pb.WatchExecutionRequest{ExecutionId: id, AfterSequence: 1})
			if err != nil {
				t.Fatal(err)
			}
			for range 8 { // longer than the grace
				response, err := watch.Recv()
				if err != nil || response.GetEvent().GetFinished() != nil {
					t.Fatalf("while somebody follows: %v, %v", response, err)
				}
			}
			if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: id}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		watchUntil(t, c, id, "did not come back")
	}
}

// watchUntil waits, without following, until an execution was cancelled for a
// reason.
func watchUntil(t *testing.T, c *client, id, reason string) {
	t.Helper()
	for ctx := timeout(t); ; {
		got, err := c.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id})
		if err != nil {
			t.Fatal(err)
		}
		if end := got.GetExecution().GetFinished(); end != nil {
			if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !strings.Contains(end.GetCancellation().GetReason(), reason) {
				t.Errorf("ended with %v, want cancelled: %s", end, reason)
			}
			return
		}
	}
}

const clientProcess = "TOOLSERVER_TEST_CLIENT"

// killedClient runs a client in a process of its own, kills it when its call
// runs, and returns the execution's id.
func killedClient(t *testing.T, address string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestClientProcess$")
	cmd.Env = append(os.Environ(), clientProcess+"="+address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	return strings.TrimSpace(id)
}

// TestClientProcess is the body of killedClient's process.
func TestClientProcess(t *testing.T) {
	address := os.Getenv(clientProcess)
	if address == "" {
		return
	}
	conn, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := pb.NewToolServiceClient(conn).ExecuteTool(t.Context(), asJSON("sleep", `{"duration_ms":60000}`))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(first.GetEvent().GetExecutionId())
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}

func TestOnDisconnect(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Executor.DisconnectGrace = time.Hour })
	c := s.dial("")
	hangUp := func(what pb.OnDisconnect) string {
		ctx, cancel := context.WithCancel(timeout(t))
		request := asJSON("sleep", `{"duration_ms":60000}`)
		request.OnDisconnect = what
		stream, err := c.ExecuteTool(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		first, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		return first.GetEvent().GetExecutionId()
	}
	watchUntil(t, c, hangUp(pb.OnDisconnect_ON_DISCONNECT_CANCEL), "the client disconnected")
	for _, what := range []pb.OnDisconnect{pb.OnDisconnect_ON_DISCONNECT_GRACE, pb.OnDisconnect_ON_DISCONNECT_DETACH} {
		id := hangUp(what)
		for { // until the server has noticed
			got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: id})
			if err != nil {
				t.Fatal(err)
			}
			if got.GetExecution().GetFinished() != nil || got.GetExecution().GetOnDisconnect() != what {
				t.Fatalf("%v: %v", what, got)
			}
			if got.GetExecution().GetFollowers() == 0 {
				break
			}
		}
	}
}

// TestShutdown stops a server with 200 running calls: every stream gets its
// finished event, and new calls are told to come back.
func TestShutdown(t *testing.T) {
	s := serve(t)
	const calls = 200
	streams := make([]eventStream, calls)
	clients := []*client{s.dial(""), s.dial("")}
	for i := range streams {
		streams[i], _ = clients[i%2].begin(asJSON("sleep", `{"duration_ms":60000}`))
	}
	grace, endGrace := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.Shutdown(grace)
	}()
	var err error
	for err == nil { // until the server has stopped taking calls
		_, err = clients[0].call(asJSON("count", `{}`))
	}
	wantCode(t, err, codes.Unavailable, "shutting down")
	if retryDelay(err) == 0 {
		t.Error("no RetryInfo")
	}
	endGrace()
	for i, stream := range streams {
		events, err := rest(stream)
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		end := events[len(events)-1].GetFinished()
		if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !strings.Contains(end.GetCancellation().GetReason(), "shutting down") {
			t.Errorf("stream %d ended with %v", i, end)
		}
	}
	<-stopped
}

// TestShutdownWaitsForCalls lets a call that ends within the grace end.
func TestShutdownWaitsForCalls(t *testing.T) {
	s := serve(t)
	stream, _ := s.dial("").begin(asJSON("sleep", `{"duration_ms":300}`))
	s.Shutdown(timeout(t))
	events, err := rest(stream)
	if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v, %v, want succeeded", events, err)
	}
}

// TestInsideTheProcess calls through the connection for callers inside, which
// goes through the same chain.
func TestInsideTheProcess(t *testing.T) {
	s := serve(t, withTokens)
	conn, err := s.Connect(auth.Principal{Name: "local", OnBehalfOf: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{ToolServiceClient: pb.NewToolServiceClient(conn), t: t}
	if end := c.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v", end)
	}
	if end := c.run(asJSON("dangerous", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Errorf("policy does not hold inside: %v", end)
	}
	info, err := c.GetServerInfo(timeout(t), &pb.GetServerInfoRequest{})
	if err != nil || info.GetPrincipal() != "local" {
		t.Errorf("%v, %v, want local", info, err)
	}
}
