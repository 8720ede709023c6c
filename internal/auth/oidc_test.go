// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/tools"
)

// issuer is one of tokens, which serves over HTTPS.
type issuer struct {
	t      *testing.T
	server *httptest.Server
	ca     string // file with the certificate of the server
	asked  atomic.Int32

	mu     sync.Mutex
	keys   []jose.JSONWebKey
	broken http.HandlerFunc // answers instead
}

// newIssuer starts an issuer; one that is not started has an address alone.
func newIssuer(t *testing.T, start bool) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.server = httptest.NewUnstartedServer(http.HandlerFunc(i.serve))
	i.server.EnableHTTP2 = true
	if start {
		i.start()
	}
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) start() {
	i.t.Helper()
	i.server.StartTLS()
	i.ca = write(i.t, filepath.Join(i.t.TempDir(), "ca"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw}))
}

func (i *issuer) url() string { return "https://" + i.server.Listener.Addr().String() }

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	i.mu.Lock()
	broken := i.broken
	set := jose.JSONWebKeySet{}
	for _, key := range i.keys {
		set.Keys = append(set.Keys, key.Public())
	}
	i.mu.Unlock()
	switch {
	case broken != nil:
		broken(w, r)
	case r.URL.Path == "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.url(), "jwks_uri": i.url() + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
		})
	case r.URL.Path == "/keys":
		json.NewEncoder(w).Encode(set)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) set(broken http.HandlerFunc, keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken, i.keys = broken, keys
}

func newKey(t *testing.T, id string, algorithm jose.SignatureAlgorithm) jose.JSONWebKey {
	t.Helper()
	var key crypto.Signer
	var err error
	if algorithm == jose.ES256 {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(algorithm), Use: "sig"}
}

type claims map[string]any

// sign makes a token of claims, over those that a good one has. A nil claim is left out.
func (i *issuer) sign(key jose.JSONWebKey, over claims) string {
	i.t.Helper()
	all := claims{"iss": i.url(), "sub": "alice", "aud": []string{"other", "toolserver"}, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range over {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	payload, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// chainOf returns what judges tokens of the issuer.
func chainOf(t *testing.T, i *issuer, change func(*auth.IssuerConfig), rules ...auth.Binding) *auth.Chain {
	t.Helper()
	made, err := auth.NewBindings(rules, auth.Agent)
	if err != nil {
		t.Fatal(err)
	}
	config := auth.IssuerConfig{URL: i.url(), Audiences: []string{"toolserver"}, CAFile: i.ca, Prefix: "oidc:", ClockSkew: 30 * time.Second, Bindings: made}
	if change != nil {
		change(&config)
	}
	judge, err := auth.NewIssuer(config)
	if err != nil {
		t.Fatal(err)
	}
	chain := &auth.Chain{Tokens: newTokens(t), Issuers: []*auth.Issuer{judge}}
	t.Cleanup(func() { chain.Close() })
	return chain
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// TestIssuer: whom a token is about, and the tokens that are refused.
func TestIssuer(t *testing.T) {
	i := newIssuer(t, true)
	rsaKey, ecKey, strange := newKey(t, "one", jose.RS256), newKey(t, "two", jose.ES256), newKey(t, "one", jose.RS256)
	i.set(nil, rsaKey, ecKey)
	chain := chainOf(t, i, func(c *auth.IssuerConfig) { c.GroupsClaim, c.TenantClaim = "realm.groups", "org" },
		auth.Binding{Group: "oidc:sre", Roles: auth.Operator | auth.Viewer, MaxMode: tools.ModeAllow},
		auth.Binding{Name: "oidc:al*", Group: "oidc:dev-*", Roles: auth.Agent})
	of := func(over claims) claims {
		if _, ok := over["org"]; !ok {
			over["org"] = "acme"
		}
		return over
	}
	good := i.sign(rsaKey, of(claims{}))
	parts := strings.Split(good, ".")
	none := encode(`{"alg":"none"}`) + "." + parts[1] + "."
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("x", 32))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	byHMAC, err := hmac.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	symmetric, _ := byHMAC.CompactSerialize()
	now := time.Now()
	for name, test := range map[string]struct {
		token string
		want  auth.Principal
		says  string
	}{
		"good":          {good, auth.Principal{Name: "oidc:alice", Roles: auth.Agent, Tenant: "acme"}, ""},
		"ES256":         {i.sign(ecKey, of(claims{})), auth.Principal{Name: "oidc:alice", Roles: auth.Agent, Tenant: "acme"}, ""},
		"one audience":  {i.sign(rsaKey, of(claims{"aud": "toolserver"})), auth.Principal{Name: "oidc:alice", Roles: auth.Agent, Tenant: "acme"}, ""},
		"a group":       {i.sign(rsaKey, of(claims{"sub": "bob", "realm": claims{"groups": []any{"x", 7, "sre"}}})), auth.Principal{Name: "oidc:bob", Roles: auth.Operator | auth.Viewer, Tenant: "acme", MaxMode: tools.ModeAllow}, ""},
		"two groups":    {i.sign(rsaKey, of(claims{"realm": claims{"groups": []string{"dev-x", "sre"}}})), auth.Principal{Name: "oidc:alice", Roles: auth.Agent | auth.Operator | auth.Viewer, Tenant: "acme", MaxMode: tools.ModeAllow}, ""},
		"skew":          {i.sign(rsaKey, of(claims{"exp": now.Add(-10 * time.Second).Unix(), "nbf": now.Add(10 * time.Second).Unix()})), auth.Principal{Name: "oidc:alice", Roles: auth.Agent, Tenant: "acme"}, ""},
		"expired":       {i.sign(rsaKey, of(claims{"exp": now.Add(-time.Minute).Unix()})), auth.Principal{}, "expired at"},
		"no end":        {i.sign(rsaKey, of(claims{"exp": nil})), auth.Principal{}, "no end"},
		"not yet":       {i.sign(rsaKey, of(claims{"nbf": now.Add(time.Minute).Unix()})), auth.Principal{}, "not valid before"},
		"audience":      {i.sign(rsaKey, of(claims{"aud": "toolserver2"})), auth.Principal{}, "another audience: want toolserver"},
		"no audience":   {i.sign(rsaKey, of(claims{"aud": nil})), auth.Principal{}, "another audience"},
		"issuer":        {i.sign(rsaKey, of(claims{"iss": "https://example.org"})), auth.Principal{}, "none that this server trusts"},
		"no name":       {i.sign(rsaKey, of(claims{"sub": nil})), auth.Principal{}, "no claim sub"},
		"name is none":  {i.sign(rsaKey, of(claims{"sub": 7})), auth.Principal{}, "cannot be taken"},
		"hidden name":   {i.sign(rsaKey, of(claims{"sub": "a\u202eb"})), auth.Principal{}, "characters that are seen"},
		"no tenant":     {i.sign(rsaKey, claims{}), auth.Principal{}, "no claim org"},
		"tenant a path": {i.sign(rsaKey, of(claims{"org": "../../etc"})), auth.Principal{}, "is no tenant"},
		"all tenants":   {i.sign(rsaKey, of(claims{"org": "*"})), auth.Principal{}, "is no tenant"},
		"default":       {i.sign(rsaKey, of(claims{"org": "default"})), auth.Principal{Name: "oidc:alice", Roles: auth.Agent}, ""},
		"alg none":      {none, auth.Principal{}, "cannot be taken"},
		"unsigned":      {parts[0] + "." + parts[1] + ".", auth.Principal{}, "not signed with a key"},
		"HMAC":          {symmetric, auth.Principal{}, "cannot be taken"},
		"other key":     {i.sign(strange, of(claims{})), auth.Principal{}, "not signed with a key"},
		"changed":       {parts[0] + "." + encode(strings.Replace(string(payload), "alice", "admin", 1)) + "." + parts[2], auth.Principal{}, "not signed with a key"},
		"cut":           {good[:len(good)-10], auth.Principal{}, "not signed with a key"},
		"two parts":     {parts[0] + "." + parts[1], auth.Principal{}, "unknown token"},
		"four parts":    {good + ".x", auth.Principal{}, "unknown token"},
		"no JSON":       {parts[0] + "." + encode("{") + "." + parts[2], auth.Principal{}, "unknown token"},
		"no base64":     {parts[0] + ".***." + parts[2], auth.Principal{}, "unknown token"},
		"huge":          {i.sign(rsaKey, of(claims{"x": strings.Repeat("x", 20_000)})), auth.Principal{}, "at most 16384"},
		"empty":         {"", auth.Principal{}, "unknown token"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chain.Authenticate(t.Context(), bearer(test.token))
			if test.says != "" {
				refused(t, err, test.token, test.says)
			} else if err != nil || got != test.want {
				t.Errorf("%+v, %v: want %+v", got, err, test.want)
			}
		})
	}
	_, err = chain.Authenticate(t.Context(), auth.Credentials{Authorization: []string{"Bearer " + good, "Bearer " + good}})
	refused(t, err, good, "2 authorization headers")
	if got, err := chain.Authenticate(t.Context(), bearer(aliceSecret)); err != nil || got.Name != "alice" {
		t.Errorf("static tokens beside an issuer: %+v, %v", got, err)
	}
}

// TestIssuerIsAskedOnce: a token is verified once, and unknown keys do not have the issuer
// asked again and again.
func TestIssuerIsAskedOnce(t *testing.T) {
	i := newIssuer(t, true)
	key := newKey(t, "one", jose.ES256)
	i.set(nil, key)
	chain := chainOf(t, i, nil)
	token := i.sign(key, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := chain.Authenticate(t.Context(), bearer(token)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := i.asked.Load(); n != 2 {
		t.Errorf("asked %d times: want for its configuration and its keys", n)
	}
	strange := newKey(t, "strange", jose.ES256)
	for range 50 {
		_, err := chain.Authenticate(t.Context(), bearer(i.sign(strange, nil)))
		refused(t, err, "", "not signed with a key")
	}
	if n := i.asked.Load(); n > 3 {
		t.Errorf("asked %d times", n)
	}
	// What was verified holds without the issuer.
	i.server.Close()
	if _, err := chain.Authenticate(t.Context(), bearer(token)); err != nil {
		t.Error(err)
	}
	if _, err := chain.Authenticate(t.Context(), bearer(i.sign(key, claims{"sub": "bob"}))); err != nil {
		t.Errorf("a known key needs no issuer: %v", err)
	}
}

// unavailable fails unless the credentials could not be judged.
func unavailable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrUnauthenticated) {
		t.Fatalf("%v, want that it is unavailable", err)
	}
}

// eventually tries until it works: an issuer is left alone for a while after a failure.
func eventually(t *testing.T, chain *auth.Chain, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := chain.Authenticate(t.Context(), bearer(token))
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it does not recover: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestIssuerIsNotThere: as long as an issuer does not answer its tokens cannot be judged,
// and once it does they are, and all others are judged meanwhile.
func TestIssuerIsNotThere(t *testing.T) {
	key := newKey(t, "one", jose.ES256)
	for name, broken := range map[string]func(w http.ResponseWriter, r *http.Request){
		"fails":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"is no JSON": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"is another": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"issuer":"https://example.org","jwks_uri":"https://example.org"}`))
		},
		"has no keys": func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"issuer":"https://` + r.Host + `"}`)) },
		"is endless":  func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2<<20)) },
		"leads to http": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
		},
		"has keys there": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`{"issuer":"https://` + r.Host + `","jwks_uri":"http://example.org"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t, true)
			i.set(broken, key)
			token := i.sign(key, nil)
			chain := chainOf(t, i, nil)
			_, err := chain.Authenticate(t.Context(), bearer(token))
			unavailable(t, err)
			if strings.Contains(err.Error(), "html") || len(err.Error()) > 300 {
				t.Errorf("%.400q tells what the issuer sent", err)
			}
			if got, err := chain.Authenticate(t.Context(), bearer(aliceSecret)); err != nil || got.Name != "alice" {
				t.Errorf("a static token: %+v, %v", got, err)
			}
			i.set(nil, key)
			eventually(t, chain, token)
		})
	}
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t, true)
		i.set(nil, key)
		token := i.sign(key, nil)
		chain := chainOf(t, i, nil)
		eventually(t, chain, token)
		// It signs with another key, and cannot be asked for it.
		other := newKey(t, "two", jose.ES256)
		i.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }, key)
		rotated := i.sign(other, nil)
		for { // those just fetched are believed for a moment
			_, err := chain.Authenticate(t.Context(), bearer(rotated))
			if errors.Is(err, auth.ErrUnavailable) {
				break
			}
			refused(t, err, rotated)
			time.Sleep(20 * time.Millisecond)
		}
		i.set(nil, other)
		eventually(t, chain, rotated)
		// The key that it has no more is of no use for a token that is new.
		_, err := chain.Authenticate(t.Context(), bearer(i.sign(key, claims{"sub": "late"})))
		refused(t, err, "", "not signed with a key")
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t, true)
		i.set(nil, key)
		token := i.sign(key, nil)
		chain := chainOf(t, i, nil)
		address := i.server.Listener.Addr().String()
		i.server.Close()
		_, err := chain.Authenticate(t.Context(), bearer(token))
		unavailable(t, err)
		again := newIssuer(t, false)
		again.set(nil, key)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		again.server.Listener.Close()
		again.server.Listener = listener
		again.start() // with the same certificate, which httptest has one of
		eventually(t, chain, token)
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		held := newIssuer(t, true)
		release, asked := make(chan struct{}), make(chan struct{}, 10)
		held.set(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-release }, key)
		var group sync.WaitGroup
		defer group.Wait()
		defer close(release)
		chain := chainOf(t, held, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		first, second := held.sign(key, nil), held.sign(key, claims{"sub": "second"})
		group.Go(func() { chain.Authenticate(t.Context(), bearer(first)) })
		<-asked
		if _, err := chain.Authenticate(ctx, bearer(second)); err == nil {
			t.Error("it was taken")
		}
	})
}

func TestIssuerConfigs(t *testing.T) {
	for says, config := range map[string]auth.IssuerConfig{
		"want https://":  {URL: "http://example.org", Audiences: []string{"x"}},
		"is no issuer":   {URL: "https://a:b@example.org", Audiences: []string{"x"}},
		"no audience":    {URL: "https://example.org"},
		"ca: open /nix/": {URL: "https://example.org", Audiences: []string{"x"}, CAFile: "/nix/ca"},
	} {
		if _, err := auth.NewIssuer(config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", config, err, says)
		}
	}
}
