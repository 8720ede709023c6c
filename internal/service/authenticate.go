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
			rpcOf(ctx).principal, err = whoCalls(ctx, authenticator)
		}
		return err
	}
}

// whoCalls returns who is calling. The connection of a caller inside the process says
// who that is: nobody else can reach the listener it comes through.
func whoCalls(ctx context.Context, authenticator auth.Authenticator) (auth.Principal, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if from, ok := p.Addr.(insideAddr); ok {
			return auth.Principal(from), nil
		}
	}
	return authenticator.Authenticate(ctx, credentialsOf(ctx))
}

// credentialsOf returns the credentials of a call and of its connection.
func credentialsOf(ctx context.Context) auth.Credentials {
	c := auth.Credentials{Authorization: metadata.ValueFromIncomingContext(ctx, "authorization")}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.TLS = &info.State
		}
	}
	return c
}
