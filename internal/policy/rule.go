// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// A rule is one rule of a policy. Lists match where one of their entries does;
// the lists together match where all do.
type rule struct {
	name, label string // label is what verdicts call it
	action      Action
	reason      string
	line        int // of the file
	about       []About

	tools      []tools.Pattern
	principals []glob.Word
	tenants    []glob.Word
	labels     []labelPattern

	// Selectors of effects. A rule that has some matches effects of their kinds;
	// one without matches every effect.
	selective     bool
	reads, writes []pathPattern
	commands      []command
	hosts         []hostPattern
	uses          []tools.Pattern

	when *condition

	excepted bool // a rule before it may allow to write some of what it is about

	networks []tools.Network // of the sessions it is about; none means all
	unclear  Unclear         // what becomes of what it allows and is unclear
}

// kinds are those of effects; the first stands for all that are not known.
var kinds = [...]tools.EffectKind{
	0, tools.ReadsPath, tools.WritesPath, tools.RunsProgram, tools.ReachesHost, tools.UsesTool, tools.ChangesMode,
}

// could reports whether the rule could match effects of a kind.
func (r *rule) could(kind tools.EffectKind) bool {
	if !r.selective {
		return true
	}
	switch kind {
	case tools.ReadsPath:
		return len(r.reads) > 0
	case tools.WritesPath:
		return len(r.writes) > 0
	case tools.RunsProgram:
		return len(r.commands) > 0
	case tools.ReachesHost:
		return len(r.hosts) > 0
	case tools.UsesTool:
		return len(r.uses) > 0
	}
	return false
}

// rulesFor returns the rules that could match effects of a kind.
func (p *Policy) rulesFor(kind tools.EffectKind) []*rule {
	if kind < 0 || int(kind) >= len(kinds) {
		kind = 0
	}
	return p.byKind[kind]
}

type labelPattern struct {
	key   string
	value glob.Word
}

func anyTool(patterns []tools.Pattern, spec *tools.Spec) bool {
	for i := range patterns {
		if patterns[i].Match(spec) {
			return true
		}
	}
	return false
}

// forCaller reports whether the rule is about calls of this tool by this principal of a
// tenant with these labels. Names are those of a tenant: a rule that names principals
// and no tenants is about those of the default tenant.
func (r *rule) forCaller(tenant, principal string, labels map[string]string, spec *tools.Spec) bool {
	return (len(r.tools) == 0 || anyTool(r.tools, spec)) && r.forOwner(tenant, principal, labels)
}

// forOwner is forCaller, whatever the tool is.
func (r *rule) forOwner(tenant, principal string, labels map[string]string) bool {
	if len(r.tenants) > 0 && !slices.ContainsFunc(r.tenants, func(g glob.Word) bool { return g.Match(tenantName(tenant)) }) {
		return false
	}
	if len(r.principals) > 0 && len(r.tenants) == 0 && tenant != "" {
		return false
	}
	if len(r.principals) > 0 && !slices.ContainsFunc(r.principals, func(g glob.Word) bool { return g.Match(principal) }) {
		return false
	}
	for i := range r.labels {
		value, ok := labels[r.labels[i].key]
		if !ok || !r.labels[i].value.Match(value) {
			return false
		}
	}
	return true
}

// tenantName returns what rules call a tenant.
func tenantName(tenant string) string { return cmp.Or(tenant, defaultTenant) }

// defaultTenant is what rules call the tenant that has no name.
const defaultTenant = "default"

// forCall reports whether the rule is about a call, whatever its effects are.
func (r *rule) forCall(c *Subject) bool {
	return r.forCaller(c.Tenant, c.Principal, c.Labels, c.Spec) && (len(r.networks) == 0 || slices.Contains(r.networks, c.network()))
}

// forSession is forCall, whatever the tool is.
func (r *rule) forSession(c *Subject) bool {
	return r.forOwner(c.Tenant, c.Principal, c.Labels) && (len(r.networks) == 0 || slices.Contains(r.networks, c.network()))
}

// fit is how well a rule matches an effect.
type fit int

const (
	misses  fit = iota
	touches     // it matches a part of what the effect stands for
	matches
)

// fits reports whether the rule is about an effect.
func (r *rule) fits(s *subject) fit {
	if !r.selective {
		return matches
	}
	e := s.effect
	switch e.Kind {
	case tools.ReadsPath:
		return r.fitsPath(r.reads, s)
	case tools.WritesPath:
		return r.fitsPath(r.writes, s)
	case tools.RunsProgram:
		words := argv(e)
		for i := range r.commands {
			if c := &r.commands[i]; r.action == Allow && c.covers(words) || r.action != Allow && c.catches(words, s.program()) {
				return matches
			}
		}
	case tools.ReachesHost:
		for i := range r.hosts {
			if h := &r.hosts[i]; r.action == Allow && h.covers(e) || r.action != Allow && h.catches(e) {
				return matches
			}
		}
	case tools.UsesTool:
		spec := s.call.Spec
		if e.Tool != spec.Name {
			spec = specOf(e.Tool)
		}
		if anyTool(r.uses, spec) {
			return matches
		}
	}
	return misses
}

// specOf returns what is known of a tool by its full name: a call may be about another tool,
// such as one that it makes.
func specOf(name string) *tools.Spec {
	spec := &tools.Spec{Name: name}
	if namespace, _, ok := strings.Cut(name, tools.NamespaceMark); ok {
		if spec.Server = namespace; namespace == tools.Dynamic.String() {
			spec.Kind = tools.Dynamic
		}
	}
	return spec
}

// fitsPath judges the path of an effect: what is allowed must be all of what
// the path leads to, what is forbidden may be any of it.
func (r *rule) fitsPath(patterns []pathPattern, s *subject) fit {
	at := s.target()
	if r.action == Allow {
		for i := range patterns {
			if s.effect.Glob && s.shellGlob().coveredBy(&patterns[i], &at.location) ||
				!s.effect.Glob && patterns[i].covers(&at.location) {
				return matches
			}
		}
		return misses
	}
	best := misses
	// A search through a directory is not what an ask rule for some files in it
	// is about; whatever changes the directory is, and a deny rule is about
	// everything. Nor is a rule about what was looked at and is not there, or is
	// left out of what is read. Where only names were examined, a rule about a name
	// alone was met where the thing was before, unless that may be an exception.
	changes := s.effect.Kind == tools.WritesPath
	below := s.effect.Tree && !s.effect.Withholds && (r.action == Deny || changes) && !(changes && s.effect.Examined)
	for i := range patterns {
		p := &patterns[i]
		known := s.effect.NamesExamined && p.isName() && !r.excepted && r.when == nil
		if s.effect.Glob {
			if (below || !s.effect.Examined) && !known && s.globCaughtBy(p, below) {
				best = touches
			}
			continue
		}
		if p.catches(at) || s.effect.Named != "" && p.catches(s.namedTarget()) {
			return matches
		}
		if below && !known && (p.catchesBelow(at) || s.effect.Stored && s.effect.Named != "" && p.catchesBelow(s.namedTarget())) { // git may not follow the link
			best = touches
		}
	}
	return best
}
