// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A Digest is the SHA-256 of a token. Tokens are random, so that a hash which is
// quick to compute gives nothing away.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }

const digestPrefix = "sha256:"

func (d Digest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

// UnmarshalText reads what String returns.
func (d *Digest) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), digestPrefix)
	if n, err := hex.Decode(d[:], []byte(digits)[:min(len(digits), 2*len(d))]); !ok || err != nil || n != len(d) || len(digits) != 2*len(d) {
		return errors.New(`want "sha256:" and 64 hexadecimal digits`)
	}
	return nil
}

// MinSecret is how many characters a token has at least that somebody chose.
const MinSecret = 16

// tokenPrefix is what tokens begin with that are made here: programs that look for
// secrets in files know them by it.
const tokenPrefix = "tsk_"

// NewSecret returns a new token: 256 random bits.
func NewSecret() string {
	var random [32]byte
	rand.Read(random[:]) // never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// A Token is a secret, or its digest, and the principal that has it.
type Token struct {
	Principal Principal
	Secret    string // empty where only the digest is known
	Digest    Digest
	Expires   time.Time // zero: never
}

// Line returns the token as a line of a token file.
func (t Token) Line() string {
	if t.Secret != "" {
		t.Digest = DigestOf(t.Secret)
	}
	fields := []string{t.Digest.String(), "roles=" + t.Principal.Roles.String()}
	if t.Principal.Tenant != "" {
		fields = append(fields, "tenant="+t.Principal.Tenant)
	}
	if t.Principal.AllTenants != 0 {
		fields = append(fields, "tenant="+AllTenants)
	}
	if t.Principal.MaxMode != 0 {
		fields = append(fields, "max_mode="+t.Principal.MaxMode.String())
	}
	for _, pattern := range t.Principal.ActsFor.Patterns() {
		fields = append(fields, "on_behalf_of="+pattern)
	}
	if !t.Expires.IsZero() {
		fields = append(fields, "expires="+t.Expires.UTC().Format(time.RFC3339))
	}
	return strings.Join(append(fields, "name="+t.Principal.Name), " ")
}

// ParseTokens reads a token file: one token in each line, as Line writes it; lines that
// are empty or begin with # say nothing. The error has everything that is wrong, with
// its line. A file without a token is an error: it is rather one that is being written.
func ParseTokens(file string, text []byte) ([]Token, error) {
	var list []Token
	var faults []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		token, err := parseToken(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", file, number, err))
			continue
		}
		list = append(list, token)
	}
	if len(list) == 0 && len(faults) == 0 {
		return nil, fmt.Errorf(`%s has no token: "toolserver token create NAME" makes one`, file)
	}
	return list, errors.Join(faults...)
}

func parseToken(line string) (Token, error) {
	digest, rest, _ := strings.Cut(line, " ")
	var token Token
	if err := token.Digest.UnmarshalText([]byte(digest)); err != nil {
		return token, fmt.Errorf("the line begins with no digest of a token: %w", err) // what is there may be a secret
	}
	token.Principal.Roles = Agent
	for {
		word, more, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "name": // the last, for it may have spaces in it
			token.Principal.Name = strings.TrimSpace(strings.TrimPrefix(strings.TrimLeft(rest, " \t"), "name="))
			return token, CheckName(token.Principal.Name)
		case "roles":
			err = token.Principal.Roles.UnmarshalText([]byte(value))
		case "tenant":
			if err = token.Principal.SetTenant(value); value == "" {
				err = errors.New("tenant= names no tenant: leave it out for the default tenant")
			}
		case "max_mode":
			err = token.Principal.MaxMode.UnmarshalText([]byte(value))
		case "on_behalf_of": // which may come again
			var more ActsFor
			more, err = NewActsFor([]string{value})
			token.Principal.ActsFor = token.Principal.ActsFor.and(more)
			if err != nil {
				err = fmt.Errorf("on_behalf_of=: %w", err)
			}
		case "expires":
			if token.Expires, err = time.Parse(time.RFC3339, value); err != nil {
				err = fmt.Errorf("expires=%.40s is no time: want one such as 2027-01-31T00:00:00Z", value)
			}
		case "":
			return token, errors.New("the line does not end with name= and the name of a principal")
		default:
			err = fmt.Errorf("unknown key %.40q: want roles, tenant, max_mode, on_behalf_of, expires and, as the last, name", key)
		}
		if err != nil {
			return token, err
		}
		rest = more
	}
}

// Tokens knows principals by bearer token. Only digests of the tokens are kept. The zero
// value knows nobody.
type Tokens struct {
	fixed []Token
	known atomic.Pointer[map[Digest]Token]
}

// NewTokens returns what knows tokens that stay. Secrets of fewer than 16
// characters, repeated tokens, and principals without a name are errors.
func NewTokens(tokens []Token) (*Tokens, error) {
	t := new(Tokens)
	for _, token := range tokens {
		if err := CheckSecret(token.Principal.Name, token.Secret); err != nil {
			return nil, err
		}
		token.Digest, token.Secret = DigestOf(token.Secret), ""
		token.Principal.Roles = cmp.Or(token.Principal.Roles, Agent)
		t.fixed = append(t.fixed, token)
	}
	if err := t.Replace(nil); err != nil {
		return nil, err
	}
	return t, nil
}

// CheckSecret returns why a secret cannot be the token of a principal, or nil.
func CheckSecret(principal, secret string) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("the token of %s has %d characters: it needs at least %d", principal, len(secret), MinSecret)
	}
	return nil
}

// Replace takes the place of what an earlier Replace brought, as a whole or, with an
// error, not at all.
func (t *Tokens) Replace(tokens []Token) error {
	known := make(map[Digest]Token, len(t.fixed)+len(tokens))
	for _, list := range [][]Token{t.fixed, tokens} {
		for _, token := range list {
			name := token.Principal.Name
			if err := CheckName(name); err != nil {
				return err
			}
			if other, taken := known[token.Digest]; taken {
				return fmt.Errorf("%s and %s have the same token", other.Principal.Name, name)
			}
			known[token.Digest] = token
		}
	}
	t.known.Store(&known)
	return nil
}

// find returns whose token it is. Looking up its digest takes a time that tells nothing
// about the token.
func (t *Tokens) find(secret string) (_ Principal, known bool, err error) {
	all := t.known.Load()
	if all == nil {
		return Principal{}, false, nil
	}
	token, ok := (*all)[DigestOf(secret)]
	if !ok {
		return Principal{}, false, nil
	}
	if !token.Expires.IsZero() && !time.Now().Before(token.Expires) {
		return Principal{}, true, unauthenticated("the token expired at %s: ask the operator for another", token.Expires.UTC().Format(time.RFC3339))
	}
	return token.Principal, true, nil
}

// bearer returns the token of the header. Two headers are refused: two parties might
// read different ones.
func (c Credentials) bearer() (string, error) {
	switch len(c.Authorization) {
	case 0:
		return "", unauthenticated(`no credentials: send the header "authorization: Bearer TOKEN"`)
	case 1:
	default:
		return "", unauthenticated("%d authorization headers: send one", len(c.Authorization))
	}
	scheme, secret, _ := strings.Cut(c.Authorization[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", unauthenticated(`the authorization header must be "Bearer TOKEN"`)
	}
	return secret, nil
}
