// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart_test holds servers to what they promised before they were killed: real
// processes on a directory, seen through gRPC.
package restart_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

func TestMain(m *testing.M) {
	if node := os.Getenv(nodeVariable); node != "" {
		fmt.Fprintln(os.Stderr, runNode(node))
		os.Exit(1)
	}
	sdktest.Remove(m.Run())
}

// A world is a server and those who call it.
type world struct {
	*sdktest.Server
	t   *testing.T
	dir string // of the state
}

const configuration = `
authentication:
  tokens:
    - {principal: agent, max_mode: allow, token: the-token-of-agent}
    - {principal: other, max_mode: allow, token: the-token-of-other}
    - {principal: agent, tenant: acme, max_mode: allow, token: the-token-of-acme}
    - {principal: person, approver: true, token: the-token-of-person}
state:
  %s
`

// start starts a server whose state is in a directory of its own.
func start(t *testing.T) *world { return startIn(t, filepath.Join(t.TempDir(), "state")) }

func startIn(t *testing.T, dir string) *world {
	t.Helper()
	w := startWith(t, "dir: "+dir)
	w.dir = dir
	return w
}

// startWith starts a server whose configuration has this of the state.
func startWith(t *testing.T, state string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolserver.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, state), 0o600); err != nil {
		t.Fatal(err)
	}
	return &world{sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_CONFIG="+file), t, ""}
}

// again kills the server in the middle of what it does, and starts it again.
func (w *world) again() {
	w.t.Helper()
	w.Kill()
	w.Restart()
}

// A caller is a principal with a connection.
type caller struct {
	t         testing.TB
	ctx       context.Context
	tools     pb.ToolServiceClient
	sessions  pb.SessionServiceClient
	approvals pb.ApprovalServiceClient
	files     pb.WorkspaceServiceClient
	health    healthpb.HealthClient
	leave     context.CancelFunc // of within
}

func (w *world) as(token string) *caller { return connect(w.t, w.Address, token) }

func connect(t testing.TB, address, token string, options ...grpc.DialOption) *caller {
	t.Helper()
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{
		t: t, ctx: metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer the-token-of-"+token),
		tools: pb.NewToolServiceClient(conn), sessions: pb.NewSessionServiceClient(conn), approvals: pb.NewApprovalServiceClient(conn), files: pb.NewWorkspaceServiceClient(conn),
		health: healthpb.NewHealthClient(conn),
	}
}

func (c *caller) session(request *pb.CreateSessionRequest) *pb.Session {
	c.t.Helper()
	response, err := c.sessions.CreateSession(c.ctx, request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.GetSession()
}

// call makes a call and returns its events.
func (c *caller) call(session, id, tool, input string) ([]*pb.Event, error) {
	request := &pb.ExecuteToolRequest{SessionId: session, Tool: tool, InputJson: []byte(input)}
	if id != "" {
		request.CallId = &id
	}
	stream, err := c.tools.ExecuteTool(c.ctx, request)
	if err != nil {
		return nil, err
	}
	return eventsOf(func() (interface{ GetEvent() *pb.Event }, error) { return stream.Recv() })
}

// eventsOf returns the events of a stream, without heartbeats.
func eventsOf(receive func() (interface{ GetEvent() *pb.Event }, error)) (events []*pb.Event, err error) {
	for {
		response, err := receive()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		if event := response.GetEvent(); event.GetHeartbeat() == nil {
			events = append(events, event)
		}
	}
}

// end makes a call and returns its end.
func (c *caller) end(session, id, tool, input string) (*pb.Event, *pb.Finished) {
	c.t.Helper()
	events, err := patient(func() ([]*pb.Event, error) { return c.call(session, id, tool, input) })
	if err != nil {
		c.t.Fatalf("%s %s: %v", tool, input, err)
	}
	last := events[len(events)-1]
	return last, last.GetFinished()
}

func (c *caller) watch(execution string, after uint64) ([]*pb.Event, error) {
	stream, err := c.tools.WatchExecution(c.ctx, &pb.WatchExecutionRequest{ExecutionId: execution, AfterSequence: after})
	if err != nil {
		return nil, err
	}
	return eventsOf(func() (interface{ GetEvent() *pb.Event }, error) { return stream.Recv() })
}

// patient asks again what the server cannot answer now, as clients do: a session that moves, or
// an election of the engine, takes a moment.
func patient(ask func() ([]*pb.Event, error)) (events []*pb.Event, err error) {
	for range 100 {
		if events, err = ask(); status.Code(err) != codes.Unavailable {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return events, err
}

// textOf returns the text of a result.
func textOf(f *pb.Finished) string {
	var b strings.Builder
	for _, content := range f.GetContent() {
		b.WriteString(content.GetText())
	}
	return b.String()
}

// lines returns the lines of a file, by how often each is there.
func lines(t testing.TB, name string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}
