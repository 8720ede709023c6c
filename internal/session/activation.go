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
	Limit  int      // how many beside those that are pinned; 0: [DefaultActive]
	Pinned []string // patterns of those that always are; none: the default
}

const (
	DefaultActive = 20
	maxActive     = 1000
)

// defaultPinned is what nearly every task needs, and what finds the rest.
var defaultPinned = []string{"tool_search", "read_file", "write_file", "edit_file", "bash", "grep", "glob", "ask_user"}

// Check returns why the activation is none. The zero Activation is one.
func (a Activation) Check() error {
	if a.Limit < 0 || a.Limit > maxActive {
		return fmt.Errorf("%d active tools: want 1 to %d; leave it out for %d", a.Limit, maxActive, DefaultActive)
	}
	if err := (tools.Selection{Include: a.Pinned}).Check(); err != nil {
		return fmt.Errorf("pinned: %w", err)
	}
	return nil
}

// Settled returns the activation with its defaults filled in. What it points to must not
// be changed.
func (a Activation) Settled() Activation {
	a.Limit = cmp.Or(a.Limit, DefaultActive)
	if len(a.Pinned) == 0 {
		a.Pinned = defaultPinned
	}
	return a
}

func (a *Activation) pins(spec *tools.Spec) bool {
	return slices.ContainsFunc(a.Pinned, func(pattern string) bool { return tools.Matches(pattern, spec) })
}

// Activate makes a tool active, as the one that was used last. Where there are too many,
// the one that was not used for longest is not active any more.
func (s *Session) Activate(spec *tools.Spec) {
	activation := s.Settings().Activation.Settled()
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
	return slices.Clone(s.active[:min(len(s.active), s.Settings().Activation.Settled().Limit)])
}

// IsActive returns what reports whether a tool is active now.
func (s *Session) IsActive() func(*tools.Spec) bool {
	activation, active := s.Settings().Activation.Settled(), s.Active()
	return func(spec *tools.Spec) bool { return slices.Contains(active, spec.Name) || activation.pins(spec) }
}
