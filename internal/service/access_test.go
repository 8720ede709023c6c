// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"testing"

	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestCredentials(t *testing.T) {
	s := serve(t, withTokens)
	ctx := timeout(t)
	for _, test := range []struct{ name, token string }{
		{"none", ""}, {"unknown", "who-is-this-anyway"},
	} {
		_, err := s.dial(test.token).GetServerInfo(ctx, &pb.GetServerInfoRequest{})
		wantCode(t, err, codes.Unauthenticated)
	}
	_, err := s.dial("").GetServerInfo(withHeader(ctx, "authorization", "Basic abc"), &pb.GetServerInfoRequest{})
	wantCode(t, err, codes.Unauthenticated, "Bearer")
	twice := withHeader(ctx, "authorization", "Bearer "+tokens[0].Secret, "authorization", "Bearer "+tokens[1].Secret)
	_, err = s.dial("").GetServerInfo(twice, &pb.GetServerInfoRequest{})
	wantCode(t, err, codes.Unauthenticated)
	_, err = s.dial("").call(asJSON("count", `{}`))
	wantCode(t, err, codes.Unauthenticated)
	info, err := s.dial(tokens[0].Secret).GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	if err != nil || info.GetPrincipal() != "alice" || info.GetAuthentication() != "tokens" {
		t.Errorf("%v, %v", info, err)
	}
	health, err := healthpb.NewHealthClient(s.dial("").conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "toolserver.v1.ToolService"})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health without credentials: %v, %v", health, err)
	}
	_, err = channelzpb.NewChannelzClient(s.dial(tokens[0].Secret).conn).GetServers(ctx, &channelzpb.GetServersRequest{})
	wantCode(t, err, codes.PermissionDenied, "operator")
	if _, err := channelzpb.NewChannelzClient(s.dial(tokens[2].Secret).conn).GetServers(ctx, &channelzpb.GetServersRequest{}); err != nil {
		t.Errorf("channelz for operators: %v", err)
	}
}

// TestPrincipalsApart proves that principals see nothing of each other.
func TestPrincipalsApart(t *testing.T) {
	s := serve(t, withTokens)
	alice, bob := s.dial(tokens[0].Secret), s.dial(tokens[1].Secret)
	ctx := timeout(t)
	created, err := alice.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "private", Workspace: os.Getenv("TEST_ALLOWED")})
	if err != nil {
		t.Fatal(err)
	}
	request := asJSON("sleep", `{"duration_ms":60000}`)
	request.SessionId, request.CallId = "private", proto.String("call")
	stream, first := alice.begin(request)
	id := first.GetExecutionId()

	_, err = bob.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id})
	wantCode(t, err, codes.NotFound)
	_, err = bob.Cancel(ctx, &pb.CancelRequest{ExecutionId: id})
	wantCode(t, err, codes.NotFound)
	_, err = bob.Cancel(ctx, &pb.CancelRequest{SessionId: "private", CallId: "call"})
	wantCode(t, err, codes.NotFound)
	watch, err := bob.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: id})
	if err == nil {
		_, err = watch.Recv()
	}
	wantCode(t, err, codes.NotFound)
	_, err = bob.call(&pb.ExecuteToolRequest{Tool: "count", SessionId: "private"})
	wantCode(t, err, codes.NotFound)
	_, err = bob.GetSession(ctx, &pb.GetSessionRequest{SessionId: "private"})
	wantCode(t, err, codes.NotFound)
	if _, err := bob.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "private"}); err != nil {
		t.Errorf("closing what is not his own is closing what is not: %v", err)
	}
	_, err = bob.CreateSession(ctx, &pb.CreateSessionRequest{Workspace: created.GetSession().GetWorkspace()})
	wantCode(t, err, codes.PermissionDenied, "somebody else")
	if list, err := bob.ListExecutions(ctx, &pb.ListExecutionsRequest{}); err != nil || len(list.GetExecutions()) != 0 {
		t.Errorf("bob lists %v, %v", list, err)
	}
	if got, err := bob.GetSession(ctx, &pb.GetSessionRequest{}); err != nil || got.GetSession().GetWorkspace() == s.workspace {
		t.Errorf("default sessions share a workspace: %v, %v", got, err)
	}
	got, err := alice.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id})
	if err != nil || got.GetExecution().GetState() != pb.ExecutionState_EXECUTION_STATE_RUNNING {
		t.Errorf("alice's call: %v, %v", got, err)
	}
	if _, err := alice.Cancel(ctx, &pb.CancelRequest{ExecutionId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := rest(stream); err != nil {
		t.Fatal(err)
	}
}
