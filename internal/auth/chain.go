// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"strings"
	"time"
)

// MaxToken is how many bytes a token has at most.
const MaxToken = 16 << 10

// A Chain judges credentials by all the ways that are set. A header decides where there
// is one, else the certificate of the connection.
type Chain struct {
	Tokens       *Tokens
	Certificates *Certificates
	Issuers      []*Issuer // each with another URL
	Kubernetes   *Kubernetes

	judged  cache // tokens of others that are good
	refused cache // and those that are not: who has none cannot push out who has one
}

// Authenticate returns the principal that the credentials prove.
func (c *Chain) Authenticate(ctx context.Context, shown Credentials) (Principal, error) {
	if c.Certificates != nil {
		// Also where a token says who calls: whose connection it is must still be known.
		if err := c.Certificates.revalidate(shown.TLS); err != nil {
			return Principal{}, err
		}
	}
	if len(shown.Authorization) == 0 && c.Certificates != nil {
		return c.Certificates.principal(shown.TLS)
	}
	secret, err := shown.bearer()
	if err != nil {
		return Principal{}, err
	}
	if len(secret) > MaxToken {
		return Principal{}, unauthenticated("the token has %d bytes: at most %d", len(secret), MaxToken)
	}
	if c.Tokens != nil {
		if principal, known, err := c.Tokens.find(secret); known {
			return principal, err
		}
	}
	return c.signed(ctx, secret)
}

// signed judges a token that somebody else issued: once, and then from memory for as
// long as the answer holds.
func (c *Chain) signed(ctx context.Context, secret string) (Principal, error) {
	if len(c.Issuers) == 0 && c.Kubernetes == nil {
		return Principal{}, unauthenticated("unknown token")
	}
	digest := DigestOf(secret)
	known, ok := c.judged.get(digest, time.Now())
	if ok {
		return known.principal, nil
	}
	if refused, ok := c.refused.get(digest, time.Now()); ok {
		return Principal{}, refused.err
	}
	says, ok := unverifiedOf(secret)
	if !ok {
		return Principal{}, unauthenticated("unknown token, and no JSON Web Token either")
	}
	principal, until, err := c.ask(ctx, says, secret, known.principal.Name != "")
	switch {
	case until.IsZero():
	case err == nil:
		c.judged.put(digest, cached{principal: principal, until: until})
	default:
		c.refused.put(digest, cached{err: err, until: until})
	}
	return principal, err
}

// ask has a token judged by whoever issued it. Where the answer does not hold for longer
// than this, it has no time. before says that the token was good the last time.
func (c *Chain) ask(ctx context.Context, says unverified, secret string, before bool) (Principal, time.Time, error) {
	for _, known := range c.Issuers {
		if known.config.URL == says.Issuer {
			return known.authenticate(ctx, secret)
		}
	}
	if c.Kubernetes != nil {
		return c.Kubernetes.authenticate(ctx, says, secret, before)
	}
	return Principal{}, time.Time{}, unauthenticated("the issuer of the token is none that this server trusts")
}

// Close hangs up on all who are asked.
func (c *Chain) Close() error {
	for _, issuer := range c.Issuers {
		issuer.Close()
	}
	if c.Kubernetes != nil {
		c.Kubernetes.Close()
	}
	return nil
}

// Name returns the ways in which callers prove who they are.
func (c *Chain) Name() string {
	var names []string
	if c.Tokens != nil {
		names = append(names, "tokens")
	}
	if c.Certificates != nil {
		names = append(names, "certificates")
	}
	if len(c.Issuers) > 0 {
		names = append(names, "oidc")
	}
	if c.Kubernetes != nil {
		names = append(names, "kubernetes")
	}
	return strings.Join(names, ",")
}
