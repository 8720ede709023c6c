// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/tools"
)

// restrictions are a policy as one call asks about single paths.
type restrictions struct {
	policy *Policy
	call   *Subject
	spent  *atomic.Int64 // on conditions, up to now
}

// Restrictions returns what the policy says of single paths that a call touches as part
// of something larger. The call is kept; its effects and its digest need not be
// known yet.
func (p *Policy) Restrictions(call *Subject) tools.Restrictions {
	return restrictions{p, call, new(atomic.Int64)}.all()
}

// all adds the restrictions of the session above, if there is one.
func (g restrictions) all() tools.Restrictions {
	if g.call.Above == nil {
		return g
	}
	return restrictionsAbove{g}
}

func (g restrictions) Protected(path string) bool { return g.policy.Protected(path) }

// protection is what an operator protects of a workspace.
type protection struct {
	policy *Policy
	place  place
}

func (g restrictions) Protection() tools.Protection {
	if g.policy == nil || len(g.policy.protected) == 0 {
		return nil
	}
	return protection{g.policy, g.call.place()}
}

func (g restrictions) Denial() tools.Denial {
	if g.policy == nil {
		return nil
	}
	return g.policy.denialOf(g.call, true, func(r *rule) (counts, denies bool) {
		return r.forCall(g.call), r.action != Allow && r.isAboutFiles()
	})
}

// Protects reports whether a path is one that the operator protects.
func (p protection) Protects(path string) bool {
	var buffer [24]string
	at := p.place.targetAt(path, buffer[:])
	return p.policy.protectedBy(&at) != ""
}

func (g restrictions) target(path string, buffer []string) target {
	return g.call.place().targetAt(path, buffer)
}

// Cares reports whether a rule that denies or asks names a path.
func (g restrictions) Cares(kind tools.EffectKind, path string) bool {
	var buffer [24]string
	at := g.target(path, buffer[:])
	if g.policy == nil {
		return false
	}
	return slices.ContainsFunc(g.policy.rulesFor(kind), func(r *rule) bool {
		return r.action != Allow && (r.names(kind, &at) || g.mayForbid(r, kind, path))
	})
}

// mayForbid reports whether a rule for all paths forbids one by its condition.
func (g restrictions) mayForbid(r *rule, kind tools.EffectKind, path string) bool {
	if r.selective || r.when == nil || !r.forCall(g.call) {
		return false
	}
	facts := facts{spent: int(g.spent.Load())}
	holds, byPath, err := r.when.holds(&facts, g.call, &tools.Effect{Kind: kind, Path: path})
	g.spent.Store(int64(facts.spent))
	return err != nil || holds && byPath
}

// names reports whether a rule that forbids names a path.
func (r *rule) names(kind tools.EffectKind, at *target) bool {
	patterns := r.reads
	if kind == tools.WritesPath {
		patterns = r.writes
	}
	for i := range patterns {
		if patterns[i].catches(at) {
			return true
		}
	}
	return false
}

// Withheld reports what a rule denies to read or, with asked, asks about, unless
// the person who let top be read was asked by the same rule.
func (g restrictions) Withheld(top string, asked bool) func(path string) bool {
	if g.policy == nil {
		return nil
	}
	var forbid []*rule
	for _, r := range g.policy.rulesFor(tools.ReadsPath) {
		if (r.action == Deny || r.action == Ask && asked) && (r.selective || r.when != nil) &&
			r.forCall(g.call) {
			forbid = append(forbid, r)
		}
	}
	if len(forbid) == 0 {
		return nil
	}
	answered := g.reading(top).asks
	return func(path string) bool {
		var buffer [24]string
		at := g.target(path, buffer[:])
		for _, r := range forbid {
			if !r.selective || r.names(tools.ReadsPath, &at) {
				v := g.reading(path) // by the first rule that matches
				return v.Action == Deny || v.Action == Ask && asked && v.asks != answered
			}
		}
		return false
	}
}

// reading returns what the rules say of reading one path. Where they say
// nothing, it is allowed.
func (g restrictions) reading(path string) verdict {
	among := buffers.Get().(*shared)
	defer among.release()
	s := subject{policy: g.policy, call: g.call, effect: &tools.Effect{Kind: tools.ReadsPath, Path: path, Rooted: true}, shared: among}
	v := s.byRules(new(verdict))
	if v.weight == 0 {
		v.Action = Allow
	}
	return v
}
