// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/output"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// followed tells of the calls that somebody else makes in the session of a task, as the
// server sees them: that they came, and how they ended. It follows none of them, or they
// would outlive their caller.
type followed struct {
	task   *Task
	tell   func(*Update)
	cancel context.CancelFunc
	done   chan struct{}

	calls map[string]bool // by execution, and whether its end was told
	ended int
}

// endGrace is how long the ends of the last calls may be asked for.
const endGrace = 5 * time.Second

// follow begins to tell. Its end has to be called.
func follow(ctx context.Context, task *Task, tell func(*Update)) *followed {
	f := &followed{task: task, tell: tell, done: make(chan struct{}), calls: make(map[string]bool)}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer close(f.done)
		stream, err := pb.NewSessionServiceClient(task.Conn).WatchSession(ctx, &pb.WatchSessionRequest{SessionId: task.ID})
		for err == nil { // until the session ends, or the task
			var change *pb.WatchSessionResponse
			if change, err = stream.Recv(); err == nil && change.GetExecution() != nil {
				f.note(ctx, change.GetExecution())
			}
		}
	}()
	return f
}

// end tells what nobody was told yet, and returns how many calls have ended.
func (f *followed) end() int {
	f.cancel()
	<-f.done
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	var calls []*pb.Execution // the newest first
	request := &pb.ListExecutionsRequest{SessionId: f.task.ID, PageSize: 1000}
	for more := true; more; more = request.PageToken != "" {
		response, err := pb.NewToolServiceClient(f.task.Conn).ListExecutions(ctx, request)
		if err != nil {
			break // the session is gone
		}
		calls, request.PageToken = append(calls, response.GetExecutions()...), response.GetNextPageToken()
	}
	for _, x := range slices.Backward(calls) {
		f.note(ctx, x)
	}
	return f.ended
}

// note tells of a call.
func (f *followed) note(ctx context.Context, x *pb.Execution) {
	reported, known := f.calls[x.GetExecutionId()]
	if !known {
		f.calls[x.GetExecutionId()] = false
		f.pass(x, &pb.Event{Time: x.GetCreateTime(), Kind: &pb.Event_Accepted{Accepted: &pb.Accepted{
			SessionId: x.GetSessionId(), CallId: x.GetCallId(), Tool: x.GetTool(), Timeout: x.GetTimeout(),
		}}})
	}
	if reported || x.GetEndTime() == nil {
		return
	}
	response, err := pb.NewToolServiceClient(f.task.Conn).GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: x.GetExecutionId()})
	finished := proto.CloneOf(response.GetExecution().GetFinished())
	if err != nil || finished == nil {
		return // end asks again
	}
	f.calls[x.GetExecutionId()] = true
	f.ended++
	shorten(finished)
	f.pass(x, &pb.Event{Time: x.GetEndTime(), Kind: &pb.Event_Finished{Finished: finished}})
}

func (f *followed) pass(x *pb.Execution, event *pb.Event) {
	event.ExecutionId = x.GetExecutionId()
	f.tell(&Update{Kind: &pb.Nested_Call{Call: &pb.NestedCall{CallId: x.GetCallId(), Tool: output.Short(x.GetTool(), maxName), Event: event}}})
}
