// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package lsp asks language servers about code: where a name is defined and used, what is
// wrong with a text, what a change would break, and what a rename would write. A server is
// started when it is first asked, in the sandbox of the session, for one language, and
// ended with the session or when nobody asks it. It reads what the session may read, has no
// network, and writes nothing but its own temporary directory: what it would change comes
// back as an [Edit], which is applied like any other edit.
//
// Positions are lines and columns in characters, both from one, whatever a server counts in.
//
// Locks: that of a [Set] is held to find a session. A slot is held while its server starts or
// ends, before the lock of the servers of its session is taken, and that before the slot's own mu. Of a server, in this
// order: questions holds off what changes texts for a question, commanding is held while a command of the
// server runs, and mu guards what the server was told; mu
// is held while the tracker is asked for changes. The locks of the tracker, of the client, of the wire and of
// what the server wrote on stderr are taken last. questions and commanding are held while the server is asked.
//
// Goroutines: a server has one that waits for its end, one that writes to it, one that waits for
// the end of its connection, and those of the connection; all end with its process, which the
// slot owns. A check has one, which ends with the time of the check.
package lsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is the section "code" of the configuration. Zero fields take the defaults named.
type Config struct {
	Servers []Server      `yaml:"servers"` // beside Defaults, which those of the same name replace
	Idle    time.Duration `yaml:"idle"`    // after which a server that nobody asks is ended; 10 minutes
	Memory  size.Bytes    `yaml:"memory"`  // of all processes of a server; 2 GiB
	Timeout time.Duration `yaml:"timeout"` // of one answer; 1 minute

	// GoModules is a module cache of the machine, which gopls reads for a session whose
	// commands have fetched no modules themselves. Nothing else may read it.
	GoModules string `yaml:"go_modules"`

	// Beside is the directory of toolserver. A language server of one file that commands do not
	// find is looked for there, as toolserver-syntax is; commands do not read it.
	Beside string `yaml:"-"`
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Idle = cmp.Or(c.Idle, 10*time.Minute)
	c.Memory = cmp.Or(c.Memory, 2<<30)
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	return c
}

// Known returns the servers that there may be: those of the operator first.
func (c Config) Known() []Server {
	list := slices.Clone(c.Servers)
	for _, d := range Defaults() {
		switch at := slices.IndexFunc(list, func(s Server) bool { return s.Name == d.Name }); {
		case at < 0 && !d.runsWorkspace:
			list = append(list, d)
		case at >= 0 && list[at].standsForDefault() && !list[at].Off:
			list[at] = d.with(list[at])
		}
	}
	return slices.DeleteFunc(list, func(s Server) bool { return s.Off })
}

// A Set has the language servers of all sessions. Its methods are safe for concurrent use.
type Set struct {
	runners *command.Runners
	engines *search.Pool // finds who has a name
	config  Config
	table   []Server
	watches atomic.Int64 // directories that its trackers may still watch

	programs sync.Map // by the name of a server, where its program was found; until it cannot be started

	mu       sync.Mutex
	sessions map[tools.Session]*sessionServers
}

// New returns a set without servers, which runners run. Engines search the workspaces.
func New(runners *command.Runners, engines *search.Pool, config Config) *Set {
	config = config.WithDefaults()
	s := &Set{runners: runners, engines: engines, config: config, table: config.Known(), sessions: make(map[tools.Session]*sessionServers)}
	s.watches.Store(int64(index.Watches() / watchShare))
	return s
}

// sessionServers are the language servers of one session.
type sessionServers struct {
	set    *Set
	runner *command.Runner
	files  *tracker

	mu    sync.Mutex
	ended bool
	slots []*slot
	turns map[string]chan struct{} // of checks, by the name of their server
}

// maxServers is how many servers of a session run at once.
const maxServers = 4

var (
	errHalted = errors.New("an operator stopped it")
	errIdle   = errors.New("nobody asked it for a long time")
	errOthers = errors.New("other language servers were needed")
)

// serversOf returns what the session of a call has, which ends with the session.
func (s *Set) serversOf(env tools.Env) (*sessionServers, error) {
	runner, err := s.runners.Of(env)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sessions[env.Session]
	if at == nil {
		at = &sessionServers{set: s, runner: runner, files: newTracker(env.Workspace, &s.watches)}
		if !runner.BeforeClose(func() { s.end(env.Session, at) }) {
			return nil, command.ErrSessionEnds
		}
		s.sessions[env.Session] = at
	}
	return at, nil
}

// end ends what a session has. No call uses it any more.
func (s *Set) end(of tools.Session, at *sessionServers) {
	s.mu.Lock()
	delete(s.sessions, of)
	s.mu.Unlock()
	at.mu.Lock()
	at.ended = true
	at.mu.Unlock()
	at.stop("", command.ErrSessionEnds)
	at.files.close()
}

// Halt ends the language servers of a session, which goes on, and returns how many there
// were. With a user, it ends those that were asked for that user.
func (s *Set) Halt(of tools.Session, user string) int {
	s.mu.Lock()
	at := s.sessions[of]
	s.mu.Unlock()
	if at == nil {
		return 0
	}
	return at.stop(user, errHalted)
}

// stop ends the servers of a session, or those of a user, and returns how many there were.
func (p *sessionServers) stop(user string, cause error) (n int) {
	p.mu.Lock()
	list := slices.Clone(p.slots)
	p.mu.Unlock()
	for _, at := range list {
		if at.halt(user, cause) {
			n++
		}
	}
	return n
}

// ask has f ask a server for what a call may read.
func (p *sessionServers) ask(ctx context.Context, server *Server, program string, env tools.Env, f func(*process) error) error {
	at := p.slotOf(server, program, env)
	defer func() {
		p.mu.Lock()
		at.calls--
		p.mu.Unlock()
	}()
	return at.ask(ctx, env, f)
}

// slotOf returns the slot of a server for what a call may read, which counts as one that
// asks.
func (p *sessionServers) slotOf(server *Server, program string, env tools.Env) *slot {
	deny := env.Denial()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.slots {
		if at.server.Name == server.Name && at.deny == deny {
			at.calls++
			return at
		}
	}
	at := &slot{place: p, server: server, program: program, deny: deny, starting: make(chan struct{}, 1), calls: 1}
	p.slots = append(p.slots, at)
	return at
}

// makeRoom ends the servers that were asked longest ago, until one more may be started, and
// counts it as one that is. It drops the slots that have none: there is one for whatever calls
// may not read.
func (p *sessionServers) makeRoom(of *slot) error {
	for {
		p.mu.Lock()
		p.slots = slices.DeleteFunc(p.slots, func(at *slot) bool { return at.calls == 0 && at.isEmpty() })
		var oldest *slot
		others := 0
		for _, at := range p.slots {
			runs := at.current() != nil
			if at == of || !runs && !at.begins {
				continue
			}
			if others++; runs && (oldest == nil || at.asked().Before(oldest.asked())) {
				oldest = at
			}
		}
		room := others < maxServers
		of.begins = of.begins || room
		p.mu.Unlock()
		switch {
		case room:
			return nil
		case oldest == nil:
			return &tools.Failure{Code: "too_many_servers", Retryable: true, Message: fmt.Sprintf("%d language servers of the session are being started, which is as many as may run. Ask again in a while.", maxServers)}
		}
		oldest.halt("", errOthers)
	}
}

// begun notes that a server runs, or that it could not be started.
func (p *sessionServers) begun(of *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.begins = false
}
