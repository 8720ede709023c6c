// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package client is the Go client of toolserver: list, execute, batch, watch and
// approve, each of which outlives a lost connection, what renders tools and results
// for a model and parses its calls, and what serves agents. What else the contract has is
// called by the generated clients that a [Client] has as fields.
//
// A call is run at most once. When the connection breaks, a client goes on after the
// last event that it has. When the server that ran a call is gone, the call ends with
// OUTCOME_LOST: it may have run, and the client does not run it again.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/endpoint"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Options say how to connect. The zero value is for a server on this machine.
type Options struct {
	// Token proves who the caller is, where the server asks for tokens.
	Token string
	// TLS encrypts the connection; nil: it is not encrypted. Certificates of the
	// caller belong in here.
	TLS *tls.Config
	// Plaintext permits a token to travel unencrypted to another machine.
	Plaintext bool
	// Session is the session that calls run in; empty: the caller's default session.
	Session string
	// Patience is how long a lost connection is made anew before an error is
	// returned; 0: a minute.
	Patience time.Duration
	// FailFast returns an error at once where there is no server when a call begins.
	// A connection that is lost later is made anew all the same.
	FailFast bool
	// Dial is added to the options of gRPC.
	Dial []grpc.DialOption
}

// A Client is a connection to a server, which is made when it is needed. Its methods
// are safe for concurrent use.
type Client struct {
	Tools      pb.ToolServiceClient
	Sessions   pb.SessionServiceClient
	Approvals  pb.ApprovalServiceClient
	Policy     pb.PolicyServiceClient
	Workspaces pb.WorkspaceServiceClient
	Dialects   pb.DialectServiceClient
	Agents     pb.AgentServiceClient

	link     *link
	session  string
	patience time.Duration
	failFast bool
}

// link is the connection, which clients for several sessions share.
type link struct {
	conn   Conn
	closed chan struct{}
	close  sync.Once

	mu     sync.Mutex
	server string     // at the other end, as far as is known; see server.go
	limits *pb.Limits // of that server
}

// maxReceive is the largest message a client takes; the server decides what it sends.
const maxReceive = 256 << 20

// Connect returns a client of the server at an address: host:port or unix:/path.
// Close it after use.
func Connect(address string, options Options) (*Client, error) {
	if err := endpoint.Check(address); err != nil && !strings.Contains(address, "://") {
		return nil, err
	}
	security := insecure.NewCredentials()
	if options.TLS != nil {
		security = credentials.NewTLS(options.TLS)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection that died silently is found while a call runs.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	if options.Token != "" {
		if options.TLS == nil && !endpoint.IsLocal(address) && !options.Plaintext {
			return nil, fmt.Errorf("the token would travel to %s in clear text: set TLS, or Plaintext if that is as it should be", address)
		}
		dial = append(dial, grpc.WithPerRPCCredentials(bearer(options.Token)))
	}
	conn, err := grpc.NewClient(address, append(dial, options.Dial...)...)
	if err != nil {
		return nil, err
	}
	return Over(conn, options), nil
}

// Conn is a connection to a server: of gRPC, or inside its process.
type Conn = interface {
	grpc.ClientConnInterface
	io.Closer
}

// Over returns a client of a connection that is there already. Of the options, those
// about sessions and patience count.
func Over(conn Conn, options Options) *Client {
	c := &Client{
		link: &link{conn: conn, closed: make(chan struct{})}, session: options.Session,
		patience: cmp.Or(options.Patience, time.Minute), failFast: options.FailFast,
	}
	c.use(conn)
	return c
}

// use has the generated clients call over a connection.
func (c *Client) use(conn grpc.ClientConnInterface) {
	c.Tools, c.Sessions, c.Approvals = pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewApprovalServiceClient(conn)
	c.Policy, c.Workspaces = pb.NewPolicyServiceClient(conn), pb.NewWorkspaceServiceClient(conn)
	c.Dialects, c.Agents = pb.NewDialectServiceClient(conn), pb.NewAgentServiceClient(conn)
}

// Conn returns the connection, for what the contract has and the client has not.
func (c *Client) Conn() Conn { return c.link.conn }

// Close ends the connection, and what runs over it.
func (c *Client) Close() error {
	c.link.close.Do(func() { close(c.link.closed) })
	return c.link.conn.Close()
}

// In returns the client for another session. It has the same connection.
func (c *Client) In(session string) *Client {
	other := *c
	other.session = session
	return &other
}

// OnBehalfOf returns the client that calls for a user, as far as the principal may; empty: for
// the principal itself. It has the same connection.
func (c *Client) OnBehalfOf(user string) *Client {
	other := *c
	other.use(onBehalfOf{c.link.conn, user})
	return &other
}

// onBehalfOf is a connection on which all is for a user.
type onBehalfOf struct {
	grpc.ClientConnInterface
	user string
}

func (o onBehalfOf) context(ctx context.Context) context.Context {
	if o.user == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "toolserver-on-behalf-of", o.user)
}

// Invoke makes a call.
func (o onBehalfOf) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	return o.ClientConnInterface.Invoke(o.context(ctx), method, request, response, options...)
}

// NewStream begins a stream.
func (o onBehalfOf) NewStream(ctx context.Context, stream *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return o.ClientConnInterface.NewStream(o.context(ctx), stream, method, options...)
}

// List returns tools of the session with everything that a model is told about them:
// those that are named, by name, alias or glob, or all.
func (c *Client) List(ctx context.Context, names ...string) ([]*pb.Tool, error) {
	var list []*pb.Tool
	request := &pb.ListToolsRequest{SessionId: c.session, View: pb.ToolView_TOOL_VIEW_FULL, Names: names}
	for {
		var response *pb.ListToolsResponse
		err := c.again(ctx, func() (err error) {
			response, err = c.Tools.ListTools(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		list = append(list, response.GetTools()...)
		if request.PageToken = response.GetNextPageToken(); request.PageToken == "" {
			return list, nil
		}
	}
}

// Cancel ends a call, and returns how it ended. Cancelling what has ended changes
// nothing.
func (c *Client) Cancel(ctx context.Context, callID, reason string) (*pb.Execution, error) {
	var response *pb.CancelResponse
	err := c.again(ctx, func() (err error) {
		response, err = c.Tools.Cancel(ctx, &pb.CancelRequest{SessionId: c.session, CallId: callID, Reason: reason})
		return err
	})
	return response.GetExecution(), err
}

// Artifact writes the bytes of an output that was too large for its result to w.
func (c *Client) Artifact(ctx context.Context, uri string, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := c.retries()
	for offset := uint64(0); ; {
		stream, err := c.Tools.ReadArtifact(ctx, &pb.ReadArtifactRequest{Uri: uri, Offset: offset})
		for err == nil {
			var response *pb.ReadArtifactResponse
			if response, err = stream.Recv(); err != nil {
				break
			}
			r.reset()
			if _, err := w.Write(response.GetData()); err != nil {
				return err
			}
			offset += uint64(len(response.GetData()))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if !lostConnection(err) || !r.wait(ctx) {
			return err
		}
	}
}

// A Call is a call of a tool.
type Call struct {
	// ID is the model's id for the call. It is run once in its session, however often
	// it is sent. Empty: one is made.
	ID string
	// Tool is the name of the tool or one of its aliases.
	Tool string
	// Input is the input as JSON text, or anything that encoding/json makes an object
	// of; nil: {}.
	Input any
	// Timeout is how long the tool may run; 0: its default.
	Timeout time.Duration
	// Purpose is what the call is for, for people who watch or approve.
	Purpose string
	// OnDisconnect is what happens when no stream follows the call any more.
	OnDisconnect pb.OnDisconnect
}

// request returns the call as it is sent.
func (c Call) request(session string) (*pb.ExecuteToolRequest, error) {
	request := &pb.ExecuteToolRequest{
		SessionId: session, CallId: &c.ID, Tool: c.Tool, Purpose: c.Purpose, OnDisconnect: c.OnDisconnect,
	}
	if c.ID == "" {
		request.CallId = new(newID("call"))
	}
	if c.Timeout != 0 {
		request.Timeout = durationpb.New(c.Timeout)
	}
	switch input := c.Input.(type) {
	case nil:
	case string:
		request.InputJson = []byte(input)
	case []byte:
		request.InputJson = input
	default: // json.RawMessage too, which is checked here
		text, err := json.Marshal(input)
		if err != nil {
			return nil, fmt.Errorf("the input of %s: %w", c.Tool, err)
		}
		request.InputJson = text
	}
	return request, nil
}

// newID returns an id that nobody else has.
func newID(kind string) string { return kind + "-" + strings.ToLower(rand.Text()) }

// Text returns what of a result is text or JSON, as it is shown to a model. Links to
// artifacts are in the text already.
func Text(finished *pb.Finished) string {
	var parts []string
	for _, content := range finished.GetContent() {
		switch kind := content.GetKind().(type) {
		case *pb.Content_Text:
			parts = append(parts, kind.Text)
		case *pb.Content_Json:
			parts = append(parts, kind.Json)
		}
	}
	return strings.Join(parts, "\n")
}

// bearer is a token that goes with every call.
type bearer string

// GetRequestMetadata returns the header with the token.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity returns false: Connect has decided that already.
func (bearer) RequireTransportSecurity() bool { return false }
