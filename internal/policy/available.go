// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/strictyaml"
	"github.com/toolserver/toolserver/internal/tools"
)

// Hidden reports whether every call of a tool by this principal of a tenant, in a
// session with these labels, is denied whatever its input: such a tool is not to be
// listed, and calling it is like calling one that does not exist.
func (p *Policy) Hidden(tenant, principal string, labels map[string]string, spec *tools.Spec) bool {
	if p == nil {
		return true
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.selective && !anyTool(r.uses, spec) || !r.forCaller(tenant, principal, labels, spec) {
			continue
		}
		if r.action != Deny {
			return false
		}
		if r.when == nil && len(r.networks) == 0 {
			return true
		}
	}
	return false
}

// ExplicitOnly reports whether a session has to name the tool to have it: a
// pattern that fits it is not enough.
func (p *Policy) ExplicitOnly(spec *tools.Spec) bool {
	return p != nil && anyTool(p.explicitOnly, spec)
}

// A namedTool is a tool that the file names.
type namedTool struct {
	pattern tools.Pattern
	key     string
	line    int
}

// Check reports what the policy names that is none of these tools, with the
// lines. A policy may be right without them, where tools come and go.
func (p *Policy) Check(specs []*tools.Spec) error {
	var names []string
	for _, spec := range specs {
		names = append(append(names, spec.Name), spec.Aliases...)
	}
	r := strictyaml.NewReader(p.file, "policy")
	for _, named := range p.names {
		text := named.pattern.String()
		if strings.HasPrefix(text, "@") || slices.ContainsFunc(specs, named.pattern.Match) {
			continue
		}
		r.FaultAt(named.line, named.key, "there is no tool "+text+nearest.Hint(nearest.Names(text, names)))
	}
	return r.Err()
}

// Hides reports whether there is any tool that some caller does not see: where
// there is none, nobody needs to be asked about each.
func (p *Policy) Hides() bool {
	return p == nil || len(p.explicitOnly) > 0 || slices.ContainsFunc(p.rules, func(r rule) bool {
		return r.action == Deny && r.when == nil && len(r.networks) == 0 && (!r.selective || len(r.uses) > 0)
	})
}
