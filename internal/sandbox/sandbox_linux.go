// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"os"
	"sync"
	"sync/atomic"
)

// Sandbox starts commands. Its methods are safe for concurrent use.
type Sandbox struct {
	config     Config
	landlock   int // its version
	null       *os.File
	namespaces func() error // why there are none
	helpers    helperGroup
	monitor    monitor
	last       atomic.Uint64 // id of a command

	mu      sync.Mutex
	running map[*Process]struct{}
	spaces  map[*Space]struct{}
	closed  bool
}

// Open returns a sandbox. A helper is started with the first command of a space.
func Open(config Config) (*Sandbox, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{config: config, landlock: landlockVersion(), null: null, running: make(map[*Process]struct{}), spaces: make(map[*Space]struct{})}
	s.namespaces = sync.OnceValue(s.tryNamespaces)
	s.helpers.limit = cmp.Or(config.MaxProcesses, maxTogether())
	if config.landlockAtMost > 0 {
		s.landlock = min(s.landlock, config.landlockAtMost)
	}
	return s, nil
}

// Close kills everything that runs, and ends the helpers. It does not wait: that
// is for who waits for a process.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	s.closed = true
	for p := range s.running {
		p.Kill()
	}
	for sp := range s.spaces {
		sp.link.close()
	}
	s.mu.Unlock()
	return s.null.Close()
}

// left takes note that a helper has ended. With the last one of a sandbox that is
// closed its control group goes.
func (s *Sandbox) left() {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.helpers.leave()
	}
}
