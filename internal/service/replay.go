// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/recording"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// replayService answers ToolService from a recording. Calls go through admission, which finds
// the one form of their inputs; what it decides about them does not matter, for nothing
// is ever run. Tools are those of the registry.
type replayService struct {
	*toolService
	recorded *recorded
}

func (s *replayService) ExecuteTool(_ *pb.ExecuteToolRequest, stream grpc.ServerStreamingServer[pb.ExecuteToolResponse]) error {
	ctx := stream.Context()
	job, err := rpcOf(ctx).takeJob()
	if err != nil {
		return err
	}
	call, callID, err := s.answer(job)
	if err != nil {
		return err
	}
	rpcOf(ctx).plays(call)
	for _, event := range call.Events {
		if err := stream.Send(&pb.ExecuteToolResponse{Event: inCall(event, job.Session.ID, callID)}); err != nil {
			return err
		}
	}
	return nil
}

// answer returns the recorded call that answers a job, and the id of the call.
func (s *replayService) answer(job *executor.Job) (*recording.Call, string, error) {
	job.Permit.Release()
	input := job.Input
	if mask := s.server.config.Executor.Mask; mask != nil {
		input = executor.MaskedJSON(input, mask)
	}
	call, err := s.recorded.answer(job.Session, job.CallID, job.Tool, input)
	if err != nil && job.Refusal != nil {
		err = status.Errorf(status.Code(err), "%s It would be refused, too: %s", status.Convert(err).Message(), job.Refusal.Failure.Message)
	}
	return call, cmp.Or(job.CallID, "call-"+strings.ToLower(rand.Text()[:16])), err
}

// plays notes which recorded call an RPC is about.
func (r *rpc) plays(call *recording.Call) {
	r.execution = call.Execution.GetExecutionId()
	r.ended(executor.Outcome(call.Execution.GetOutcome()))
}

// inCall returns an event as that of a call in a session.
func inCall(event *pb.Event, session, callID string) *pb.Event {
	if event.GetAccepted() == nil {
		return event
	}
	event = proto.CloneOf(event)
	event.GetAccepted().SessionId, event.GetAccepted().CallId = session, callID
	return event
}

// ExecuteBatch answers each call when it comes.
func (s *replayService) ExecuteBatch(stream grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return invalid("the first message is not start: begin the batch with start, then send calls and orders")
	}
	if _, err := batchOrder(start); err != nil {
		return err
	}
	found, err := s.sessions.Get(principalOf(ctx).Owner(), start.GetSessionId())
	if err != nil {
		return err
	}
	b := replayedBatch{replayService: s, stream: stream, session: found, most: s.executor.Config().MaxBatchCalls}
	id := cmp.Or(start.GetBatchId(), "batch-"+strings.ToLower(rand.Text()[:16]))
	err = b.send(&pb.BatchEvent{Kind: &pb.BatchEvent_Started{Started: &pb.BatchStarted{BatchId: id, SessionId: found.ID}}})
	for err == nil {
		var message *pb.ExecuteBatchRequest
		if message, err = stream.Recv(); err == nil && message.GetCall() != nil {
			err = b.call(ctx, message.GetCall())
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return b.send(&pb.BatchEvent{Kind: &pb.BatchEvent_Finished{Finished: &b.end}})
}

// replayedBatch is a batch whose calls are answered one after the other. There is nothing to
// steer: a call has ended before the next message is received.
type replayedBatch struct {
	*replayService
	stream  grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]
	session *session.Session
	most    int // calls
	sent    uint64
	calls   uint32
	end     pb.BatchFinished
}

func (b *replayedBatch) send(event *pb.BatchEvent) error {
	b.sent++
	event.Sequence = b.sent
	return b.stream.Send(&pb.ExecuteBatchResponse{Event: event})
}

func (b *replayedBatch) call(ctx context.Context, request *pb.ExecuteToolRequest) error {
	b.calls++
	summary := &pb.BatchCallSummary{CallId: request.GetCallId(), Tool: request.GetTool()}
	call, callID, err := b.answerIn(ctx, request)
	if int(b.calls) <= b.most {
		b.end.Calls = append(b.end.Calls, summary)
	}
	if err != nil {
		reason := status.Convert(toStatus(err))
		err = b.send(&pb.BatchEvent{Kind: &pb.BatchEvent_Refused{Refused: &pb.BatchCallRefused{
			Position: b.calls, CallId: request.GetCallId(), Code: int32(reason.Code()), Message: reason.Message(),
		}}})
	} else {
		summary.CallId, summary.ExecutionId, summary.Outcome = callID, call.Execution.GetExecutionId(), call.Execution.GetOutcome()
		for _, event := range call.Events {
			err = errors.Join(err, b.send(&pb.BatchEvent{Kind: &pb.BatchEvent_Call{Call: &pb.BatchCallEvent{
				Position: b.calls, CallId: callID, Event: inCall(event, b.session.ID, callID),
			}}}))
		}
	}
	if err != nil {
		return err
	}
	return b.send(&pb.BatchEvent{Kind: &pb.BatchEvent_SteeringPoint{SteeringPoint: &pb.SteeringPoint{Calls: b.calls}}})
}

// answerIn returns what answers a call of the batch.
func (b *replayedBatch) answerIn(ctx context.Context, request *pb.ExecuteToolRequest) (*recording.Call, string, error) {
	switch {
	case int(b.calls) > b.most:
		return nil, "", status.Errorf(codes.ResourceExhausted, "a batch has at most %d calls: send the others in another one", b.most)
	case request.GetSessionId() != "":
		return nil, "", invalid("session_id is set: the calls of a batch run in its session, so leave it out")
	}
	request = proto.CloneOf(request)
	request.SessionId = b.session.ID
	admitted, _, err := b.server.admitCall(ctx, request, nil)
	if err != nil {
		return nil, "", err
	}
	return b.answer(admitted.Job)
}

func (s *replayService) WatchBatch(*pb.WatchBatchRequest, grpc.ServerStreamingServer[pb.WatchBatchResponse]) error {
	return status.Error(codes.NotFound, "this server replays a recording and keeps no batches: send the batch again, which runs nothing")
}

func (s *replayService) WatchExecution(request *pb.WatchExecutionRequest, stream grpc.ServerStreamingServer[pb.WatchExecutionResponse]) error {
	call, err := s.find(stream.Context(), request)
	if err != nil {
		return err
	}
	last := uint64(0)
	for _, event := range call.Events {
		if last = event.GetSequence(); last <= request.GetAfterSequence() {
			continue
		}
		if err := stream.Send(&pb.WatchExecutionResponse{Event: event}); err != nil {
			return err
		}
	}
	switch {
	case request.GetAfterSequence() > last:
		return fmt.Errorf("%w: event %d of %d", executor.ErrAhead, request.GetAfterSequence(), last)
	case !call.Whole():
		return status.Errorf(codes.DataLoss, "the end of execution %s is not recorded", call.Execution.GetExecutionId())
	}
	return nil
}

// find returns the recorded call that a request names.
func (s *replayService) find(ctx context.Context, request naming) (*recording.Call, error) {
	if err := checkNaming(request); err != nil {
		return nil, err
	}
	id, callID := request.GetExecutionId(), request.GetCallId()
	if id != "" {
		if call := s.recorded.byID[id]; call != nil {
			return call, nil
		}
		return nil, status.Errorf(codes.NotFound, "execution %.64q is not in the recording", id)
	}
	if in, err := s.sessions.Peek(principalOf(ctx).Owner(), request.GetSessionId()); err == nil {
		if call := s.recorded.answered(in.Ref(), callID); call != nil {
			return call, nil
		}
	}
	in := cmp.Or(request.GetSessionId(), session.DefaultID)
	for _, call := range s.recorded.all {
		if call.Execution.GetSessionId() == in && call.Execution.GetCallId() == callID {
			return call, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "session %.64q has no call %.64q in the recording", in, callID)
}

func (s *replayService) GetExecution(ctx context.Context, request *pb.GetExecutionRequest) (*pb.GetExecutionResponse, error) {
	call, err := s.find(ctx, request)
	if err != nil {
		return nil, err
	}
	return &pb.GetExecutionResponse{Execution: withEnd(call)}, nil
}

// withEnd returns an execution as GetExecution tells it.
func withEnd(call *recording.Call) *pb.Execution {
	x := proto.CloneOf(call.Execution)
	if call.Whole() {
		x.Finished = call.Events[len(call.Events)-1].GetFinished()
	}
	return x
}

// ListExecutions tells what is recorded, whoever asks.
func (s *replayService) ListExecutions(_ context.Context, request *pb.ListExecutionsRequest) (*pb.ListExecutionsResponse, error) {
	size, err := pageSize(request.GetPageSize())
	if err != nil {
		return nil, err
	}
	next := len(s.recorded.all)
	if token := request.GetPageToken(); token != "" {
		if next, err = strconv.Atoi(token); err != nil || next < 0 || next > len(s.recorded.all) {
			return nil, invalid("page_token is not one that this server gave")
		}
	}
	response := new(pb.ListExecutionsResponse)
	for ; next > 0; next-- {
		x := s.recorded.all[next-1].Execution
		if request.GetSessionId() != "" && x.GetSessionId() != request.GetSessionId() || request.GetTool() != "" && x.GetTool() != request.GetTool() ||
			request.GetState() != 0 && x.GetState() != request.GetState() {
			continue
		}
		if len(response.Executions) == size {
			response.NextPageToken = strconv.Itoa(next)
			break
		}
		x = proto.CloneOf(x)
		x.InputJson, x.Verdict, x.Effects = "", nil, nil
		response.Executions = append(response.Executions, x)
	}
	return response, nil
}

// Cancel changes nothing: all of it has ended.
func (s *replayService) Cancel(ctx context.Context, request *pb.CancelRequest) (*pb.CancelResponse, error) {
	call, err := s.find(ctx, request)
	if err != nil {
		return nil, err
	}
	return &pb.CancelResponse{Execution: withEnd(call)}, nil
}

func (s *replayService) WriteInput(ctx context.Context, request *pb.WriteInputRequest) (*pb.WriteInputResponse, error) {
	call, err := s.find(ctx, request)
	if err != nil {
		return nil, err
	}
	return nil, status.Errorf(codes.FailedPrecondition, "execution %s is a recorded one, and takes no input", call.Execution.GetExecutionId())
}

func (s *replayService) ReadArtifact(*pb.ReadArtifactRequest, grpc.ServerStreamingServer[pb.ReadArtifactResponse]) error {
	return status.Error(codes.NotFound, "this server replays a recording, and artifacts are not recorded")
}

func (s *replayService) GetServerInfo(ctx context.Context, request *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	info, err := s.toolService.GetServerInfo(ctx, request)
	if err == nil {
		info.Features["replay"] = true
	}
	return info, err
}

// notReplayed refuses what a recording has no answer to.
func notReplayed(_ context.Context, method string) error {
	for _, service := range []string{pb.WorkspaceService_ServiceDesc.ServiceName, pb.PolicyService_ServiceDesc.ServiceName, pb.SourceService_ServiceDesc.ServiceName, pb.AgentService_ServiceDesc.ServiceName} {
		if strings.HasPrefix(method, "/"+service+"/") {
			return status.Errorf(codes.Unimplemented, "this server replays a recording: it has tools and sessions, and nothing to answer %s with", method)
		}
	}
	return nil
}

// openReplayed opens the session that a message names, as it was recorded, for a caller who
// has none of that name.
func (s *Server) openReplayed(ctx context.Context, message any) error {
	var id string
	switch request := message.(type) {
	case *pb.CreateSessionRequest:
		request.Workspace, request.Restore = "", false // there is nothing in it
		return nil
	case *pb.ExecuteToolRequest:
		id = request.GetSessionId()
	case *pb.ExecuteBatchRequest:
		id = request.GetStart().GetSessionId()
	case *pb.ListToolsRequest:
		id = request.GetSessionId()
	}
	owner := principalOf(ctx).Owner()
	if _, err := s.config.Sessions.Peek(owner, id); id == "" || !errors.Is(err, session.ErrNotFound) {
		return nil
	}
	asRecorded := session.Request{ID: id}
	for _, of := range s.config.Replay.Sessions {
		if of.GetSessionId() == id {
			asRecorded.Settings.Persona, asRecorded.Settings.Dialect = of.GetPersona(), of.GetDialect()
		}
	}
	if !slices.ContainsFunc(s.config.Replay.Calls, func(c *recording.Call) bool { return c.Execution.GetSessionId() == id }) {
		return nil // who asks is told
	}
	_, err := s.config.Sessions.Create(owner, asRecorded)
	if errors.Is(err, session.ErrExists) { // meanwhile
		return nil
	}
	return err
}
