// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A Case is what befalls the first call that a server is sent, before any event of it.
type Case struct {
	// Variable is how tests in other languages find its server in their environment,
	// where an address stands for a call and another, with _BATCH, for a batch.
	Variable string
	// Refused says that the server told that it did not take the call; else the
	// connection broke.
	Refused bool
	// Replaced says that another server answers from then on.
	Replaced bool
	// Outcome is how the call has to end.
	Outcome pb.Outcome
}

// Cases are those that no real server can be made to meet at will.
var Cases = []Case{
	{"BROKEN", false, false, pb.Outcome_OUTCOME_SUCCEEDED},
	{"BROKEN_AND_REPLACED", false, true, pb.Outcome_OUTCOME_LOST},
	{"REFUSED", true, false, pb.Outcome_OUTCOME_SUCCEEDED},
	{"REFUSED_AND_REPLACED", true, true, pb.Outcome_OUTCOME_SUCCEEDED},
}

// Fake starts a server that fails the first call, or batch, as the case says, and runs
// the second. A third, or a second that should not have come, fails the test.
func Fake(t testing.TB, c Case) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, f := grpc.NewServer(), &fake{c: c}
	pb.RegisterToolServiceServer(server, f)
	go server.Serve(listener)
	t.Cleanup(func() {
		server.Stop()
		want := 2
		if c.Outcome == pb.Outcome_OUTCOME_LOST {
			want = 1
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.calls != want {
			t.Errorf("%s: sent %d times, want %d", c.Variable, f.calls, want)
		}
	})
	return listener.Addr().String()
}

type fake struct {
	pb.UnimplementedToolServiceServer
	c     Case
	mu    sync.Mutex
	calls int
}

// call counts a call, and returns what befalls it.
func (f *fake) call() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls > 1 {
		return nil
	}
	s := status.New(codes.Unavailable, "the first call fails")
	if !f.c.Refused {
		return s.Err()
	}
	detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		return err
	}
	return detailed.Err()
}

func (f *fake) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	start := time.Unix(1, 0)
	if f.calls > 0 && f.c.Replaced {
		start = time.Unix(2, 0)
	}
	return &pb.GetServerInfoResponse{StartTime: timestamppb.New(start)}, nil
}

func (f *fake) ExecuteTool(request *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	if err := f.call(); err != nil {
		return err
	}
	return stream.Send(&pb.ExecuteToolResponse{Event: finishedEvent()})
}

func (f *fake) ExecuteBatch(stream grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]) error {
	var ids []string
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if call := request.GetCall(); call != nil {
			ids = append(ids, call.GetCallId())
		}
	}
	if err := f.call(); err != nil {
		return err
	}
	events := []*pb.BatchEvent{{Kind: &pb.BatchEvent_Started{Started: &pb.BatchStarted{}}}}
	for _, id := range ids {
		events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Call{Call: &pb.BatchCallEvent{CallId: id, Event: finishedEvent()}}})
	}
	events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Finished{Finished: &pb.BatchFinished{}}})
	for i, event := range events {
		event.Sequence = uint64(i + 1)
		if err := stream.Send(&pb.ExecuteBatchResponse{Event: event}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) WatchBatch(*pb.WatchBatchRequest, grpc.ServerStreamingServer[pb.WatchBatchResponse]) error {
	return status.Error(codes.NotFound, "the batch never came")
}

func finishedEvent() *pb.Event {
	return &pb.Event{ExecutionId: "fake-1", Sequence: 1, Kind: &pb.Event_Finished{Finished: &pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED}}}
}

// FakeUnended starts a server whose batches end before their calls: the first call is
// refused under an id that was cut, the second is told of and never ends, and of the
// third there is no word. Each is sent as often as it may be, or the test fails.
func FakeUnended(t testing.TB) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, f := grpc.NewServer(), &unended{sent: make(map[string]int)}
	pb.RegisterToolServiceServer(server, f)
	go server.Serve(listener)
	t.Cleanup(func() {
		server.Stop()
		f.mu.Lock()
		defer f.mu.Unlock()
		if want := map[string]int{"refused": 1, "heard": 1, "unheard": 3}; !maps.Equal(f.sent, want) {
			t.Errorf("calls were sent %v times, want %v", f.sent, want)
		}
	})
	return listener.Addr().String()
}

type unended struct {
	pb.UnimplementedToolServiceServer
	mu   sync.Mutex
	sent map[string]int
}

func (*unended) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	return &pb.GetServerInfoResponse{StartTime: timestamppb.New(time.Unix(1, 0))}, nil
}

func (f *unended) ExecuteBatch(stream grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]) error {
	events := []*pb.BatchEvent{{Kind: &pb.BatchEvent_Started{Started: &pb.BatchStarted{}}}}
	for position := uint32(0); ; {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if request.GetCall() == nil {
			continue
		}
		position++
		id := request.GetCall().GetCallId()
		f.mu.Lock()
		f.sent[id]++
		f.mu.Unlock()
		switch id {
		case "refused":
			events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Refused{Refused: &pb.BatchCallRefused{
				Position: position, CallId: "refu", Code: int32(codes.InvalidArgument), Message: "the id is too long",
			}}})
		case "heard":
			started := &pb.Event{ExecutionId: "fake-1", Sequence: 1, Kind: &pb.Event_Started{Started: &pb.Started{}}}
			events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Call{Call: &pb.BatchCallEvent{Position: position, CallId: id, Event: started}}})
		}
	}
	events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Finished{Finished: &pb.BatchFinished{}}})
	for i, event := range events {
		event.Sequence = uint64(i + 1)
		if err := stream.Send(&pb.ExecuteBatchResponse{Event: event}); err != nil {
			return err
		}
	}
	return nil
}
