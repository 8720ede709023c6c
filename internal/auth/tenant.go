// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"strings"
)

const (
	// DefaultTenant is the tenant of principals for whom nothing else is said. In a
	// [Principal] and in an [Owner] it is empty.
	DefaultTenant = "default"

	// AllTenants, where operators write a tenant, makes a principal whose roles of
	// approver, operator and viewer count in every tenant. Nobody else can say so: it is
	// no name of a tenant.
	AllTenants = "*"
)

// MaxTenant is how many bytes the name of a tenant has at most.
const MaxTenant = 64

// CheckTenant returns what is wrong with the name of a tenant.
func CheckTenant(name string) error {
	for i, c := range name {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') || i >= MaxTenant {
			return fmt.Errorf("%.80q is no tenant: want 1 to %d of A-Z a-z 0-9 . _ -, beginning with a letter or digit", name, MaxTenant)
		}
	}
	return nil // also where there is none
}

// CheckTenantOrAll returns what is wrong with the name of a tenant where [AllTenants] may
// stand, too.
func CheckTenantOrAll(name string) error { return new(Principal).SetTenant(name) }

// SetTenant puts a principal where an operator wrote that it belongs: into a tenant, or
// over [AllTenants].
func (p *Principal) SetTenant(text string) error {
	switch text {
	case AllTenants:
		p.AllTenants = AllRoles
		return nil
	case DefaultTenant:
		text = ""
	}
	p.Tenant = text
	return CheckTenant(text)
}

// Everywhere reports whether the principal has one of some roles in every tenant.
func (p Principal) Everywhere(roles Roles) bool { return p.Roles.Has(p.AllTenants & roles) }

// An Owner is whom sessions belong to, and all that is in them: a principal of a tenant.
// Principals of two tenants that have the same name are two owners. An owner of the
// default tenant is spelled as the name alone, so that it is what it was before there
// were tenants; any other has its tenant before it, and a character between them that
// no name has.
type Owner string

const ownerSeparator = "\x00"

// NewOwner returns the owner of a tenant and a name. [Everybody] as the name stands for
// all of the tenant, and [AllTenants] as the tenant for those of every tenant.
func NewOwner(tenant, name string) Owner {
	if tenant == "" || tenant == DefaultTenant {
		return Owner(name)
	}
	return Owner(tenant + ownerSeparator + name)
}

// Owner returns whom the sessions of the principal belong to.
func (p Principal) Owner() Owner { return NewOwner(p.Tenant, p.Name) }

// Tenant returns the tenant; it is empty for the default one.
func (o Owner) Tenant() string {
	tenant, _, found := strings.Cut(string(o), ownerSeparator)
	if !found {
		return ""
	}
	return tenant
}

// Name returns the name of the principal.
func (o Owner) Name() string {
	return string(o[strings.LastIndex(string(o), ownerSeparator)+1:])
}

// Covers reports whether o is the other owner, or stands for it.
func (o Owner) Covers(other Owner) bool {
	if o == other {
		return true
	}
	if o.Name() != Everybody && o.Name() != other.Name() {
		return false
	}
	tenant := o.Tenant()
	return tenant == AllTenants || tenant == other.Tenant()
}

// String returns the owner for people to read.
func (o Owner) String() string {
	if tenant := o.Tenant(); tenant != "" {
		return tenant + "/" + o.Name()
	}
	return string(o)
}
