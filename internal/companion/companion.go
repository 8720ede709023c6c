// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package companion has what lives between the calls of a session and ends with it:
// background processes, and interpreters that keep what code defined. Package command
// runs them; what is known here is what becomes of their output, and who uses them.
//
// Locks: that of a [Set] is held to find a session, and no other is taken but that of
// its runner. That of a session is held while a process is started, so that none begins in a session
// that ends; whoever holds it may take those of package command, and that of a [Process]. The mutexes of a
// process and of an interpreter are taken last. An interpreter is used by whoever holds its slot.
//
// Goroutines: each background process has one that waits for its end. Package command has those of an
// interpreter.
package companion

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// Limits are the section "sandbox.kept" of the configuration. Zero fields take the
// defaults named.
type Limits struct {
	Output      size.Bytes    `yaml:"output"`           // of a background process that is kept; 1 MiB
	EndedOutput size.Bytes    `yaml:"ended_output"`     // of those that have ended, together; 4 MiB
	Ended       int           `yaml:"ended"`            // processes that have ended and are remembered; 32
	Idle        time.Duration `yaml:"interpreter_idle"` // of an interpreter that nobody uses; 30 minutes
}

// WithDefaults returns l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Output:      cmp.Or(l.Output, 1<<20),
		EndedOutput: cmp.Or(l.EndedOutput, 4<<20),
		Ended:       cmp.Or(l.Ended, 32),
		Idle:        cmp.Or(l.Idle, 30*time.Minute),
	}
}

// Config is what companions are made of.
type Config struct {
	Limits

	// Languages are those of interpreters beside the ones that are always there.
	Languages []Language

	// InterruptPatience is how long an interpreter has to come back when it is
	// interrupted, before it is ended; 0 means four seconds.
	InterruptPatience time.Duration
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
	config.Limits = config.Limits.WithDefaults()
	return &Set{runners: runners, config: config, sessions: make(map[tools.Session]*session)}
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

// Halt ends the background processes and interpreters of a session, which goes on, and
// returns how many there were. With a user, it ends those that were used for that user.
func (s *Set) Halt(of tools.Session, user string) (n int) {
	s.mu.Lock()
	own := s.sessions[of]
	s.mu.Unlock()
	if own == nil {
		return 0
	}
	return own.stopProcesses(user, errHalted) + own.stopInterpreters(user, errHalted)
}

// errHalted is why processes end that an operator stops.
var errHalted = errors.New("an operator stopped it")

// end ends what a session has. No call uses it any more.
func (s *Set) end(of tools.Session, own *session) {
	s.mu.Lock()
	delete(s.sessions, of)
	s.mu.Unlock()
	own.mu.Lock()
	own.ended = true
	own.mu.Unlock()
	own.stopProcesses("", command.ErrSessionEnds)
	own.stopInterpreters("", command.ErrSessionEnds)
}
