// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolserver/toolserver/internal/tools"
)

// Activation is which tools are active: those whose definitions a model is given. Others
// can be called all the same.
type Activation struct {
	Limit  int      `yaml:"limit"`  // how many beside those that are pinned; 0: the default
	Pinned []string `yaml:"pinned"` // patterns of those that always are; none: the default
}

const maxActive = 1000

// DefaultActivation returns what a server has that was told nothing: pinned is what
// nearly every task needs, and what finds the rest.
func DefaultActivation() Activation {
	return Activation{Limit: 20, Pinned: []string{"tool_search", "read_file", "write_file", "edit_file", "bash", "grep", "glob", "ask_user"}}
}

// Check returns why the activation is none. The zero Activation is one.
func (a Activation) Check() error {
	if a.Limit < 0 || a.Limit > maxActive {
		return fmt.Errorf("%d active tools: want 1 to %d; leave it out for the default", a.Limit, maxActive)
	}
	if err := (tools.Selection{Include: a.Pinned}).Check(); err != nil {
		return fmt.Errorf("pinned: %w", err)
	}
	return nil
}

// or returns the activation with what it leaves open as another has it.
func (a Activation) or(other Activation) Activation {
	a.Limit = cmp.Or(a.Limit, other.Limit)
	if len(a.Pinned) == 0 {
		a.Pinned = other.Pinned
	}
	return a
}

func (a *Activation) pins(spec *tools.Spec) bool {
	return slices.ContainsFunc(a.Pinned, func(pattern string) bool { return tools.Matches(pattern, spec) })
}

// Activate makes a tool active, as the one that was used last. Where there are too many,
// the one that was not used for longest is not active any more.
func (s *Session) Activate(spec *tools.Spec) {
	activation := &s.Settings().Activation
	if activation.pins(spec) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.active) > 0 && s.active[0] == spec.Name {
		return
	}
	active := slices.DeleteFunc(s.active, func(name string) bool { return name == spec.Name })
	s.active = slices.Insert(active, 0, spec.Name)
	if len(s.active) > activation.Limit {
		s.active = s.active[:activation.Limit]
	}
}

// Active returns the tools that are active beside those that are pinned, the one that was
// used last first.
func (s *Session) Active() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.active[:min(len(s.active), s.Settings().Activation.Limit)])
}

// IsActive returns what reports whether a tool is active now.
func (s *Session) IsActive() func(*tools.Spec) bool {
	activation, active := &s.Settings().Activation, s.Active()
	return func(spec *tools.Spec) bool { return slices.Contains(active, spec.Name) || activation.pins(spec) }
}
