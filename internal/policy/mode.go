// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/toolserver/toolserver/internal/tools"

var (
	readOnly    = Verdict{Allow, "read_only", "The call changes nothing."}
	byEffects   = Verdict{Allow, "effects", "The call is judged by its effects."}
	planVerdict = Verdict{Deny, "mode plan", "The session is in mode plan: look and plan, change nothing. Present the plan with exit_plan_mode when it is ready."}
	leavePlan   = verdict{Verdict: Verdict{Ask, "mode plan", "A person has to approve the plan before the session leaves mode plan."}, weight: byLaw}
)

// leavesPlan reports whether the effect would end plan mode.
func (s *subject) leavesPlan() bool {
	return s.effect.Kind == tools.ChangesMode && s.call.Mode == tools.ModePlan && s.effect.Mode != tools.ModePlan
}

// aboveLevel reports whether the effect writes outside the workspace and the home
// of the session, and the session is not trusted to. A rule that allows it must name the path.
func (s *subject) aboveLevel() bool {
	return s.effect.Kind == tools.WritesPath && s.call.Level < tools.DangerFullAccess && !s.sight().ours()
}

// byDefault judges an effect by mode and level, as where no rule says anything.
func (s *subject) byDefault() verdict {
	allow := func(v Verdict) verdict { return verdict{Verdict: v} }
	e, mode := s.effect, s.call.Mode
	edits := false
	switch e.Kind {
	case tools.ReadsPath:
		if s.sight().ours() {
			return allow(readOnly)
		}
		return verdict{Verdict: Verdict{Ask, "outside", e.Path + " is outside the workspace: a person has to approve reading it."},
			weight: byMode, grantable: everyTier}
	case tools.WritesPath:
		edits = s.sight().inside()
		if s.aboveLevel() {
			return verdict{Verdict: Verdict{Deny, "level", e.Path + " is outside the workspace: writing it needs level danger_full_access and the session has " +
				s.call.Level.String() + ". Write inside the workspace."}, weight: byMode}
		}
	case tools.RunsProgram:
		if e.ReadOnly {
			return allow(readOnly)
		}
	case tools.UsesTool:
		if s.own && s.call.Spec.Level == tools.ReadOnly {
			return allow(readOnly)
		}
		if s.own && !s.alone() {
			return allow(byEffects)
		}
	case tools.ChangesMode:
		switch {
		case s.leavesPlan():
			return leavePlan
		case e.Mode == tools.ModePlan:
			return allow(Verdict{Allow, "changes_mode", "Planning changes nothing."})
		}
		return verdict{Verdict: Verdict{Ask, "changes_mode", "A person has to approve a change of mode."}, weight: byMode, grantable: everyTier}
	}
	return changing(mode, edits)
}

// changing judges what changes something.
func changing(mode tools.Mode, edits bool) verdict {
	ask := func(rule, reason string) verdict {
		return verdict{Verdict: Verdict{Ask, rule, reason}, weight: byMode, grantable: everyTier}
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
