// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// Restrictions are [tools.Restrictions] of functions. Those that are nil have nothing to
// say.
type Restrictions struct {
	Protects func(path string) bool
	CaresFor func(kind tools.EffectKind, path string) bool
	Denies   func(path string) bool
	Asks     func(path string) bool

	// Own is what an operator protects; empty: nothing.
	Own Own

	// Denied is what programs must not see.
	Denied tools.Denial
}

func (g Restrictions) Denial() tools.Denial { return g.Denied }

// Own is a path that an operator protects.
type Own string

// Protects reports whether a path is that, or below it.
func (o Own) Protects(path string) bool {
	return path == string(o) || strings.HasPrefix(path, string(o)+"/")
}

func (g Restrictions) Protection() tools.Protection {
	if g.Own == "" {
		return nil
	}
	return g.Own
}

func (g Restrictions) Protected(path string) bool { return g.Protects != nil && g.Protects(path) }

func (g Restrictions) Cares(kind tools.EffectKind, path string) bool {
	return g.CaresFor != nil && g.CaresFor(kind, path)
}

func (g Restrictions) Withheld(_ string, asked bool) func(path string) bool {
	if g.Denies == nil && (g.Asks == nil || !asked) {
		return nil
	}
	return func(path string) bool {
		return g.Denies != nil && g.Denies(path) || asked && g.Asks != nil && g.Asks(path)
	}
}

// Reaches allows no host.
func (g Restrictions) Reaches(host string, _ int) error {
	return fmt.Errorf("%s may not be reached", host)
}

// ReachesAddress lists no address.
func (g Restrictions) ReachesAddress(netip.Addr, int) (listed bool, err error) { return false, nil }
