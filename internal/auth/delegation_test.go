// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolserver/toolserver/internal/auth"
)

// TestDelegationByClaim: a token says for whom its principal acts, and the rules whether it
// may.
func TestDelegationByClaim(t *testing.T) {
	i := newIssuer(t, true)
	key := newKey(t, "k", jose.ES256)
	i.set(nil, key)
	rules, err := auth.NewBindings([]auth.Binding{
		{Name: "oidc:runtime", ActsFor: "oidc:a*"}, {Name: "oidc:run*", ActsFor: "oidc:bob"},
	}, auth.Agent)
	if err != nil {
		t.Fatal(err)
	}
	judge, err := auth.NewIssuer(auth.IssuerConfig{
		URL: i.url(), Audiences: []string{"toolserver"}, CAFile: i.ca, Prefix: "oidc:", NameClaim: "act.sub", OnBehalfOfClaim: "sub", Bindings: rules,
	})
	if err != nil {
		t.Fatal(err)
	}
	chain := &auth.Chain{Issuers: []*auth.Issuer{judge}}
	defer chain.Close()
	who := func(actor, user any) (auth.Principal, error) {
		return chain.Authenticate(t.Context(), bearer(i.sign(key, claims{"act": map[string]any{"sub": actor}, "sub": user})))
	}
	for _, user := range []string{"alice", "bob"} {
		if p, err := who("runtime", user); err != nil || p.Name != "oidc:runtime" || p.OnBehalfOf != "oidc:"+user {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if p, err := who("runtime", nil); err != nil || p.OnBehalfOf != "" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := who("runtime", "runtime"); err != nil || p.OnBehalfOf != "" {
		t.Errorf("for itself: %+v, %v", p, err)
	}
	for _, test := range []struct {
		actor string
		user  any
		is    error
	}{
		{"runtime", "carol", auth.ErrForbidden}, {"other", "alice", auth.ErrForbidden},
		{"runtime", "a\nb", auth.ErrMalformed}, {"runtime", "a" + strings.Repeat("x", 300), auth.ErrMalformed}, {"runtime", "a\u202eb", auth.ErrMalformed},
	} {
		if p, err := who(test.actor, test.user); !errors.Is(err, test.is) {
			t.Errorf("%s for %q: %+v, %v", test.actor, test.user, p, err)
		}
	}
	p, err := who("runtime", "alice")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.For("oidc:bob"); !errors.Is(err, auth.ErrForbidden) || !strings.Contains(err.Error(), "say already") {
		t.Errorf("a header against the claim: %v", err)
	}
}

func TestTokenLineOfARuntime(t *testing.T) {
	actsFor, err := auth.NewActsFor([]string{"user:*", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	token := auth.Token{Principal: auth.Principal{Name: "the runtime", Roles: auth.Agent, ActsFor: actsFor}, Secret: auth.NewSecret()}
	list, err := auth.ParseTokens("tokens", []byte(token.Line()))
	if err != nil || len(list) != 1 || list[0].Principal != token.Principal {
		t.Errorf("%q is read as %+v, %v", token.Line(), list, err)
	}
	for _, wrong := range []string{"", "a b", "[", strings.Repeat("x", 300)} {
		if _, err := auth.NewActsFor([]string{wrong}); err == nil {
			t.Errorf("%q is taken for a pattern", wrong)
		}
	}
}
