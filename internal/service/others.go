// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/session"
)

// Who may look at what others have, and who may stop it.
const (
	looksOn = auth.Operator | auth.Viewer
	stops   = auth.Operator
)

// ownerOf returns whose things a request is about: the caller's or, for callers with one
// of some roles, those of the principal that it names. What the answer is does not depend
// on whether there is such a principal.
func ownerOf(ctx context.Context, named string, roles auth.Roles) (string, error) {
	caller := principalOf(ctx)
	switch {
	case named == "" || named == caller.Name:
		return caller.Name, nil
	case !caller.Roles.Has(roles):
		return "", status.Errorf(codes.PermissionDenied, "principal names somebody else, which is for callers with a role of %s: leave it out", roles)
	}
	return named, nil
}

// oneOwner is ownerOf for requests about one thing.
func oneOwner(ctx context.Context, named string, roles auth.Roles) (string, error) {
	if named == auth.Everybody {
		return "", invalid("principal is %q: name one, for this is about one session", named)
	}
	return ownerOf(ctx, named, roles)
}

// lookedAt returns a session for a caller who looks at it: its own, which that uses, or
// somebody else's.
func (s *sessionService) lookedAt(ctx context.Context, named, id string) (*session.Session, error) {
	owner, err := oneOwner(ctx, named, looksOn)
	if err != nil {
		return nil, err
	}
	if caller := principalOf(ctx); owner != caller.Name || !caller.Roles.Has(auth.Agent) {
		return s.sessions.Look(owner, id)
	}
	return s.sessions.Get(owner, id)
}
