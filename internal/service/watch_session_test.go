// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestWatchSession follows a session from a call that runs to its closing. Calls of
// other sessions are not told, and what is watched has no followers by it.
func TestWatchSession(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	for _, id := range []string{"watched", "other"} {
		if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: id}); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(session, tool, input string) string {
		t.Helper()
		request := asJSON(tool, input)
		request.SessionId, request.OnDisconnect = session, pb.OnDisconnect_ON_DISCONNECT_DETACH
		_, first := c.begin(request)
		return first.GetExecutionId()
	}
	first := begin("watched", "sleep", `{"duration_ms":600000}`)
	stream, err := c.WatchSession(timeout(t), &pb.WatchSessionRequest{SessionId: "watched"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(wanted string, state pb.ExecutionState) *pb.Execution {
		t.Helper()
		for {
			response, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			x := response.GetExecution()
			if x == nil {
				continue // it shows that the stream lives
			}
			if x.GetSessionId() != "watched" {
				t.Fatalf("told of %v", x)
			}
			if x.GetExecutionId() == wanted && x.GetState() == state {
				return x
			}
		}
	}
	next(first, pb.ExecutionState_EXECUTION_STATE_RUNNING)
	begin("other", "sleep", `{"duration_ms":0}`)
	second := begin("watched", "sleep", `{"duration_ms":0}`)
	if x := next(second, pb.ExecutionState_EXECUTION_STATE_FINISHED); x.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || x.GetFinished() != nil {
		t.Errorf("ended as %v", x)
	}
	if _, err := c.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "watched"}); err != nil {
		t.Fatal(err)
	}
	if x := next(first, pb.ExecutionState_EXECUTION_STATE_FINISHED); x.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("ended as %v", x)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the session was closed: %v", err)
	}
	stream, err = c.WatchSession(timeout(t), &pb.WatchSessionRequest{SessionId: "watched"})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("a session that is closed: %v", err)
	}
}

// TestExecutionTellsItsVerdict asks for the verdict and the effects of calls after
// the fact.
func TestExecutionTellsItsVerdict(t *testing.T) {
	s := serve(t)
	s.write("hello.txt", "one\n")
	c := s.dial("")
	show := func(request *pb.ExecuteToolRequest) *pb.Execution {
		t.Helper()
		request.CallId = proto.String("call-" + request.GetTool())
		if _, err := c.call(request); err != nil {
			t.Fatal(err)
		}
		got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: request.GetCallId()})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetExecution()
	}
	x := show(asJSON("read_file", `{"path":"hello.txt"}`))
	if v := x.GetVerdict(); v.GetAction() != pb.Action_ACTION_ALLOW || v.GetRule() == "" || v.GetPolicyVersion() == "" || v.GetRights() != nil {
		t.Errorf("verdict %v", v)
	}
	if effects := x.GetEffects(); len(effects) != 2 || effects[0].GetEffect().GetReads().GetPath() != "hello.txt" ||
		effects[0].GetVerdict().GetAction() != pb.Action_ACTION_ALLOW || effects[1].GetEffect().GetUses().GetTool() != "read_file" || x.GetMoreEffects() != 0 {
		t.Errorf("effects %v", effects)
	}
	if x := show(asJSON("nix", `{}`)); x.GetVerdict() != nil || len(x.GetEffects()) > 0 {
		t.Errorf("of an unknown tool: %v", x)
	}
	list, err := c.ListExecutions(timeout(t), &pb.ListExecutionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.GetExecutions() {
		if x.GetVerdict() != nil || len(x.GetEffects()) > 0 {
			t.Errorf("the list tells %v", x)
		}
	}
}
