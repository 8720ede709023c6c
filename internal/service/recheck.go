// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
)

// recheckInterval is how long a call can go on at most whose credentials are gone, about.
const recheckInterval = time.Second

// recheck ends calls whose caller could not begin them any more, until ctx ends: its token
// was taken away or has expired, its certificate too, or it has lost its role. What the
// calls began goes on: to the executor they are clients that went away.
func (s *Server) recheck(ctx context.Context) {
	tick := time.NewTicker(recheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		judged := make(map[proof]answer) // many calls show the same
		s.calls.end(func(c *openRPC) error {
			if c.inside {
				return nil
			}
			shown := proofOf(c.shown)
			now, known := judged[shown]
			if !known {
				now.principal, now.err = s.config.Authenticator.Authenticate(ctx, c.shown)
				judged[shown] = now
			}
			return now.ends(c)
		})
	}
}

// proof tells credentials apart.
type proof struct {
	authorization string
	certificate   *x509.Certificate
}

func proofOf(shown auth.Credentials) proof {
	p := proof{authorization: strings.Join(shown.Authorization, "\n")}
	if shown.TLS != nil && len(shown.TLS.PeerCertificates) > 0 {
		p.certificate = shown.TLS.PeerCertificates[0]
	}
	return p
}

// answer is what credentials prove by now.
type answer struct {
	principal auth.Principal
	err       error
}

// ends returns why a call cannot go on, or nil. Where nobody can say whether the
// credentials are good, it goes on.
func (a answer) ends(c *openRPC) error {
	const hint = "; what was begun goes on: connect with other credentials to follow it"
	row := methods[c.method]
	switch {
	case errors.Is(a.err, auth.ErrUnauthenticated):
		return status.Error(codes.Unauthenticated, "the credentials of the call are no longer good: "+a.err.Error()+hint)
	case errors.Is(a.err, auth.ErrForbidden) || errors.Is(a.err, auth.ErrMalformed):
		return a.err
	case a.err != nil:
		return nil
	case a.principal.Owner() != c.principal.Owner(), c.principal.AllTenants&^a.principal.AllTenants != 0:
		return status.Error(codes.Unauthenticated, "the credentials of the call are somebody else's by now"+hint)
	case a.principal.MaxMode != c.principal.MaxMode: // by which the calls of a batch are judged
		return status.Error(codes.Unauthenticated, "the credentials of the call allow another mode by now"+hint)
	case !a.principal.Roles.Has(row.roles), c.principal.Roles&^a.principal.Roles != 0:
		return status.Errorf(codes.PermissionDenied, "%s is for callers with a role of %s, which you have no longer%s", c.method, row.roles, hint)
	}
	if c.principal.OnBehalfOf != "" {
		_, err := a.principal.For(c.principal.OnBehalfOf)
		return err
	}
	return nil
}
