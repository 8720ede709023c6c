// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/turn"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a whole server on a loopback port.
type testServer struct {
	*service.Server
	t         *testing.T
	address   string
	workspace string
	logs      *observer.ObservedLogs
	metrics   *prometheus.Registry
}

// tokens are the principals of a server with authentication.
var tokens = []auth.Token{
	{Principal: auth.Principal{Name: "alice"}, Secret: "alice-alice-alice"},
	{Principal: auth.Principal{Name: "bob"}, Secret: "bob-bob-bob-bob-bob"},
	{Principal: auth.Principal{Name: "root", Roles: auth.Agent | auth.Operator}, Secret: "root-root-root-root"},
	{Principal: auth.Principal{Name: "carol", Roles: auth.Agent | auth.Approver}, Secret: "carol-carol-carol"},
}

func withTokens(c *service.Config) {
	known, err := auth.NewTokens(tokens)
	if err != nil {
		panic(err)
	}
	c.Authenticator, c.Approvals.SelfApproval = &auth.Chain{Tokens: known}, false
}

// serve starts a server that is shut down with the test. Besides the first
// tools it has those of testTools.
func serve(t *testing.T, options ...func(*service.Config)) *testServer {
	t.Helper()
	s := &testServer{t: t, workspace: t.TempDir(), metrics: prometheus.NewRegistry()}
	registry := new(tools.Registry)
	if err := registry.Replace("builtin", slices.Concat(files.Tools(nil, nil), turn.Tools(), testTools())...); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	s.logs = logs
	allowed := t.TempDir()
	t.Setenv("TEST_ALLOWED", allowed)
	config := service.Config{
		Logger:        zap.New(core),
		Registry:      registry,
		Policy:        policy.Builtin(),
		Authenticator: auth.None{},
		Approvals:     approval.Config{SelfApproval: true},
		Metrics:       s.metrics,
		Version:       "test",
		Reflection:    true,
		Channelz:      true,
		Sessions: session.NewStore(session.Config{
			DefaultWorkspace:  map[string]string{auth.Local.Name: s.workspace, "alice": s.workspace},
			WorkspaceRoot:     t.TempDir(),
			AllowedWorkspaces: []string{allowed},
			Default:           session.Settings{Level: tools.WorkspaceWrite, Mode: tools.ModeAsk},
			MaxLevel:          tools.WorkspaceWrite,
			MaxMode:           tools.ModeAllow,
		}),
	}
	for _, option := range options {
		option(&config)
	}
	var err error
	if s.Server, err = service.New(config); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.shutdown()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// shutdown ends the server without waiting for what runs.
func (s *testServer) shutdown() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
}

// write puts a file into the default workspace.
func (s *testServer) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// client is a connection of its own, with the services behind it.
type client struct {
	pb.ToolServiceClient
	pb.SessionServiceClient
	pb.ApprovalServiceClient
	pb.PolicyServiceClient
	conn service.Conn
	t    *testing.T
}

// dial connects as the principal whose token it is; none without a token.
func (s *testServer) dial(token string) *client {
	s.t.Helper()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	conn, err := grpc.NewClient("passthrough:"+s.address, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return &client{
		pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn),
		pb.NewApprovalServiceClient(conn), pb.NewPolicyServiceClient(conn), conn, s.t,
	}
}

type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// timeout bounds a test that hangs; it is no measure of anything.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

type eventStream interface {
	Recv() (*pb.ExecuteToolResponse, error)
}

// begin starts a call and returns its stream and first event.
func (c *client) begin(request *pb.ExecuteToolRequest) (eventStream, *pb.Event) {
	c.t.Helper()
	stream, err := c.ExecuteTool(timeout(c.t), request)
	if err != nil {
		c.t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	return stream, first.GetEvent()
}

// call runs a tool to its end and returns all events.
func (c *client) call(request *pb.ExecuteToolRequest) ([]*pb.Event, error) {
	stream, err := c.ExecuteTool(timeout(c.t), request)
	if err != nil {
		return nil, err
	}
	return rest(stream)
}

// rest reads a stream to its end.
func rest(stream eventStream) ([]*pb.Event, error) {
	var events []*pb.Event
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, response.GetEvent())
	}
}

// run is call for calls that have an end.
func (c *client) run(request *pb.ExecuteToolRequest) *pb.Finished {
	c.t.Helper()
	events, err := c.call(request)
	if err != nil {
		c.t.Fatal(err)
	}
	checkNumbers(c.t, events, 0)
	return events[len(events)-1].GetFinished()
}

// checkNumbers fails unless events are numbered on from after without a gap and
// only the last is finished.
func checkNumbers(t *testing.T, events []*pb.Event, after uint64) {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("no events")
	}
	for i, event := range events {
		if event.GetHeartbeat() != nil {
			continue
		}
		after++
		if event.GetSequence() != after {
			t.Fatalf("event %d has number %d", after, event.GetSequence())
		}
		if last := i == len(events)-1; (event.GetFinished() != nil) != last {
			t.Fatalf("event %d of %d: %v", i+1, len(events), event)
		}
	}
}

func text(f *pb.Finished) string {
	var all []string
	for _, c := range f.GetContent() {
		all = append(all, c.GetText()+c.GetJson())
	}
	return strings.Join(all, "\n")
}

func asJSON(tool, input string) *pb.ExecuteToolRequest {
	return &pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}
}

// wantCode fails unless err has the code and, in its text, the words.
func wantCode(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("status %v, want %v", err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func withHeader(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// metricsText returns metrics as Prometheus is told them.
func metricsText(t testing.TB, metrics prometheus.Gatherer) string {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
