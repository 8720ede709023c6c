// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/toolserver/toolserver/internal/tools"
)

var (
	readOnly    = Verdict{Allow, "read_only", "The call changes nothing."}
	byEffects   = Verdict{Allow, "effects", "The call is judged by its effects."}
	planVerdict = Verdict{Deny, "mode plan", "The session is in mode plan: look and plan, change nothing. Present the plan with exit_plan_mode when it is ready."}
	leavePlan   = verdict{Verdict: Verdict{Ask, "mode plan", "A person has to approve the plan before the session leaves mode plan."}, weight: byLaw}
)

// lasting is the verdict on what is there for others than the session, where nothing
// refuses it.
var lasting = verdict{Verdict: Verdict{Ask, "lasting", "It stays when the session has ended, and other sessions have it, so a person has to approve it."}, weight: byLaw}

// leavesPlan reports whether the effect would end plan mode.
func (s *subject) leavesPlan() bool {
	return s.effect.Kind == tools.ChangesMode && s.call.Mode == tools.ModePlan && s.effect.Mode != tools.ModePlan
}

// aboveLevel reports whether the effect writes outside of what is the session's
// own, and the session is not trusted to. A rule that allows it must name the path.
func (s *subject) aboveLevel() bool {
	return s.effect.Kind == tools.WritesPath && s.call.Level < tools.DangerFullAccess && !s.ours()
}

// ours reports whether the path of the effect is in the workspace, or in the home
// or a temporary directory of the session, where nothing is but what its commands
// put there.
func (s *subject) ours() bool {
	at := s.target()
	return at.ours() || s.call.temporary(at.path)
}

// readable reports whether the path of the effect is one that every command of the
// session may read.
func (s *subject) readable() bool {
	at, offer := s.target(), s.call.Offer
	holds := func(dir string) bool { return below(dir, at.path) }
	switch {
	case s.ours():
		return true
	case offer == nil:
		return false
	case slices.ContainsFunc(offer.Readable, holds):
		return true
	}
	// A directory above has nothing for commands but what leads to these.
	leads := func(dir string) bool { return below(at.path, dir) }
	return !s.effect.Rooted && (slices.ContainsFunc(offer.Facts, holds) ||
		offer.Covers && (leads(s.call.Workspace) || slices.ContainsFunc(offer.Readable, leads) || slices.ContainsFunc(offer.Facts, leads)))
}

// byDefault judges an effect by mode and level, as where no rule says anything.
func (s *subject) byDefault() verdict {
	allow := func(v Verdict) verdict { return verdict{Verdict: v} }
	e, mode := s.effect, s.call.Mode
	edits := false
	switch e.Kind {
	case tools.ReadsPath:
		if s.readable() {
			return allow(readOnly)
		}
		if s.call.Level >= tools.DangerFullAccess {
			return allow(Verdict{Allow, "level", "The session has level danger_full_access, which may read everything."})
		}
		return verdict{Verdict: Verdict{Ask, "outside", e.Path + " is outside the workspace: a person has to approve reading it."},
			weight: byMode, grantable: everyTier}
	case tools.WritesPath:
		if s.nowhere() && s.call.reading() && s.holds() {
			return allow(readOnly) // it is unclear
		}
		edits = s.ours()
		if s.aboveLevel() {
			return verdict{Verdict: Verdict{Deny, "level", e.Path + " is outside the workspace: writing it needs level danger_full_access and the session has " +
				s.call.Level.String() + ". Write inside the workspace, or below $TMPDIR."}, weight: byMode}
		}
	case tools.RunsProgram:
		if e.ReadOnly {
			return allow(readOnly)
		}
		if s.call.reading() && s.holds() {
			return s.inReadingJail()
		}
		edits = e.Complete // by what is written
	case tools.ReachesHost:
		return s.byNetwork()
	case tools.UsesTool:
		lasts := slices.ContainsFunc(s.call.Effects, func(e tools.Effect) bool { return e.Lasting })
		if s.own && s.call.Spec.Needs() == tools.ReadOnly && !lasts {
			return allow(readOnly)
		}
		if s.own && !s.alone() {
			return allow(byEffects)
		}
		if e.Configured {
			return allow(Verdict{Allow, "configured", "The operator offers it, and each of its calls is judged by itself."})
		}
	case tools.ChangesMode:
		switch {
		case s.leavesPlan():
			return leavePlan
		case e.Mode == tools.ModePlan:
			return allow(Verdict{Allow, "changes_mode", "Planning changes nothing."})
		case !e.Mode.Above(mode):
			return allow(Verdict{Allow, "changes_mode", "The session may do no more then than now."})
		}
		return verdict{Verdict: Verdict{Ask, "changes_mode", "A person has to approve a change of mode."}, weight: byMode, grantable: everyTier}
	}
	return changing(mode, edits)
}

// inReadingJail judges a program in a session whose commands may write nothing.
func (s *subject) inReadingJail() verdict {
	switch how, _ := s.disposition(nil); {
	case s.effect.Complete, s.effect.Malformed:
		return verdict{Verdict: byEffects}
	case how == UnclearContained:
		return s.contained("what " + s.effect.Program + " does is not known")
	case how == UnclearAsk:
		return verdict{Verdict: Verdict{Ask, "unclear", "What " + s.effect.Program + " does is not known, so a person has to approve it, though it can write nothing."},
			weight: byMode, grantable: everyTier}
	}
	if s.call.Mode == tools.ModePlan {
		return verdict{Verdict: planVerdict, weight: byMode}
	}
	return verdict{Verdict: Verdict{Deny, "level", "Running " + s.effect.Program + " needs level workspace_write and the session has " +
		s.call.Level.String() + ": look, and change nothing."}, weight: byMode}
}

// changing judges what changes something.
func changing(mode tools.Mode, edits bool) verdict {
	ask := func(rule, reason string) verdict {
		return verdict{Verdict: Verdict{Ask, rule, reason}, weight: byMode, grantable: everyTier, changes: true}
	}
	switch {
	case mode == tools.ModeAllow:
		return verdict{Verdict: Verdict{Allow, "mode allow", "The session is in mode allow."}, weight: byMode}
	case mode == tools.ModeAcceptEdits && edits:
		return verdict{Verdict: Verdict{Allow, "mode accept_edits", "The session accepts edits of workspace files."}, weight: byMode}
	case mode == tools.ModeAcceptEdits:
		return ask("mode accept_edits", "The call does more than edit workspace files.")
	case mode == tools.ModeAsk:
		return ask("mode ask", "The session asks before anything is changed.")
	}
	return verdict{Verdict: planVerdict, weight: byMode}
}
