// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a call may run. It judges the effects of a
// call, never the tool behind it, and does no I/O.
package policy

import (
	"fmt"

	"github.com/toolserver/toolserver/internal/tools"
)

// Action is what a verdict does with a call. The zero value denies.
type Action int

const (
	Deny Action = iota
	Ask
	Allow
)

// A Verdict is an action and why. Its zero value denies.
type Verdict struct {
	Action Action

	// Rule names what decided: a rule, a mode, a level.
	Rule string

	// Reason says why, in a sentence for the model.
	Reason string
}

// A Subject is the side of a call that asks: how far its session is trusted.
type Subject struct {
	Level tools.Level
	Mode  tools.Mode
}

// Engine decides. The zero value denies everything.
type Engine struct{ ready bool }

// New returns an engine that judges by level and mode.
func New() *Engine { return &Engine{ready: true} }

// Decide judges a call of the tool described by spec with these effects.
func (e *Engine) Decide(who Subject, spec tools.Spec, effects []tools.Effect) Verdict {
	if e == nil || !e.ready {
		return Verdict{Deny, "no policy", "This server has no policy, so nothing may run."}
	}
	if who.Mode == tools.ModeDeny {
		return Verdict{Deny, "mode deny", "The session is in mode deny: no call may run."}
	}
	noMode := Verdict{Deny, "mode none", "The session has no mode, so nothing may run."}
	if who.Mode < tools.ModeAsk || who.Mode > tools.ModeAcceptEdits {
		return noMode
	}
	if spec.Level < tools.ReadOnly || spec.Level > who.Level {
		return Verdict{Deny, "level", fmt.Sprintf(
			"%s needs level %s and the session has %s.", spec.Name, spec.Level, who.Level)}
	}
	if !mutates(spec, effects) {
		return Verdict{Allow, "read_only", "The call changes nothing."}
	}
	switch who.Mode {
	case tools.ModeAllow:
		return Verdict{Allow, "mode allow", "The session is in mode allow."}
	case tools.ModeAcceptEdits:
		if onlyFiles(effects) && spec.Level <= tools.WorkspaceWrite {
			return Verdict{Allow, "mode accept_edits", "The session accepts edits of workspace files."}
		}
		return Verdict{Ask, "mode accept_edits", "The call does more than edit workspace files."}
	case tools.ModePlan:
		return Verdict{Deny, "mode plan", "The session is in mode plan: look and plan, change nothing."}
	case tools.ModeAsk:
		return Verdict{Ask, "mode ask", "The session asks before anything is changed."}
	}
	return noMode
}

// mutates reports whether a call could change something. A tool above
// ReadOnly counts as changing whatever effects it names.
func mutates(spec tools.Spec, effects []tools.Effect) bool {
	if spec.Level != tools.ReadOnly {
		return true
	}
	for _, effect := range effects {
		if effect.Kind != tools.ReadsPath {
			return true
		}
	}
	return false
}

func onlyFiles(effects []tools.Effect) bool {
	for _, effect := range effects {
		if effect.Kind != tools.ReadsPath && effect.Kind != tools.WritesPath {
			return false
		}
	}
	return len(effects) > 0
}
