// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/client"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// ask gives a task to an agent, and returns what came of it.
func ask(t *testing.T, c *client.Client, input string) (pb.Outcome, string) {
	t.Helper()
	finished, err := client.Result(c.Execute(t.Context(), client.Call{Tool: "agent", Input: input}))
	if err != nil {
		t.Fatal(err)
	}
	return finished.GetOutcome(), strings.TrimSpace(client.Text(finished) + " " + finished.GetFailure().GetMessage())
}

// serveUntil serves agents until stop is called, which checks that this was no error. It returns
// when they are there.
func serveUntil(t *testing.T, c *client.Client, agents ...client.Agent) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served, ready := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		served <- c.Serve(ctx, client.Serving{Agents: agents, Tasks: 2, Ready: func() { ready <- struct{}{} }})
	}()
	<-ready
	return func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	}
}

// awaitAgents waits until as many agents are served.
func awaitAgents(t *testing.T, c *client.Client, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		list, err := c.Agents.ListAgents(ctx, &pb.ListAgentsRequest{})
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		if err == nil && len(list.GetAgents()) == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestServe serves agents and uses them, loses the connection under a task, and goes on.
func TestServe(t *testing.T) {
	server, wire := start(t)
	caller := agent(t, server.Address, pb.Mode_MODE_ALLOW)
	if _, err := client.Result(caller.Execute(t.Context(), client.Call{Tool: "write_file", Input: `{"path": "a.txt", "content": "hello\n"}`})); err != nil {
		t.Fatal(err)
	}
	lists := 0
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	stop := serveUntil(t, connect(t, wire.Address, client.Options{Token: "the-token-of-agent"}),
		client.Agent{Name: "reader", Description: "Reads", Work: func(ctx context.Context, task *client.Task) (client.Report, error) {
			task.Turn(1, nil)
			task.Tell("I read.")
			finished, err := client.Result(task.Client.Execute(ctx, client.Call{Tool: "read_file", Input: `{"path": "a.txt"}`}))
			return client.Report{Text: task.GetPrompt() + " " + client.Text(finished)}, err
		}},
		client.Agent{Name: "lister", Work: func(_ context.Context, task *client.Task) (client.Report, error) {
			if lists++; task.Rejected == "" {
				return client.Report{Text: "none", Result: `"a"`}, nil
			}
			return client.Report{Text: "some", Result: `["a"]`}, nil
		}},
		client.Agent{Name: "Broken", Work: func(context.Context, *client.Task) (client.Report, error) {
			return client.Report{}, errors.New("the model is asleep")
		}},
		client.Agent{Name: "wordy", Work: func(context.Context, *client.Task) (client.Report, error) {
			return client.Report{Text: strings.Repeat("x", 2<<20)}, nil
		}},
		client.Agent{Name: "slow", Work: func(ctx context.Context, task *client.Task) (client.Report, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return client.Report{}, ctx.Err()
		}})
	for _, c := range []struct {
		input   string
		outcome pb.Outcome
		words   string
	}{
		{`{"agent": "reader", "prompt": "Read a.txt:"}`, pb.Outcome_OUTCOME_SUCCEEDED, "Read a.txt: 1\thello"},
		{`{"agent": "lister", "prompt": "List.", "result_schema": {"type": "array"}}`, pb.Outcome_OUTCOME_SUCCEEDED, `["a"]`},
		{`{"agent": "broken", "prompt": "Go."}`, pb.Outcome_OUTCOME_FAILED, "could not do it: the model is asleep"},
		{`{"agent": "wordy", "prompt": "Go."}`, pb.Outcome_OUTCOME_FAILED, "text has 2097152 bytes: at most 1048576"},
	} {
		if outcome, text := ask(t, caller, c.input); outcome != c.outcome || !strings.Contains(text, c.words) {
			t.Errorf("%s: %v %s", c.input, outcome, text)
		}
	}
	if outcome, text := ask(t, caller.OnBehalfOf("user:anna"), `{"agent": "reader", "prompt": "For a user:"}`); outcome != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("for a user: %v %s", outcome, text)
	}
	if lists != 2 {
		t.Errorf("the result was made %d times, want 2", lists)
	}

	t.Run("cancelled", func(t *testing.T) {
		calls := caller.Execute(t.Context(), client.Call{ID: "cancelled", Tool: "agent", Input: `{"agent": "slow", "prompt": "Wait."}`})
		go func() {
			<-begun
			caller.Cancel(t.Context(), "cancelled", "the user left")
		}()
		if finished, err := client.Result(calls); err != nil || finished.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
			t.Errorf("%v, %v", finished, err)
		}
		if reason := fmt.Sprint(<-ended); !strings.Contains(reason, "the user left") {
			t.Errorf("the agent ended because of %s", reason)
		}
	})
	t.Run("lost", func(t *testing.T) {
		go func() {
			<-begun
			wire.Cut()
		}()
		if outcome, text := ask(t, caller, `{"agent": "slow", "prompt": "Wait."}`); outcome != pb.Outcome_OUTCOME_FAILED || !strings.Contains(text, "is gone") {
			t.Errorf("%v %s", outcome, text)
		}
		<-ended
		awaitAgents(t, caller, 5)
		if outcome, text := ask(t, caller, `{"agent": "reader", "prompt": "Again:"}`); outcome != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("%v %s", outcome, text)
		}
	})
	stop()
	awaitAgents(t, caller, 0)

	err := caller.Serve(t.Context(), client.Serving{Agents: []client.Agent{{Name: "no name"}}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad name: %v", err)
	}
}

// repeater is a server that answers every report more often than it should.
type repeater struct {
	pb.UnimplementedAgentServiceServer
}

func (repeater) Serve(stream grpc.BidiStreamingServer[pb.ServeRequest, pb.ServeResponse]) error {
	if _, err := stream.Recv(); err != nil { // the offer
		return err
	}
	for _, id := range []string{"first", "second"} {
		messages := []*pb.ServeResponse{{Kind: &pb.ServeResponse_Task{Task: &pb.AgentTask{TaskId: id, Agent: "reader"}}}}
		for range 3 {
			messages = append(messages, &pb.ServeResponse{Kind: &pb.ServeResponse_Taken{Taken: &pb.ReportTaken{TaskId: id}}})
		}
		for range 3 {
			messages = append(messages, &pb.ServeResponse{Kind: &pb.ServeResponse_Rejected{Rejected: &pb.ReportRejected{TaskId: id, Message: "no"}}})
		}
		for _, m := range messages {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		if m, err := stream.Recv(); err != nil || m.GetReport().GetTaskId() != id {
			return status.Errorf(codes.Internal, "no report of %s: %v, %v", id, m, err)
		}
	}
	return status.Error(codes.DataLoss, "that is all")
}

// TestServeRepeated serves agents where the server answers too often: no answer ends the program
// or holds it up.
func TestServeRepeated(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterAgentServiceServer(server, repeater{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	work := func(context.Context, *client.Task) (client.Report, error) { return client.Report{Text: "done"}, nil }
	err = connect(t, listener.Addr().String(), client.Options{}).Serve(t.Context(), client.Serving{Agents: []client.Agent{{Name: "reader", Work: work}}})
	if status.Code(err) != codes.DataLoss {
		t.Errorf("Serve ended with %v, want what ends it", err)
	}
}
