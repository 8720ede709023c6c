// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import "time"

// Known returns the most that a principal may be who shows no credentials now, such as one
// that has something done later. It is not decided where only its credentials could tell:
// where others than this server's tokens say who calls.
func (c *Chain) Known(tenant, name string) (p Principal, decided bool) {
	if c.Tokens != nil {
		if found, ok := c.Tokens.named(tenant, name); ok {
			return found, true
		}
	}
	return Principal{}, c.Certificates == nil && len(c.Issuers) == 0 && c.Kubernetes == nil
}

// named returns what all good tokens of a principal together let it be.
func (t *Tokens) named(tenant, name string) (p Principal, ok bool) {
	all := t.known.Load()
	if all == nil {
		return p, false
	}
	for _, token := range *all {
		own := token.Principal
		if own.Name != name || own.Tenant != tenant || !token.Expires.IsZero() && !time.Now().Before(token.Expires) {
			continue
		}
		if ok && (p.MaxMode == 0 || own.MaxMode != 0 && p.MaxMode.Above(own.MaxMode)) {
			own.MaxMode = p.MaxMode
		}
		own.Roles |= p.Roles
		own.ActsFor = own.ActsFor.and(p.ActsFor)
		p, ok = own, true
	}
	return p, ok
}
