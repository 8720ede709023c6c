// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// bare answers ToolService.
type bare struct {
	pb.UnimplementedToolServiceServer

	list   *pb.ListToolsResponse
	number atomic.Uint64 // of the newest call

	// What the messages of every call are made of.
	birth    string // the part of an execution id that comes before its number
	accepted *pb.Accepted
	text     string
}

// model takes from the recorded call what the messages of every call are made
// of.
func (b *bare) model(messages []*pb.ExecuteToolResponse) error {
	if len(messages) != 3 {
		return errors.New("want accepted, started and finished")
	}
	first, last := messages[0].GetEvent(), messages[2].GetEvent()
	content := last.GetFinished().GetContent()
	if first.GetAccepted() == nil || messages[1].GetEvent().GetStarted() == nil || len(content) != 1 {
		return errors.New("want accepted, started and finished with one text")
	}
	id := first.GetExecutionId()
	if len(id) <= len("1000000000") {
		return fmt.Errorf("the execution id %q is too short", id)
	}
	b.birth = id[:len(id)-len("1000000000")]
	b.accepted = first.GetAccepted()
	b.text = content[0].GetText()
	return nil
}

func (b *bare) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return b.list, nil
}

// call is one call that is being answered.
type call struct {
	stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]
	id     string
	number uint64
}

func (c *call) send(event *pb.Event, now time.Time) error {
	c.number++
	event.ExecutionId, event.Sequence, event.Time = c.id, c.number, timestamppb.New(now)
	return c.stream.Send(&pb.ExecuteToolResponse{Event: event})
}

func (b *bare) ExecuteTool(request *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	if b.accepted == nil {
		return status.Error(codes.Unimplemented, "bare was started without answers")
	}
	created := time.Now()
	c := &call{stream: stream, id: b.birth + strconv.FormatUint(1_000_000_000+b.number.Add(1), 10)}
	if err := c.send(&pb.Event{Kind: &pb.Event_Accepted{Accepted: b.accept(c.id, request)}}, created); err != nil {
		return err
	}
	started := time.Now()
	if err := c.send(&pb.Event{Kind: &pb.Event_Started{Started: &pb.Started{}}}, started); err != nil {
		return err
	}
	text, written := b.text, int64(0)
	switch request.GetTool() {
	case work.Sleep:
		<-stream.Context().Done()
		return stream.Context().Err()
	case work.ReadFile:
		var input work.ReadFileInput
		if err := json.Unmarshal(request.GetInputJson(), &input); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		content, err := os.ReadFile(input.Path)
		if err != nil {
			return status.Error(codes.NotFound, err.Error())
		}
		text = string(content)
	case work.Bash:
		var input work.BashInput
		if err := json.Unmarshal(request.GetInputJson(), &input); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		var err error
		if written, err = c.run(input.Command); err != nil {
			return status.Error(codes.Unknown, err.Error())
		}
		text = "done"
	case work.Output:
		var input work.OutputInput
		if err := json.Unmarshal(request.GetInputJson(), &input); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		if err := c.output(input); err != nil {
			return err
		}
		text, written = "done", input.Bytes
	}
	now := time.Now()
	return c.send(&pb.Event{Kind: &pb.Event_Finished{Finished: &pb.Finished{
		Outcome: pb.Outcome_OUTCOME_SUCCEEDED,
		Content: []*pb.Content{{Kind: &pb.Content_Text{Text: text}}},
		Usage: &pb.Usage{
			Waited: durationpb.New(started.Sub(created)), Ran: durationpb.New(now.Sub(started)),
			OutputBytes: uint64(written),
		},
	}}}, now)
}

func (b *bare) accept(id string, request *pb.ExecuteToolRequest) *pb.Accepted {
	model := b.accepted
	callID := request.GetCallId()
	if callID == "" {
		callID = id
	}
	return &pb.Accepted{
		SessionId: model.GetSessionId(), CallId: callID, Tool: request.GetTool(),
		Verdict: &pb.Verdict{
			Action: model.GetVerdict().GetAction(),
			Rule:   model.GetVerdict().GetRule(), Reason: model.GetVerdict().GetReason(),
			PolicyVersion: model.GetVerdict().GetPolicyVersion(),
		},
		Timeout: durationpb.New(model.GetTimeout().AsDuration()),
	}
}

// run runs a command and sends what it writes as it comes.
func (c *call) run(command string) (written int64, err error) {
	bash := exec.CommandContext(c.stream.Context(), "bash", "-c", command)
	out, err := bash.StdoutPipe()
	if err != nil {
		return 0, err
	}
	bash.Stderr = bash.Stdout
	if err := bash.Start(); err != nil {
		return 0, err
	}
	buffer := make([]byte, work.ChunkBytes)
	for {
		n, err := out.Read(buffer)
		if n > 0 {
			event := &pb.Event{Kind: &pb.Event_Output{Output: &pb.Output{
				Stream: pb.OutputStream_OUTPUT_STREAM_STDOUT, Offset: uint64(written), Data: buffer[:n],
			}}}
			if err := c.send(event, time.Now()); err != nil {
				return written, errors.Join(err, bash.Wait())
			}
			written += int64(n)
		}
		if err != nil {
			return written, bash.Wait()
		}
	}
}

// output sends chunks from one buffer in one message that is used again and
// again, which is the least a stream of them can cost.
func (c *call) output(input work.OutputInput) error {
	buffer := make([]byte, input.Chunk)
	out := &pb.Output{Stream: pb.OutputStream_OUTPUT_STREAM_STDOUT}
	now := new(timestamppb.Timestamp)
	event := &pb.Event{ExecutionId: c.id, Time: now, Kind: &pb.Event_Output{Output: out}}
	message := &pb.ExecuteToolResponse{Event: event}
	for left := input.Bytes; left > 0; left -= int64(len(out.Data)) {
		c.number++
		event.Sequence = c.number
		t := time.Now()
		now.Seconds, now.Nanos = t.Unix(), int32(t.Nanosecond())
		out.Offset = uint64(input.Bytes - left)
		out.Data = buffer[:min(left, int64(len(buffer)))]
		if err := c.stream.Send(message); err != nil {
			return err
		}
	}
	return nil
}
