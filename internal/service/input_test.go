// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// listening begins a call that takes input, and waits until it does.
func (c *client) listening(callID string) (eventStream, string) {
	c.t.Helper()
	request := asJSON("listens", `{}`)
	request.CallId = proto.String(callID)
	stream, first := c.begin(request)
	for {
		response, err := stream.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		if response.GetEvent().GetOutput() != nil {
			return stream, first.GetExecutionId()
		}
	}
}

func data(id, text string, offset *uint64) *pb.WriteInputRequest {
	return &pb.WriteInputRequest{ExecutionId: id, Offset: offset, Input: &pb.WriteInputRequest_Data{Data: []byte(text)}}
}

func signal(id, name string) *pb.WriteInputRequest {
	return &pb.WriteInputRequest{ExecutionId: id, Input: &pb.WriteInputRequest_Signal{Signal: name}}
}

func TestWriteInput(t *testing.T) {
	c := serve(t).dial("")
	stream, id := c.listening("shell")
	size := &pb.WriteInputRequest_WindowSize{WindowSize: &pb.WindowSize{Rows: 24, Columns: 80}}
	for _, step := range []struct {
		name    string
		request *pb.WriteInputRequest
		taken   uint64
		code    codes.Code
		words   string
	}{
		{"data", data(id, "one", proto.Uint64(0)), 3, codes.OK, ""},
		{"the same", data(id, "one", proto.Uint64(0)), 3, codes.OK, ""},
		{"more", data(id, "e two", proto.Uint64(2)), 7, codes.OK, ""},
		{"a gap", data(id, "x", proto.Uint64(8)), 0, codes.OutOfRange, "taken 7"},
		{"without offset", data(id, "!", nil), 8, codes.OK, ""},
		{"none", data(id, "", nil), 8, codes.OK, ""},
		{"a signal", signal(id, "INT"), 8, codes.OK, ""},
		{"another spelling", signal(id, "SIGTERM"), 8, codes.OK, ""},
		{"by call id", &pb.WriteInputRequest{CallId: "shell", Input: &pb.WriteInputRequest_Signal{Signal: "HUP"}}, 8, codes.OK, ""},
		{"no signal", signal(id, "SEGV"), 0, codes.InvalidArgument, "USR1"},
		{"what the tool refuses", &pb.WriteInputRequest{ExecutionId: id, Input: size}, 0, codes.FailedPrecondition, "no terminal"},
		{"no size", &pb.WriteInputRequest{ExecutionId: id, Input: &pb.WriteInputRequest_WindowSize{}}, 0, codes.InvalidArgument, "rows"},
		{"too much", data(id, strings.Repeat("x", 1<<20+1), nil), 0, codes.InvalidArgument, "at most"},
		{"no input", &pb.WriteInputRequest{ExecutionId: id}, 0, codes.InvalidArgument, "no input"},
		{"no execution", data("", "x", nil), 0, codes.InvalidArgument, "execution_id"},
		{"another execution", data("none-1", "x", nil), 0, codes.NotFound, ""},
		{"the end", &pb.WriteInputRequest{ExecutionId: id, Input: &pb.WriteInputRequest_End{End: &pb.EndOfInput{}}}, 8, codes.OK, ""},
	} {
		response, err := c.WriteInput(timeout(t), step.request)
		wantCode(t, err, step.code, strings.Fields(step.words)...)
		if response.GetTakenBytes() != step.taken {
			t.Errorf("%s: %d bytes taken, want %d", step.name, response.GetTakenBytes(), step.taken)
		}
	}
	events, err := rest(stream)
	if err != nil {
		t.Fatal(err)
	}
	var output []byte
	for _, event := range events {
		output = append(output, event.GetOutput().GetData()...)
	}
	if string(output) != "one two!<INT><TERM><HUP>" {
		t.Errorf("the tool got %q", output)
	}
	end := events[len(events)-1].GetFinished()
	want := &pb.ExitStatus{Reason: pb.ExitReason_EXIT_REASON_SIGNALED, Code: 3, Signal: "HUP", Message: "gone\uFFFD"}
	if !proto.Equal(end.GetExit(), want) {
		t.Errorf("exit %v, want %v", end.GetExit(), want)
	}
	if u := end.GetUsage(); u.GetCpuUser().AsDuration() != 1500*time.Millisecond || u.GetCpuSystem().AsDuration() != time.Second ||
		u.GetMaxRssBytes() != 8 || u.GetProcesses() != 2 {
		t.Errorf("usage %v", u)
	}

	_, err = c.WriteInput(timeout(t), data(id, "x", nil))
	wantCode(t, err, codes.FailedPrecondition, "end was sent")
	if response, err := c.WriteInput(timeout(t), data(id, "one", proto.Uint64(0))); err != nil || response.GetTakenBytes() != 8 {
		t.Errorf("the first request once more: %v, %v", response, err)
	}
}

// TestWriteInputRefused asks for what cannot be: input for calls that take none,
// and for those of others.
func TestWriteInputRefused(t *testing.T) {
	s := serve(t, withTokens)
	alice, bob := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob")
	stream, first := alice.begin(asJSON("sleep", `{"duration_ms":600000}`))
	id := first.GetExecutionId()
	if _, err := stream.Recv(); err != nil { // started
		t.Fatal(err)
	}
	_, err := alice.WriteInput(timeout(t), data(id, "x", nil))
	wantCode(t, err, codes.FailedPrecondition, "takes none")
	_, err = bob.WriteInput(timeout(t), data(id, "x", nil))
	wantCode(t, err, codes.NotFound)
	_, err = bob.WriteInput(timeout(t), data("never-1", "x", nil))
	wantCode(t, err, codes.NotFound)
	if _, err := alice.Cancel(context.Background(), &pb.CancelRequest{ExecutionId: id}); err != nil {
		t.Fatal(err)
	}

	// How a program ended is told of a cancelled call, too.
	_, id = alice.listening("mine")
	response, err := alice.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: id})
	if err != nil || response.GetExecution().GetFinished().GetExit().GetReason() != pb.ExitReason_EXIT_REASON_CANCELLED {
		t.Errorf("cancelled: %v, %v", response, err)
	}
}
