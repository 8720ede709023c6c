// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// ExecuteBatch reads the files of a batch, each when its call has come.
func (b *bare) ExecuteBatch(stream grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]) error {
	if b.accepted == nil {
		return status.Error(codes.Unimplemented, "bare was started without answers")
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	begun, sequence := time.Now(), uint64(0)
	send := func(event *pb.BatchEvent) error {
		sequence++
		event.Sequence = sequence
		return stream.Send(&pb.ExecuteBatchResponse{Event: event})
	}
	if err := send(&pb.BatchEvent{Kind: &pb.BatchEvent_Started{Started: &pb.BatchStarted{BatchId: b.birth, SessionId: b.accepted.GetSessionId()}}}); err != nil {
		return err
	}
	finished := new(pb.BatchFinished)
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			finished.Duration = durationpb.New(time.Since(begun))
			return send(&pb.BatchEvent{Kind: &pb.BatchEvent_Finished{Finished: finished}})
		}
		if err != nil {
			return err
		}
		request := message.GetCall()
		id := b.birth + strconv.FormatUint(1_000_000_000+b.number.Add(1), 10)
		finished.Calls = append(finished.Calls, &pb.BatchCallSummary{
			CallId: id, ExecutionId: id, Tool: request.GetTool(), Outcome: pb.Outcome_OUTCOME_SUCCEEDED,
		})
		number := uint64(0)
		call := func(event *pb.Event, now time.Time) error {
			number++
			event.ExecutionId, event.Sequence, event.Time = id, number, timestamppb.New(now)
			return send(&pb.BatchEvent{Kind: &pb.BatchEvent_Call{Call: &pb.BatchCallEvent{
				Position: uint32(len(finished.Calls)), CallId: id, Event: event,
			}}})
		}
		if err := b.readIn(request, id, call); err != nil {
			return err
		}
	}
}

// readIn answers one call, whose events go to send.
func (b *bare) readIn(request *pb.ExecuteToolRequest, id string, send func(*pb.Event, time.Time) error) error {
	created := time.Now()
	if err := send(&pb.Event{Kind: &pb.Event_Accepted{Accepted: b.accept(id, request)}}, created); err != nil {
		return err
	}
	started := time.Now()
	if err := send(&pb.Event{Kind: &pb.Event_Started{Started: &pb.Started{}}}, started); err != nil {
		return err
	}
	var input work.ReadFileInput
	if err := json.Unmarshal(request.GetInputJson(), &input); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	content, err := os.ReadFile(input.Path)
	if err != nil {
		return status.Error(codes.NotFound, err.Error())
	}
	now := time.Now()
	return send(&pb.Event{Kind: &pb.Event_Finished{Finished: &pb.Finished{
		Outcome: pb.Outcome_OUTCOME_SUCCEEDED,
		Content: []*pb.Content{{Kind: &pb.Content_Text{Text: string(content)}}},
		Usage:   &pb.Usage{Waited: durationpb.New(started.Sub(created)), Ran: durationpb.New(now.Sub(started))},
	}}}, now)
}
