// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

// Who may look at what others have, and who may stop it.
const (
	mayView = auth.Operator | auth.Viewer
	mayStop = auth.Operator
)

// ownerRequest is a request that may be about what others have.
type ownerRequest interface {
	GetPrincipal() string
	GetTenant() string
}

// everybody stands for all with whom a caller with one of some roles has to do.
func everybody(caller auth.Principal, roles auth.Roles) auth.Owner {
	if caller.Everywhere(roles) {
		return auth.NewOwner(auth.AllTenants, auth.Everybody)
	}
	return auth.NewOwner(caller.Tenant, auth.Everybody)
}

// ownerOf returns whose things a request is about: the caller's or, for callers with one
// of some roles, those of the principal that it names. What the answer is does not depend
// on whether there is such a principal, or such a tenant.
func ownerOf(ctx context.Context, request ownerRequest, roles auth.Roles) (auth.Owner, error) {
	caller, named := principalOf(ctx), request.GetPrincipal()
	if named != "" && named != auth.Everybody && named != auth.Local.Name {
		if err := auth.CheckName(named); err != nil {
			return "", invalid("principal: %v", err)
		}
	}
	if tenant := request.GetTenant(); tenant != "" && tenant != cmp.Or(caller.Tenant, auth.DefaultTenant) {
		if !caller.Everywhere(roles) {
			return "", status.Errorf(codes.NotFound, "tenant %.80q: there is none that you may look into: leave it out", tenant)
		}
		if err := auth.CheckTenantOrAll(tenant); err != nil {
			return "", invalid("tenant: %v", err)
		}
		return auth.NewOwner(tenant, cmp.Or(named, auth.Everybody)), nil
	}
	switch {
	case named == "" || named == caller.Name:
		return caller.Owner(), nil
	case !caller.Roles.Has(roles):
		return "", status.Errorf(codes.PermissionDenied, "principal names somebody else, which is for callers with a role of %s: leave it out", roles)
	}
	return auth.NewOwner(caller.Tenant, named), nil
}

// oneOwner is ownerOf for requests about one thing.
func oneOwner(ctx context.Context, request ownerRequest, roles auth.Roles) (auth.Owner, error) {
	owner, err := ownerOf(ctx, request, roles)
	if err == nil && (owner.Name() == auth.Everybody || owner.Tenant() == auth.AllTenants) {
		return "", invalid("principal is %q and tenant %q: name one of each, for this is about one session", request.GetPrincipal(), request.GetTenant())
	}
	return owner, err
}

// lookedAt returns a session for a caller who looks at it: its own, which that uses, or
// somebody else's.
func (s *sessionService) lookedAt(ctx context.Context, request ownerRequest, id string) (*session.Session, error) {
	owner, err := oneOwner(ctx, request, mayView)
	if err != nil {
		return nil, err
	}
	if caller := principalOf(ctx); owner != caller.Owner() || !caller.Roles.Has(auth.Agent) {
		return s.sessions.Peek(owner, id)
	}
	return s.sessions.Get(owner, id)
}
