// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	// maxDeaths is how often in a row a server may die before that is told.
	maxDeaths = 3

	// rest is how long a server that died so often is not tried again.
	rest = time.Minute
)

// slot is where the language server of a session is, or is not yet.
type slot struct {
	place    *sessionServers
	server   *Server
	program  string
	deny     tools.Denial
	starting chan struct{} // holds a value while somebody starts or ends the server
	calls    int           // that ask; guarded by the place
	begins   bool          // a server of it is being started; guarded by the place

	mu     sync.Mutex
	p      *process // nil: none runs
	users  []string // for whom it was asked
	last   time.Time
	expiry *time.Timer
	deaths int       // in a row
	broken error     // why it is not tried again
	until  time.Time // for so long
}

func (s *slot) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

// isEmpty reports whether nothing is known of a server: none runs, and none has to rest.
func (s *slot) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p == nil && (s.broken == nil || time.Now().After(s.until))
}

func (s *slot) asked() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// hold keeps others from starting or ending the server.
func (s *slot) hold(ctx context.Context) error {
	select {
	case s.starting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *slot) release() { <-s.starting }

// halt ends the server, if one runs that was asked for a user, or for anybody.
func (s *slot) halt(user string, cause error) bool {
	_ = s.hold(context.Background())
	defer s.release()
	s.mu.Lock()
	p := s.p
	if p == nil || user != "" && !slices.Contains(s.users, user) {
		s.mu.Unlock()
		return false
	}
	s.p, s.users = nil, nil
	s.expiry.Stop()
	s.mu.Unlock()
	p.stop(cause)
	return true
}

// ensure returns the server, which is started if none runs.
func (s *slot) ensure(ctx context.Context, env tools.Env) (*process, error) {
	if err := s.hold(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	s.mu.Lock()
	p, broken := s.p, s.broken
	if broken != nil && time.Now().After(s.until) {
		broken, s.broken, s.deaths = nil, nil, 0
	}
	s.mu.Unlock()
	if broken != nil {
		return nil, broken
	}
	if p != nil && !p.isGone() {
		s.use(p, env)
		return p, nil
	}
	if p != nil { // it died while nobody asked it
		s.discard(p)
	}
	s.place.mu.Lock()
	ended := s.place.ended
	s.place.mu.Unlock()
	if ended {
		return nil, command.ErrSessionEnds
	}
	if err := s.place.makeRoom(s); err != nil {
		return nil, err
	}
	defer s.place.begun(s)
	p, err := s.start(ctx, env)
	if err != nil {
		return nil, err
	}
	s.use(p, env)
	return p, nil
}

// use notes that a server is asked.
func (s *slot) use(p *process, env tools.Env) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p != p {
		if s.expiry != nil {
			s.expiry.Stop()
		}
		s.p, s.users = p, nil
		s.expiry = time.AfterFunc(s.place.set.config.Idle, func() { s.expire(p) })
	}
	if user := env.OnBehalfOf; user != "" && !slices.Contains(s.users, user) {
		s.users = append(s.users, user)
	}
	s.last = time.Now()
	s.expiry.Reset(s.place.set.config.Idle)
}

// expire ends a server that nobody asks.
func (s *slot) expire(p *process) {
	if p.asking.Load() > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expiry.Reset(s.place.set.config.Idle)
		return
	}
	if s.current() == p {
		s.halt("", errIdle)
	}
}

// ask has f ask the server. One that dies is started again, three times in all; f is
// called again then.
func (s *slot) ask(ctx context.Context, env tools.Env, f func(*process) error) error {
	for {
		p, err := s.ensure(ctx, env)
		if err == nil {
			p.asking.Add(1)
			err = f(p)
			p.asking.Add(-1)
			if errors.Is(err, errStale) {
				s.replace(p)
				continue
			}
			if !p.isGone() {
				s.survived(err)
				return err
			}
			s.discard(p)
			if hung, ok := errors.AsType[*tools.Failure](err); ok && hung.Code == codeNoAnswer {
				if failure := s.died(&death{how: p.ending(), stderr: p.said.String()}); failure != nil {
					return failure
				}
				return err // whoever asked has waited long enough
			}
			if ctx.Err() == nil { // or it was ended with the call
				err = &death{how: p.ending(), stderr: p.said.String()}
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d, died := errors.AsType[*death](err)
		if !died {
			return err
		}
		if failure := s.died(d); failure != nil {
			return failure
		}
	}
}

// discard lets go of a server that has ended, or is being ended.
func (s *slot) discard(p *process) {
	s.mu.Lock()
	if s.p == p {
		s.p, s.users = nil, nil
		s.expiry.Stop()
	}
	s.mu.Unlock()
	p.stop(errGone)
}

// replace ends a server, so that the next question starts another.
func (s *slot) replace(p *process) {
	if s.current() == p {
		s.halt("", errStale)
	}
}

// death is how a server ended that should not have.
type death struct{ how, stderr string }

func (d *death) Error() string { return d.how }

// survived notes that the server has answered.
func (s *slot) survived(err error) {
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaths = 0
}

// died counts a death, and returns what is told when it was one too many.
func (s *slot) died(d *death) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken // another call was told already
	}
	if s.deaths++; s.deaths < maxDeaths {
		return nil
	}
	said := ""
	if d.stderr != "" {
		said = " It said: " + d.stderr
	}
	s.broken = tools.Failf("language_server_ended", "The language server %s was started %d times and did not last, the last time it %s. It is not tried again for %s; what needs no language server still works.%s",
		s.server.Name, maxDeaths, strings.TrimSuffix(d.how, "."), rest, said)
	s.until = time.Now().Add(rest)
	return s.broken
}
