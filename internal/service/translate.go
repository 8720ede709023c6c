// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// This file translates values of the floors below into messages. Enumerations are converted by
// number: both sides have the same order, which a test proves by name.

func eventToProto(execution string, event executor.Event) *pb.Event {
	m := &pb.Event{ExecutionId: execution, Sequence: event.Seq, Time: timestamppb.New(event.Time)}
	switch body := event.Body.(type) {
	case executor.Accepted:
		m.Kind = &pb.Event_Accepted{Accepted: &pb.Accepted{
			SessionId: body.SessionID, CallId: body.CallID, Tool: body.Tool,
			Verdict: verdictToProto(&body.Verdict, body.Policy), Timeout: durationpb.New(body.Timeout),
		}}
		m.GetAccepted().Verdict.Rights = accessToProto(body.Access)
	case executor.ApprovalRequested:
		m.Kind = &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{Approval: approvalToProto(body.Question)}}
	case executor.ApprovalResolved:
		m.Kind = &pb.Event_ApprovalResolved{ApprovalResolved: &pb.ApprovalResolved{
			ApprovalId: body.QuestionID, Answer: answerToProto(&body.Answer),
		}}
	case executor.Started:
		m.Kind = &pb.Event_Started{Started: &pb.Started{}}
	case executor.Output:
		m.Kind = &pb.Event_Output{Output: &pb.Output{
			Stream: pb.OutputStream(body.Stream), Offset: body.Offset, Data: body.Data,
		}}
	case executor.Progress:
		m.Kind = &pb.Event_Progress{Progress: &pb.Progress{
			Message: body.Message, Done: body.Done, Total: body.Total, Unit: body.Unit,
		}}
	case executor.Partial:
		m.Kind = &pb.Event_PartialResult{PartialResult: &pb.PartialResult{Content: contentToProto(body.Content)}}
	case executor.UserMessage:
		m.Kind = &pb.Event_UserMessage{UserMessage: userMessageToProto(body)}
	case executor.Nested:
		nested := new(pb.Nested)
		if err := proto.Unmarshal(body, nested); err == nil {
			m.Kind = &pb.Event_Nested{Nested: nested}
		}
	case executor.Heartbeat:
		m.Kind = &pb.Event_Heartbeat{Heartbeat: &pb.Heartbeat{}}
	case executor.Skipped:
		m.Kind = &pb.Event_Skipped{Skipped: &pb.Skipped{First: body.First}}
	case executor.Finished:
		m.Kind = &pb.Event_Finished{Finished: finishedToProto(&body)}
	}
	return m
}

func userMessageToProto(message executor.UserMessage) *pb.UserMessage {
	m := &pb.UserMessage{Message: message.Message, Status: pb.UserMessageStatus_USER_MESSAGE_STATUS_NORMAL}
	if message.Proactive {
		m.Status = pb.UserMessageStatus_USER_MESSAGE_STATUS_PROACTIVE
	}
	for _, a := range message.Attachments {
		m.Attachments = append(m.Attachments, &pb.Attachment{Path: a.Path, Size: a.Size, MediaType: a.MediaType})
	}
	return m
}

func finishedToProto(f *executor.Finished) *pb.Finished {
	m := &pb.Finished{
		Outcome:     pb.Outcome(f.Outcome),
		Content:     contentToProto(f.Result.Content),
		DetailsJson: string(f.Result.Details),
		Verdict:     verdictToProto(f.Verdict, f.Policy),
		Warnings:    f.Result.Warnings,

		ContentTokens: uint32(f.Tokens),
		Usage: &pb.Usage{
			Waited: durationpb.New(f.Waited), Ran: durationpb.New(f.Ran), OutputBytes: f.OutputBytes,
		},
	}
	if exit := f.Result.Exit; exit != nil {
		m.Exit = &pb.ExitStatus{
			Reason: pb.ExitReason(exit.Reason), Code: int32(exit.Code), Signal: exit.Signal, Message: exit.Message,
		}
	}
	if used := f.Result.Usage; used != nil {
		m.Usage.CpuUser, m.Usage.CpuSystem = durationpb.New(used.User), durationpb.New(used.System)
		m.Usage.MaxRssBytes, m.Usage.Processes = used.MaxRSS, used.Processes
	}
	if f.Failure != nil {
		m.Failure = failureToProto(f.Failure)
	}
	if f.Cancelled != nil {
		m.Cancellation = &pb.Cancellation{Reason: f.Cancelled.Reason, By: f.Cancelled.By}
	}
	if lost := f.LostResult; lost != nil {
		m.LostResult = &pb.LostResult{Outcome: pb.Outcome(lost.Outcome), EndTime: timestamppb.New(lost.Ended), Reason: lost.Reason}
	}
	for _, run := range f.Hooks {
		m.Hooks = append(m.Hooks, &pb.HookRun{
			Hook: run.Hook, Point: string(run.Point), Outcome: pb.HookOutcome(run.Outcome), Message: output.ValidText(run.Message),
			Advisory: run.Advisory, Took: durationpb.New(run.Took),
		})
	}
	if f.TotalBytes > 0 {
		m.Truncation = &pb.Truncation{TotalBytes: uint64(f.TotalBytes), KeptBytes: uint64(f.KeptBytes)}
	}
	return m
}

func failureToProto(f *executor.Failure) *pb.Failure {
	m := &pb.Failure{Code: f.Code, Message: f.Message, Retryable: f.Retryable}
	if f.RetryAfter > 0 {
		m.RetryAfter = durationpb.New(f.RetryAfter)
	}
	for _, p := range f.Problems {
		m.Problems = append(m.Problems, &pb.Problem{Pointer: p.Pointer, Message: p.Message})
	}
	return m
}

func contentToProto(content []tools.Content) []*pb.Content {
	list := make([]*pb.Content, len(content))
	for i, c := range content {
		m := new(pb.Content)
		switch c := c.(type) {
		case tools.Text:
			m.Kind = &pb.Content_Text{Text: string(c)}
		case tools.JSON:
			m.Kind = &pb.Content_Json{Json: string(c)}
		case tools.Image:
			m.Kind = &pb.Content_Image{Image: &pb.Image{MediaType: c.MediaType, Data: c.Data}}
		case tools.Artifact:
			m.Kind = &pb.Content_Artifact{Artifact: &pb.ArtifactLink{
				Uri: c.URI, Name: c.Name, MediaType: c.MediaType, Size: c.Size,
				Incomplete: c.Incomplete, WrittenBytes: c.Written,
			}}
		}
		list[i] = m
	}
	return list
}

func executionToProto(x *executor.Execution) *pb.Execution { return executionAt(x, x.Info()) }

// executionAt returns an execution as it stood at one moment.
func executionAt(x *executor.Execution, info executor.Info) *pb.Execution {
	return &pb.Execution{
		ExecutionId:   x.ID,
		SessionId:     x.Order.Session.ID,
		CallId:        x.Order.CallID,
		Tool:          x.Order.Tool,
		CalledAs:      x.Order.CalledAs,
		State:         pb.ExecutionState(info.State),
		Outcome:       pb.Outcome(info.Outcome),
		Purpose:       x.Order.Purpose,
		Principal:     x.Order.Session.Owner.Name(),
		Tenant:        x.Order.Session.Owner.Tenant(),
		OnBehalfOf:    output.ValidText(x.Order.OnBehalfOf),
		CreateTime:    timeToProto(x.Created),
		StartTime:     timeToProto(info.Started),
		EndTime:       timeToProto(info.Ended),
		Timeout:       durationpb.New(x.Order.Timeout),
		FirstSequence: info.FirstSeq,
		LastSequence:  info.LastSeq,
		Followers:     uint32(info.Followers),
		OnDisconnect:  pb.OnDisconnect(x.Order.OnDisconnect + 1),
	}
}

// executionWithResult is executionToProto with how the call was judged and, once
// it ended, its end.
func executionWithResult(x *executor.Execution) *pb.Execution {
	info := x.Info()
	m := executionAt(x, info)
	m.InputJson = output.ValidText(string(x.Input()))
	if o := &x.Order; o.Verdict.Rule != "" {
		m.Verdict = verdictToProto(&o.Verdict, o.Policy)
		if o.Verdict.Action != policy.Deny {
			m.Verdict.Rights = accessToProto(info.Access)
		}
		effects := o.Effects
		if effects == nil {
			own := policy.Judged{Effect: tools.Effect{Kind: tools.UsesTool, Tool: o.Tool}, Verdict: o.Verdict}
			effects = &executor.Effects{Judged: []policy.Judged{own}}
		}
		m.Effects, m.MoreEffects = judgedToProto(effects.Judged), uint32(effects.More)
	}
	if finished, ok := x.Finished(); ok {
		m.Finished = finishedToProto(&finished)
	}
	return m
}

// timeToProto returns nil for a time that has not come.
func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toolToProto(entry *tools.Entry, view pb.ToolView) *pb.Tool {
	spec := &entry.Spec
	m := &pb.Tool{
		Name:                 spec.Name,
		Aliases:              spec.Aliases,
		Label:                spec.Label,
		Summary:              spec.Summary,
		Category:             spec.Category,
		Kind:                 pb.ToolKind(spec.Kind + 1),
		Level:                pb.Level(spec.Level),
		ConcurrencySafe:      spec.ConcurrencySafe,
		Dangerous:            spec.Dangerous,
		RequiredCapabilities: spec.RequiredCapabilities,
		UnavailableReason:    entry.Unavailable,
	}
	if spec.DefaultTimeout > 0 {
		m.DefaultTimeout = durationpb.New(spec.DefaultTimeout)
	}
	if view != pb.ToolView_TOOL_VIEW_FULL {
		return m
	}
	m.Description, m.Help = spec.Description, spec.Help
	m.InputSchema, m.ResultSchema = string(entry.Tool.InputSchema()), string(spec.ResultSchema)
	m.Tokens = uint32(tokensOf(m))
	for _, e := range spec.Examples {
		m.Examples = append(m.Examples, &pb.ToolExample{Summary: e.Summary, InputJson: string(e.Input)})
	}
	return m
}

// idleToProto writes for ever as 0.
func idleToProto(ttl time.Duration) *durationpb.Duration {
	if ttl == session.Forever {
		ttl = 0
	}
	return durationpb.New(ttl)
}

func budgetToProto(b tools.Budget) *pb.AnswerBudget {
	if b.Tokens > 0 {
		return &pb.AnswerBudget{Size: &pb.AnswerBudget_Tokens{Tokens: uint32(b.Tokens)}}
	}
	return &pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: uint32(b.Characters)}}
}

func sessionToProto(s *session.Session) *pb.Session {
	m := settingsToProto(s.Settings())
	m.SessionId, m.Principal, m.Tenant, m.Workspace = s.ID, s.Owner.Name(), s.Owner.Tenant(), s.Workspace.Dir()
	m.CreateTime, m.LastUsedTime = timestamppb.New(s.Created), timestamppb.New(s.LastUsed())
	m.IsDefault = s.ID == session.DefaultID
	m.Activation.Active = s.Active()
	if chain := s.Chain(); len(chain) > 0 {
		m.Background = s.Below.Background
		return withBelow(m, chain[len(chain)-1], len(chain))
	}
	return m
}

func settingsToProto(settings *session.Settings) *pb.Session {
	m := &pb.Session{
		Level:      pb.Level(settings.Level),
		Mode:       pb.Mode(settings.Mode),
		Network:    pb.Network(settings.Network),
		Tools:      &pb.ToolSelection{Include: settings.Tools.Include, Exclude: settings.Tools.Exclude},
		Labels:     settings.Labels,
		Persona:    settings.Persona,
		Dialect:    settings.Dialect,
		Activation: &pb.ToolActivation{Limit: uint32(settings.Activation.Limit), Pinned: settings.Activation.Pinned},
		IdleTtl:    idleToProto(settings.IdleTTL),
		Answer:     budgetToProto(settings.Answer),
		CallOrder:  pb.CallOrder_CALL_ORDER_FREE,
		EditErrors: durationpb.New(max(0, settings.EditErrors)),
	}
	if settings.Ordered {
		m.CallOrder = pb.CallOrder_CALL_ORDER_SAFE
	}
	return m
}

func strandedToProto(s session.Stranded) *pb.Session {
	m := settingsToProto(s.Settings)
	m.SessionId, m.Principal, m.Tenant, m.Workspace = s.ID, s.Owner.Name(), s.Owner.Tenant(), s.Workspace
	m.CreateTime, m.LastUsedTime = timestamppb.New(s.Created), timestamppb.New(s.LastUsed)
	m.IsDefault, m.Stranded = s.ID == session.DefaultID, s.Why
	return m
}

func endedToProto(e session.Ended) *pb.Session {
	m := settingsToProto(e.Settings)
	m.SessionId, m.Principal, m.Tenant, m.Workspace = e.ID, e.Owner.Name(), e.Owner.Tenant(), e.Workspace
	m.CreateTime, m.LastUsedTime = timestamppb.New(e.Created), timestamppb.New(e.LastUsed)
	m.EndTime, m.EndReason, m.WorkspaceExpireTime = timestamppb.New(e.At), "It "+e.Reason+".", timeToProto(e.KeptUntil)
	return withBelow(m, e.Of, e.Depth)
}
