// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"

	"github.com/toolserver/toolserver/internal/auth"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// connect returns a client inside the process.
func (s *testServer) connect(as auth.Principal) *client {
	s.t.Helper()
	conn, err := s.Connect(as)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return &client{
		pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn),
		pb.NewApprovalServiceClient(conn), pb.NewPolicyServiceClient(conn), conn, s.t,
	}
}

// TestInsideNeedsPrincipal: there is no default for who calls from inside, and
// nobody there has the rights of an operator or approver.
func TestInsideNeedsPrincipal(t *testing.T) {
	s := serve(t, withTokens)
	for says, as := range map[string]auth.Principal{
		"needs the name":       {OnBehalfOf: "alice"},
		"which is not":         {Name: auth.Server, OnBehalfOf: "alice"},
		"on whose behalf":      {Name: "agent"},
		"neither operator":     {Name: "agent", OnBehalfOf: "alice", Roles: auth.Operator},
		"operator nor approve": {Name: "agent", OnBehalfOf: "alice", Roles: auth.Approver},
	} {
		if _, err := s.Connect(as); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", as, err, says)
		}
	}
}

// TestInsideHasFewerRights: a caller inside the process sees and answers nothing of
// others, and whom it acts for cannot approve what it does.
func TestInsideHasFewerRights(t *testing.T) {
	s := serve(t, withTokens)
	alice, carol := s.dial("alice-alice-alice"), s.dial("carol-carol-carol")
	agent := s.connect(auth.Principal{Name: "agent", OnBehalfOf: "carol"})

	_, of := alice.asked(asJSON("write_file", `{"path":"a","content":"new"}`))
	list, err := agent.ListApprovals(timeout(t), new(pb.ListApprovalsRequest))
	if err != nil || len(list.GetApprovals()) != 0 {
		t.Errorf("the agent sees %v, %v", list, err)
	}
	allow := func(id string) *pb.ResolveApprovalRequest {
		return &pb.ResolveApprovalRequest{ApprovalId: id, Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}
	}
	_, err = agent.ResolveApproval(timeout(t), allow(of.GetApprovalId()))
	wantCode(t, err, codes.NotFound)
	_, err = channelzpb.NewChannelzClient(agent.conn).GetServers(timeout(t), new(channelzpb.GetServersRequest))
	wantCode(t, err, codes.PermissionDenied, "a role of operator; yours: agent")

	// Carol approves calls of others, and not those made on her behalf.
	_, own := agent.asked(asJSON("write_file", `{"path":"b","content":"new"}`))
	_, err = carol.ResolveApproval(timeout(t), allow(own.GetApprovalId()))
	wantCode(t, err, codes.PermissionDenied, "its own calls")
	carol.answer(allow(of.GetApprovalId()))
	if !slices.ContainsFunc(s.logs.All(), func(line observer.LoggedEntry) bool { return line.ContextMap()["on_behalf_of"] == "carol" }) {
		t.Error("the log does not say on whose behalf the agent called")
	}
}

// TestInsideEnds: calls inside the process end with their connection, with the context of
// their caller, and with the server, which then refuses others.
func TestInsideEnds(t *testing.T) {
	s := serve(t)
	as := auth.Principal{Name: "agent", OnBehalfOf: "carol"}
	sleep := asJSON("sleep", `{"duration_ms":600000}`)
	closing := s.connect(as)
	stream, _ := closing.begin(sleep)
	closing.conn.Close()
	wantCode(t, endOf(stream), codes.Canceled)
	_, err := closing.GetServerInfo(timeout(t), new(pb.GetServerInfoRequest))
	wantCode(t, err, codes.Canceled, "the connection is closed")

	c := s.connect(as)
	ctx, cancel := context.WithCancel(timeout(t))
	watched, err := c.WatchTools(ctx, new(pb.WatchToolsRequest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watched.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = watched.Recv()
	wantCode(t, err, codes.Canceled)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, err = c.GetServerInfo(ctx, new(pb.GetServerInfoRequest))
	wantCode(t, err, codes.DeadlineExceeded)

	stream, _ = c.begin(sleep)
	go s.Shutdown(ctx) // at once
	if err := endOf(stream); !errors.Is(err, io.EOF) {
		t.Errorf("a call that ran when the server was shut down: %v", err)
	}
	for ctx := timeout(t); status.Code(err) != codes.Unavailable && ctx.Err() == nil; {
		_, err = c.GetServerInfo(ctx, new(pb.GetServerInfoRequest))
	}
	wantCode(t, err, codes.Unavailable, "shutting down")
}

// endOf returns how a stream ended.
func endOf(stream eventStream) (err error) {
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}
