// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"google.golang.org/grpc"
)

// peers are the clients that are connected. Each has a connection to the chain of its own,
// for the chain knows callers by the connection that they came over.
type peers struct {
	forward func(remote string, state *tls.ConnectionState) (*grpc.ClientConn, error)

	mu        sync.Mutex
	connected map[net.Conn]*peer
}

// peer is the other end of one connection of HTTP.
type peer struct {
	once sync.Once
	conn *grpc.ClientConn
	err  error
}

type peerKey struct{} // *peer

// ConnContext is that of [http.Server].
func (p *peers) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	from := new(peer)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connected == nil {
		p.connected = make(map[net.Conn]*peer)
	}
	p.connected[conn] = from
	return context.WithValue(ctx, peerKey{}, from)
}

// ConnState is that of [http.Server].
func (p *peers) ConnState(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	p.mu.Lock()
	from := p.connected[conn]
	delete(p.connected, conn)
	p.mu.Unlock()
	if from == nil {
		return
	}
	from.once.Do(func() { from.err = net.ErrClosed })
	if from.conn != nil {
		from.conn.Close()
	}
}

// withPeer returns the context for RPCs of a request.
func (p *peers) withPeer(r *http.Request) (context.Context, error) {
	from := r.Context().Value(peerKey{}).(*peer)
	from.once.Do(func() { from.conn, from.err = p.forward(r.RemoteAddr, r.TLS) })
	return r.Context(), from.err
}

// throughPeer calls by the connection of the client that a context is of.
type throughPeer struct{}

func connOf(ctx context.Context) *grpc.ClientConn { return ctx.Value(peerKey{}).(*peer).conn }

// Invoke makes a unary call.
func (throughPeer) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return connOf(ctx).Invoke(ctx, method, args, reply, opts...)
}

// NewStream begins a stream.
func (throughPeer) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return connOf(ctx).NewStream(ctx, desc, method, opts...)
}
