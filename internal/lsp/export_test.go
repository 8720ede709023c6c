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
