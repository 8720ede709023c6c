// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toolserver/toolserver/internal/auth"
)

// Connect returns a connection for a caller inside the process, which acts as a
// principal on behalf of somebody. It goes through the same chain as every other,
// and what is called is part of the trace of its caller. A principal without a name,
// one that acts on nobody's behalf, and an operator or approver are errors: the
// caller can do no more than what was asked of it. One on behalf of itself is the
// principal, for what it asked for itself. Close the connection after use.
func (s *Server) Connect(as auth.Principal) (*grpc.ClientConn, error) {
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
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.inside.dial(ctx, insideAddr(as)) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}
	if s.config.Tracer != nil {
		options = append(options, grpc.WithStatsHandler(otelgrpc.NewClientHandler(tracing(s.config.Tracer)...)))
	}
	return grpc.NewClient("passthrough:inside", options...)
}

// Forward returns a connection for a face of the server that speaks another protocol. The
// face passes on what its callers ask for: each RPC is authenticated like one from
// outside, by the headers that the caller sent and by the TLS connection, if any, over
// which it came from the remote address. Close the connection after use.
func (s *Server) Forward(remote string, state *tls.ConnectionState) (*grpc.ClientConn, error) {
	from := &forwardedAddr{remote, state}
	return grpc.NewClient("passthrough:forwarded",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.inside.dial(ctx, from) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), // the server bounds what it sends
	)
}

// inside is the listener of callers inside the process. Each of its connections
// knows whose it is.
type inside struct {
	arriving chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

func newInside() *inside {
	return &inside{arriving: make(chan net.Conn), closed: make(chan struct{})}
}

// dial returns the end of a new connection that is the caller's.
func (l *inside) dial(ctx context.Context, from net.Addr) (net.Conn, error) {
	pair := bufconn.Listen(1 << 20)
	defer pair.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := pair.Accept(); err == nil {
			accepted <- &insideConn{conn, from}
		}
		close(accepted)
	}()
	conn, err := pair.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case l.arriving <- <-accepted:
		return conn, nil
	case <-l.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, conn.Close())
}

func (l *inside) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arriving:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *inside) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *inside) Addr() net.Addr { return insideAddr{} }

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

// insideConn is a connection of a caller inside the process, or of one whose calls are
// passed on.
type insideConn struct {
	net.Conn
	from net.Addr
}

func (c *insideConn) RemoteAddr() net.Addr { return c.from }

// onlyOutside returns credentials that secure connections with config, if it is
// set, and leave those inside the process alone.
func onlyOutside(config *tls.Config) credentials.TransportCredentials {
	if config == nil {
		return insecure.NewCredentials()
	}
	return &outsideTLS{TransportCredentials: credentials.NewTLS(config), inside: insecure.NewCredentials()}
}

type outsideTLS struct {
	credentials.TransportCredentials
	inside credentials.TransportCredentials
}

func (c *outsideTLS) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, ok := conn.(*insideConn); ok {
		return c.inside.ServerHandshake(conn)
	}
	return c.TransportCredentials.ServerHandshake(conn)
}
