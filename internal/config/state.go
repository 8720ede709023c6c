// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/size"
)

// State is where the server keeps what it promised, so that a restart does not break it.
type State struct {
	Engine     stateEngine   `yaml:"engine"`
	Dir        string        `yaml:"dir"`
	Retention  time.Duration `yaml:"retention"`
	MaxHistory size.Bytes    `yaml:"max_history"`
}

// stateEngine is what keeps the state.
type stateEngine int

const (
	StateEmbedded stateEngine = iota // in this process, on a directory
	StateMemory                      // nothing does: it ends with the process
)

var stateEngines = []string{"embedded", "memory"}

// UnmarshalText reads the name of an engine.
func (e *stateEngine) UnmarshalText(text []byte) error {
	i := slices.Index(stateEngines, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no engine of the state: want %s", text, strings.Join(stateEngines, " or "))
	}
	*e = stateEngine(i)
	return nil
}

func (e stateEngine) String() string { return stateEngines[e] }

// Off says that nothing outlives the process.
func (s *State) Off() bool { return s.Engine == StateMemory || s.Dir == "" }

// fillInState sets the directory of the state: servers of one user that listen on
// different addresses have different ones, and one that is started again on its address
// finds its own. A server on any free port is another one each time, and has none.
func (c *Config) fillInState() (err error) {
	s := &c.State
	if s.Dir == "" {
		if _, port, err := net.SplitHostPort(c.Listen); err == nil && port == "0" {
			return nil
		}
		s.Dir = filepath.Join(StateDir(), "toolserver", "state", url.PathEscape(c.Listen))
	}
	s.Dir, err = filepath.Abs(s.Dir)
	return err
}

func (c *Config) validateState(fault FaultFunc) {
	if c.State.Retention < time.Minute {
		fault("state.retention", "%s is too short: want at least 1m, or clients that lost their connection find nothing", c.State.Retention)
	}
	switch most := size.Bytes(2 << 30); { // what the engine keeps, 4 GiB, has to hold the rest too
	case c.State.MaxHistory < 1<<20:
		fault("state.max_history", "%d bytes are too few: want at least 1MiB", c.State.MaxHistory)
	case c.State.MaxHistory > most:
		fault("state.max_history", "%d bytes are too many: want at most 2GiB", c.State.MaxHistory)
	}
}
