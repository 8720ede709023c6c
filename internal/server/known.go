// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/service"
)

// knownBy returns what finds out who those are by now that have something done later.
func knownBy(a auth.Authenticator) func(errand.Who) (errand.Who, error) {
	knows, ok := a.(interface {
		Known(tenant, name string) (auth.Principal, bool)
	})
	if !ok {
		return nil
	}
	return func(who errand.Who) (errand.Who, error) {
		p, decided := knows.Known(who.Tenant, who.Principal)
		if decided && !p.Roles.Has(auth.Agent) {
			return who, fmt.Errorf("%s may not call tools any more: it has no credentials of an agent here", who.Principal)
		}
		if decided && who.OnBehalfOf != "" && who.OnBehalfOf != who.Principal {
			if _, err := p.For(who.OnBehalfOf); err != nil {
				return who, err
			}
		}
		if p.MaxMode != 0 && (who.MaxMode == 0 || who.MaxMode.Above(p.MaxMode)) {
			who.MaxMode = p.MaxMode
		}
		return who, nil
	}
}

// connectKnown returns connect for callers that go on without the one they work for, such as
// agents in the background: each of their calls is made as long as that one may make it.
func connectKnown(connect func(auth.Principal) (service.Conn, error), known func(errand.Who) (errand.Who, error)) func(auth.Principal) (service.Conn, error) {
	if known == nil {
		return connect
	}
	return func(as auth.Principal) (service.Conn, error) {
		conn, err := connect(as)
		if err != nil {
			return nil, err
		}
		who := errand.Who{Tenant: as.Tenant, Principal: as.Name, OnBehalfOf: as.OnBehalfOf, MaxMode: as.MaxMode}
		return &knownConn{conn, func(method string) error {
			if method == errand.ShutMethod { // which ends what it began
				return nil
			}
			now, err := known(who)
			switch {
			case err != nil:
				return status.Error(codes.Unauthenticated, err.Error())
			case now.MaxMode != who.MaxMode:
				return status.Errorf(codes.Unauthenticated, "the credentials of %s allow another mode by now", who.Principal)
			}
			return nil
		}}, nil
	}
}

// knownConn is a connection that asks before each call whether it may be made.
type knownConn struct {
	service.Conn
	may func(method string) error
}

func (c *knownConn) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	if err := c.may(method); err != nil {
		return err
	}
	return c.Conn.Invoke(ctx, method, request, response, options...)
}

func (c *knownConn) NewStream(ctx context.Context, about *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := c.may(method); err != nil {
		return nil, err
	}
	return c.Conn.NewStream(ctx, about, method, options...)
}
