// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"maps"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// sessionService answers SessionService.
type sessionService struct {
	pb.UnimplementedSessionServiceServer
	server   *Server
	sessions *session.Store
	executor *executor.Executor
	auditor  *auditor
	storage  func(tenant string, more uint64) error
}

func (s *sessionService) CreateSession(ctx context.Context, request *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	settings, err := settingsFrom(request)
	if err != nil {
		return nil, err
	}
	settings.MaxMode = principalOf(ctx).MaxMode
	below, begins, err := s.below(ctx, request)
	if err != nil {
		return nil, err
	}
	if below != nil {
		settings.MaxMode = session.LeastMode(settings.MaxMode, begins.Order.MaxMode)
	}
	if err := s.storage(principalOf(ctx).Tenant, 0); err != nil {
		return nil, err
	}
	created, err := s.sessions.Create(principalOf(ctx).Owner(), session.Request{
		ID: request.GetSessionId(), Workspace: request.GetWorkspace(), Settings: settings, Restore: request.GetRestore(), Below: below,
	})
	if err != nil {
		return nil, err
	}
	if below != nil {
		s.server.endWith(begins, created)
	}
	s.auditor.created(ctx, created)
	s.server.sessionHooks(ctx, hook.SessionStart, created, "")
	return &pb.CreateSessionResponse{Session: sessionToProto(created)}, nil
}

// settingsFrom reads what requests and sessions have in common.
func settingsFrom(message interface {
	GetLevel() pb.Level
	GetMode() pb.Mode
	GetNetwork() pb.Network
	GetTools() *pb.ToolSelection
	GetLabels() map[string]string
	GetIdleTtl() *durationpb.Duration
	GetCallOrder() pb.CallOrder
	GetAnswer() *pb.AnswerBudget
	GetPersona() string
	GetActivation() *pb.ToolActivation
	GetDialect() string
	GetEditErrors() *durationpb.Duration
}) (session.Settings, error) {
	settings := session.Settings{
		Level:   tools.Level(message.GetLevel()),
		Mode:    tools.Mode(message.GetMode()),
		Network: tools.Network(message.GetNetwork()),
		Tools:   tools.Selection{Include: message.GetTools().GetInclude(), Exclude: message.GetTools().GetExclude()},
		Labels:  message.GetLabels(),
		Persona: message.GetPersona(),
		Dialect: message.GetDialect(),

		Activation: session.Activation{Limit: int(min(message.GetActivation().GetLimit(), math.MaxInt32)), Pinned: message.GetActivation().GetPinned()},
		Ordered:    message.GetCallOrder() == pb.CallOrder_CALL_ORDER_SAFE,
	}
	if wait := message.GetEditErrors(); wait != nil {
		settings.EditErrors = cmp.Or(wait.AsDuration(), session.NoEditErrors)
		if wait.AsDuration() < 0 {
			return settings, invalid("edit_errors is negative: give a time of at most %s, or 0 for none", session.MaxEditErrors)
		}
	}
	if _, known := pb.CallOrder_name[int32(message.GetCallOrder())]; !known {
		return settings, invalid("call_order %d is unknown", message.GetCallOrder())
	}
	if _, known := pb.Level_name[int32(message.GetLevel())]; !known {
		return settings, invalid("level %d is unknown", message.GetLevel())
	}
	if _, known := pb.Mode_name[int32(message.GetMode())]; !known {
		return settings, invalid("mode %d is unknown", message.GetMode())
	}
	if _, known := pb.Network_name[int32(message.GetNetwork())]; !known {
		return settings, invalid("network %d is unknown", message.GetNetwork())
	}
	var err error
	if settings.Answer, err = budgetFrom(message.GetAnswer()); err != nil {
		return settings, err
	}
	if ttl := message.GetIdleTtl(); ttl != nil {
		if err := ttl.CheckValid(); err != nil {
			return settings, invalid("idle_ttl: %v", err)
		}
		settings.IdleTTL = cmp.Or(ttl.AsDuration(), session.Forever)
	}
	return settings, nil
}

// budgetFrom reads a budget. One that is there says how much.
func budgetFrom(message *pb.AnswerBudget) (tools.Budget, error) {
	budget := tools.Budget{
		Characters: int(min(message.GetCharacters(), math.MaxInt32)), Tokens: int(min(message.GetTokens(), math.MaxInt32)),
	}
	if message != nil && budget == (tools.Budget{}) {
		return budget, invalid("answer is empty: give characters or tokens, from %d or %d on; leave it out for the default",
			tools.MinAnswer, tools.MinAnswer/tools.TokenCharacters)
	}
	return budget, nil
}

func (s *sessionService) GetSession(ctx context.Context, request *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	found, err := s.lookedAt(ctx, request, request.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &pb.GetSessionResponse{Session: s.toProto(found)}, nil
}

func (s *sessionService) ListSessions(ctx context.Context, request *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	size, err := pageSize(request.GetPageSize())
	if err != nil {
		return nil, err
	}
	owner, err := ownerOf(ctx, request, mayView)
	if err != nil {
		return nil, err
	}
	tokenOf := func(found *pb.Session) string { return sessionToken(owner, found) }
	after := request.GetPageToken()
	response := new(pb.ListSessionsResponse)
	for _, found := range s.sessions.List(owner) {
		if after != "" {
			if tokenOf(&pb.Session{SessionId: found.ID, Principal: found.Owner.Name(), Tenant: found.Owner.Tenant()}) == after {
				after = ""
			}
			continue
		}
		if len(response.Sessions) == size {
			response.NextPageToken = tokenOf(response.Sessions[size-1])
			return response, nil
		}
		response.Sessions = append(response.Sessions, s.toProto(found))
	}
	if after != "" {
		return nil, invalid("page_token is not one that this server gave, or its session is gone: begin again")
	}
	if request.GetIncludeEnded() {
		for _, ended := range s.sessions.Ended(owner) {
			response.Sessions = append(response.Sessions, endedToProto(ended))
		}
	}
	return response, nil
}

func (s *sessionService) UpdateSession(ctx context.Context, request *pb.UpdateSessionRequest) (*pb.UpdateSessionResponse, error) {
	wanted, err := settingsFrom(request.GetSession())
	if err != nil {
		return nil, err
	}
	paths := request.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return nil, invalid("update_mask is empty: name the fields to change: %s", changeable)
	}
	for _, path := range paths {
		if _, ok := changes[path]; !ok {
			return nil, invalid("update_mask: %q cannot be changed: want some of %s", path, changeable)
		}
	}
	updated, err := s.sessions.Update(principalOf(ctx).Owner(), request.GetSession().GetSessionId(), func(settings *session.Settings) {
		settings.MaxMode = principalOf(ctx).MaxMode
		for _, path := range paths {
			changes[path](settings, wanted)
		}
	})
	if err != nil {
		return nil, err
	}
	s.auditor.changed(ctx, updated, paths)
	return &pb.UpdateSessionResponse{Session: s.toProto(updated), NotYetStored: updated.Unstored()}, nil
}

// toProto adds what the executor knows of a session.
func (s *sessionService) toProto(found *session.Session) *pb.Session {
	m := sessionToProto(found)
	m.ForgottenCalls = s.executor.ForgottenCalls(found.Ref())
	return m
}

// changes are the fields of a session that can be changed.
var changes = map[string]func(settings *session.Settings, wanted session.Settings){
	"level":      func(s *session.Settings, wanted session.Settings) { s.Level = wanted.Level },
	"mode":       func(s *session.Settings, wanted session.Settings) { s.Mode = wanted.Mode },
	"network":    func(s *session.Settings, wanted session.Settings) { s.Network = wanted.Network },
	"tools":      func(s *session.Settings, wanted session.Settings) { s.Tools = wanted.Tools },
	"labels":     func(s *session.Settings, wanted session.Settings) { s.Labels = wanted.Labels },
	"answer":     func(s *session.Settings, wanted session.Settings) { s.Answer = wanted.Answer },
	"persona":    func(s *session.Settings, wanted session.Settings) { s.Persona = wanted.Persona },
	"activation": func(s *session.Settings, wanted session.Settings) { s.Activation = wanted.Activation },
	"dialect":    func(s *session.Settings, wanted session.Settings) { s.Dialect = wanted.Dialect },
	"idle_ttl":   func(s *session.Settings, wanted session.Settings) { s.IdleTTL = wanted.IdleTTL },

	"edit_errors": func(s *session.Settings, wanted session.Settings) { s.EditErrors = wanted.EditErrors },

	"call_order": func(s *session.Settings, wanted session.Settings) { s.Ordered = wanted.Ordered },
}

var changeable = strings.Join([]string{"level", "mode", "network", "tools", "labels", "idle_ttl", "call_order", "answer", "persona", "activation", "dialect", "edit_errors"}, ", ")

func (s *sessionService) CloseSession(ctx context.Context, request *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	reason := request.GetReason()
	if n := len(reason); n > admission.MaxText {
		return nil, invalid("reason has %d bytes: at most %d", n, admission.MaxText)
	}
	owner, err := oneOwner(ctx, request, mayStop)
	if err != nil {
		return nil, err
	}
	caller := principalOf(ctx)
	why := "was closed by " + caller.Name
	if reason != "" {
		why += ": " + reason
	}
	found, err := s.sessions.Removable(owner, request.GetSessionId())
	if err != nil {
		return nil, err
	}
	if found == nil {
		return s.notClosed(caller, request)
	}
	cause := "the session was closed"
	if owner != caller.Owner() || reason != "" {
		cause = "the session " + why
	}
	n, err := s.server.end(ctx, found, ending{why: why, cause: cause, by: caller.Name, from: peerOf(ctx), reason: reason})
	if err != nil {
		return nil, err
	}
	s.executor.Changed()
	return &pb.CloseSessionResponse{CancelledExecutions: uint32(n), NotYetStored: found.Unstored()}, nil
}

// notClosed answers where there was no such session. An operator who stops what others
// run must not take it for stopped.
func (s *sessionService) notClosed(caller auth.Principal, request *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	if request.GetPrincipal() == "" && request.GetTenant() == "" && caller.Roles.Has(mayStop) {
		if owners := s.sessions.Owners(everybody(caller, mayStop), request.GetSessionId()); len(owners) > 0 {
			return nil, status.Errorf(codes.FailedPrecondition, "you have no session %q, and it was not closed: set principal, and tenant where it is before a slash, to whose it is, one of %.512q",
				request.GetSessionId(), owners)
		}
	}
	return new(pb.CloseSessionResponse), nil
}

func (s *sessionService) WatchSession(request *pb.WatchSessionRequest, stream grpc.ServerStreamingServer[pb.WatchSessionResponse]) error {
	ctx := stream.Context()
	watched, err := s.lookedAt(ctx, request, request.GetSessionId())
	if err != nil {
		return err
	}
	owner := watched.Owner
	within := func(x *executor.Execution) bool { return x.Order.Session == watched.Ref() }
	heartbeat, last := s.executor.Config().Heartbeat, time.Now()
	unfinished := make(map[string]bool) // that the caller was told of
	for x, info := range s.executor.Watch(ctx, owner, within) {
		response := new(pb.WatchSessionResponse)
		switch {
		case x != nil:
			response.Execution = executionAt(x, info)
			if unfinished[x.ID] = true; info.State == executor.Ended {
				delete(unfinished, x.ID)
			}
		case isClosed(watched.Closed()):
			maps.DeleteFunc(unfinished, func(id string, _ bool) bool {
				_, err := s.executor.Find(owner, id)
				return err != nil // it is no longer kept
			})
			if len(unfinished) == 0 {
				return nil
			}
			continue // their end comes next
		case time.Since(last) < heartbeat/2:
			continue
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		last = time.Now()
	}
	if s.executor.Draining() {
		return executor.ErrDraining
	}
	return ctx.Err()
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
