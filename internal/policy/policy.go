// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a call may run. It judges the effects of a
// call by rules, grants, mode and level, never knows the tool behind it, and
// does no I/O.
package policy

import (
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/limit"
	"github.com/toolserver/toolserver/internal/tools"
)

// Action is what a verdict does with a call. The zero value denies.
type Action int

const (
	Deny Action = iota
	Ask
	Allow
)

var actionNames = [...]string{"deny", "ask", "allow"}

func (a Action) String() string { return actionNames[a] }

// MarshalText writes the word for an action.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the word for an action.
func (a *Action) UnmarshalText(text []byte) error {
	for i, name := range actionNames {
		if name == string(text) {
			*a = Action(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no action: want allow, ask or deny", text)
}

// A Verdict is an action and why. Its zero value denies.
type Verdict struct {
	Action Action

	// Rule names what decided: a rule, a protected path, a grant, a mode, a level.
	Rule string

	// Reason says why, in a sentence for the model.
	Reason string
}

// A Policy is what a policy file says. It never changes, and is safe for
// concurrent use. A nil Policy denies everything.
type Policy struct {
	version      string
	rules        []rule
	byKind       [len(kinds)][]*rule // those that could match an effect of a kind, in order
	protected    []pathPattern
	explicitOnly []tools.Pattern
	limits       []limit.Limit
	loopGuard    limit.LoopLimit
	unclear      Unclear // 0 leaves it to the mode
	approvals    Approvals
	names        []namedTool // for Check

	conditional   bool // some rule has a condition
	deniesReading bool // some rule denies some caller to read some files
	file          string
}

// Version stands for the text of the policy.
func (p *Policy) Version() string {
	if p == nil {
		return ""
	}
	return p.version
}

// Conditional reports whether some rule has a condition, so that [Call.Input] must be
// there to judge a call.
func (p *Policy) Conditional() bool { return p != nil && p.conditional }

// Limits are the rate limits, in the order of the file. The slice must not be
// changed.
func (p *Policy) Limits() []limit.Limit {
	if p == nil {
		return nil
	}
	return p.limits
}

// LoopGuard is when a model that goes in circles is stopped.
func (p *Policy) LoopGuard() limit.LoopLimit {
	if p == nil {
		return limit.LoopLimit{}
	}
	return p.loopGuard
}

// Approvals is how people are asked.
func (p *Policy) Approvals() Approvals {
	if p == nil {
		return Approvals{}
	}
	return p.approvals
}

// Approvals is how people are asked.
type Approvals struct {
	// Expire is how long a question waits for its answer.
	Expire time.Duration `yaml:"expire"`

	// Self lets the principal that made a call answer for it.
	Self bool `yaml:"self"`
}
