// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package auth turns credentials into a principal: who is calling, and in which
// roles. It knows nothing of gRPC and of which role a method needs.
//
// Locks: each type has one mutex at most, and takes no other while it holds it. None
// is held while a server is asked.
//
// Goroutines: there are none of its own. go-oidc starts one that fetches keys, which
// ends with the request.
package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/tools"
)

var (
	// ErrUnauthenticated is wrapped by every refusal of credentials.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrUnavailable is wrapped where credentials cannot be judged now: they may be
	// good, and can be sent again.
	ErrUnavailable = errors.New("credentials cannot be checked now")
)

// Roles are what a principal may do: a set.
type Roles uint8

// The roles. What each may call is told by the method table of the service.
const (
	// Agent works in sessions of its own.
	Agent Roles = 1 << iota
	// Approver sees the questions of everybody's calls, and may answer those of
	// others.
	Approver
	// Operator runs the server: it sees and stops what anybody runs.
	Operator
	// Viewer sees what anybody runs, and changes nothing.
	Viewer
)

// AllRoles are the roles there are.
const AllRoles = Agent | Approver | Operator | Viewer

var roleNames = []string{"agent", "approver", "operator", "viewer"}

// Has reports whether one of the roles is in the set.
func (r Roles) Has(any Roles) bool { return r&any != 0 }

// String returns the names of the roles, with commas between them.
func (r Roles) String() string { return strings.Join(r.Names(), ",") }

// Names returns the names of the roles.
func (r Roles) Names() (names []string) {
	for i, name := range roleNames {
		if r.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// UnmarshalText reads the names of roles, with commas between them.
func (r *Roles) UnmarshalText(text []byte) error {
	var set Roles
words:
	for word := range strings.SplitSeq(string(text), ",") {
		for i, name := range roleNames {
			if strings.TrimSpace(word) == name {
				set |= 1 << i
				continue words
			}
		}
		return fmt.Errorf("%.64q is no role: want some of %s", word, strings.Join(roleNames, ", "))
	}
	*r = set
	return nil
}

// A Principal is who is calling.
type Principal struct {
	// Name is unique among the principals of its tenant.
	Name string

	// Roles are what the principal may do.
	Roles Roles

	// Tenant is which customer or team the principal is of; empty for the default
	// tenant. What one tenant has, another cannot tell from nothing.
	Tenant string

	// AllTenants are those of the roles approver, operator and viewer that count in every
	// tenant, and not only in that of the principal. Others in it mean nothing.
	AllTenants Roles

	// MaxMode is the most permissive mode that sessions of the principal may have; 0
	// is that of the server.
	MaxMode tools.Mode

	// ActsFor is for whom the principal may act. OnBehalfOf is for whom it does: an end
	// user, whom its credentials or the call name; of a caller inside the process, a
	// principal or the user of the machine. Empty: for itself.
	ActsFor    ActsFor
	OnBehalfOf string
}

// Local is, where authentication is off, the principal of everybody who reaches the
// server.
var Local = Principal{Name: "local", Roles: AllRoles}

// Server is the name of the server itself where it acts: nobody else has it.
const Server = "server"

// Everybody stands for all principals where one can be named.
const Everybody = "*"

// MaxName is how many bytes the name of a principal has at most.
const MaxName = 256

// CheckName returns what is wrong with the name of a principal.
func CheckName(name string) error {
	switch {
	case name == Local.Name || name == Server || name == Everybody:
		return fmt.Errorf("%q is the name of no principal that can be proven: %q, %q and %q stand for something else", name, Local.Name, Server, Everybody)
	case name == "" || len(name) > MaxName:
		return fmt.Errorf("the name of a principal has 1 to %d bytes, not %d", MaxName, len(name))
	case !utf8.ValidString(name) || strings.IndexFunc(name, func(c rune) bool { return !unicode.IsGraphic(c) || unicode.IsSpace(c) && c != ' ' }) >= 0:
		return fmt.Errorf("the name of a principal has only characters that are seen, not %.64q", name)
	}
	return nil
}

// Credentials are what a caller shows.
type Credentials struct {
	// Authorization are the values of the authorization header.
	Authorization []string

	// TLS, if the connection is encrypted, is what its handshake found out.
	TLS *tls.ConnectionState
}

// An Authenticator judges credentials.
type Authenticator interface {
	// Authenticate returns the principal, or an error that wraps
	// [ErrUnauthenticated], [ErrUnavailable], [ErrForbidden] or [ErrMalformed] and can be
	// shown to the caller.
	Authenticate(ctx context.Context, shown Credentials) (Principal, error)

	// Name says how callers prove who they are, in a few words.
	Name() string
}

// None takes everybody for [Local]. It is fit for loopback addresses alone.
type None struct{}

// Authenticate returns [Local].
func (None) Authenticate(context.Context, Credentials) (Principal, error) { return Local, nil }

// Name returns "none".
func (None) Name() string { return "none" }

// unauthenticated is a refusal in words for the caller.
func unauthenticated(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnauthenticated}, args...)...)
}
