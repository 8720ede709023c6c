// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolserver/toolserver/internal/auth"
)

// TestReviewsAreBounded: callers without a right cannot have the cluster asked without end,
// nor keep out those whom it knows.
func TestReviewsAreBounded(t *testing.T) {
	s := newAPIServer(t)
	dir := t.TempDir()
	rules, err := auth.NewBindings(nil, auth.Agent)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := auth.NewKubernetes(auth.KubernetesConfig{
		APIServer: s.URL, Audiences: []string{"toolserver"}, Bindings: rules,
		TokenFile: write(t, filepath.Join(dir, "token"), []byte("own-token\n")),
		CAFile:    write(t, filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
	})
	if err != nil {
		t.Fatal(err)
	}
	chain := &auth.Chain{Kubernetes: cluster}
	t.Cleanup(func() { chain.Close() })
	expires := time.Now().Add(2 * time.Second).Truncate(time.Second)
	good := jwt("runner", expires) // is asked about again after that
	s.answers[good] = account("system:serviceaccount:agents:runner", `"toolserver"`)
	if _, err := chain.Authenticate(t.Context(), bearer(good)); err != nil {
		t.Fatal(err)
	}
	began, number := time.Now(), 0
	exhaust := func() {
		t.Helper()
		for {
			number++
			_, err := chain.Authenticate(t.Context(), bearer(jwt(fmt.Sprint("stranger", number), time.Now().Add(time.Hour))))
			switch {
			case errors.Is(err, auth.ErrUnavailable):
				return
			case !errors.Is(err, auth.ErrUnauthenticated):
				t.Fatalf("stranger %d: %v", number, err)
			case number > 10_000:
				t.Fatal("the cluster was asked without end")
			}
		}
	}
	for exhaust(); time.Now().Before(expires); exhaust() {
		time.Sleep(time.Millisecond)
	}
	most := int32(101 + 20*(time.Since(began).Seconds()+1))
	if n := s.asked.Load(); n > most {
		t.Errorf("asked %d times, want at most %d", n, most)
	}
	exhaust()
	if p, err := chain.Authenticate(t.Context(), bearer(good)); err != nil || p.Name != "system:serviceaccount:agents:runner" {
		t.Errorf("who was known is kept out: %+v, %v", p, err)
	}
}

// TestGroupsOfIssuers: a group is one of its issuer, and no other's.
func TestGroupsOfIssuers(t *testing.T) {
	rules, err := auth.NewBindings([]auth.Binding{{Group: "corp:sre", Roles: auth.Operator}, {Group: "sre", Roles: auth.Approver}}, auth.Agent)
	if err != nil {
		t.Fatal(err)
	}
	chain := new(auth.Chain)
	defer chain.Close()
	tokens := make(map[string]string)
	for _, prefix := range []string{"corp:", "guests:"} {
		i := newIssuer(t, true)
		key := newKey(t, "k", jose.ES256)
		i.set(nil, key)
		judge, err := auth.NewIssuer(auth.IssuerConfig{
			URL: i.url(), Audiences: []string{"toolserver"}, CAFile: i.ca, Prefix: prefix, GroupsClaim: "groups", Bindings: rules,
		})
		if err != nil {
			t.Fatal(err)
		}
		chain.Issuers = append(chain.Issuers, judge)
		tokens[prefix] = i.sign(key, claims{"groups": []string{"sre", "corp:sre"}})
		tokens[prefix+" one"] = i.sign(key, claims{"groups": "sre"})
	}
	for token, roles := range map[string]auth.Roles{"corp:": auth.Operator, "corp: one": auth.Operator, "guests:": auth.Agent, "guests: one": auth.Agent} {
		if p, err := chain.Authenticate(t.Context(), bearer(tokens[token])); err != nil || p.Roles != roles {
			t.Errorf("%s: %+v, %v, want %s", token, p, err, roles)
		}
	}
}

// TestEmailIsVerified: an address that anybody could have typed names nobody.
func TestEmailIsVerified(t *testing.T) {
	i := newIssuer(t, true)
	key := newKey(t, "k", jose.ES256)
	i.set(nil, key)
	chain := chainOf(t, i, func(c *auth.IssuerConfig) { c.NameClaim = "email" })
	for verified, good := range map[any]bool{true: true, false: false, nil: false, "true": false, 1: false} {
		_, err := chain.Authenticate(t.Context(), bearer(i.sign(key, claims{"email": "alice@example.org", "email_verified": verified})))
		if good && err != nil {
			t.Error(err)
		}
		if !good {
			refused(t, err, fmt.Sprintf("email_verified: %v", verified), "email_verified")
		}
	}
}
