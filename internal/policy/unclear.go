// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/tools"
)

// Unclear is what becomes of a command whose effects are unknown. With the zero value
// the mode of the session decides.
type Unclear int

const (
	UnclearContained Unclear = 1 + iota // it runs, confined to what is the session's own
	UnclearAsk                          // a person is asked
	UnclearDeny                         // it does not run
)

var unclearNames = [...]string{UnclearContained: "contained", UnclearAsk: "ask", UnclearDeny: "deny"}

// UnmarshalText reads the word for what becomes of an unclear command.
func (u *Unclear) UnmarshalText(text []byte) error {
	for i, name := range unclearNames {
		if name != "" && name == string(text) {
			*u = Unclear(i)
			return nil
		}
	}
	return fmt.Errorf("%q is none of them: want contained, ask or deny", text)
}

// reading reports whether the commands of the call may write nothing, whatever
// they are.
func (c *Subject) reading() bool {
	return c.Mode == tools.ModePlan || c.Level < tools.WorkspaceWrite || c.inRepository()
}

// inRepository reports whether the workspace is the directory that git keeps a
// repository in, or lies in it.
func (c *Subject) inRepository() bool {
	if isFolded(c.Workspace) && !strings.Contains(c.Workspace, "git") {
		return false // most are not
	}
	for name := range strings.SplitSeq(fold(c.Workspace), "/") {
		if i := protectedName(name); i >= 0 && isRepository(i) {
			return true
		}
	}
	return false
}

// holds reports whether the jail of the call confines what the effect is part of:
// a command that may be anything can do no more than its rights.
func (s *subject) holds() bool {
	c := s.call
	return c.Offer != nil && c.Offer.Holds && !s.effect.Rooted && c.Spec.Kind.Confined() && (c.Level < tools.DangerFullAccess || c.reading())
}

// unconfined reports whether the command is not to be confined at all.
func (s *subject) unconfined() bool {
	c := s.call
	return c.Level >= tools.DangerFullAccess && !c.reading() && c.Offer != nil && c.Offer.Holds && !s.effect.Rooted && c.Spec.Kind.Confined()
}

// leaks reports whether there is a file that a rule denies to read and that cannot
// be kept from commands.
func (s *subject) leaks() bool {
	if s.shared != nil && s.shared.searched {
		return s.shared.leaks
	}
	leaks := false
	if c := s.call; c.Offer == nil || !c.Offer.Covers || s.policy.deniesOutside(c) {
		if denied := s.policy.Denial(c); denied != nil {
			leaks = c.DeniedThere == nil || c.DeniedThere(denied)
		}
	}
	if s.shared != nil {
		s.shared.leaks, s.shared.searched = leaks, true
	}
	return leaks
}

// deniesOutside reports whether a rule denies to read something that may lie outside
// of the workspace, where nothing is covered.
func (p *Policy) deniesOutside(c *Subject) bool {
	for _, r := range p.rulesFor(tools.ReadsPath) {
		if r.deniesReading() && r.forCall(c) && slices.ContainsFunc(r.reads, func(at pathPattern) bool { return at.from == fromSlash && !at.under(c.Workspace) }) {
			return true
		}
	}
	return false
}

// under reports whether all that a pattern from / matches lies below dir.
func (p *pathPattern) under(dir string) bool {
	return dir != "" && len(p.runs) > 0 && !p.open && after(textsOf(p.runs[0]), dir) >= 0
}

// textsOf returns the names of a run up to the first that is a pattern.
func textsOf(run []glob.Name) []string {
	var names []string
	for i := range run {
		text, ok := run[i].Literal()
		if !ok {
			break
		}
		names = append(names, text)
	}
	return names
}

// disposition returns what becomes of the effect if it is unclear, where a rule
// may allow it, and whether the policy says so.
func (s *subject) disposition(by *rule) (how Unclear, said bool) {
	switch {
	case by != nil && by.unclear != 0:
		return by.unclear, true
	case s.policy.unclear != 0:
		return s.policy.unclear, true
	case s.call.reading() || s.call.Mode == tools.ModeAllow:
		return UnclearContained, false
	}
	return UnclearAsk, false
}

// understood reports whether it is known what running the program of the effect
// touches. What is no program is.
func (s *subject) understood() bool {
	e := s.effect
	return e.Kind != tools.RunsProgram || e.ReadOnly || e.Complete
}

// nowhere reports whether the effect writes a file of which nothing is known, so
// that it may be in a directory that goes with the call.
func (s *subject) nowhere() bool {
	return s.effect.Kind == tools.WritesPath && s.effect.Path == "" && s.effect.Unclear != ""
}

// contain judges what the rest of the policy says v to and nobody understands:
// it may run because its jail bounds it, or takes a person.
func (s *subject) contain(v verdict) verdict {
	why := s.unclear()
	switch {
	case v.Action == Deny:
		return v
	case s.effect.Malformed && s.holds() && !s.leaks():
		return verdict{Verdict: Verdict{Allow, "malformed", "Bash cannot parse this: it answers with a syntax error, and whatever it runs of it can write nothing."}, weight: byLaw}
	case why != "":
		return s.containUnclear(v, why)
	case s.understood():
		return v
	}
	how, said := s.disposition(v.by)
	switch {
	case v.Action == Allow && v.weight != byRule && s.leaks():
		return verdict{Verdict: Verdict{Ask, "denied files", "A rule denies to read files that are here, and they cannot be kept from " + s.effect.Program +
			", which may read anything: a person has to approve it."}, weight: byLaw, grantable: everyTier}
	case v.changes && said && how == UnclearContained && s.holds() && !s.leaks():
		return s.contained("what " + s.effect.Program + " does is not known")
	}
	return v
}

func (s *subject) containUnclear(v verdict, why string) verdict {
	how, said := s.disposition(v.by)
	reach := exactCall
	if s.holds() && !s.leaks() {
		reach = anyCode // whatever code is trusted, its jail is the same
	}
	switch {
	case how == UnclearDeny:
		return verdict{Verdict: Verdict{Deny, "unclear", "It cannot be told what this would do (" + why + "), and the policy refuses what is unclear: say it in a simpler way."}, weight: byLaw}
	case how == UnclearContained && reach == anyCode && (v.Action == Allow || v.changes && said):
		return s.contained(why)
	case how == UnclearContained && v.Action == Allow && s.unconfined() && !s.leaks():
		return verdict{Verdict: Verdict{Allow, "danger_full_access", "It cannot be told what this would do (" + why + "), and the level of the session lets it do anything."}, weight: byLaw}
	case s.call.Mode == tools.ModePlan && !s.holds() && !(said && how == UnclearAsk):
		return verdict{Verdict: planVerdict, weight: byMode}
	case v.Action == Allow:
		return verdict{Verdict: Verdict{Ask, "unclear", "It cannot be told what this would do (" + why +
			"), so a person has to approve it: say it in a simpler way."}, weight: byLaw, grantable: reach}
	}
	v.grantable = min(v.grantable, reach)
	return v
}

// contained allows what is not understood, and says what confines it.
func (s *subject) contained(why string) verdict {
	where := "it runs confined to the workspace, the session's home and its loopback."
	switch {
	case s.call.reading():
		where = "it runs where nothing can be written but a temporary directory."
	case s.call.network() < tools.NetworkLoopback:
		where = "it runs confined to the workspace and the session's home, without a network."
	case s.call.network() > tools.NetworkLoopback:
		where = "it runs confined to the workspace, the session's home and the network that the session has."
	}
	return verdict{Verdict: Verdict{Allow, "contained", "It cannot be told what this would do (" + why + "), so " + where}, weight: byLaw}
}

// keptByJail reports whether what a rule is about, and the effect may include
// without naming it, needs no question: the jail keeps it from the command, or the
// rule asks, which is about what is named. Of what a repository keeps the jail keeps
// nothing.
func (s *subject) keptByJail(r *rule) bool {
	if !s.holds() {
		return false
	}
	if r.action == Deny {
		return s.effect.Kind == tools.ReadsPath && !s.effect.Stored && s.call.Offer.Covers && s.target().inside()
	}
	how, _ := s.disposition(nil)
	return how == UnclearContained && !s.leaks()
}
