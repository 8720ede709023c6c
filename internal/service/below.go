// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// below returns below which session a new one is to be, and the call that begins it; nil
// for a session of a caller. Only callers inside the process may ask for that, in the name
// of who made the call: the same principal on behalf of the same user.
func (s *sessionService) below(ctx context.Context, request *pb.CreateSessionRequest) (*session.Below, *executor.Execution, error) {
	if request.GetParentSessionId() == "" && request.GetParentExecutionId() == "" && request.GetAgent() == "" && !request.GetBackground() {
		return nil, nil, nil
	}
	caller := principalOf(ctx)
	switch {
	case !isInside(ctx):
		return nil, nil, status.Error(codes.PermissionDenied, "only the server makes sessions below others, for agents that are given tasks: leave out parent_session_id, parent_execution_id, agent and background")
	case request.GetParentSessionId() == "" || request.GetParentExecutionId() == "" || request.GetAgent() == "":
		return nil, nil, invalid("a session of an agent needs parent_session_id, parent_execution_id and agent")
	}
	parent, err := s.sessions.Get(caller.Owner(), request.GetParentSessionId())
	if err != nil {
		return nil, nil, err
	}
	begins, err := s.executor.Find(caller.Owner(), request.GetParentExecutionId())
	if err != nil {
		return nil, nil, err
	}
	switch {
	case begins.Order.Session != parent.Ref():
		return nil, nil, invalid("parent_execution_id: the execution is one of session %q, and not of %q", begins.Order.Session.ID, parent.ID)
	case begins.Order.OnBehalfOf != caller.OnBehalfOf:
		return nil, nil, status.Error(codes.PermissionDenied, "parent_execution_id: the execution is on behalf of another user than the caller's")
	case begins.Context().Err() != nil:
		return nil, nil, status.Errorf(codes.FailedPrecondition, "parent_execution_id: execution %s does not run any more, and begins no agent", begins.ID)
	}
	return &session.Below{
		Parent: parent, Agent: request.GetAgent(), ExecutionID: begins.ID, OnBehalfOf: begins.Order.OnBehalfOf, Background: request.GetBackground(),
	}, begins, nil
}

// endWith has a session of an agent end with the call that began it, as soon as the call is
// to stop.
func (s *Server) endWith(begins *executor.Execution, child *session.Session) {
	if child.Below.Background {
		return
	}
	s.ending.Add(1)
	over := context.AfterFunc(begins.Context(), func() {
		defer s.ending.Done()
		s.endBelow(child)
	})
	forget := func() {
		if over() {
			s.ending.Done()
		}
	}
	if !child.AfterClose(forget) {
		forget()
	}
}

// endAgents ends the sessions that an execution began, and returns when nothing runs in
// them. Those for the background stay.
func (s *Server) endAgents(x *executor.Execution) {
	found, err := s.config.Sessions.Resolve(x.Order.Session)
	if err != nil {
		return
	}
	for _, child := range s.config.Sessions.Children(found) {
		if child.Below.ExecutionID == x.ID && !child.Below.Background {
			s.endBelow(child)
		}
	}
}

// endBelow ends a session of an agent because the call that began it has.
func (s *Server) endBelow(child *session.Session) {
	const why = "ended with the call that began it"
	s.end(s.closing, child, ending{why: why, cause: "the session " + why, by: auth.Server, reason: why})
}

// An ending is how sessions end: why, in words that follow "it", the cause that their calls
// are told, who had it done, from where, and the reason that is recorded.
type ending struct{ why, cause, by, from, reason string }

// end ends a session and those below it: it cancels what runs in them, all at once, and
// returns when nothing does, with how many executions that were.
func (s *Server) end(ctx context.Context, root *session.Session, e ending) (n int, err error) {
	s.config.Sessions.Erase(root)
	defer s.holdForHooks(root)()
	ended := s.config.Sessions.End(root, e.why)
	cancelled := make(map[session.Ref]int)
	for _, one := range append(s.config.Sessions.Tree(root), ended...) { // also what somebody else has ended meanwhile
		cancelled[one.Ref()] = 0
	}
	n, err = s.executor.CancelWhere(ctx, func(x *executor.Execution) bool {
		_, match := cancelled[x.Order.Session]
		if match {
			cancelled[x.Order.Session]++
		}
		return match
	}, e.cause, e.by)
	for _, one := range ended {
		why, reason := e.why, e.reason
		if one != root {
			why = "ended with session " + one.Below.Parent.ID + ", which began it"
			reason = why
		}
		s.auditor.closed(one, cancelled[one.Ref()], e.by, e.from, reason)
		s.sessionHooks(ctx, hook.SessionEnd, one, why)
	}
	return n, err
}

// holdForHooks keeps the workspaces of a session that ends, and of those below it, until
// leave is called, where hooks are about the end of sessions.
func (s *Server) holdForHooks(root *session.Session) (leave func()) {
	var held []*session.Session
	if s.config.Hooks.Has(hook.SessionEnd) {
		for _, one := range s.config.Sessions.Tree(root) {
			if one.Enter() {
				held = append(held, one)
			}
		}
	}
	return func() {
		for _, one := range held {
			one.Leave()
		}
	}
}

// chainText says who asked whom in one line, for the audit log: the outermost session, then
// each agent with its session, and before it the call that began it.
func chainText(chain []session.Link) string {
	if len(chain) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(chain[0].ParentID)
	for _, link := range chain {
		text.WriteString(" (" + link.ExecutionID + ") > " + link.Agent + " in " + link.SessionID)
	}
	return text.String()
}

func chainToProto(chain []session.Link) []*pb.AgentLink {
	var list []*pb.AgentLink
	for _, link := range chain {
		list = append(list, &pb.AgentLink{Agent: link.Agent, SessionId: link.SessionID, ParentSessionId: link.ParentID, ExecutionId: link.ExecutionID})
	}
	return list
}

// withBelow adds to a session below which one it is.
func withBelow(m *pb.Session, of session.Link, depth int) *pb.Session {
	m.ParentSessionId, m.ParentExecutionId, m.Agent, m.Depth = of.ParentID, of.ExecutionID, of.Agent, uint32(depth)
	return m
}
