// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"

	"github.com/toolserver/toolserver/internal/tools"
)

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

// Outline returns what a server says is in a file.
func (a *Asker) Outline(ctx context.Context, path string) (list []Symbol, err error) {
	_, err = a.ask(ctx, path, func(q *question) error {
		d, err := q.open(q.ctx, path)
		if err == nil {
			list, err = q.symbolsIn(&d)
		}
		return err
	})
	return list, err
}
