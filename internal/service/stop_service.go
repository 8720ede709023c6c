// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// stopTarget returns whom a request about a stop is about: a principal of a tenant, all of
// it, or all that the caller has to do with.
func stopTarget(ctx context.Context, request interface {
	ownerRequest
	GetReason() string
}) (auth.Owner, error) {
	if n := len(request.GetReason()); n > admission.MaxText {
		return "", invalid("reason has %d bytes: at most %d", n, admission.MaxText)
	}
	switch name := request.GetPrincipal(); name {
	case "":
		return "", invalid(`principal is empty: name whom it is about, or "*" for everybody`)
	case auth.Everybody:
		if request.GetTenant() == "" {
			return everybody(principalOf(ctx), mayStop), nil
		}
	case auth.Local.Name:
	default:
		if err := auth.CheckName(name); err != nil {
			return "", invalid("principal: %v", err)
		}
	}
	return ownerOf(ctx, request, mayStop)
}

func (s *sessionService) StopPrincipal(ctx context.Context, request *pb.StopPrincipalRequest) (*pb.StopPrincipalResponse, error) {
	of, err := stopTarget(ctx, request)
	if err != nil {
		return nil, err
	}
	caller := principalOf(ctx)
	if own, ok := s.server.stops.byOther(caller); ok {
		return nil, status.Errorf(codes.FailedPrecondition, "you were %s: another operator has to stop others", own.why())
	}
	relayed := isRelayed(ctx) // by the replica that was called, which keeps it
	if relayed {
		s.server.stops.shared.refresh(ctx, of)
	}
	// From here on nothing new begins; then what has begun is ended.
	now, fresh, err := s.server.stops.put(stop{
		Tenant: of.Tenant(), Principal: of.Name(), Reason: request.GetReason(), By: caller.Name, ByTenant: caller.Tenant, Since: time.Now().UTC(),
	})
	if err != nil {
		return nil, err
	}
	kept := make(chan stop, 1)
	go func() {
		if relayed {
			kept <- now
			return
		}
		kept <- s.server.keepStop(now)
	}()
	unknown := of.Name() != auth.Everybody && !s.knows(of)
	ended, err := s.server.enforce(ctx, now, caller.Name, peerOf(ctx))
	now = <-kept
	s.auditor.stopped(ctx, now, fresh, ended.executions)
	s.executor.Changed()
	if err != nil {
		return nil, err
	}
	return &pb.StopPrincipalResponse{
		Stop: stopToProto(now), CancelledExecutions: uint32(ended.executions), EndedCalls: uint32(ended.calls), EndedProcesses: uint32(ended.processes),
		Unknown: unknown && ended == halted{},
	}, nil
}

// keepStop has a stop outlive the server, now or as soon as can be.
func (s *Server) keepStop(one stop) stop {
	kept, err := s.stops.keep(one)
	if err != nil {
		s.config.Logger.Error("a stop is in force and could not be written: it does not outlive the server until it is, which is tried again",
			zap.String("principal", one.Principal), zap.Error(err))
		s.stops.keepLater(s.closing)
	}
	return kept
}

// halted is what a stop has ended.
type halted struct{ executions, calls, processes int }

// enforce ends what a stop is about, and waits for that.
func (s *Server) enforce(ctx context.Context, now stop, by, from string) (ended halted, err error) {
	of := now.owner()
	covers := func(tenant string, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return name != "" && of.Covers(auth.NewOwner(tenant, name)) })
	}
	ended.calls = s.calls.end(func(c *openRPC) error {
		// A call of a tool is cancelled below, and its stream ends with its last event.
		if c.method == pb.ToolService_ExecuteTool_FullMethodName || !covers(c.principal.Tenant, c.principal.Name, c.principal.OnBehalfOf) {
			return nil
		}
		return s.stops.refuse(c.principal, c.method)
	})
	ended.executions, err = s.executor.CancelWhere(ctx, func(x *executor.Execution) bool {
		match := covers(x.Order.Session.Owner.Tenant(), x.Order.Session.Owner.Name(), x.Order.OnBehalfOf)
		if match {
			s.auditor.cancelledBy(x, by, from, now.why())
		}
		return match
	}, now.why(), now.By)
	if halt := s.config.Halt; halt != nil {
		for _, found := range s.config.Sessions.List(auth.NewOwner(of.Tenant(), auth.Everybody)) {
			switch {
			case of.Covers(found.Owner):
				ended.processes += halt(found, "")
			case of.Name() != auth.Everybody: // sessions of a runtime may have some for this user
				ended.processes += halt(found, of.Name())
			}
		}
	}
	return ended, err
}

// stopAppeared ends what a stop is about that another replica has put into the state. That
// replica calls this one as well, which tells it how much ended: so only what is left
// a moment later ends here.
func (s *Server) stopAppeared(one stop) {
	time.AfterFunc(joinTime, func() {
		if now, inForce := (*s.stops.current.Load())[one.owner()]; inForce && s.closing.Err() == nil {
			s.enforce(s.closing, now, now.By, "")
			s.executor.Changed()
		}
	})
}

// knows reports whether somebody whom an owner stands for has, or had lately, a session or
// a call here, or is somebody for whom a call was made.
func (s *sessionService) knows(of auth.Owner) bool {
	all := auth.NewOwner(of.Tenant(), auth.Everybody)
	calls, _, _ := s.executor.List(all, func(x *executor.Execution) bool {
		owner := x.Order.Session.Owner
		return of.Covers(owner) || of.Covers(auth.NewOwner(owner.Tenant(), x.Order.OnBehalfOf))
	}, "", 1)
	return len(calls) > 0 || len(s.sessions.List(of)) > 0 || len(s.sessions.Ended(of)) > 0 ||
		slices.ContainsFunc(s.server.calls.list(), func(c *openRPC) bool { return of.Covers(c.principal.Owner()) })
}

func (s *sessionService) ResumePrincipal(ctx context.Context, request *pb.ResumePrincipalRequest) (*pb.ResumePrincipalResponse, error) {
	of, err := stopTarget(ctx, request)
	if err != nil {
		return nil, err
	}
	caller, all := principalOf(ctx), s.server.stops
	if own, ok := all.byOther(caller); ok {
		return nil, status.Errorf(codes.FailedPrecondition, "you were %s: another operator has to resume", own.why())
	}
	if isRelayed(ctx) { // by the replica that lifts it
		if err := all.shared.lifted(ctx, of, cameAt(ctx)); err != nil {
			return nil, err
		}
		return new(pb.ResumePrincipalResponse), nil
	}
	lifted, known, err := all.lift(of)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "the stop stays in force: it could not be taken out of where it is kept, and would come back with a restart: %v", err)
	}
	response := new(pb.ResumePrincipalResponse)
	for _, other := range all.list() {
		if of.Covers(other.owner()) || other.owner().Covers(of) {
			response.Remaining = append(response.Remaining, stopToProto(other))
		}
	}
	switch {
	case known:
		s.auditor.resumed(ctx, lifted, request.GetReason())
		response.Stop = stopToProto(lifted)
	case len(response.Remaining) > 0 && request.GetPrincipal() != auth.Everybody:
		others := "all callers are"
		if other := response.Remaining[0]; other.GetPrincipal() != auth.Everybody {
			others = auth.NewOwner(other.GetTenant(), other.GetPrincipal()).String() + " is"
		}
		return nil, status.Errorf(codes.FailedPrecondition, "%q is not stopped by name, but %s: resume that, then stop those who should not go on",
			request.GetPrincipal(), others)
	}
	return response, nil
}

func (s *sessionService) ListStops(ctx context.Context, _ *pb.ListStopsRequest) (*pb.ListStopsResponse, error) {
	response := new(pb.ListStopsResponse)
	seen := everybody(principalOf(ctx), mayView)
	for _, one := range s.server.stops.list() {
		if !seen.Covers(one.owner()) && !one.owner().Covers(seen) {
			continue
		}
		response.Stops = append(response.Stops, stopToProto(one))
	}
	return response, nil
}

func stopToProto(s stop) *pb.Stop {
	return &pb.Stop{Tenant: s.Tenant, Principal: s.Principal, Reason: s.Reason, By: s.By, CreateTime: timestamppb.New(s.Since), Durable: s.durable}
}
