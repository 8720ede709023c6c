// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// FakeEndless starts a server whose streams have no end: that of a call one event, and
// that of a batch two, with a sign of life between them. GetExecution
// answers when a call and a batch were begun and both streams have ended, which clients
// cause by leaving them.
func FakeEndless(t testing.TB) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, f := grpc.NewServer(), new(endless)
	f.left.Add(2)
	pb.RegisterToolServiceServer(server, f)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

type endless struct {
	pb.UnimplementedToolServiceServer
	left sync.WaitGroup // the streams
}

func (*endless) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	return &pb.GetServerInfoResponse{StartTime: timestamppb.New(time.Unix(1, 0))}, nil
}

func (f *endless) ExecuteTool(_ *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	defer f.left.Done()
	event := &pb.Event{ExecutionId: "fake-1", Sequence: 1, Kind: &pb.Event_Started{Started: &pb.Started{}}}
	if err := stream.Send(&pb.ExecuteToolResponse{Event: event}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (f *endless) ExecuteBatch(stream batchStream) error {
	defer f.left.Done()
	for _, event := range []*pb.BatchEvent{
		{Sequence: 1, Kind: &pb.BatchEvent_Started{Started: &pb.BatchStarted{}}},
		{Sequence: 1}, // of a kind that clients need not know
		{Sequence: 2, Kind: &pb.BatchEvent_SteeringPoint{SteeringPoint: &pb.SteeringPoint{}}},
	} {
		if err := stream.Send(&pb.ExecuteBatchResponse{Event: event}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func (f *endless) GetExecution(context.Context, *pb.GetExecutionRequest) (*pb.GetExecutionResponse, error) {
	f.left.Wait()
	return &pb.GetExecutionResponse{Execution: &pb.Execution{}}, nil
}
