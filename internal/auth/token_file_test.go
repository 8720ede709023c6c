// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/tools"
)

func bearer(token string) auth.Credentials {
	return auth.Credentials{Authorization: []string{"Bearer " + token}}
}

// refused fails unless err refuses the credentials with some words, and does not repeat
// them.
func refused(t *testing.T, err error, secret string, words ...string) {
	t.Helper()
	if !errors.Is(err, auth.ErrUnauthenticated) {
		t.Fatalf("%v, want that it is refused", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if len(err.Error()) > 400 || secret != "" && strings.Contains(err.Error(), secret) {
		t.Errorf("%.500q repeats what was sent", err)
	}
}

// TestTokenFile: what a line says is whom its token is of.
func TestTokenFile(t *testing.T) {
	secrets := []string{auth.NewSecret(), auth.NewSecret(), auth.NewSecret(), auth.NewSecret()}
	want := []auth.Principal{
		{Name: "alice", Roles: auth.Agent},
		{Name: "carol of ops", Roles: auth.Agent | auth.Approver, Tenant: "acme", MaxMode: tools.ModeAllow},
		{Name: "spiffe://x/y", Roles: auth.Viewer},
		{Name: "old", Roles: auth.Agent},
	}
	file := "# tokens\n\n"
	for i, p := range want {
		token := auth.Token{Principal: p, Secret: secrets[i]}
		switch p.Name {
		case "old":
			token.Expires = time.Now().Add(-time.Minute)
		case "alice":
			token.Expires = time.Now().Add(time.Hour)
		}
		file += "  " + token.Line() + " \r\n"
	}
	list, err := auth.ParseTokens("tokens", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.NewTokens([]auth.Token{{Principal: auth.Principal{Name: "fixed"}, Secret: "fixed-fixed-fixed"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tokens.Replace(list); err != nil {
		t.Fatal(err)
	}
	chain := &auth.Chain{Tokens: tokens}
	for i, p := range want[:3] {
		if got, err := chain.Authenticate(t.Context(), bearer(secrets[i])); err != nil || got != p {
			t.Errorf("%+v, %v: want %+v", got, err, p)
		}
	}
	_, err = chain.Authenticate(t.Context(), bearer(secrets[3]))
	refused(t, err, secrets[3], "expired at")
	if _, err := chain.Authenticate(t.Context(), bearer("fixed-fixed-fixed")); err != nil {
		t.Errorf("what stays: %v", err)
	}
	// The digest in the file is no token.
	_, err = chain.Authenticate(t.Context(), bearer(auth.DigestOf(secrets[0]).String()))
	refused(t, err, "", "unknown token")

	// Another list takes the place of the first; one with a mistake does not.
	if err := tokens.Replace([]auth.Token{{Principal: want[0], Secret: "", Digest: auth.DigestOf("fixed-fixed-fixed")}}); err == nil {
		t.Error("a token of two principals was taken")
	}
	if _, err := chain.Authenticate(t.Context(), bearer(secrets[0])); err != nil {
		t.Errorf("after a list that was refused: %v", err)
	}
	if err := tokens.Replace(list[1:]); err != nil {
		t.Fatal(err)
	}
	_, err = chain.Authenticate(t.Context(), bearer(secrets[0]))
	refused(t, err, secrets[0], "unknown token")
}

// TestTokenFileMistakes: all mistakes are told at once, with their lines, and no secret.
func TestTokenFileMistakes(t *testing.T) {
	digest := auth.DigestOf("x").String()
	for name, test := range map[string]struct{ text, says string }{
		"empty":           {"", `tokens has no token: "toolserver token create NAME" makes one`},
		"comments":        {"# nothing\n\n", "has no token"},
		"a secret":        {"0123456789abcdef name=x", "tokens:1: the line begins with no digest"},
		"short digest":    {digest[:20] + " name=x", "tokens:1: the line begins with no digest"},
		"long digest":     {digest + "00 name=x", "tokens:1: the line begins with no digest"},
		"binary":          {"\x00\xff\xfe\n", "tokens:1: "},
		"no name":         {"\n" + digest + " roles=agent", "tokens:2: the line does not end with name="},
		"empty name":      {digest + " name=", "1 to 256 bytes, not 0"},
		"reserved":        {digest + " name=local", `"local" is the name of no principal`},
		"everybody":       {digest + " name=*", "stand for something else"},
		"long name":       {digest + " name=" + strings.Repeat("x", 257), "not 257"},
		"hidden in name":  {digest + " name=a\u202eb", "characters that are seen"},
		"unknown role":    {digest + " roles=agent,root name=x", `"root" is no role: want some of agent, approver, operator, viewer`},
		"no role":         {digest + " roles= name=x", `"" is no role`},
		"path as tenant":  {digest + " tenant=../x name=x", "is no tenant"},
		"unknown mode":    {digest + " max_mode=wild name=x", `"wild" is no mode`},
		"no time":         {digest + " expires=soon name=x", "want one such as 2027-01-31T00:00:00Z"},
		"unknown key":     {digest + " role=agent name=x", `unknown key "role"`},
		"more than one":   {digest + "\n# ok\nbad", "tokens:3: "},
		"more than one 1": {digest + "\n# ok\nbad", "tokens:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := auth.ParseTokens("tokens", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			if err != nil && strings.Contains(err.Error(), "0123456789") {
				t.Errorf("%v shows what may be a secret", err)
			}
		})
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte(auth.Token{Principal: auth.Principal{Name: "x", Roles: auth.Agent}, Secret: "y"}.Line()))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := auth.ParseTokens("tokens", text)
		if err != nil {
			return
		}
		for _, token := range list {
			again, err := auth.ParseTokens("again", []byte(token.Line()))
			if err != nil || len(again) != 1 || again[0].Principal != token.Principal || again[0].Digest != token.Digest {
				t.Fatalf("%+v is written as %q and read as %+v, %v", token, token.Line(), again, err)
			}
		}
	})
}
