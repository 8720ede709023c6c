// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// wholeServer is a server on a loopback port, with a real sandbox.
type wholeServer struct {
	t *testing.T
	pb.ToolServiceClient
	sessions  pb.SessionServiceClient
	approvals pb.ApprovalServiceClient
	sources   pb.SourceServiceClient
	conn      *grpc.ClientConn
	inside    func(auth.Principal) (service.Conn, error)
	stop      func() // before the test ends
	dir       string
	state     string // what it keeps besides
	workspace string
	metrics   *prometheus.Registry
	server    *service.Server
}

// load reads a configuration of a server that keeps what it must in a directory of its own.
func load(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolserver.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.PanicOnError)
	flags.String("config", "", "")
	if err := flags.Set("config", file); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(flags, (*config.Config).Validate)
	if err == nil {
		c.StateHome = t.TempDir()
	}
	return c, err
}

// inDir returns a configuration that keeps everything in dir: the sections that all
// servers of tests have, with more of sandbox, audit and sessions, and sections.
func inDir(dir, sandbox, audit, sessions, sections string) string {
	return fmt.Sprintf(`admin: {address: off}
listen: 127.0.0.1:0
sandbox: {helper: %s%s}
audit: {file: %s/audit%s}
artifacts: {dir: %[3]s/artifacts}
sessions: {workspace: %[3]s/ws, workspace_root: %[3]s/others%[5]s}
%[6]s`, sandboxtest.Helper(), sandbox, dir, audit, sessions, sections)
}

// allowing returns a configuration in dir with these sections, in mode allow.
func allowing(dir, sections string) string {
	return inDir(dir, "", "", ", allowed_workspaces: ["+dir+"/ws], mode: allow", sections)
}

// serveAllowing serves a configuration with these sections, in mode allow.
func serveAllowing(t *testing.T, sections string) *wholeServer {
	t.Helper()
	dir := t.TempDir()
	return serveWhole(t, dir, allowing(dir, sections), zap.NewNop())
}

// serveAgain is serveAllowing with what another server has kept.
func serveAgain(t *testing.T, before *wholeServer, sections string) *wholeServer {
	t.Helper()
	dir := t.TempDir()
	return serveIn(t, before.state, dir, allowing(dir, sections), zap.NewNop())
}

// serveWhole serves a configuration whose workspace is in dir.
func serveWhole(t *testing.T, dir, text string, logger *zap.Logger) *wholeServer {
	t.Helper()
	return serveIn(t, t.TempDir(), dir, text, logger)
}

// serveIn is serveWhole of a server that keeps what it must in state.
func serveIn(t *testing.T, state, dir, text string, logger *zap.Logger) *wholeServer {
	t.Helper()
	s := &wholeServer{t: t, dir: dir, state: state, workspace: filepath.Join(dir, "ws"), metrics: prometheus.NewRegistry()}
	if err := os.MkdirAll(s.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	c.StateHome = state
	server, err := New(c, logger, s.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	s.ToolServiceClient, s.sessions, s.approvals = pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewApprovalServiceClient(conn)
	s.sources, s.conn, s.inside = pb.NewSourceServiceClient(conn), conn, server.Connect
	s.stop = sync.OnceFunc(func() {
		conn.Close()
		ShutDown(server, 0)
		<-served
	})
	t.Cleanup(s.stop)
	return s
}

// call runs a call to its end. Questions are answered by asked, if there is one.
func (s *wholeServer) call(request *pb.ExecuteToolRequest, asked func(*pb.Approval) pb.AnswerKind) (events []*pb.Event, end *pb.Finished) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := s.ExecuteTool(ctx, request)
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err != nil {
			break
		}
		event := response.GetEvent()
		events = append(events, event)
		if q := event.GetApprovalRequested().GetApproval(); q != nil && asked != nil {
			if _, err := s.approvals.ResolveApproval(ctx, &pb.ResolveApprovalRequest{ApprovalId: q.GetApprovalId(), Kind: asked(q), Digest: q.GetDigest()}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err != io.EOF {
		s.t.Fatal(err)
	}
	return events, events[len(events)-1].GetFinished()
}

func (s *wholeServer) run(tool, input string) *pb.Finished {
	s.t.Helper()
	_, end := s.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}, nil)
	return end
}

// waitForRecord waits until the audit log has a text.
func (s *wholeServer) waitForRecord(text string) {
	s.t.Helper()
	var audit []byte
	waitUntil(s.t, func() bool {
		audit, _ = os.ReadFile(filepath.Join(s.dir, "audit"))
		return strings.Contains(string(audit), text)
	}, func() string { return fmt.Sprintf("the audit log has no %s: %s", text, audit) })
}

// waitUntil waits for what others bring about; otherwise says what came instead.
func waitUntil(t testing.TB, is func() bool, otherwise func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise())
		}
	}
}

// needs returns where a program is that make test installs. Only people may be without it.
func needs(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

func (s *wholeServer) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.workspace, name))
	return string(text)
}

// programDir returns a directory that commands can be given: /tmp is their own.
func programDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(cache, 0o700)
	dir, err := os.MkdirTemp(cache, "toolserver-test-")
	if err != nil || strings.HasPrefix(dir, "/tmp/") {
		os.RemoveAll(dir)
		t.Fatal("no directory for programs outside /tmp, which commands have of their own: set XDG_CACHE_HOME. ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// contentText returns the texts that a call ended with.
func contentText(f *pb.Finished) string {
	var all []string
	for _, c := range f.GetContent() {
		all = append(all, c.GetText())
	}
	return strings.Join(all, "\n")
}

// file writes a file of the workspace.
func (s *wholeServer) file(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// in runs a call in a session, and answers questions as asked says.
func (s *wholeServer) in(session, tool, input string, asked func(*pb.Approval) pb.AnswerKind) *pb.Finished {
	s.t.Helper()
	_, end := s.call(&pb.ExecuteToolRequest{SessionId: session, Tool: tool, InputJson: []byte(input)}, asked)
	return end
}

// session makes a session in a mode.
func (s *wholeServer) session(id string, mode pb.Mode, level pb.Level) string {
	s.t.Helper()
	if _, err := s.sessions.CreateSession(s.t.Context(), &pb.CreateSessionRequest{SessionId: id, Mode: mode, Level: level}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// names returns the tools that a session is shown.
func (s *wholeServer) names(session string) (names []string) {
	s.t.Helper()
	list, err := s.ListTools(s.t.Context(), &pb.ListToolsRequest{SessionId: session, View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, tool := range list.GetTools() {
		names = append(names, tool.GetName())
	}
	return names
}

// sourcesServer is a server whose log is kept, and has no secret.
type sourcesServer struct {
	*wholeServer
	log *sourcesLog
}

// sourcesLog is the log of a server, which can be read while it is written.
type sourcesLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sourcesLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *sourcesLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const secretToken = "CANARY-7f3a-of-the-shop"

// serveSources serves a configuration with these sections, in mode ask.
func serveSources(t *testing.T, sections string) *sourcesServer {
	t.Helper()
	return serveConfined(t, "", sections)
}

// serveConfined is serveSources with more of the section sandbox.
func serveConfined(t *testing.T, confined, sections string) *sourcesServer {
	t.Helper()
	dir, log := t.TempDir(), new(sourcesLog)
	t.Cleanup(func() { // after the server's own
		if log := log.String(); strings.Contains(log, secretToken) {
			t.Errorf("the log has a secret: %s", log)
		}
		audit, _ := os.ReadFile(filepath.Join(dir, "audit"))
		if strings.Contains(string(audit), secretToken) {
			t.Errorf("the audit log has a secret: %s", audit)
		}
	})
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(log), zap.DebugLevel))
	return &sourcesServer{serveWhole(t, dir, inDir(dir, confined, ", inputs: true", ", max_mode: allow", sections), logger), log}
}

// write writes a file of the workspace.
func (s *wholeServer) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
