// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a call may run. It judges the effects of a
// call by rules, grants, mode and level, never knows the tool behind it, and
// does no I/O.
package policy

import (
	"fmt"
	"time"
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
	explicitOnly []toolPattern
	limits       []Limit
	loopGuard    LoopGuard
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
func (p *Policy) Limits() []Limit {
	if p == nil {
		return nil
	}
	return p.limits
}

// LoopGuard is when a model that goes in circles is stopped.
func (p *Policy) LoopGuard() LoopGuard {
	if p == nil {
		return LoopGuard{}
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

// A Limit bounds how often and how many at once calls of some tools may run.
type Limit struct {
	// Name tells it apart from others; it is "limit" and its place in the file
	// where none was given.
	Name string

	// Tools are patterns as in [tools.Selection]; none means every tool.
	Tools []string

	// Rate is how many calls a second are let through for good, and Burst how
	// many at once after a pause. A Rate of 0 does not limit.
	Rate  float64
	Burst int

	// Concurrent is how many may run at the same time; 0 does not limit.
	Concurrent int

	// Per is who shares the limit.
	Per Scope

	// Shadow counts and reports, and lets pass.
	Shadow bool
}

// Scope is who shares a limit.
type Scope int

const (
	PerSession Scope = iota
	PerPrincipal
	PerServer
)

var scopeNames = [...]string{"session", "principal", "server"}

func (s Scope) String() string { return scopeNames[s] }

// UnmarshalText reads the word for a scope.
func (s *Scope) UnmarshalText(text []byte) error {
	for i, name := range scopeNames {
		if name == string(text) {
			*s = Scope(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no scope: want session, principal or server", text)
}

// LoopGuard is when a model that goes in circles is stopped: after the same call
// this many times in a row, or two calls in turn this many times. 0 is never.
type LoopGuard struct {
	Repeat    int `yaml:"repeat"`
	Alternate int `yaml:"alternate"`
}

// Approvals is how people are asked.
type Approvals struct {
	// Expire is how long a question waits for its answer.
	Expire time.Duration `yaml:"expire"`

	// Self lets the principal that made a call answer for it.
	Self bool `yaml:"self"`
}
