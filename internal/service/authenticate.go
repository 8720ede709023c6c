// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/toolserver/toolserver/internal/auth"
)

// principalOf returns who is calling; nobody before authenticate.
func principalOf(ctx context.Context) auth.Principal { return rpcOf(ctx).principal }

// authenticate finds out who is calling, unless the method is for anybody.
func authenticate(authenticator auth.Authenticator) func(ctx context.Context, method string) error {
	return func(ctx context.Context, method string) (err error) {
		if !methods[method].anybody {
			rpc := rpcOf(ctx)
			rpc.shown = credentialsOf(ctx)
			rpc.principal, err = whoCalls(ctx, authenticator, rpc.shown)
		}
		return err
	}
}

// whoCalls returns who is calling. The connection of a caller inside the process says
// who that is, as another replica does that passes a call on: nobody else can reach the
// listeners they come through.
func whoCalls(ctx context.Context, authenticator auth.Authenticator, shown auth.Credentials) (auth.Principal, error) {
	if p, ok := peer.FromContext(ctx); ok {
		switch from := p.Addr.(type) {
		case insideAddr:
			return auth.Principal(from), nil
		case *relayedCaller:
			return from.principal(), nil
		}
	}
	principal, err := authenticator.Authenticate(ctx, shown)
	if err != nil {
		return principal, err
	}
	return principal.ForHeader(onBehalfOfHeader, metadata.ValueFromIncomingContext(ctx, onBehalfOfHeader))
}

// onBehalfOfHeader names the end user for whom a runtime calls.
const onBehalfOfHeader = "toolserver-on-behalf-of"

// isInside reports whether a call comes from inside the process.
func isInside(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if ok {
		_, ok = p.Addr.(insideAddr)
	}
	return ok
}

// credentialsOf returns the credentials of a call and of its connection.
func credentialsOf(ctx context.Context) auth.Credentials {
	c := auth.Credentials{Authorization: metadata.ValueFromIncomingContext(ctx, "authorization")}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			state := info.State // or info would be allocated without TLS, too
			c.TLS = &state
		}
		if from, ok := p.Addr.(*forwardedAddr); ok {
			c.TLS = from.tls
		}
	}
	return c
}
