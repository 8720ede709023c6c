// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/errand"
)

// TestKnownBy: what is done later for a user is done while its principal may act for that user.
func TestKnownBy(t *testing.T) {
	actsFor, err := auth.NewActsFor([]string{"user:*"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.NewTokens([]auth.Token{
		{Secret: "the-first-token-of-bot", Principal: auth.Principal{Name: "bot", ActsFor: actsFor}},
		{Secret: "the-second-token-of-bot", Principal: auth.Principal{Name: "bot"}},
		{Secret: "the-only-token-of-alone", Principal: auth.Principal{Name: "alone"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	known := knownBy(&auth.Chain{Tokens: tokens})
	for who, may := range map[errand.Who]bool{
		{Principal: "bot"}:                         true,
		{Principal: "bot", OnBehalfOf: "bot"}:      true,
		{Principal: "bot", OnBehalfOf: "user:ann"}: true,
		{Principal: "bot", OnBehalfOf: "ann"}:      false,
		{Principal: "alone", OnBehalfOf: "user:a"}: false,
		{Principal: "gone"}:                        false,
	} {
		if _, err := known(who); (err == nil) != may {
			t.Errorf("%v: %v", who, err)
		}
	}
}
