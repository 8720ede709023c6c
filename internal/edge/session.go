// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

var (
	errClosed = errors.New("the client has closed its MCP session")
	errLost   = errors.New("the connection of the client is lost")
)

// session is a client of the protocol: its side of it, and the session of the server that
// it works in.
type session struct {
	server    *mcp.Server
	tools     pb.ToolServiceClient
	sessions  pb.SessionServiceClient
	approvals pb.ApprovalServiceClient
	settings  Settings
	alone     bool   // nobody but the client can answer questions
	closed    func() // called once the session has ended

	ctx context.Context // ends with the session, with the cause
	end context.CancelCauseFunc

	mu      sync.Mutex
	id      string             // of the session of the server
	made    bool               // for this client
	entered bool               // initialize has come
	tasks   bool               // the client may have them
	peer    *mcp.ServerSession // nil before the first message
}

// newSession returns a session that ends with ctx, if not before.
func newSession(ctx context.Context, conn grpc.ClientConnInterface, version string, settings Settings, id func() string) *session {
	s := &session{
		tools: pb.NewToolServiceClient(conn), sessions: pb.NewSessionServiceClient(conn), approvals: pb.NewApprovalServiceClient(conn),
		settings: settings, closed: func() {},
	}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.server = mcp.NewServer(&mcp.Implementation{Name: "toolserver", Title: "toolserver", Version: version}, &mcp.ServerOptions{
		Instructions: instructions, GetSessionID: id, SupportedProtocolVersions: Protocols,
		Capabilities: capabilities(),
	})
	s.addTasks()
	s.server.AddReceivingMiddleware(s.receive)
	return s
}

// receive answers what is about the server, and leaves to the SDK what is about the
// protocol.
func (s *session) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if who := requestOf(r); who != nil {
			defer who.answered.Store(true)
		}
		switch method {
		case "initialize":
			return s.initialize(ctx, r, next)
		case "tools/list":
			return s.listTools(s.outgoing(ctx, r), r.GetParams().(*mcp.ListToolsParams))
		case "tools/call":
			if who := requestOf(r); who != nil && who.wantsTask && s.hasTasks() {
				return s.startTask(ctx, r.(*mcp.CallToolRequest))
			}
			return s.call(ctx, r.(*mcp.CallToolRequest))
		case "tasks/get", "tasks/result", "tasks/list", "tasks/cancel":
			if s.hasTasks() {
				return s.aboutTask(ctx, method, r)
			}
		case "resources/read":
			return s.readResource(s.outgoing(ctx, r), r.GetParams().(*mcp.ReadResourceParams).URI)
		}
		return next(ctx, method, r)
	}
}

// requestOf returns the HTTP request that a message came with; nil where it came
// otherwise.
func requestOf(r mcp.Request) *request {
	if extra := r.GetExtra(); extra != nil && extra.TokenInfo != nil {
		who, _ := extra.TokenInfo.Extra[requestExtra].(*request)
		return who
	}
	return nil
}

// outgoing returns ctx with the credentials of the request.
func (s *session) outgoing(ctx context.Context, r mcp.Request) context.Context {
	if who := requestOf(r); who != nil {
		return metadata.NewOutgoingContext(ctx, who.headers)
	}
	return ctx
}

// initialize begins the session: that of the server is made if it has to be.
func (s *session) initialize(ctx context.Context, r mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	s.mu.Lock()
	again := s.entered
	s.entered = true
	s.mu.Unlock()
	if again { // it would make another session of the server, which nobody closes
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session was begun already: initialize comes once"}
	}
	id, made, err := s.enter(s.outgoing(ctx, r))
	if err != nil {
		return nil, err
	}
	result, err := next(ctx, "initialize", r)
	if err != nil {
		return nil, err
	}
	peer := r.GetSession().(*mcp.ServerSession)
	s.mu.Lock()
	s.id, s.made, s.peer = id, made, peer
	s.mu.Unlock()
	outgoing := s.outgoing(s.ctx, r)
	s.watchTools(outgoing)
	go func() {
		go func() {
			<-s.ctx.Done()
			peer.Close() // which waits for what is under way
		}()
		peer.Wait()
		s.end(errClosed)
		s.leave(context.WithoutCancel(outgoing))
	}()
	return s.withTasks(result), nil
}

// delete ends the session and what runs in it, and waits for that.
func (s *session) delete() {
	s.end(errClosed)
	s.mu.Lock()
	peer := s.peer
	s.mu.Unlock()
	if peer != nil {
		peer.Close()
	}
}

func (s *session) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer != nil
}

// enter finds or makes the session of the server that the settings name.
func (s *session) enter(ctx context.Context) (id string, made bool, err error) {
	want := &pb.CreateSessionRequest{SessionId: s.settings.Session, Workspace: s.settings.Workspace, Persona: s.settings.Persona}
	if text := s.settings.Mode; text != "" {
		value, ok := pb.Mode_value["MODE_"+strings.ToUpper(text)]
		if !ok || value == 0 {
			return "", false, invalidParams("mode %.64q is none: want plan, ask, accept_edits or allow", text)
		}
		want.Mode = pb.Mode(value)
	}
	switch {
	case want.GetSessionId() == "" && (want.GetWorkspace() != "" || want.GetMode() != 0 || want.GetPersona() != ""):
		return "", false, invalidParams("workspace, mode and persona are of a session that is made: set session to %q, or to an id", NewSession)
	case want.GetSessionId() == "":
		return "", false, nil
	case want.GetSessionId() == NewSession:
		want.SessionId, made = "", true
	}
	if s.alone && want.GetWorkspace() == "" { // the server was started for the client, where it is
		own, err := s.sessions.GetSession(ctx, &pb.GetSessionRequest{})
		if err != nil {
			return "", false, errorOf(err)
		}
		want.Workspace = own.GetSession().GetWorkspace()
	}
	response, err := s.sessions.CreateSession(ctx, want)
	if status.Code(err) == codes.AlreadyExists && !made {
		return want.GetSessionId(), false, nil
	}
	if err != nil {
		return "", false, errorOf(err)
	}
	return response.GetSession().GetSessionId(), made, nil
}

// leave ends what the session has.
func (s *session) leave(ctx context.Context) {
	if s.made {
		s.sessions.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: s.id})
	}
	s.closed()
}

// sessionID returns the id of the session of the server; empty for the default session.
func (s *session) sessionID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// watchTools tells the client when its tools change from now on.
func (s *session) watchTools(ctx context.Context) {
	stream, err := s.tools.WatchTools(ctx, &pb.WatchToolsRequest{SessionId: s.sessionID()})
	if err == nil {
		_, err = stream.Recv() // those that there are: what changes after this is told
	}
	if err != nil {
		return
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
			s.changed()
		}
	}()
}

// changed has the SDK tell that the list of tools changed. It does so when its own list
// changes, which nobody sees.
func (s *session) changed() {
	s.server.AddTool(&mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("it is not a tool")
		})
}

// invalidParams is an error about what a client sent.
func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
