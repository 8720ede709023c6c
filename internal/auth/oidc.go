// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// IssuerConfig is an issuer of JSON Web Tokens that is trusted.
type IssuerConfig struct {
	// URL is that of the issuer, as its tokens name it: with https.
	URL string

	// Audiences are those that tokens are meant for; one is enough.
	Audiences []string

	// CAFile has the certificates to trust when the issuer is asked; empty: those of
	// the system.
	CAFile string

	// Algorithms are those that tokens may be signed with; none: RS256 and ES256.
	Algorithms []string

	// ClockSkew is how far the clocks may be apart.
	ClockSkew time.Duration

	// NameClaim is what names the principal, Prefix what comes before it and before
	// its groups, so that one issuer cannot put somebody into the groups of another;
	// GroupsClaim has the groups that rules are about, and TenantClaim the tenant.
	// A claim in another is named with dots. Empty: sub, nothing, none, none.
	NameClaim, Prefix, GroupsClaim, TenantClaim string

	// OnBehalfOfClaim names whom the principal acts for, if the token has it. Empty: no
	// token says so.
	OnBehalfOfClaim string

	// SignIn is how people sign in there with a browser.
	SignIn SignInConfig

	Bindings *Bindings
}

// Algorithms are those that tokens can be signed with: all have public keys.
var Algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// CheckIssuer returns what is wrong with the URL of an issuer.
func CheckIssuer(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.256q is no issuer: want https:// and a host, exactly as the claim iss of its tokens", text)
	}
	return nil
}

// maxTrusted is how long a token is trusted that was verified, before it is verified
// again: a key that its issuer takes back is of no use after it.
const maxTrusted = 10 * time.Minute

// An Issuer judges the tokens of one issuer. It is asked for its keys when the first
// token comes, and again when one comes that is signed with another key.
type Issuer struct {
	config IssuerConfig
	client *http.Client
	fetch  *fetcher

	asking chan struct{} // has room for one who discovers the issuer
	mu     sync.Mutex
	keys   *oidc.RemoteKeySet // nil as long as the issuer is not known
	signIn signIn
	failed error // why not, at the last try
	tried  time.Time
}

// signIn is what an issuer says of how people sign in.
type signIn struct {
	endpoint    oauth2.Endpoint
	tellsIssuer bool // what browsers bring back names the issuer
}

// retryAfter is how long an issuer that did not answer is left alone, and refetchAfter
// one that has told its keys: callers without a right must not make us ask for each of
// their tokens.
const (
	retryAfter   = time.Second
	refetchAfter = 2 * time.Second
)

// askTime is how long an issuer has to answer.
const askTime = 5 * time.Second

// NewIssuer returns what judges tokens of an issuer, which need not be reached now.
func NewIssuer(config IssuerConfig) (*Issuer, error) {
	if err := CheckIssuer(config.URL); err != nil {
		return nil, err
	}
	if len(config.Audiences) == 0 {
		return nil, errors.New("no audience: tokens that are meant for others would be taken")
	}
	if err := config.SignIn.check(config.Audiences); err != nil {
		return nil, err
	}
	transport, err := trusting(config.CAFile)
	if err != nil {
		return nil, err
	}
	i := &Issuer{config: config, asking: make(chan struct{}, 1), fetch: &fetcher{base: transport}}
	i.client = &http.Client{Transport: i.fetch, Timeout: askTime}
	return i, nil
}

// trusting returns a transport that trusts the certificates of a file.
func trusting(file string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return transport, nil
	}
	text, err := readSmall(file)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	if transport.TLSClientConfig.RootCAs, err = loadCAs(file, text); err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	return transport, nil
}

// URL returns that of the issuer.
func (i *Issuer) URL() string { return i.config.URL }

// Close hangs up.
func (i *Issuer) Close() { i.client.CloseIdleConnections() }

// Discover asks the issuer for its configuration, unless that is known.
func (i *Issuer) Discover(ctx context.Context) error {
	_, err := i.discover(ctx)
	return err
}

func (i *Issuer) discover(ctx context.Context) (*oidc.RemoteKeySet, error) {
	select {
	case i.asking <- struct{}{}:
		defer func() { <-i.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	i.mu.Lock()
	keys, failed, tried := i.keys, i.failed, i.tried
	i.mu.Unlock()
	if keys != nil || failed != nil && time.Since(tried) < retryAfter {
		return keys, failed
	}
	// The library keeps the context for as long as it fetches keys, so it is that of no
	// call.
	of := oidc.ClientContext(context.Background(), i.client)
	provider, err := oidc.NewProvider(of, i.config.URL)
	var found struct {
		Keys        string   `json:"jwks_uri"`
		TellsIssuer bool     `json:"authorization_response_iss_parameter_supported"`
		Ways        []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err == nil {
		if err = provider.Claims(&found); err == nil && found.Keys == "" {
			err = errors.New("the issuer tells no jwks_uri")
		}
		keys = oidc.NewRemoteKeySet(of, found.Keys)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tried = time.Now()
	if i.failed = err; err != nil {
		return nil, err
	}
	i.keys, i.signIn = keys, signIn{provider.Endpoint(), found.TellsIssuer}
	i.signIn.endpoint.AuthStyle = oauth2.AuthStyleInHeader // which is what holds where it tells nothing
	if len(found.Ways) > 0 && !slices.Contains(found.Ways, "client_secret_basic") {
		i.signIn.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return keys, nil
}

// known returns the keys of the issuer, if it has been discovered.
func (i *Issuer) known() *oidc.RemoteKeySet {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys
}

// forget has the issuer discovered anew: its keys could not be had where they were.
func (i *Issuer) forget(keys *oidc.RemoteKeySet) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keys == keys {
		i.keys = nil
	}
}

// signature verifies signatures for one token, and remembers why it could not.
type signature struct {
	keys *oidc.RemoteKeySet
	err  error
}

// VerifySignature returns the payload of a token.
func (s *signature) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, s.err = s.keys.VerifySignature(ctx, token)
	return payload, s.err
}

// authenticate judges a token, and returns until when the answer holds.
func (i *Issuer) authenticate(ctx context.Context, token string) (Principal, time.Time, error) {
	verified, err := i.verify(ctx, token)
	if err != nil {
		return Principal{}, time.Time{}, err
	}
	principal, err := i.judge(verified)
	if err != nil {
		return Principal{}, time.Time{}, err
	}
	until := verified.Expiry.Add(i.config.ClockSkew)
	if most := time.Now().Add(maxTrusted); until.After(most) {
		until = most
	}
	return principal, until, nil
}

// verify returns what a token says, if the issuer signed it and its time is not over.
func (i *Issuer) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	keys := i.known()
	if keys == nil {
		var err error
		if keys, err = i.discover(ctx); err != nil {
			return nil, fmt.Errorf("%w: the issuer %s does not answer: try again", ErrUnavailable, i.config.URL)
		}
	}
	signed := &signature{keys: keys}
	algorithms := i.config.Algorithms
	if len(algorithms) == 0 {
		algorithms = []string{oidc.RS256, oidc.ES256}
	}
	verified, err := oidc.NewVerifier(i.config.URL, signed, &oidc.Config{
		SkipClientIDCheck:    true, // there may be several
		SupportedSigningAlgs: algorithms,
		Now:                  func() time.Time { return time.Now().Add(-i.config.ClockSkew) },
	}).Verify(ctx, token)
	if err != nil {
		return nil, i.refusal(ctx, signed, err)
	}
	return verified, nil
}

// refusal says in words for the caller why a token was not verified.
func (i *Issuer) refusal(ctx context.Context, signed *signature, err error) error {
	if expired, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		if expired.Expiry.IsZero() {
			return unauthenticated("the token has no end: want the claim exp")
		}
		return unauthenticated("the token expired at %s: get another from its issuer", expired.Expiry.UTC().Format(time.RFC3339))
	}
	switch {
	case errors.Is(signed.err, errFetch):
		i.forget(signed.keys)
		return fmt.Errorf("%w: the issuer %s does not tell its keys: try again", ErrUnavailable, i.config.URL)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case signed.err != nil:
		return unauthenticated("the token is not signed with a key of its issuer")
	case strings.Contains(err.Error(), "before the nbf"): // by more than the library's leeway; it has no type for that
		return unauthenticated("the token is not valid before the time that its claim nbf tells, which is more than 5 minutes ahead: check the clocks")
	}
	return unauthenticated("the token cannot be taken: want a JSON Web Token of %s, signed with one of the algorithms that are allowed", i.config.URL)
}

// judge returns whom a token is about, once it is verified.
func (i *Issuer) judge(token *oidc.IDToken) (Principal, error) {
	if !slices.ContainsFunc(i.config.Audiences, func(ours string) bool { return slices.Contains(token.Audience, ours) }) {
		return Principal{}, unauthenticated("the token is for another audience: want %s", strings.Join(i.config.Audiences, " or "))
	}
	var claims map[string]any
	var times struct {
		NotBefore *float64 `json:"nbf"`
	}
	if err := errors.Join(token.Claims(&claims), token.Claims(&times)); err != nil {
		return Principal{}, unauthenticated("the claims of the token cannot be read")
	}
	if nbf := times.NotBefore; nbf != nil {
		if from := time.Unix(int64(min(*nbf, 1<<40)), 0); time.Now().Add(i.config.ClockSkew).Before(from) {
			return Principal{}, unauthenticated("the token is not valid before %s", from.UTC().Format(time.RFC3339))
		}
	}
	claim := i.config.NameClaim
	if claim == "" {
		claim = "sub"
	}
	name, ok := claimOf(claims, claim).(string)
	if !ok || name == "" {
		return Principal{}, unauthenticated("the token has no claim %s, which names its principal", claim)
	}
	if claim == "email" && claims["email_verified"] != true {
		return Principal{}, unauthenticated("the issuer does not say that it has verified the email of the token: want the claim email_verified, true")
	}
	who := identity{name: i.config.Prefix + name}
	if i.config.GroupsClaim != "" {
		switch groups := claimOf(claims, i.config.GroupsClaim).(type) {
		case string:
			who.groups = []string{i.config.Prefix + groups}
		case []any:
			for _, group := range groups {
				if text, ok := group.(string); ok {
					who.groups = append(who.groups, i.config.Prefix+text)
				}
			}
		}
	}
	if i.config.TenantClaim != "" {
		if who.tenant, ok = claimOf(claims, i.config.TenantClaim).(string); !ok || who.tenant == "" {
			return Principal{}, unauthenticated("the token has no claim %s, which names its tenant", i.config.TenantClaim)
		}
	}
	if i.config.OnBehalfOfClaim != "" {
		switch user := claimOf(claims, i.config.OnBehalfOfClaim).(type) {
		case nil:
		case string:
			if i.config.Prefix+user != who.name { // who acts for itself
				who.onBehalfOf = i.config.Prefix + user
			}
		default:
			return Principal{}, unauthenticated("the claim %s of the token is no text", i.config.OnBehalfOfClaim)
		}
	}
	return i.config.Bindings.principal(who)
}

// claimOf returns a claim; one in another is named with dots.
func claimOf(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	outer, inner, ok := strings.Cut(name, ".")
	if within, is := claims[outer].(map[string]any); ok && is {
		return claimOf(within, inner)
	}
	return nil
}

// unverified is what a token says of itself.
type unverified struct {
	Issuer  string  `json:"iss"`
	Expires float64 `json:"exp"`
}

// unverifiedOf reads what a token says of itself, without believing it; false where it
// is no JSON Web Token.
func unverifiedOf(token string) (says unverified, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return says, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return says, err == nil && json.Unmarshal(payload, &says) == nil
}

// errFetch says that a server could not be asked.
var errFetch = errors.New("the server did not answer as it should")

// fetcher asks an issuer: over https alone, for not more than maxAnswer bytes of JSON,
// and not too often. All that goes wrong is errFetch, but for being asked too often.
type fetcher struct {
	base *http.Transport
	mu   sync.Mutex
	last map[string]fetched // by URL; there are two of them
}

type fetched struct {
	at time.Time
	ok bool
}

const maxAnswer = 1 << 20

func (f *fetcher) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("%w: %s is not https", errFetch, request.URL.Redacted())
	}
	at := request.URL.String()
	f.mu.Lock()
	last := f.last[at]
	f.mu.Unlock()
	switch since := time.Since(last.at); {
	case last.at.IsZero():
	case last.ok && since < refetchAfter:
		return nil, errors.New("it was asked just now")
	case !last.ok && since < retryAfter:
		return nil, fmt.Errorf("%w: it was asked just now", errFetch)
	}
	response, err := f.ask(request)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil || len(f.last) > 16 {
		f.last = make(map[string]fetched)
	}
	f.last[at] = fetched{time.Now(), err == nil}
	return response, err
}

func (f *fetcher) ask(request *http.Request) (*http.Response, error) {
	response, err := f.base.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFetch, err)
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return response, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errFetch, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: %s", errFetch, response.Status)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%w: more than %d bytes", errFetch, maxAnswer)
	case !json.Valid(body):
		return nil, fmt.Errorf("%w: no JSON", errFetch)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// CloseIdleConnections hangs up.
func (f *fetcher) CloseIdleConnections() { f.base.CloseIdleConnections() }

var _ oidc.KeySet = (*signature)(nil)
