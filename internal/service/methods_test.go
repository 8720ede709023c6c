// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestEveryMethodHasARow proves that the method table is complete and has no
// row for what does not exist.
func TestEveryMethodHasARow(t *testing.T) {
	s, err := New(Config{
		Logger: zap.NewNop(), Registry: new(tools.Registry), Policy: policy.Builtin(), Authenticator: auth.None{},
		Metrics: prometheus.NewRegistry(), Reflection: true, Channelz: true,
		Sessions: session.NewStore(session.Config{WorkspaceRoot: t.TempDir()}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	known := make(map[string]bool)
	for name, info := range s.grpc.GetServiceInfo() {
		for _, method := range info.Methods {
			full := "/" + name + "/" + method.Name
			known[full] = true
			if row := methods[full]; row == (access{}) {
				t.Errorf("%s has no row", full)
			}
		}
	}
	for full := range methods {
		if !known[full] {
			t.Errorf("%s has a row and does not exist", full)
		}
	}
}

// TestMethodWithoutARow proves that a method without a row is refused before its
// handler, for both kinds of call.
func TestMethodWithoutARow(t *testing.T) {
	server := grpc.NewServer(chain(onEntry(permit))...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Stranger",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(srv any, ctx context.Context, _ func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
			return through(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/test.Stranger/Do"}, func(context.Context, any) (any, error) {
				t.Error("the unary handler was reached")
				return &pb.GetServerInfoResponse{}, nil
			})
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Flow", ServerStreams: true, Handler: func(any, grpc.ServerStream) error {
			t.Error("the stream handler was reached")
			return nil
		}}},
	}, nil)
	listener := bufconn.Listen(1 << 16)
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Invoke(t.Context(), "/test.Stranger/Do", &pb.GetServerInfoRequest{}, &pb.GetServerInfoResponse{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "method table") {
		t.Errorf("unary: %v", err)
	}
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Stranger/Flow")
	if err == nil {
		err = stream.RecvMsg(&pb.GetServerInfoResponse{})
	}
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "method table") {
		t.Errorf("stream: %v", err)
	}
}

// TestEnumerations proves by name that values which are converted by number
// mean the same on both sides.
func TestEnumerations(t *testing.T) {
	same := func(kind, ours, theirs, prefix string) {
		t.Helper()
		if want := prefix + strings.ToUpper(ours); theirs != want {
			t.Errorf("%s %s is %s on the wire, want %s", kind, ours, theirs, want)
		}
	}
	for o := executor.Succeeded; o <= executor.Lost; o++ {
		same("outcome", o.String(), pb.Outcome(o).String(), "OUTCOME_")
	}
	for r := tools.Exited; r <= tools.ProcessLimit; r++ {
		same("exit reason", r.String(), pb.ExitReason(r).String(), "EXIT_REASON_")
	}
	for l := tools.ReadOnly; l <= tools.DangerFullAccess; l++ {
		same("level", l.String(), pb.Level(l).String(), "LEVEL_")
	}
	for m := tools.ModeAsk; m <= tools.ModeAcceptEdits; m++ {
		same("mode", m.String(), pb.Mode(m).String(), "MODE_")
	}
	for n := tools.NetworkNone; n <= tools.NetworkOpen; n++ {
		same("network", n.String(), pb.Network(n).String(), "NETWORK_")
	}
	for k := tools.Builtin; k <= tools.Script; k++ {
		same("kind", k.String(), pb.ToolKind(k+1).String(), "TOOL_KIND_")
	}
	for state, want := range map[executor.State]pb.ExecutionState{
		executor.Waiting: pb.ExecutionState_EXECUTION_STATE_WAITING,
		executor.Running: pb.ExecutionState_EXECUTION_STATE_RUNNING,
		executor.Ended:   pb.ExecutionState_EXECUTION_STATE_FINISHED,
	} {
		if pb.ExecutionState(state) != want {
			t.Errorf("state %d is %v, want %v", state, pb.ExecutionState(state), want)
		}
	}
	for stream, want := range map[tools.Stream]pb.OutputStream{
		tools.Stdout: pb.OutputStream_OUTPUT_STREAM_STDOUT, tools.Stderr: pb.OutputStream_OUTPUT_STREAM_STDERR,
		tools.Terminal: pb.OutputStream_OUTPUT_STREAM_TERMINAL,
	} {
		if pb.OutputStream(stream) != want {
			t.Errorf("stream %d is %v, want %v", stream, pb.OutputStream(stream), want)
		}
	}
	for wire, what := range onDisconnectFrom {
		if wire != 0 && pb.OnDisconnect(what+1) != wire {
			t.Errorf("%v is %v on the way back", wire, pb.OnDisconnect(what+1))
		}
	}
}
