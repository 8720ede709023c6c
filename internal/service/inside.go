// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
)

// Conn is a connection inside the process. Close it after use, which ends its calls.
type Conn = interface {
	grpc.ClientConnInterface
	io.Closer
}

// Connect returns a connection for a caller inside the process, which acts as a
// principal on behalf of somebody. It goes through the same chain as every other,
// and what is called is part of the trace of its caller. A principal without a name,
// one that acts on nobody's behalf, and an operator or approver are errors: the
// caller can do no more than what was asked of it. One on behalf of itself is the
// principal, for what it asked for itself.
func (s *Server) Connect(as auth.Principal) (Conn, error) {
	switch {
	case as.Name == "" || as.Name == auth.Server:
		return nil, fmt.Errorf("a caller inside the process needs the name of a principal, which is not %q", auth.Server)
	case as.OnBehalfOf == "":
		return nil, fmt.Errorf("%s is a caller inside the process: say on whose behalf it calls", as.Name)
	case as.Roles&^auth.Agent != 0:
		return nil, fmt.Errorf("%s is a caller inside the process: it can be an agent, and neither operator nor approver", as.Name)
	}
	as.Roles = auth.Agent
	if as.OnBehalfOf == as.Name {
		as.OnBehalfOf = ""
	}
	conn := s.inside.connect(insideAddr(as))
	if s.config.Tracer != nil {
		conn.channel.WithClientStatsHandler(otelgrpc.NewClientHandler(tracing(s.config.Tracer)...))
	}
	return conn, nil
}

// Forward returns a connection for a face of the server that speaks another protocol. The
// face passes on what its callers ask for: each RPC is authenticated like one from
// outside, by the headers that the caller sent and by the TLS connection, if any, over
// which it came from the remote address.
func (s *Server) Forward(remote string, state *tls.ConnectionState) Conn {
	return s.inside.connect(&forwardedAddr{remote, state})
}

// inside serves callers inside the process: through the same links and handlers as
// others, without a network between.
type inside struct {
	server *grpc.Server

	replicas *grpc.Server // nil where there are none
	channel  inprocgrpc.Channel
	cutOff   context.CancelFunc // ends all calls
	over     context.Context    // ended by it

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // calls
}

// newInside returns an inside to register services in, which server has as well. A message
// has no more bytes than one over the network may have.
func newInside(server *grpc.Server, links []link, handler stats.Handler, maxMessage int) *inside {
	in := &inside{server: server}
	in.over, in.cutOff = context.WithCancel(context.Background())
	in.channel.WithCloner(wireCloner{newCodec(), maxMessage})
	in.channel.WithServerUnaryInterceptor(in.unary(links))
	in.channel.WithServerStreamInterceptor(in.stream(links))
	if handler != nil {
		in.channel.WithServerStatsHandler(handler)
	}
	return in
}

// RegisterService implements [grpc.ServiceRegistrar].
func (in *inside) RegisterService(service *grpc.ServiceDesc, handler any) {
	in.server.RegisterService(service, handler)
	if in.replicas != nil {
		in.replicas.RegisterService(service, handler)
	}
	in.channel.RegisterService(service, handler)
}

// wait refuses further calls, and waits for the end of those that run.
func (in *inside) wait() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.running.Wait()
}

// enter returns the context of a call that begins, and what ends it.
func (in *inside) enter(ctx context.Context) (context.Context, func(), error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, nil, status.Error(codes.Unavailable, "the server is shutting down")
	}
	in.running.Add(1)
	from, _ := inprocgrpc.ClientContext(ctx).Value(fromKey{}).(net.Addr)
	return peer.NewContext(ctx, &peer.Peer{Addr: from}), in.running.Done, nil
}

// unary is one interceptor of all links.
func (in *inside) unary(links []link) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, leave, err := in.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		for i := len(links) - 1; i >= 0; i-- {
			inner, outer := next, links[i].unary
			next = func(ctx context.Context, request any) (any, error) { return outer(ctx, request, info, inner) }
		}
		response, err := next(ctx, request)
		return response, asStatus(err)
	}
}

// stream is one interceptor of all links.
func (in *inside) stream(links []link) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, leave, err := in.enter(stream.Context())
		if err != nil {
			return err
		}
		defer leave()
		for i := len(links) - 1; i >= 0; i-- {
			inner, outer := next, links[i].stream
			next = func(server any, stream grpc.ServerStream) error { return outer(server, stream, info, inner) }
		}
		return asStatus(next(server, &middleware.WrappedServerStream{ServerStream: stream, WrappedContext: ctx}))
	}
}

// asStatus returns what a caller over the network would get.
func asStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}

// wireCloner has messages cross as they would over the network: as bytes.
type wireCloner struct {
	codec
	max int // bytes of a message
}

// Clone returns the bytes of a message, for Copy.
func (c wireCloner) Clone(message any) (any, error) { return c.bounded(message) }

// bounded returns the bytes of a message that is not too large.
func (c wireCloner) bounded(message any) (mem.BufferSlice, error) {
	data, err := c.Marshal(message)
	if err != nil {
		return nil, err
	}
	if n := data.Len(); n > c.max {
		data.Free()
		return nil, status.Errorf(codes.ResourceExhausted, "a message has %d bytes: want at most %d, as wire.max_message_bytes of the configuration says; "+
			"WorkspaceService takes and gives files in pieces, as \"toolserver cp\" does", n, c.max)
	}
	return data, nil
}

// Copy reads into a message what is the bytes of another, or another.
func (c wireCloner) Copy(to, from any) error {
	data, ok := from.(mem.BufferSlice)
	if !ok {
		var err error
		if data, err = c.bounded(from); err != nil {
			return err
		}
	}
	defer data.Free()
	return c.Unmarshal(data, to)
}

// insideConn is a [Conn].
type insideConn struct {
	channel inprocgrpc.Channel
	from    net.Addr
	closed  context.Context //nolint:containedctx // ends with the connection
	close   context.CancelFunc
}

type fromKey struct{} // net.Addr

func (in *inside) connect(from net.Addr) *insideConn {
	c := &insideConn{channel: in.channel, from: from}
	c.closed, c.close = context.WithCancel(in.over)
	return c
}

// Close implements [io.Closer].
func (c *insideConn) Close() error {
	c.close()
	return nil
}

// begin returns the context of a call, and what ends it. It ends with the connection.
func (c *insideConn) begin(ctx context.Context) (context.Context, func(), error) {
	if c.closed.Err() != nil {
		return nil, nil, status.Error(codes.Canceled, "the connection is closed")
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, status.FromContextError(err).Err()
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, fromKey{}, c.from))
	forget := context.AfterFunc(c.closed, cancel)
	return ctx, func() {
		forget()
		cancel()
	}, nil
}

// Invoke implements [grpc.ClientConnInterface].
func (c *insideConn) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	err = c.channel.Invoke(ctx, method, request, response, options...)
	if errors.Is(err, io.EOF) && ctx.Err() != nil { // as the channel says where that ended just then
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

// NewStream implements [grpc.ClientConnInterface].
func (c *insideConn) NewStream(ctx context.Context, about *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := c.channel.NewStream(ctx, about, method, options...)
	if err != nil {
		end()
		return nil, err
	}
	return &insideStream{stream, end, !about.ServerStreams, !about.ClientStreams}, nil
}

// insideStream is a stream that ends when its caller has the last message.
type insideStream struct {
	grpc.ClientStream
	end    func()
	single bool // there is one message
	asks   bool // with one message
}

// SendMsg does as that of a connection over the network: where the call has ended before its
// one message came, receiving tells why.
func (s *insideStream) SendMsg(message any) error {
	err := s.ClientStream.SendMsg(message)
	if s.asks && errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *insideStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err != nil || s.single {
		s.end()
	}
	return err
}

// insideAddr is where a caller inside the process comes from: who it is.
type insideAddr auth.Principal

func (insideAddr) Network() string  { return "inside" }
func (a insideAddr) String() string { return a.Name }

// forwardedAddr is where a caller comes from whose calls are passed on: its address, and
// what its TLS handshake found out.
type forwardedAddr struct {
	remote string
	tls    *tls.ConnectionState
}

func (*forwardedAddr) Network() string  { return "forwarded" }
func (a *forwardedAddr) String() string { return a.remote }
