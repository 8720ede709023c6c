// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/toolserver/toolserver/internal/tools"
)

// Reaches judges a host that a command of the call asks for while it runs: only a
// rule can allow it then, for nobody is asked in the middle of a call.
func (g restrictions) Reaches(host string, port int) error {
	v := g.byRules(&tools.Effect{Kind: tools.ReachesHost, Host: host, Port: port})
	switch {
	case v.Action == Allow:
		return nil
	case v.weight != 0 && v.Action == Deny:
		return tools.Prohibition(fmt.Sprintf("%s may not be reached, by %s: %s", host, v.Rule, v.Reason))
	}
	return fmt.Errorf("%s may not be reached: no rule of the policy allows it. Name it in a call, so that a person can be asked, or go on without it", host)
}

// ReachesAddress judges an address that a host stands for. It reports whether a
// rule that allows lists the address itself.
func (g restrictions) ReachesAddress(addr netip.Addr, port int) (listed bool, err error) {
	effect := tools.Effect{Kind: tools.ReachesHost, Host: addr.String(), Port: port}
	v := g.byRules(&effect)
	if v.weight != 0 && v.Action == Deny {
		return false, fmt.Errorf("%s may not be reached, by %s: %s", addr, v.Rule, v.Reason)
	}
	if g.policy == nil {
		return false, nil
	}
	for _, r := range g.policy.rulesFor(tools.ReachesHost) {
		if r.action == Allow && r.forCall(g.call) && slices.ContainsFunc(r.hosts, func(h hostPattern) bool { return h.prefix.IsValid() && h.covers(&effect) }) {
			return true, nil
		}
	}
	return false, nil
}

// byRules returns what the rules say of an effect; without weight where they say
// nothing.
func (g restrictions) byRules(effect *tools.Effect) verdict {
	if g.policy == nil {
		return verdict{}
	}
	among := buffers.Get().(*shared)
	defer among.release()
	s := subject{policy: g.policy, call: g.call, effect: effect, shared: among}
	v := s.byRules(new(verdict))
	return v
}
