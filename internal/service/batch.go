// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/quota"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// batchSlot is what is known of the batch of an RPC, and its newest call. It belongs to the
// goroutine that receives.
type batchSlot struct {
	batch        *executor.Batch // nil before it began
	onDisconnect executor.OnDisconnect
	call         *batchCall // nil where the message has none
}

// batchCall is a call of a batch that has come. It runs only with the job that admission
// makes of it.
type batchCall struct {
	request *pb.ExecuteToolRequest
	decide  func(context.Context, *batchCall) // asks admission

	job        *executor.Job
	inputBytes int
	err        error // why there is no job

	// Of one that waits to be decided.
	position int
	ctx      context.Context //nolint:containedctx // which an order ends
	stop     context.CancelCauseFunc
}

// admitInBatch asks admission about the call of a message, if it has one. Where hooks are
// asked, which takes its time, that is left for the handler to do, so that orders which follow need
// not wait. Whatever is wrong with a call is for that call alone.
func (s *Server) admitInBatch(ctx context.Context, message *pb.ExecuteBatchRequest) {
	slot := &rpcOf(ctx).batch
	slot.call = nil
	request := message.GetCall()
	if request == nil || slot.batch == nil {
		return
	}
	slot.call = &batchCall{request: request, decide: s.decideInBatch}
	if !s.config.Hooks.Has(hook.BeforeCall) {
		s.decideInBatch(ctx, slot.call)
	}
}

// decideInBatch asks admission about a call.
func (s *Server) decideInBatch(ctx context.Context, c *batchCall) {
	slot := &rpcOf(ctx).batch
	c.decide = nil
	defer func() { // which is for this call alone
		if reason := recover(); reason != nil {
			c.err = panicked(ctx, s.config.Logger, reason)
		}
	}()
	switch {
	case c.request.GetSessionId() != "":
		c.err = invalid("session_id is set: the calls of a batch run in its session, so leave it out")
		return
	case c.request.GetOnDisconnect() != 0:
		c.err = invalid("on_disconnect is set: it is that of the batch, so leave it out, and set it in start")
		return
	}
	admitted, asked, err := s.admitCall(ctx, c.request, slot)
	if err == nil && admitted.Order.Session != slot.batch.Session {
		admitted.Permit.Release()
		err = status.Error(codes.NotFound, "the session of the batch was closed")
	}
	c.job, c.inputBytes, c.err = admitted.Job, len(asked.Input.JSON), err
}

// ExecuteBatch sends, on the goroutine of the RPC. What comes is received on another,
// which ends when the client has sent all, or as soon as the handler has returned.
func (s *toolService) ExecuteBatch(stream grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]) error {
	ctx, stop := context.WithCancelCause(stream.Context())
	defer stop(nil)
	in := &batchInput{toolService: s, stream: stream, slot: &rpcOf(ctx).batch, begun: make(chan *executor.BatchReader)}
	go func() {
		defer in.close() // after stop: a batch that ends so has no end for this stream
		defer func() {   // the goroutine is not that of the RPC
			if reason := recover(); reason != nil {
				stop(panicked(ctx, s.server.config.Logger, reason))
			}
		}()
		err := in.receive(ctx)
		if err != nil {
			stop(err)
		}
		in.waiting.drain()
	}()
	select {
	case reader := <-in.begun:
		return sendBatch(ctx, stream, reader)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.server.closing.Done():
		return executor.ErrDraining
	}
}

func (s *toolService) WatchBatch(request *pb.WatchBatchRequest, stream grpc.ServerStreamingServer[pb.WatchBatchResponse]) error {
	ctx := stream.Context()
	if request.GetBatchId() == "" {
		return invalid("batch_id is empty: name the batch, as its first event has it")
	}
	session, err := s.sessions.Peek(principalOf(ctx).Owner(), request.GetSessionId())
	if err != nil {
		return err
	}
	batch, err := s.executor.FindBatch(session.Ref(), request.GetBatchId())
	if err != nil {
		return err
	}
	reader, err := batch.Follow(request.GetAfterSequence())
	if err != nil {
		return err
	}
	return sendBatch(ctx, stream, reader)
}

// sendBatch sends the events that a reader has, to the last, and closes it.
func sendBatch(ctx context.Context, stream grpc.ServerStream, reader *executor.BatchReader) error {
	defer reader.Close()
	for {
		event, ok, err := reader.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || !ok {
			return err
		}
		if err := stream.SendMsg(batchMessage(reader.Batch(), event)); err != nil {
			return err
		}
	}
}

// batchMessage returns an event of a batch as it is sent.
func batchMessage(b *executor.Batch, event executor.BatchEvent) any {
	m := &pb.BatchEvent{Sequence: event.Number}
	switch body := event.Body.(type) {
	case executor.CallEvent:
		return &eventMessage{body.ExecutionID, body.Event, &callOfBatch{event.Number, body.Position, body.CallID}}
	case executor.BatchStarted:
		m.Kind = &pb.BatchEvent_Started{Started: &pb.BatchStarted{BatchId: b.ID, SessionId: b.Session.ID}}
	case executor.CallRefused:
		reason := status.Convert(toStatus(body.Err))
		m.Kind = &pb.BatchEvent_Refused{Refused: &pb.BatchCallRefused{
			Position: uint32(body.Position), CallId: body.CallID, Code: int32(reason.Code()), Message: reason.Message(),
			RetryDelay: retryDelay(reason),
		}}
	case executor.Heartbeat:
		m.Kind = &pb.BatchEvent_Heartbeat{Heartbeat: &pb.Heartbeat{}}
	case executor.SteeringPoint:
		m.Kind = &pb.BatchEvent_SteeringPoint{SteeringPoint: &pb.SteeringPoint{Calls: uint32(body.Calls)}}
	case executor.BatchFinished:
		finished := &pb.BatchFinished{Duration: durationpb.New(body.Duration)}
		for _, call := range body.Calls {
			finished.Calls = append(finished.Calls, &pb.BatchCallSummary{
				CallId: call.CallID, ExecutionId: call.ExecutionID, Tool: call.Tool, Outcome: pb.Outcome(call.Outcome),
			})
		}
		m.Kind = &pb.BatchEvent_Finished{Finished: finished}
	}
	return &pb.ExecuteBatchResponse{Event: m} // which WatchBatchResponse is like
}

// batchInput is what a client sends to a batch.
type batchInput struct {
	*toolService
	stream grpc.BidiStreamingServer[pb.ExecuteBatchRequest, pb.ExecuteBatchResponse]
	slot   *batchSlot
	begun  chan *executor.BatchReader

	waiting waitingCalls
}

// receive takes what the client sends, one message after the other, until its end. A
// client that sends more than the batch has room for waits.
func (in *batchInput) receive(ctx context.Context) error {
	for {
		if batch := in.slot.batch; batch != nil {
			if err := batch.AwaitRoom(ctx); err != nil {
				return err
			}
		}
		message, err := in.stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && in.slot.batch == nil:
			return invalid("there was no message: begin the batch with start, then send calls")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if start := message.GetStart(); start != nil && in.slot.batch == nil {
			if err = in.start(ctx, start); err == nil {
				defer context.AfterFunc(in.server.closing, in.close)()
			}
		} else {
			err = in.take(ctx, message)
		}
		if err != nil {
			return err
		}
	}
}

// close says that no call follows.
func (in *batchInput) close() {
	if in.slot.batch != nil {
		in.slot.batch.Close()
	}
}

// start begins the batch and has its events sent.
func (in *batchInput) start(ctx context.Context, start *pb.BatchStart) error {
	order, err := batchOrder(start)
	if err != nil {
		return err
	}
	onDisconnect, ok := onDisconnectFrom[start.GetOnDisconnect()]
	if !ok {
		return invalid("on_disconnect %d is unknown", start.GetOnDisconnect())
	}
	session, err := in.sessions.Get(principalOf(ctx).Owner(), start.GetSessionId())
	if err != nil {
		return err
	}
	order.Session, order.Measure.Family = session.Ref(), session.Family()
	batch, err := in.executor.NewBatch(order)
	if err != nil {
		return err
	}
	in.slot.batch, in.slot.onDisconnect = batch, onDisconnect
	reader, err := batch.Follow(0)
	if err != nil {
		return err
	}
	select {
	case in.begun <- reader:
	case <-ctx.Done():
		reader.Close()
	}
	return nil
}

// maxBatched is the most that BATCHED runs at once.
const maxBatched = 1000

// batchOrder returns what a client wants a batch to be.
func batchOrder(start *pb.BatchStart) (order executor.BatchOrder, err error) {
	order.ID = start.GetBatchId()
	switch {
	case start.BatchId != nil && order.ID == "":
		return order, invalid("batch_id is empty: leave it out to have one given, or name the batch")
	case len(order.ID) > admission.MaxCallID:
		return order, invalid("batch_id has %d bytes: at most %d", len(order.ID), admission.MaxCallID)
	}
	switch start.GetStrategy() {
	case pb.BatchStrategy_BATCH_STRATEGY_UNSPECIFIED, pb.BatchStrategy_BATCH_STRATEGY_AUTO:
		order.Strategy = executor.Auto
	case pb.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL:
		order.Strategy = executor.Sequential
	case pb.BatchStrategy_BATCH_STRATEGY_PARALLEL:
		order.Strategy = executor.Parallel
	case pb.BatchStrategy_BATCH_STRATEGY_BATCHED:
		order.Strategy, order.Parallel = executor.Batched, int(min(start.GetParallel(), math.MaxInt32))
		if order.Parallel < 1 || order.Parallel > maxBatched {
			return order, invalid("parallel is %d: BATCHED runs 1 to %d calls at the same time", start.GetParallel(), maxBatched)
		}
	default:
		return order, invalid("strategy %d is unknown: want BATCH_STRATEGY_AUTO, SEQUENTIAL, PARALLEL or BATCHED", start.GetStrategy())
	}
	if order.Strategy != executor.Batched && start.GetParallel() != 0 {
		return order, invalid("parallel is set, and is for BATCH_STRATEGY_BATCHED alone: leave it out, or set that strategy")
	}
	budget, err := budgetFrom(start.GetAnswer())
	if err == nil && budget.Check(math.MaxInt32) != nil {
		err = invalid("answer: %v", budget.Check(math.MaxInt32))
	}
	order.Answer, order.Measure.Tokens = budget.Size(), budget.Tokens > 0
	return order, err
}

// take does what a message says. An error ends the RPC; what is wrong with a call or an
// order does not.
func (in *batchInput) take(ctx context.Context, message *pb.ExecuteBatchRequest) error {
	batch := in.slot.batch
	if batch == nil {
		return invalid("the first message is not start: begin the batch with start, then send calls and orders")
	}
	switch kind := message.GetKind().(type) {
	case *pb.ExecuteBatchRequest_Start:
		return invalid("start came twice: it is the first message and no other. Begin another batch in another stream")
	case *pb.ExecuteBatchRequest_Call:
		in.call(ctx, kind.Call)
	case *pb.ExecuteBatchRequest_Interrupt:
		if reason := kind.Interrupt.GetReason(); in.fits("", "the reason of the interrupt", reason, admission.MaxText) {
			in.waiting.stop("", status.Error(codes.Canceled, "the call was skipped, and nothing of it ran: before it was admitted the batch was interrupted"+because(reason)))
			batch.Interrupt(reason, principalOf(ctx).Name)
		}
	case *pb.ExecuteBatchRequest_Cancel:
		in.cancel(ctx, kind.Cancel)
	case *pb.ExecuteBatchRequest_Message:
		if text := kind.Message.GetText(); in.fits("", "the message", text, maxBatchMessage) {
			batch.Say(text)
		}
	default:
		return invalid("the message is empty: set call, interrupt, cancel or message")
	}
	return nil
}

// maxBatchMessage is how many bytes a message to tools has at most.
const maxBatchMessage = 64 << 10

// fits reports whether a text of an order is not too long, and refuses the order where
// it is.
func (in *batchInput) fits(callID, what, text string, most int) bool {
	if len(text) > most {
		in.slot.batch.RefuseOrder(callID, invalid("%s has %d bytes: at most %d", what, len(text), most))
	}
	return len(text) <= most
}

// call starts the call that was admitted, or has it admitted.
func (in *batchInput) call(ctx context.Context, request *pb.ExecuteToolRequest) {
	batch, c := in.slot.batch, in.slot.call
	if in.slot.call = nil; c == nil || c.request != request {
		c = &batchCall{request: request}
	}
	id, tool := cut(request.GetCallId(), admission.MaxCallID), cut(request.GetTool(), admission.MaxTool)
	if c.decide != nil {
		var err error
		if c.position, err = batch.Reserve(id, tool, len(request.GetInputJson())+proto.Size(request.GetInput())); err == nil {
			in.waiting.add(ctx, c, in.decide)
		}
		return
	}
	if c.err == nil && c.job == nil {
		c.err = errNotAdmitted
	}
	if c.err != nil {
		in.started(ctx, nil, c.err) // who hears of the refusal finds it counted
		batch.Refuse(id, tool, c.err)
		return
	}
	x, err := batch.Start(ctx, c.job, tool, c.inputBytes)
	in.started(ctx, x, err)
}

// decide has a call that waits admitted, and starts it.
func (in *batchInput) decide(ctx context.Context, c *batchCall) {
	c.decide(c.ctx, c)
	in.waiting.leave(c, func() {
		if cause := context.Cause(c.ctx); cause != nil {
			if c.job != nil {
				c.job.Permit.Release()
			}
			c.job, c.err = nil, cause
		}
		if c.err != nil {
			in.started(ctx, nil, c.err) // as in call
			in.slot.batch.RefuseReserved(c.position, cut(c.request.GetCallId(), admission.MaxCallID), c.err)
			return
		}
		x, err := in.slot.batch.StartReserved(ctx, c.position, c.job)
		in.started(ctx, x, err)
	})
}

// started does what follows from starting a call, or from not doing that.
func (in *batchInput) started(ctx context.Context, x *executor.Execution, err error) {
	if over, ok := errors.AsType[*quota.Error](err); ok {
		in.server.overQuota(rpcOf(ctx), over)
	}
	if x != nil {
		in.server.stops.overtake(ctx, x)
	}
}

// cancel ends one call, or all.
func (in *batchInput) cancel(ctx context.Context, order *pb.BatchCancel) {
	callID := cut(order.GetCallId(), admission.MaxCallID)
	if !in.fits(callID, "the reason of the cancel", order.GetReason(), admission.MaxText) {
		return
	}
	in.waiting.stop(callID, status.Error(codes.Canceled, "the call was cancelled before it was admitted, and nothing of it ran"+because(order.GetReason())))
	unfinished, err := in.slot.batch.Unfinished(callID)
	if err != nil {
		in.slot.batch.RefuseOrder(callID, err)
		return
	}
	for _, x := range unfinished {
		if x.Stopping() {
			continue // as it was told before
		}
		in.server.auditor.cancelled(ctx, x, order.GetReason())
		x.Cancel(order.GetReason(), principalOf(ctx).Name)
	}
}

// because returns the reason of an order, as the end of a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// cut returns the beginning of a text that a client sent, which may be anything.
func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}
