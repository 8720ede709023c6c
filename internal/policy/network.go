// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// network returns how far the commands of the call reach: no further than the
// sandbox lets them.
func (c *Subject) network() tools.Network {
	n := max(c.Network, tools.NetworkNone)
	if c.Offer != nil {
		n = min(n, max(c.Offer.Network, tools.NetworkNone))
	}
	return n
}

// isLoopback reports whether a host is the machine itself, as every program
// understands it.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsUnspecified()
}

// aboutOthers reports whether the rule is only about what may reach other machines.
func (r *rule) aboutOthers() bool {
	return len(r.networks) > 0 && !slices.ContainsFunc(r.networks, func(n tools.Network) bool { return n < tools.NetworkHosts })
}

// staysLocal reports whether the effect runs a program in a call that reaches the
// machine itself, and nothing else as far as it tells.
func (s *subject) staysLocal() bool {
	if s.effect.Kind != tools.RunsProgram || s.effect.Unclear != "" {
		return false
	}
	reaches := false
	for i := range s.call.Effects {
		if e := &s.call.Effects[i]; e.Kind == tools.ReachesHost {
			if e.Unclear != "" || !isLoopback(e.Host) {
				return false
			}
			reaches = true
		}
	}
	return reaches
}

// runsPrograms reports whether the call runs programs, whose jail is all the network
// they have. Other tools reach hosts by themselves.
func (c *Subject) runsPrograms() bool {
	return slices.ContainsFunc(c.Effects, func(e tools.Effect) bool { return e.Kind == tools.RunsProgram })
}

// unreachable refuses to reach a host that the jail cannot open: nobody could
// grant it.
func (s *subject) unreachable() (v Verdict, refused bool) {
	e, has := s.effect, s.call.network()
	if e.Host == "" || e.Unclear != "" || !s.call.runsPrograms() {
		return v, false // it may be any
	}
	local := isLoopback(e.Host)
	if has >= tools.NetworkHosts || local && has >= tools.NetworkLoopback {
		return v, false
	}
	// The session may have chosen less than the server offers.
	whose := "server"
	if o := s.call.Offer; o != nil && o.Network > has && s.call.Network == has {
		whose = "session"
	}
	reason := "This " + whose + " has no network: commands reach only what the session itself serves on loopback. "
	if has < tools.NetworkLoopback {
		reason = "This " + whose + " has no network: commands reach nothing, not even loopback. "
	}
	return Verdict{Deny, "network " + has.String(), reason +
		cmp.Or(e.Host, "The host") + " cannot be reached and nobody can approve it: work with what is here, or tell the user."}, true
}

// byNetwork judges an effect that reaches a host, as where no rule says anything.
func (s *subject) byNetwork() verdict {
	e := s.effect
	if e.Configured {
		if s.call.Spec.Needs() == tools.ReadOnly {
			return verdict{Verdict: Verdict{Allow, "configured", "The operator configured " + e.Host + " for this tool, which changes nothing."}}
		}
		return changing(s.call.Mode, false)
	}
	if e.Own && s.call.Mode != tools.ModePlan {
		return verdict{Verdict: Verdict{Allow, "own loopback", "What the session itself serves on loopback is its own."}}
	}
	if known := e.Host != "" && e.Unclear == ""; known && !isLoopback(e.Host) {
		// What only looks is asked about in mode plan, too.
		if readsOnly := s.call.Spec.Needs() == tools.ReadOnly && !s.call.runsPrograms(); !readsOnly {
			if v := changing(s.call.Mode, false); v.Action != Allow {
				return v
			}
		}
		return verdict{Verdict: Verdict{Ask, "network", e.Host + " is another machine: a person has to approve reaching it."},
			weight: byMode, grantable: everyTier}
	}
	if s.call.reading() && s.holds() {
		return s.contained("it may use the network")
	}
	return changing(s.call.Mode, false)
}
