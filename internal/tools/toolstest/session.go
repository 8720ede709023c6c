// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package toolstest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/tools"
)

// Documents keeps documents in memory. The zero value is ready.
type Documents struct {
	mu   sync.Mutex
	kept map[string]json.RawMessage
}

// Read returns a document.
func (d *Documents) Read(name string) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[name], nil
}

// Change replaces a document.
func (d *Documents) Change(name string, change func(json.RawMessage) (json.RawMessage, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next, err := change(d.kept[name])
	if err != nil {
		return err
	}
	if d.kept == nil {
		d.kept = make(map[string]json.RawMessage)
	}
	d.kept[name] = next
	return nil
}

// A Session is a session for calls to change. It is safe for concurrent use.
type Session struct {
	// Forbidden are the modes it does not permit.
	Forbidden []tools.Mode

	uses atomic.Int32 // by Busy

	mu           sync.Mutex
	mode, before tools.Mode
	running      int     // calls that Run runs
	mixed        bool    // more than one
	touches      []touch // of the workspace
	private      string
	closed       bool
	after        []func()
}

// NewSession returns a session in a mode.
func NewSession(mode tools.Mode) *Session { return &Session{mode: mode, before: tools.ModeAsk} }

// Mode returns the mode of now.
func (s *Session) Mode() tools.Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// ChangeMode changes the mode if it still is from and the new one is permitted.
func (s *Session) ChangeMode(from, to tools.Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode != from {
		return tools.Failf("mode_changed", "The session is in mode %s by now.", s.mode)
	}
	if slices.Contains(s.Forbidden, to) {
		return tools.Failf("mode_not_permitted", "Mode %s is not permitted.", to)
	}
	if to == tools.ModePlan && from != to {
		s.before = from
	}
	s.mode = to
	return nil
}

// PlanEnd returns the mode before plan mode.
func (s *Session) PlanEnd() tools.Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before
}

// Private returns a directory of the session.
func (s *Session) Private() (string, error) { return s.private, nil }

// Home returns the home directory of the session.
func (s *Session) Home() string { return filepath.Join(s.private, "home") }

// Temp returns the temporary directory of the session.
func (s *Session) Temp() string { return filepath.Join(s.private, "tmp") }

// Cache returns that the session has no cache.
func (s *Session) Cache() (string, error) { return "", nil }

// Busy counts who keeps the session from being idle: see [Session.Uses].
func (s *Session) Busy() (done func()) {
	s.uses.Add(1)
	return sync.OnceFunc(func() { s.uses.Add(-1) })
}

// Uses returns how many keep the session from being idle.
func (s *Session) Uses() int { return int(s.uses.Load()) }

// AfterClose has f called when the session is closed.
func (s *Session) AfterClose(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.after = append(s.after, f)
	}
	return !s.closed
}

// Close closes the session.
func (s *Session) Close() {
	s.mu.Lock()
	after := s.after
	s.after, s.closed = nil, true
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}
