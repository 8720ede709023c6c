// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/span"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// admit asks admission about each message that wants a tool to run or files to be
// moved, and leaves the job or the transfer for the handler.
func (s *Server) admit(ctx context.Context, message any) error {
	switch request := message.(type) {
	case *pb.ExecuteToolRequest:
		rpc := rpcOf(ctx)
		rpc.asks(request)
		admitted, asked, err := s.admitCall(ctx, request, nil)
		rpc.inputBytes = len(asked.Input.JSON)
		if err != nil {
			return err
		}
		rpc.input, rpc.job = admitted.Input, admitted.Job
		return nil
	case *pb.ExecuteBatchRequest:
		s.admitInBatch(ctx, request)
		return nil
	}
	return s.files.admit(ctx, message)
}

// admitCall asks admission about a call, which may be one of a batch.
func (s *Server) admitCall(ctx context.Context, request *pb.ExecuteToolRequest, of *batchSlot) (admission.Admitted, *admission.Request, error) {
	ctx, decide := span.Start(ctx, "decide")
	defer decide.End()
	rpc := rpcOf(ctx)
	asked := &admission.Request{Principal: rpc.principal, Trace: rpc.span.Trace()}
	if err := translate(request, asked); err != nil {
		return admission.Admitted{}, asked, err
	}
	if of != nil {
		asked.SessionID, asked.OnDisconnect, asked.Batch = of.batch.Session.ID, of.onDisconnect, of.batch
	}
	admitted, err := s.admission.Admit(ctx, asked)
	if err == nil {
		describe(decide, admitted)
	}
	return admitted, asked, err
}

// translate fills in what a message asks for. What only a message can have wrong is an
// error.
func translate(message *pb.ExecuteToolRequest, request *admission.Request) (err error) {
	request.SessionID, request.Tool, request.CallID = message.GetSessionId(), message.GetTool(), message.GetCallId()
	request.Purpose = message.GetPurpose()
	switch {
	case message.CallId != nil && request.CallID == "":
		return invalid("call_id is empty: leave it out to have one given, or name the call")
	case message.Input != nil && len(message.InputJson) > 0:
		return invalid("input and input_json are both set: send one of them")
	}
	if d := message.GetTimeout(); d != nil {
		if request.Timeout = d.AsDuration(); d.CheckValid() != nil || request.Timeout <= 0 {
			request.Timeout = -1 // admission says what is right
		}
	}
	var ok bool
	if request.OnDisconnect, ok = onDisconnectFrom[message.GetOnDisconnect()]; !ok {
		return invalid("on_disconnect %d is unknown", message.GetOnDisconnect())
	}
	request.Input = inputOf(message)
	request.Answer, err = budgetFrom(message.GetAnswer())
	return err
}

// describe notes what was decided about a call, without the reason: that may name what
// is in the input.
func describe(decide span.Span, admitted admission.Admitted) {
	if !decide.Sampled() {
		return
	}
	order := &admitted.Order
	decide.Set("toolserver.tool", order.Tool)
	if admitted.Known() {
		decide.Set("toolserver.replayed", "true") // decided when it first came
		return
	}
	action := order.Verdict.Action.String()
	if order.Refusal != nil {
		action = policy.Deny.String()
		decide.Set("toolserver.outcome", order.Refusal.Outcome.String())
	}
	decide.Set("toolserver.action", action)
	decide.Set("toolserver.rule", order.Verdict.Rule)
	decide.Set("toolserver.policy", order.Policy)
}

var onDisconnectFrom = map[pb.OnDisconnect]executor.OnDisconnect{
	pb.OnDisconnect_ON_DISCONNECT_UNSPECIFIED: executor.Grace,
	pb.OnDisconnect_ON_DISCONNECT_GRACE:       executor.Grace,
	pb.OnDisconnect_ON_DISCONNECT_CANCEL:      executor.CancelAtOnce,
	pb.OnDisconnect_ON_DISCONNECT_DETACH:      executor.Detach,
}
