// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// admission decides whether calls may run. It never runs one: the handler
// behind it runs what was admitted, and nothing else.
type admission struct {
	registry *tools.Registry
	sessions *session.Store
	policy   *policy.Engine
	executor *executor.Executor
}

// look judges each message that asks for a tool to run, and leaves the order
// for the handler.
func (a *admission) look(ctx context.Context, message any) error {
	request, ok := message.(*pb.ExecuteToolRequest)
	if !ok {
		return nil
	}
	order, err := a.admit(ctx, request)
	if err != nil {
		return err
	}
	rpcOf(ctx).order = &order
	return nil
}

// admit decides whether one call may run. What the caller did wrong is an
// error; what the model did wrong is an order that carries its refusal.
func (a *admission) admit(ctx context.Context, request *pb.ExecuteToolRequest) (executor.Order, error) {
	order, input, err := a.envelope(ctx, request)
	if err != nil {
		return order, err
	}
	if existing, err := a.executor.Existing(order); existing != nil || err != nil {
		return order, err // judged when it first came
	}
	entry, ok := a.registry.Lookup(request.GetTool())
	settings := order.Session.Settings()
	if !ok || !settings.Tools.Has(&entry.Spec) {
		return refuse(order, executor.NoSuchTool, "no_such_tool", a.unknown(request.GetTool(), settings.Tools)), nil
	}
	order.Tool = entry.Spec.Name
	if entry.Unavailable != "" {
		return refuse(order, executor.NoSuchTool, "unavailable",
			fmt.Sprintf("The tool %s cannot be used here: it %s.", order.Tool, entry.Unavailable)), nil
	}
	if order.Timeout == 0 {
		order.Timeout = entry.Spec.DefaultTimeout
	}
	if input.problem != nil {
		return refuseInput(order, input.problem), nil
	}
	env := tools.Env{SessionID: order.Session.ID, CallID: order.CallID, Workspace: order.Session.Workspace, Session: order.Session, Changes: order.Session.Changes}
	call, err := entry.Tool.Decode(env, input.json) // once: policy and tool share this value
	if wrong, ok := errors.AsType[*tools.InputError](err); ok {
		return refuseInput(order, wrong), nil
	}
	if err != nil {
		return order, err
	}
	rpcOf(ctx).decoded(input.json)
	who := policy.Subject{Level: settings.Level, Mode: settings.Mode}
	order.Verdict = a.policy.Decide(who, entry.Spec, call.Effects())
	if order.Verdict.Action != policy.Allow {
		return deny(order), nil
	}
	order.Call, order.Quick = call, entry.Spec.Quick
	return order, nil
}

// Limits of the envelope, in bytes.
const (
	maxCallID  = 256
	maxToolLen = 128
	maxText    = 4096
)

// envelope checks what is around the input, and finds the session.
func (a *admission) envelope(ctx context.Context, request *pb.ExecuteToolRequest) (executor.Order, toolInput, error) {
	order := executor.Order{
		Owner: principalOf(ctx).Name, Tool: request.GetTool(),
		CallID: request.GetCallId(), Purpose: request.GetPurpose(),
	}
	rpcOf(ctx).asks(request)
	switch {
	case order.Tool == "":
		return order, toolInput{}, invalid("tool is empty: name the tool to execute; ListTools tells which there are")
	case len(order.Tool) > maxToolLen:
		return order, toolInput{}, invalid("tool has %d bytes: at most %d", len(order.Tool), maxToolLen)
	case request.CallId != nil && order.CallID == "":
		return order, toolInput{}, invalid("call_id is empty: leave it out to have one given, or name the call")
	case len(order.CallID) > maxCallID:
		return order, toolInput{}, invalid("call_id has %d bytes: at most %d", len(order.CallID), maxCallID)
	case len(order.Purpose) > maxText:
		return order, toolInput{}, invalid("purpose has %d bytes: at most %d", len(order.Purpose), maxText)
	case request.Input != nil && len(request.InputJson) > 0:
		return order, toolInput{}, invalid("input and input_json are both set: send one of them")
	}
	if d := request.GetTimeout(); d != nil {
		timeout, longest := d.AsDuration(), a.executor.Config().MaxTimeout
		if err := d.CheckValid(); err != nil || timeout <= 0 || timeout > longest {
			return order, toolInput{}, invalid("timeout must be more than 0 and at most %s; leave it out for the tool's default", longest)
		}
		order.Timeout = timeout
	}
	var ok bool
	if order.OnDisconnect, ok = onDisconnectFrom[request.GetOnDisconnect()]; !ok {
		return order, toolInput{}, invalid("on_disconnect %d is unknown", request.GetOnDisconnect())
	}
	var err error
	if order.Session, err = a.sessions.Get(order.Owner, request.GetSessionId()); err != nil {
		return order, toolInput{}, err
	}
	input := inputOf(request)
	rpcOf(ctx).inputBytes = len(input.json)
	if order.CallID != "" {
		order.Digest = digest(order.Tool, input)
	}
	return order, input, nil
}

// digest stands for a tool and its input. The tool counts as it was named.
func digest(tool string, input toolInput) [32]byte {
	h := sha256.New()
	h.Write([]byte(tool))
	h.Write([]byte{0})
	h.Write(input.json)
	return [32]byte(h.Sum(nil))
}

// unknown explains to the model that there is no such tool, with the nearest
// names among those the session has.
func (a *admission) unknown(name string, selection tools.Selection) string {
	entries, _ := a.registry.All()
	var names []string
	for _, entry := range entries {
		if selection.Has(&entry.Spec) {
			names = append(names, entry.Spec.Name)
		}
	}
	message := fmt.Sprintf("There is no tool %q in this session.", name)
	if near := tools.Nearest(name, names); len(near) > 0 {
		return message + " Did you mean " + strings.Join(near, ", ") + "?"
	}
	return message + " ListTools tells which there are."
}

func refuse(order executor.Order, outcome executor.Outcome, code, message string) executor.Order {
	order.Refusal = &executor.Finished{
		Outcome: outcome,
		Result:  tools.TextResult(message),
		Failure: &executor.Failure{Code: code, Message: message},
	}
	return order
}

func refuseInput(order executor.Order, wrong *tools.InputError) executor.Order {
	message := fmt.Sprintf("The input of %s is not valid. Correct it and call again:\n%s", order.Tool, wrong)
	order = refuse(order, executor.InvalidInput, "invalid_input", message)
	order.Refusal.Failure.Problems = wrong.Problems
	return order
}

// deny refuses a call that the policy does not allow. Nobody can be asked yet,
// so a question is a refusal too.
func deny(order executor.Order) executor.Order {
	message := order.Verdict.Reason
	if order.Verdict.Action == policy.Ask {
		message += " Nobody can be asked for approval on this server."
	}
	order = refuse(order, executor.Denied, "denied", message)
	verdict := order.Verdict
	order.Refusal.Verdict = &verdict
	return order
}

var onDisconnectFrom = map[pb.OnDisconnect]executor.OnDisconnect{
	pb.OnDisconnect_ON_DISCONNECT_UNSPECIFIED: executor.Grace,
	pb.OnDisconnect_ON_DISCONNECT_GRACE:       executor.Grace,
	pb.OnDisconnect_ON_DISCONNECT_CANCEL:      executor.CancelAtOnce,
	pb.OnDisconnect_ON_DISCONNECT_DETACH:      executor.Detach,
}
