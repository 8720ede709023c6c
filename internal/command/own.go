// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// Own describes where a program of the operator runs that belongs to no session, such as
// a server whose tools many sessions use.
type Own struct {
	// Name tells it from others.
	Name string

	// Dir is its own directory, which is made if it is not there: its programs work
	// in it, have their home there, and find there again what they kept.
	Dir string

	// Read and Write are what its programs may touch besides, absolute paths. None
	// may be the server's own or have something of it below.
	Read, Write []string
}

// Own returns a runner for programs of the operator. Close it after use, once nothing runs
// there any more: close ends what does.
func (r *Runners) Own(own Own) (runner *Runner, closeIt func(), err error) {
	// By what they are: a link leads nowhere in a jail.
	read, write := resolvedAll(own.Read), resolvedAll(own.Write)
	work := filepath.Join(own.Dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, nil, err
	}
	files, err := (workspace.Config{}).Open(work)
	if err != nil {
		return nil, nil, err
	}
	session := &ownSession{dir: resolved(own.Dir)}
	env := tools.Env{SessionID: own.Name, Workspace: files, Session: session}
	end := func() {
		session.close()
		files.Close()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if runner, err = r.Of(env); err != nil {
		return nil, nil, err
	}
	for i, path := range append(read, write...) {
		if runner.servers(path) {
			return nil, nil, fmt.Errorf("%s is the server's own, or has something of it below: no program gets that", path)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, nil, err
		}
		if i < len(read) {
			runner.view.Read = append(slices.Clip(runner.view.Read), path)
		} else {
			runner.view.Write = append(slices.Clip(runner.view.Write), path)
		}
	}
	return runner, end, nil
}

// ownSession stands for a session where there is none: it has directories, and an end.
type ownSession struct {
	dir string

	mu     sync.Mutex
	closed bool
	after  []func()
}

func (s *ownSession) Mode() tools.Mode { return tools.ModeAllow }

func (s *ownSession) ChangeMode(_, _ tools.Mode) error {
	return errors.New("there is no session whose mode could change")
}

func (s *ownSession) PlanEnd() tools.Mode { return tools.ModeAllow }

func (s *ownSession) Private() (string, error) { return s.dir, nil }

func (s *ownSession) Home() string { return filepath.Join(s.dir, "home") }

func (s *ownSession) Temp() string { return filepath.Join(s.dir, "tmp") }

func (s *ownSession) Cache() (string, error) { return filepath.Join(s.dir, "cache"), nil }

func (s *ownSession) Busy() (done func()) { return func() {} }

func (s *ownSession) AfterClose(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.after = append(s.after, f)
	return true
}

func (s *ownSession) close() {
	s.mu.Lock()
	s.closed = true
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}
