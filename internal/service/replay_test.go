// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/recording"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func masking(c *service.Config) {
	c.Executor.Mask = func(text string) string { return strings.ReplaceAll(text, "hunter2", "****") }
}

// record returns what a client's calls were, as "record export" reads them, by way of a file.
func record(t *testing.T, c *client) *recording.Recording {
	t.Helper()
	name := filepath.Join(t.TempDir(), "calls.rec")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(file, recording.Header{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(item recording.Item) {
		if err := w.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.ListTools(timeout(t), &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.GetTools() {
		write(recording.Item{Tool: tool})
	}
	executions, err := c.ListExecutions(timeout(t), &pb.ListExecutionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i := len(executions.GetExecutions()) - 1; i >= 0; i-- {
		id := executions.GetExecutions()[i].GetExecutionId()
		got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: id})
		if err != nil {
			t.Fatal(err)
		}
		write(recording.Item{Execution: got.GetExecution()})
		stream, err := c.WatchExecution(timeout(t), &pb.WatchExecutionRequest{ExecutionId: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range watched(t, stream) {
			write(recording.Item{Event: event})
		}
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	loaded, err := recording.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func watched(t *testing.T, stream interface {
	Recv() (*pb.WatchExecutionResponse, error)
}) (events []*pb.Event) {
	t.Helper()
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, response.GetEvent())
	}
}

// replaying is a server that answers from a recording.
func replaying(t *testing.T, r *recording.Recording, options ...func(*service.Config)) *testServer {
	return serve(t, append(options, masking, func(c *service.Config) {
		c.Replay, c.Registry = r, new(tools.Registry)
		if err := service.OfferRecorded(c.Registry, r); err != nil {
			t.Fatal(err)
		}
	})...)
}

// TestReplay records calls of a real server, and has another one answer them.
func TestReplay(t *testing.T) {
	s := serve(t, masking)
	live := s.dial("")
	if _, err := live.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "s1", Mode: pb.Mode_MODE_ALLOW}); err != nil {
		t.Fatal(err)
	}
	s.write("a.txt", "first\n")
	read := asJSON("read_file", `{"path":"a.txt"}`)
	first := live.run(read)
	s.write("a.txt", "second\n")
	second := live.run(read)
	unknown := live.run(asJSON("no_such_tool", `{}`))
	wrong := live.run(asJSON("read_file", `{"pathh":1}`))
	secret := live.run(asJSON("read_file", `{"path":"hunter2"}`))
	wrote := asJSON("write_file", `{"path":"new.txt","content":"x"}`)
	wrote.SessionId = "s1"
	written := live.run(wrote)
	r := record(t, live)

	again := replaying(t, r)
	c := again.dial("")
	same := func(got, want *pb.Finished) {
		t.Helper()
		if !proto.Equal(got, want) {
			t.Errorf("the answer is %v, want %v", got, want)
		}
	}
	// The same call has its answers in their order, in each session.
	same(c.run(asJSON("Read", `{ "path" : "a.txt" }`)), first)
	same(c.run(read), second)
	same(c.run(read), second)
	if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "other", Workspace: "/nobody/has/this"}); err != nil {
		t.Fatal(err)
	}
	elsewhere := proto.CloneOf(read)
	elsewhere.SessionId = "other"
	same(c.run(elsewhere), first)
	// What was refused is refused, a secret is known by its mask, what has no value is as if it were not there.
	same(c.run(asJSON("no_such_tool", `{}`)), unknown)
	same(c.run(asJSON("read_file", `{"pathh":1}`)), wrong)
	same(c.run(asJSON("read_file", `{"path":"hunter2","encoding":""}`)), secret)
	// A recorded session need not be made, and nothing is done in it.
	same(c.run(wrote), written)
	for _, name := range []string{again.workspace, s.workspace} {
		if _, err := os.Stat(filepath.Join(name, "new.txt")); err == nil {
			t.Error("a replayed call wrote a file")
		}
	}

	// A call id makes a call the same one.
	named := proto.CloneOf(elsewhere)
	named.CallId = proto.String("mine")
	same(c.run(named), second)
	elsewhere.CallId = proto.String("mine")
	same(c.run(elsewhere), second)
	events, err := c.call(named)
	if err != nil || events[0].GetAccepted().GetCallId() != "mine" || events[0].GetAccepted().GetSessionId() != "other" {
		t.Errorf("%v, %v", events, err)
	}
	named.InputJson = []byte(`{"path":"b.txt"}`)
	_, err = c.call(named)
	wantCode(t, err, codes.AlreadyExists, `call id "mine" was used for another call`)
	got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{SessionId: "other", CallId: "mine"})
	if err != nil || !proto.Equal(got.GetExecution().GetFinished(), second) {
		t.Errorf("%v, %v", got, err)
	}

	// Recorded executions are as they were.
	list, err := c.ListExecutions(timeout(t), &pb.ListExecutionsRequest{PageSize: 4, Tool: "read_file"})
	if err != nil || len(list.GetExecutions()) != 4 || list.GetNextPageToken() != "" {
		t.Fatalf("%v, %v", list, err)
	}
	id := list.GetExecutions()[3].GetExecutionId()
	stream, err := c.WatchExecution(timeout(t), &pb.WatchExecutionRequest{ExecutionId: id, AfterSequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	tail := watched(t, stream)
	checkNumbers(t, tail, 1)
	same(tail[len(tail)-1].GetFinished(), first)
	if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: id}); err != nil {
		t.Error(err)
	}

	// What is not there is told, with what is.
	_, err = c.call(asJSON("read_file", `{"path":"c.txt"}`))
	wantCode(t, err, codes.NotFound, `not in the recording: read_file with {"path":"c.txt"}`, `{"path":"a.txt"}`, `{"path":"****"}`)
	_, err = c.call(asJSON("write_fil", `{}`))
	wantCode(t, err, codes.NotFound, "no call of write_fil is in the recording", "did you mean write_file?")
	elsewhere.SessionId = "nobody"
	_, err = c.call(elsewhere)
	wantCode(t, err, codes.NotFound, "nobody")
	_, err = c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: "none"})
	wantCode(t, err, codes.NotFound, `execution "none" is not in the recording`)
	_, err = c.WriteInput(timeout(t), &pb.WriteInputRequest{ExecutionId: id})
	wantCode(t, err, codes.FailedPrecondition, "takes no input")
	_, err = c.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: "read_file"})
	wantCode(t, err, codes.Unimplemented, "this server replays a recording")
	_, err = pb.NewWorkspaceServiceClient(c.conn).StatFile(timeout(t), &pb.StatFileRequest{Path: "a.txt"})
	wantCode(t, err, codes.Unimplemented, "this server replays a recording")

	// Tools are those that were recorded.
	was, err := live.ListTools(timeout(t), &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		t.Fatal(err)
	}
	is, err := c.ListTools(timeout(t), &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(is, was) {
		t.Error("the list of tools is not the recorded one")
	}
}

// TestReplayedBatch: calls of a batch are answered each, and one that is not there costs no
// other its answer.
func TestReplayedBatch(t *testing.T) {
	s := serve(t)
	s.write("a.txt", "text\n")
	live := s.dial("")
	want := live.run(asJSON("read_file", `{"path":"a.txt"}`))
	c := replaying(t, record(t, live), withTokens).dial("alice-alice-alice")
	stream, err := c.ExecuteBatch(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []*pb.ExecuteBatchRequest{
		{Kind: &pb.ExecuteBatchRequest_Start{Start: &pb.BatchStart{}}},
		{Kind: &pb.ExecuteBatchRequest_Call{Call: asJSON("read_file", `{"path":"b.txt"}`)}},
		{Kind: &pb.ExecuteBatchRequest_Call{Call: asJSON("read_file", `{"path":"a.txt"}`)}},
	} {
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	stream.CloseSend()
	var refused *pb.BatchCallRefused
	var answer *pb.Finished
	var end *pb.BatchFinished
	for number := uint64(1); ; number++ {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		event := response.GetEvent()
		if event.GetSequence() != number {
			t.Errorf("event %d has number %d", number, event.GetSequence())
		}
		if event.GetRefused() != nil {
			refused = event.GetRefused()
		}
		if f := event.GetCall().GetEvent().GetFinished(); f != nil {
			answer = f
		}
		end = event.GetFinished()
	}
	if refused.GetPosition() != 1 || refused.GetCode() != int32(codes.NotFound) || !proto.Equal(answer, want) ||
		len(end.GetCalls()) != 2 || end.GetCalls()[1].GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("refused %v, answered %v, ended %v", refused, answer, end)
	}
}

// TestReplayKnowsCallers: who may call is decided as ever.
func TestReplayKnowsCallers(t *testing.T) {
	s := serve(t)
	live := s.dial("")
	live.run(asJSON("no_such_tool", `{}`))
	again := replaying(t, record(t, live), withTokens)
	_, err := again.dial("").call(asJSON("no_such_tool", `{}`))
	wantCode(t, err, codes.Unauthenticated)
	if finished := again.dial("bob-bob-bob-bob-bob").run(asJSON("no_such_tool", `{}`)); finished.GetOutcome() != pb.Outcome_OUTCOME_NO_SUCH_TOOL {
		t.Errorf("%v", finished)
	}
}
