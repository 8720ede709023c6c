// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"path"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// A call in a session below another is judged twice: as one of its session, and as if the
// session above had made it. The stricter verdict counts, so that whatever the rules look
// at, nothing runs there that could not run above.

// above returns the call as one of the session above, which sees the same paths from its
// own workspace.
func (c *Subject) above() *Subject {
	up, at := *c, c.Above
	up.SessionID, up.Labels, up.Level, up.Mode, up.Network = at.SessionID, at.Labels, at.Level, at.Mode, at.Network
	up.Workspace, up.Monitored, up.Above = at.Workspace, at.Monitored, at.Above
	if seen := c.DeniedThere; seen != nil {
		up.DeniedThere = func(d tools.Denial) bool { return seen(denialAbove{above: d, workspace: c.Workspace}) }
	}
	if c.Workspace == at.Workspace {
		return &up
	}
	up.Effects = make([]tools.Effect, len(c.Effects))
	for i, e := range c.Effects {
		if e.Kind == tools.ReadsPath || e.Kind == tools.WritesPath {
			e.Path = reseat(e.Path, c.Workspace, at.Workspace)
			if e.Named != "" {
				e.Named = reseat(e.Named, c.Workspace, at.Workspace)
			}
		}
		up.Effects[i] = e
	}
	return &up
}

// reseat returns a path that is seen from one workspace as it is seen from another.
func reseat(text, from, to string) string {
	return place{workspace: to}.locate(absolute(text, from), nil).path
}

func absolute(text, workspace string) string {
	if strings.HasPrefix(text, "/") {
		return text
	}
	return path.Join(workspace, text)
}

// Reseat returns grants that were given in a session with one workspace as they count in a
// session with another, below or above it: their paths are seen from there.
func Reseat(grants []Grant, from, to string) []Grant {
	if from == to || len(grants) == 0 {
		return grants
	}
	seen := make([]Grant, len(grants))
	for i, g := range grants {
		if g.Tier.Kind == TierFile || g.Tier.Kind == TierDirectory {
			g.Tier.Pattern = reseat(g.Tier.Pattern, from, to)
		}
		seen[i] = g
	}
	return seen
}

// decideAbove makes a decision as strict as that on the same call in the session above.
func (p *Policy) decideAbove(d *Decision, call *Subject, grants []Grant) {
	up := p.Decide(call.above(), Reseat(grants, call.Workspace, call.Above.Workspace))
	for i := range d.Effects {
		v := up.Effects[i].Verdict
		if own := &d.Effects[i].Verdict; v.Action < own.Action || v.Action == own.Action && strings.HasPrefix(v.Rule, "grant ") {
			*own = v // it says more
		}
	}
	if up.Action < d.Action {
		d.Verdict = up.Verdict
	}
	if d.Action == Deny {
		d.Rights = tools.Rights{}
		return
	}
	r := &d.Rights
	if r.Confinement = min(r.Confinement, up.Rights.Confinement); r.Confinement == tools.Reading {
		r.Write = nil
	}
	r.Network = min(r.Network, up.Rights.Network)
}

// A denialAbove is what is denied in a session, and what is denied to that above it.
type denialAbove struct {
	own, above tools.Denial
	workspace  string // of the session
}

// Denies reports whether either denies a path of the session's workspace.
func (d denialAbove) Denies(at string) bool {
	return d.own != nil && d.own.Denies(at) || d.above.Denies(absolute(at, d.workspace))
}

// joinAbove joins what is denied in a session and in that above it.
func joinAbove(c *Subject, own, above tools.Denial) tools.Denial {
	if above == nil || own == above {
		return own
	}
	return denialAbove{own, above, c.Workspace}
}

// A protectionAbove is the same of what is protected.
type protectionAbove struct {
	own, above tools.Protection
	workspace  string
}

func (p protectionAbove) Protects(at string) bool {
	return p.own.Protects(at) || p.above.Protects(absolute(at, p.workspace))
}

// restrictionsAbove are the restrictions of a session and of that above it.
type restrictionsAbove struct{ restrictions }

// above returns the restrictions of the session above, as the call is by now.
func (g restrictionsAbove) above() tools.Restrictions {
	return restrictions{g.policy, g.call.above(), g.spent}.all()
}

func (g restrictionsAbove) seen(at string) string { return absolute(at, g.call.Workspace) }

func (g restrictionsAbove) Protection() tools.Protection {
	own, above := g.restrictions.Protection(), g.above().Protection()
	if own == nil || above == nil { // both have the same policy
		return own
	}
	return protectionAbove{own, above, g.call.Workspace}
}

func (g restrictionsAbove) Denial() tools.Denial {
	return joinAbove(g.call, g.restrictions.Denial(), g.above().Denial())
}

func (g restrictionsAbove) Cares(kind tools.EffectKind, at string) bool {
	return g.restrictions.Cares(kind, at) || g.above().Cares(kind, g.seen(at))
}

func (g restrictionsAbove) Withheld(top string, asked bool) func(string) bool {
	own, above := g.restrictions.Withheld(top, asked), g.above().Withheld(g.seen(top), asked)
	if above == nil {
		return own
	}
	return func(at string) bool { return own != nil && own(at) || above(g.seen(at)) }
}

func (g restrictionsAbove) Reaches(host string, port int) error {
	if err := g.restrictions.Reaches(host, port); err != nil {
		return err
	}
	return g.above().Reaches(host, port)
}

func (g restrictionsAbove) ReachesAddress(addr netip.Addr, port int) (bool, error) {
	listed, err := g.restrictions.ReachesAddress(addr, port)
	if err != nil {
		return false, err
	}
	above, err := g.above().ReachesAddress(addr, port)
	return listed && above, err
}

// allows reports whether one grant would allow the effects of a call that are asked about,
// by their places, also in the session above.
func (p *Policy) allows(call *Subject, asked []int, grant Grant) bool {
	for _, i := range asked {
		s := subject{policy: p, call: call, own: i == len(call.Effects), shared: new(shared)}
		if s.own {
			s.effect = &tools.Effect{Kind: tools.UsesTool, Tool: call.Spec.Name}
		} else {
			s.effect = &call.Effects[i]
		}
		if s.judge([]Grant{grant}).Action != Allow {
			return false
		}
	}
	return call.Above == nil || p.allows(call.above(), asked, Reseat([]Grant{grant}, call.Workspace, call.Above.Workspace)[0])
}
