// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/auth"
)

const (
	aliceSecret = "alice-0123456789"
	rootSecret  = "root 0123456789 with spaces"
)

func newTokens(t *testing.T) *auth.Tokens {
	t.Helper()
	tokens, err := auth.NewTokens([]auth.Token{
		{Principal: auth.Principal{Name: "alice"}, Secret: aliceSecret},
		{Principal: auth.Principal{Name: "alice"}, Secret: "the next token of alice"},
		{Principal: auth.Principal{Name: "root", Roles: auth.Agent | auth.Operator}, Secret: rootSecret},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestTokens(t *testing.T) {
	tokens := &auth.Chain{Tokens: newTokens(t)}
	alice, root := auth.Principal{Name: "alice", Roles: auth.Agent}, auth.Principal{Name: "root", Roles: auth.Agent | auth.Operator}
	for _, test := range []struct {
		header string
		want   auth.Principal
		says   string
	}{
		{"Bearer " + aliceSecret, alice, ""},
		{"bearer " + aliceSecret, alice, ""},
		{"BEARER " + aliceSecret, alice, ""},
		{"Bearer the next token of alice", alice, ""},
		{"Bearer " + rootSecret, root, ""},

		{"", auth.Principal{}, "authorization: Bearer TOKEN"},
		{" ", auth.Principal{}, "must be"},
		{aliceSecret, auth.Principal{}, "must be"},
		{"Basic " + aliceSecret, auth.Principal{}, "must be"},
		{"Bearer\t" + aliceSecret, auth.Principal{}, "must be"},
		{" Bearer " + aliceSecret, auth.Principal{}, "must be"},
		{"Bearer:" + aliceSecret, auth.Principal{}, "must be"},
		{"Bearer", auth.Principal{}, "unknown token"},
		{"Bearer ", auth.Principal{}, "unknown token"},
		{"Bearer  " + aliceSecret, auth.Principal{}, "unknown token"},
		{"Bearer " + aliceSecret + " ", auth.Principal{}, "unknown token"},
		{"Bearer " + aliceSecret + "\n", auth.Principal{}, "unknown token"},
		{"Bearer " + aliceSecret + "\x00", auth.Principal{}, "unknown token"},
		{"Bearer " + strings.ToUpper(aliceSecret), auth.Principal{}, "unknown token"},
		{"Bearer " + aliceSecret[:15], auth.Principal{}, "unknown token"},
		{"Bearer " + aliceSecret + "0", auth.Principal{}, "unknown token"},
		{"Bearer " + aliceSecret + ", Bearer " + rootSecret, auth.Principal{}, "unknown token"},
		{"Bearer " + strings.Repeat("x", auth.MaxToken), auth.Principal{}, "unknown token"},
		{"Bearer " + strings.Repeat("x", 1<<20), auth.Principal{}, "the token has 1048576 bytes"},
		{"Bearer alice", auth.Principal{}, "unknown token"},
		{"Bearer local", auth.Principal{}, "unknown token"},
	} {
		t.Run(fmt.Sprintf("%.50q", test.header), func(t *testing.T) {
			var shown auth.Credentials
			if test.header != "" {
				shown.Authorization = []string{test.header}
			}
			got, err := tokens.Authenticate(t.Context(), shown)
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			if test.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, auth.ErrUnauthenticated) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q in it", err, test.says)
			}
			if len(err.Error()) > 200 || strings.Contains(err.Error(), "0123456789") {
				t.Errorf("%.300q repeats what was sent", err)
			}
		})
	}
	if tokens.Name() != "tokens" {
		t.Errorf("name %q", tokens.Name())
	}
}

func TestNewTokensRefuses(t *testing.T) {
	alice := auth.Principal{Name: "alice"}
	for _, test := range []struct {
		name   string
		tokens []auth.Token
		says   string
	}{
		{"no name", []auth.Token{{Secret: aliceSecret}}, "the name of a principal has 1 to"},
		{"the local principal", []auth.Token{{Principal: auth.Local, Secret: aliceSecret}}, `"local" is the name of no principal`},
		{"the server", []auth.Token{{Principal: auth.Principal{Name: auth.Server}, Secret: aliceSecret}}, `"server" is the name of no principal`},
		{"a long name", []auth.Token{{Principal: auth.Principal{Name: strings.Repeat("x", 257)}, Secret: aliceSecret}}, "256 bytes"},
		{"no secret", []auth.Token{{Principal: alice}}, "alice has 0 characters"},
		{"a short secret", []auth.Token{{Principal: alice, Secret: aliceSecret[:15]}}, "at least 16"},
		{"the same secret", []auth.Token{
			{Principal: alice, Secret: aliceSecret}, {Principal: auth.Principal{Name: "bob"}, Secret: aliceSecret},
		}, "alice and bob have the same token"},
		{"the same token twice", []auth.Token{
			{Principal: alice, Secret: aliceSecret}, {Principal: alice, Secret: aliceSecret},
		}, "alice and alice have the same token"},
		{"a mistake after what is fine", []auth.Token{
			{Principal: alice, Secret: aliceSecret}, {Principal: auth.Principal{Name: "bob"}, Secret: "short"},
		}, "bob has 5 characters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tokens, err := auth.NewTokens(test.tokens)
			if tokens != nil || err == nil || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("%v, %v, want %q", tokens, err, test.says)
			}
			if strings.Contains(err.Error(), "0123456789") {
				t.Errorf("%q tells a secret", err)
			}
		})
	}
}

// TestNoTokens proves that nobody gets in where nobody has a token.
func TestNoTokens(t *testing.T) {
	none, err := auth.NewTokens(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tokens := range []*auth.Tokens{none, new(auth.Tokens)} {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer " + aliceSecret} {
			if who, err := (&auth.Chain{Tokens: tokens}).Authenticate(t.Context(), auth.Credentials{Authorization: []string{header}}); !errors.Is(err, auth.ErrUnauthenticated) || who != (auth.Principal{}) {
				t.Errorf("%q: %+v, %v", header, who, err)
			}
		}
	}
}

func TestNone(t *testing.T) {
	for _, header := range []string{"", "Bearer x", "\xff"} {
		if who, err := (auth.None{}).Authenticate(t.Context(), auth.Credentials{Authorization: []string{header}}); who != auth.Local || err != nil {
			t.Errorf("%q: %+v, %v", header, who, err)
		}
	}
	if name := (auth.None{}).Name(); name != "none" {
		t.Errorf("name %q", name)
	}
}

var _, _ auth.Authenticator = auth.None{}, new(auth.Chain)
