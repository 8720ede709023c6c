// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
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
	// Stale says that another server answers from the first call on, though the client
	// was told of the one before it, which the call is for.
	Stale bool
	// Outcome is how the call has to end.
	Outcome pb.Outcome
}

// Cases are those that no real server can be made to meet at will.
var Cases = []Case{
	{"BROKEN", false, false, false, pb.Outcome_OUTCOME_SUCCEEDED},
	{"BROKEN_AND_REPLACED", false, true, false, pb.Outcome_OUTCOME_LOST},
	{"REFUSED", true, false, false, pb.Outcome_OUTCOME_SUCCEEDED},
	{"REFUSED_AND_REPLACED", true, true, false, pb.Outcome_OUTCOME_SUCCEEDED},
	{"STALE", true, false, true, pb.Outcome_OUTCOME_SUCCEEDED},
}

// Fake starts a server that fails the first call, or batch of two calls, as the case
// says, and runs the second. A third, or a second that should not have come, fails the
// test; one that is refused since it is for another server does not count.
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
		if c.Outcome == pb.Outcome_OUTCOME_LOST || c.Stale {
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
	asked bool // which server it is
}

// call counts a call, and returns what befalls it.
func (f *fake) call() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls > 1 || f.c.Stale {
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

// server is when the server that answers now began.
func (f *fake) server() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls > 0 && f.c.Replaced || f.c.Stale {
		return 2
	}
	return 1
}

// forThis refuses what is for another server, as servers do.
func (f *fake) forThis(ctx context.Context) error {
	this := fmt.Sprint(f.server(), ".0")
	if wanted := metadata.ValueFromIncomingContext(ctx, "toolserver-started"); len(wanted) == 0 || wanted[0] == this {
		return nil
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("toolserver-started", this)); err != nil {
		return err
	}
	return status.Error(codes.FailedPrecondition, "the request is for another server")
}

func (f *fake) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	server := f.server()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c.Stale && !f.asked {
		server = 1
	}
	f.asked = true
	return &pb.GetServerInfoResponse{StartTime: timestamppb.New(time.Unix(server, 0))}, nil
}

func (f *fake) ExecuteTool(request *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	err := f.forThis(stream.Context())
	if err == nil {
		err = f.call()
	}
	if err != nil {
		return err
	}
	return stream.Send(&pb.ExecuteToolResponse{Event: finishedEvent()})
}

func (f *fake) ExecuteBatch(stream batchStream) error {
	if err := f.forThis(stream.Context()); err != nil {
		return err
	}
	ids, err := receiveCalls(stream, 2)
	if err == nil {
		err = f.call()
	}
	if err != nil {
		return err
	}
	var events []*pb.BatchEvent
	for i, id := range ids {
		events = append(events, callEvent(i+1, id, finishedEvent()))
	}
	return sendBatch(stream, events)
}

func (f *fake) WatchBatch(_ *pb.WatchBatchRequest, stream grpc.ServerStreamingServer[pb.WatchBatchResponse]) error {
	if err := f.forThis(stream.Context()); err != nil {
		return err
	}
	return status.Error(codes.NotFound, "the batch never came")
}

type batchStream = grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]

// receiveCalls returns the ids of the first calls of a batch.
func receiveCalls(stream batchStream, n int) (ids []string, err error) {
	for len(ids) < n {
		request, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if call := request.GetCall(); call != nil {
			ids = append(ids, call.GetCallId())
		}
	}
	return ids, nil
}

// sendBatch sends what happens in a batch, from its beginning to its end.
func sendBatch(stream batchStream, events []*pb.BatchEvent) error {
	events = slices.Insert(events, 0, &pb.BatchEvent{Kind: &pb.BatchEvent_Started{Started: &pb.BatchStarted{}}})
	events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Finished{Finished: &pb.BatchFinished{}}})
	for i, event := range events {
		event.Sequence = uint64(i + 1)
		if err := stream.Send(&pb.ExecuteBatchResponse{Event: event}); err != nil {
			return err
		}
	}
	return nil
}

func callEvent(position int, id string, event *pb.Event) *pb.BatchEvent {
	return &pb.BatchEvent{Kind: &pb.BatchEvent_Call{Call: &pb.BatchCallEvent{Position: uint32(position), CallId: id, Event: event}}}
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

func (f *unended) ExecuteBatch(stream batchStream) error {
	f.mu.Lock()
	n := 3
	if len(f.sent) > 0 {
		n = 1 // the one that is sent again
	}
	f.mu.Unlock()
	ids, err := receiveCalls(stream, n)
	if err != nil {
		return err
	}
	var events []*pb.BatchEvent
	for i, id := range ids {
		f.mu.Lock()
		f.sent[id]++
		f.mu.Unlock()
		switch id {
		case "refused":
			events = append(events, &pb.BatchEvent{Kind: &pb.BatchEvent_Refused{Refused: &pb.BatchCallRefused{
				Position: uint32(i + 1), CallId: "refu", Code: int32(codes.InvalidArgument), Message: "the id is too long",
			}}})
		case "heard":
			started := &pb.Event{ExecutionId: "fake-1", Sequence: 1, Kind: &pb.Event_Started{Started: &pb.Started{}}}
			events = append(events, callEvent(i+1, id, started))
		}
	}
	return sendBatch(stream, events)
}
