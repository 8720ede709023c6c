// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
// caller can do no more than what was asked of it. Close the connection after use.
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
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.inside.dial(ctx, as) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}
	if s.config.Tracer != nil {
		options = append(options, grpc.WithStatsHandler(otelgrpc.NewClientHandler(tracing(s.config.Tracer)...)))
	}
	return grpc.NewClient("passthrough:inside", options...)
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
func (l *inside) dial(ctx context.Context, as auth.Principal) (net.Conn, error) {
	pair := bufconn.Listen(1 << 20)
	defer pair.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := pair.Accept(); err == nil {
			accepted <- &insideConn{conn, insideAddr(as)}
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

// insideConn is a connection of a caller inside the process.
type insideConn struct {
	net.Conn
	from insideAddr
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
