// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

// Sandbox starts commands. Its methods are safe for concurrent use.
type Sandbox struct {
	config   Config
	landlock int // its version
	null     *os.File
	links    [networks]*link // by Network
	monitor  monitor
	last     atomic.Uint64 // id of a command

	mu      sync.Mutex
	running map[*Process]struct{}
	closed  bool
}

// Open returns a sandbox. The helper is started with the first command.
func Open(config Config) (*Sandbox, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{config: config, landlock: landlockVersion(), null: null, running: make(map[*Process]struct{})}
	if config.landlockAtMost > 0 {
		s.landlock = min(s.landlock, config.landlockAtMost)
	}
	for network := range s.links {
		if config.Off && network > 0 {
			s.links[network] = s.links[0] // without a filter they are alike
			continue
		}
		s.links[network] = newLink(s, Network(network))
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
	s.mu.Unlock()
	for _, l := range s.links {
		l.close()
	}
	return s.null.Close()
}

// A Jail is where commands run that may reach the same things.
type Jail struct {
	sandbox *Sandbox
	link    *link
	ruleset *os.File // nil where nothing is restricted
	roots   []string // where modes and times of files may be changed
}

// Jail returns a jail. Close it after use; what runs in it goes on.
func (s *Sandbox) Jail(p Profile) (*Jail, error) {
	if p.Network < 0 || p.Network >= networks {
		return nil, fmt.Errorf("there is no network level %d", p.Network)
	}
	j := &Jail{sandbox: s, link: s.links[p.Network]}
	if s.config.Off {
		return j, nil
	}
	if p.Network == NetworkProxy && s.landlock < landlockNetwork {
		return nil, errors.New("this kernel cannot keep commands to the port of a proxy, which needs Linux 6.7: use network none or open")
	}
	var err error
	if j.roots, err = realPaths(p.Write); err != nil {
		return nil, err
	}
	if p.Network == NetworkLoopback && p.ProxyPort != 0 {
		j.roots = append(j.roots, helper.Port(p.ProxyPort))
	}
	if s.landlock > 0 {
		if j.ruleset, err = newRuleset(p, s.landlock); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// Close lets go of what the jail holds.
func (j *Jail) Close() error {
	if j.ruleset == nil {
		return nil
	}
	return j.ruleset.Close()
}

// flags returns what is done for a command in the jail.
func (j *Jail) flags() helper.Flags {
	var flags helper.Flags
	if j.ruleset != nil {
		flags |= helper.Restricted
	}
	if !j.sandbox.config.Off && os.Geteuid() == 0 {
		flags |= helper.DropCapabilities
	}
	return flags
}
