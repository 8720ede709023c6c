// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/auth"
)

// TestOwners has names that look alike: each is an owner of its own.
func TestOwners(t *testing.T) {
	all := []struct{ tenant, name, shown string }{
		{"", "alice", "alice"},
		{"", "acme/alice", "acme/alice"},
		{"", "acme", "acme"},
		{"acme", "alice", "acme/alice"},
		{"acme", "acme/alice", "acme/acme/alice"},
		{"acme.alice", "alice", "acme.alice/alice"},
		{"ACME", "alice", "ACME/alice"},
		{"beta", "spiffe://example.org/a b", "beta/spiffe://example.org/a b"},
	}
	seen := make(map[auth.Owner]int)
	for i, o := range all {
		p := auth.Principal{Name: o.name, Tenant: o.tenant}
		owner := p.Owner()
		if owner.Tenant() != o.tenant || owner.Name() != o.name || owner.String() != o.shown {
			t.Errorf("%v: tenant %q, name %q, shown as %q", o, owner.Tenant(), owner.Name(), owner)
		}
		if other, taken := seen[owner]; taken {
			t.Errorf("%v is %v", o, all[other])
		}
		seen[owner] = i
		for j, other := range all {
			to := auth.NewOwner(other.tenant, other.name)
			if owner.Covers(to) != (i == j) {
				t.Errorf("%v covers %v: %t", o, other, owner.Covers(to))
			}
			if in := auth.NewOwner(o.tenant, auth.Everybody); in.Covers(to) != (o.tenant == other.tenant) {
				t.Errorf("everybody of %q covers %v: %t", o.tenant, other, in.Covers(to))
			}
			if !auth.NewOwner(auth.AllTenants, auth.Everybody).Covers(to) {
				t.Errorf("all tenants do not have %v", other)
			}
			if in := auth.NewOwner(auth.AllTenants, o.name); in.Covers(to) != (o.name == other.name) {
				t.Errorf("%q of all tenants covers %v: %t", o.name, other, in.Covers(to))
			}
		}
	}
	if owner := auth.NewOwner(auth.DefaultTenant, "alice"); owner != "alice" {
		t.Errorf("alice of the default tenant is %q", owner)
	}
}

func TestSetTenant(t *testing.T) {
	for text, want := range map[string]auth.Principal{
		"": {}, "default": {}, "acme": {Tenant: "acme"}, "*": {AllTenants: auth.AllRoles}, "a.b_c-9": {Tenant: "a.b_c-9"},
		strings.Repeat("a", auth.MaxTenant): {Tenant: strings.Repeat("a", auth.MaxTenant)},
	} {
		var p auth.Principal
		if err := p.SetTenant(text); err != nil || p != want {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{".", "..", "../x", "a/b", `a\b`, "-a", " ", "a b", "a\x00b", "a*", "**", "ü", "\xff", strings.Repeat("a", auth.MaxTenant+1)} {
		if err := new(auth.Principal).SetTenant(text); err == nil || !strings.Contains(err.Error(), "is no tenant: want 1 to 64 of") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
