// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// An identity is who somebody is that was proven by others than our own tokens.
type identity struct {
	name   string
	groups []string
	tenant string

	onBehalfOf string
}

// A Binding gives roles to those whom it is about: by name, by group, or by both.
type Binding struct {
	Name, Group string // patterns such as "spiffe://example.org/ci/*"; empty: all
	Roles       Roles
	Tenant      string // or AllTenants
	MaxMode     tools.Mode
	ActsFor     ActsFor

	name, group glob.Word
}

// Bindings make principals of identities. All that are about somebody add up: their roles, for
// whom they may act and, each from the first that has one, tenant and mode.
type Bindings struct {
	rules []Binding
	roles Roles
}

// NewBindings returns bindings. Those whom none gives a role have the roles given here.
func NewBindings(rules []Binding, roles Roles) (*Bindings, error) {
	r := &Bindings{roles: roles}
	for _, rule := range rules {
		var err error
		if rule.name, err = glob.CompileWord(cmp.Or(rule.Name, "*")); err != nil {
			return nil, err
		}
		if rule.group, err = glob.CompileWord(cmp.Or(rule.Group, "*")); err != nil {
			return nil, err
		}
		r.rules = append(r.rules, rule)
	}
	return r, nil
}

// principal returns the principal that somebody is.
func (r *Bindings) principal(who identity) (Principal, error) {
	p := Principal{Name: who.name}
	if err := CheckName(who.name); err != nil {
		return p, unauthenticated("%w", err)
	}
	tenant := who.tenant // which may not be AllTenants: a claim is not the operator's word
	if err := CheckTenant(tenant); err != nil {
		return p, unauthenticated("%w", err)
	}
	for _, rule := range r.rules {
		if rule.matches(who) {
			p.Roles |= rule.Roles
			tenant = cmp.Or(tenant, rule.tenant())
			if rule.Tenant == AllTenants {
				p.AllTenants |= rule.Roles // what other rules give counts in one tenant
			}
			p.MaxMode = cmp.Or(p.MaxMode, rule.MaxMode)
			p.ActsFor = p.ActsFor.and(rule.ActsFor)
		}
	}
	if p.Roles == 0 {
		p.Roles = r.roles
	}
	if err := p.SetTenant(tenant); err != nil {
		return p, unauthenticated("%w", err)
	}
	if who.onBehalfOf != "" {
		return p.For(who.onBehalfOf)
	}
	return p, nil
}

// tenant returns the one tenant that a rule names, if it does.
func (r *Binding) tenant() string {
	if r.Tenant == AllTenants {
		return ""
	}
	return r.Tenant
}

func (r *Binding) matches(who identity) bool {
	if !r.name.Match(who.name) {
		return false
	}
	if r.Group == "" {
		return true
	}
	for _, group := range who.groups {
		if r.group.Match(group) {
			return true
		}
	}
	return false
}
