// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"encoding/json"
	"fmt"

	"github.com/toolserver/toolserver/internal/tools"
)

// This file is what entering and leaving plan mode have in common.

func changesMode(to tools.Mode) []tools.Effect {
	return []tools.Effect{{Kind: tools.ChangesMode, Mode: to}}
}

func modeResult(mode tools.Mode, text string) tools.Result {
	result := tools.TextResult(text)
	result.Details = json.RawMessage(fmt.Sprintf(`{"mode":%q}`, mode))
	return result
}

// pinned is a tool whose calls see the modes of the session as they were when
// they were decoded. So a call does what it was judged by, or nothing, whatever
// happens to the session while a person thinks.
type pinned struct{ tools.Tool }

func (p pinned) Decode(env *tools.Env, input json.RawMessage) (tools.Call, error) {
	seen := seenSession{Session: env.Session}
	if env.Session != nil {
		seen.mode, seen.planEnd = env.Session.Mode(), env.Session.PlanEnd()
	}
	own := *env // which belongs to the caller
	own.Session = seen
	return p.Tool.Decode(&own, input)
}

// seenSession is a session as it was seen at one moment. Only ChangeMode works
// on the session of now.
type seenSession struct {
	tools.Session
	mode, planEnd tools.Mode
}

func (s seenSession) Mode() tools.Mode    { return s.mode }
func (s seenSession) PlanEnd() tools.Mode { return s.planEnd }

func (s seenSession) ChangeMode(from, to tools.Mode) error {
	if s.Session == nil {
		return tools.Failf("no_session", "There is no session whose mode could be changed.")
	}
	return s.Session.ChangeMode(from, to)
}
