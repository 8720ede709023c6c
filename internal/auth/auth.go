// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package auth turns credentials into a principal: who is calling. It knows
// nothing of gRPC and of what a principal may do.
package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// ErrUnauthenticated is wrapped by every refusal of credentials.
var ErrUnauthenticated = errors.New("unauthenticated")

// A Principal is who is calling.
type Principal struct {
	// Name is unique among principals; sessions and executions belong to it.
	Name string

	// Operator says that the principal runs this server and may look into it.
	Operator bool

	// Approver says that the principal sees the questions of everybody's calls,
	// and may answer those of others.
	Approver bool

	// OnBehalfOf is whom a caller inside the process acts for: a principal, or the
	// user of the machine. It is empty for callers from outside, who act for
	// themselves.
	OnBehalfOf string
}

// Local is, where authentication is off, the principal of everybody who reaches the
// server.
var Local = Principal{Name: "local", Operator: true, Approver: true}

// Server is the name of the server itself where it acts: nobody else has it.
const Server = "server"

// An Authenticator judges the value of an Authorization header, which is empty
// where there was none.
type Authenticator interface {
	// Authenticate returns the principal, or an error that wraps
	// [ErrUnauthenticated] and can be shown to the caller.
	Authenticate(header string) (Principal, error)

	// Name says how callers prove who they are, in a word.
	Name() string
}

// None takes everybody for [Local]. It is fit for loopback addresses alone.
type None struct{}

// Authenticate returns [Local].
func (None) Authenticate(string) (Principal, error) { return Local, nil }

// Name returns "none".
func (None) Name() string { return "none" }

// Tokens knows principals by bearer token. Only digests of the tokens are kept.
type Tokens struct {
	byDigest map[[sha256.Size]byte]Principal
}

// A Token is a secret and the principal that has it.
type Token struct {
	Principal Principal
	Secret    string
}

// NewTokens returns an authenticator for tokens. Secrets of fewer than 16
// characters, repeated secrets, and principals without a name are errors.
func NewTokens(tokens []Token) (*Tokens, error) {
	t := &Tokens{byDigest: make(map[[sha256.Size]byte]Principal, len(tokens))}
	for _, token := range tokens {
		name := token.Principal.Name
		if name == "" || len(name) > 64 || name == Local.Name || name == Server {
			return nil, fmt.Errorf("a token needs the name of a principal: 1 to 64 bytes, and neither %q nor %q", Local.Name, Server)
		}
		if len(token.Secret) < 16 {
			return nil, fmt.Errorf("the token of %s has %d characters: it needs at least 16", name, len(token.Secret))
		}
		digest := sha256.Sum256([]byte(token.Secret))
		if other, taken := t.byDigest[digest]; taken {
			return nil, fmt.Errorf("%s and %s have the same token", other.Name, name)
		}
		t.byDigest[digest] = token.Principal
	}
	return t, nil
}

// Authenticate looks the bearer token of header up. Looking up its digest
// takes a time that tells nothing about the token.
func (t *Tokens) Authenticate(header string) (Principal, error) {
	if header == "" {
		return Principal{}, fmt.Errorf("%w: no credentials: send the header \"authorization: Bearer TOKEN\"", ErrUnauthenticated)
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return Principal{}, fmt.Errorf("%w: the authorization header must be \"Bearer TOKEN\"", ErrUnauthenticated)
	}
	principal, ok := t.byDigest[sha256.Sum256([]byte(secret))]
	if !ok {
		return Principal{}, fmt.Errorf("%w: unknown token", ErrUnauthenticated)
	}
	return principal, nil
}

// Name returns "tokens".
func (*Tokens) Name() string { return "tokens" }
