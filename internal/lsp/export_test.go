// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import "github.com/toolserver/toolserver/internal/tools"

// Slots returns how many places for servers a session has.
func (s *Set) Slots(of tools.Session) int {
	s.mu.Lock()
	at := s.sessions[of]
	s.mu.Unlock()
	at.mu.Lock()
	defer at.mu.Unlock()
	return len(at.slots)
}

// Running returns how many language servers a session has.
func (s *Set) Running(of tools.Session) (n int) {
	s.mu.Lock()
	at := s.sessions[of]
	s.mu.Unlock()
	if at == nil {
		return 0
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	for _, slot := range at.slots {
		if slot.current() != nil {
			n++
		}
	}
	return n
}
