// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package companion has what lives between the calls of a session and ends with it:
// background processes, and interpreters that keep what code defined. Package command
// runs them; what is known here is what becomes of their output, and who uses them.
//
// Locks: that of a [Set] is held to find a session, and no other is taken but that of
// its runner; that of a session goes before that of a process. An interpreter is used by
// whoever holds its slot.
//
// Goroutines: each background process has one that waits for its end.
package companion

import (
	"cmp"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is how much is kept between the calls of a session, and for how long. 0 means
// the default.
type Config struct {
	// Output is how much of the output of a background process is kept, and
	// EndedOutput how much of those that have ended, together. Default: 1 MiB and
	// 4 MiB.
	Output      int
	EndedOutput int

	// Ended is how many that have ended are remembered. Default: 32.
	Ended int

	// Idle is how long an interpreter is kept that nobody uses. Default: 30m.
	Idle time.Duration

	// Languages are those of interpreters beside the ones that are always there.
	Languages []Language
}

// WithDefaults returns c with the defaults in place of 0.
func (c Config) WithDefaults() Config {
	return Config{
		Output:      cmp.Or(c.Output, 1<<20),
		EndedOutput: cmp.Or(c.EndedOutput, 4<<20),
		Ended:       cmp.Or(c.Ended, 32),
		Idle:        cmp.Or(c.Idle, 30*time.Minute),
		Languages:   c.Languages,
	}
}

// A Set has the companions of all sessions. Its methods are safe for concurrent use.
type Set struct {
	runners *command.Runners
	config  Config

	mu       sync.Mutex
	sessions map[tools.Session]*session
}

// New returns an empty set of what runners run.
func New(runners *command.Runners, config Config) *Set {
	return &Set{runners: runners, config: config.WithDefaults(), sessions: make(map[tools.Session]*session)}
}

// session is what one session has.
type session struct {
	set    *Set
	runner *command.Runner

	mu           sync.Mutex
	ended        bool
	processes    []*Process       // the oldest first
	started      int              // how many of them there were
	interpreters map[string]*slot // by language and rights
}

// of returns what the session of a call has, which ends with the session.
func (s *Set) of(env tools.Env) (*session, error) {
	runner, err := s.runners.Of(env)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.sessions[env.Session]
	if own == nil {
		own = &session{set: s, runner: runner, interpreters: make(map[string]*slot)}
		if !runner.BeforeClose(func() { s.end(env.Session, own) }) {
			return nil, command.ErrSessionEnds
		}
		s.sessions[env.Session] = own
	}
	return own, nil
}

// end ends what a session has. No call uses it any more.
func (s *Set) end(of tools.Session, own *session) {
	s.mu.Lock()
	delete(s.sessions, of)
	s.mu.Unlock()
	own.mu.Lock()
	own.ended = true
	own.mu.Unlock()
	own.stopProcesses()
	own.stopInterpreters()
}
