// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/endpoint"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/state"
)

// State is where the server keeps what it promised, so that a restart does not break it.
type State struct {
	Engine      stateEngine   `yaml:"engine"`
	Dir         string        `yaml:"dir"`         // of an embedded one
	URL         string        `yaml:"url"`         // of a cluster, as all down to Prefix
	Credentials string        `yaml:"credentials"` // a file
	TLS         StateTLS      `yaml:"tls"`
	Replicas    int           `yaml:"replicas"`
	Prefix      string        `yaml:"prefix"`
	Retention   time.Duration `yaml:"retention"`
	MaxHistory  size.Bytes    `yaml:"max_history"`
}

// StateTLS has files in PEM for connections to a cluster.
type StateTLS struct {
	CA          string `yaml:"ca"`
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// Replica says how the servers that share a cluster find and trust each other.
type Replica struct {
	Listen           string        `yaml:"listen"`
	Advertise        string        `yaml:"advertise"`
	Lease            time.Duration `yaml:"lease"`
	SharedWorkspaces bool          `yaml:"shared_workspaces"`
}

// stateEngine is what keeps the state.
type stateEngine int

const (
	StateEmbedded stateEngine = iota // in this process, on a directory
	StateMemory                      // nothing does: it ends with the process
	StateCluster                     // servers elsewhere, for many replicas
)

var stateEngines = []string{"embedded", "memory", "cluster"}

// UnmarshalText reads the name of an engine.
func (e *stateEngine) UnmarshalText(text []byte) error {
	i := slices.Index(stateEngines, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no engine of the state: want one of %s", text, strings.Join(stateEngines, ", "))
	}
	*e = stateEngine(i)
	return nil
}

func (e stateEngine) String() string { return stateEngines[e] }

// Off says that nothing outlives the process.
func (s *State) Off() bool {
	return s.Engine == StateMemory || s.Engine == StateEmbedded && s.Dir == ""
}

// Shared says that other servers have the same state.
func (s *State) Shared() bool { return s.Engine == StateCluster }

// Options returns how the engine is opened.
func (s *State) Options() state.Options {
	if s.Shared() {
		return state.Options{
			URL: s.URL, Credentials: s.Credentials, CA: s.TLS.CA, Cert: s.TLS.Certificate, CertKey: s.TLS.Key, Replicas: s.Replicas, Prefix: s.Prefix,
		}
	}
	return state.Options{Dir: s.Dir}
}

// Place tells people where the state is.
func (s *State) Place() string {
	switch {
	case s.Off():
		return "memory"
	case s.Shared():
		return state.Redacted(s.URL)
	}
	return s.Dir
}

// fillInState sets the directory of the state: servers of one user that listen on
// different addresses have different ones, and one that is started again on its address
// finds its own. A server on any free port is another one each time, and has none.
func (c *Config) fillInState() (err error) {
	s := &c.State
	if s.Shared() {
		return nil
	}
	if s.Dir == "" {
		if _, port, err := net.SplitHostPort(c.Listen); err == nil && port == "0" {
			return nil
		}
		s.Dir = filepath.Join(c.StateDir(), "state", url.PathEscape(c.Listen))
	}
	s.Dir, err = filepath.Abs(s.Dir)
	return err
}

func (c *Config) validateState(fault FaultFunc) {
	c.validateCluster(fault)
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

// validateCluster finds what is wrong with a cluster, and what is set for one that is not
// there.
func (c *Config) validateCluster(fault FaultFunc) {
	s := &c.State
	if !s.Shared() {
		for key, value := range map[string]string{"url": s.URL, "credentials": s.Credentials, "tls.ca": s.TLS.CA, "tls.certificate": s.TLS.Certificate, "tls.key": s.TLS.Key} {
			if value != "" {
				fault("state."+key, "it is of a cluster, and state.engine is %s: set that to cluster, or leave this out", s.Engine)
			}
		}
		return
	}
	if s.Dir != "" {
		fault("state.dir", "a cluster keeps the state: leave the directory out, or set state.engine to embedded")
	}
	if s.URL == "" {
		fault("state.url", "it is empty: name the servers of the cluster, such as nats://nats-0:4222,nats://nats-1:4222,nats://nats-2:4222")
	} else if err := state.CheckURL(s.URL); err != nil {
		fault("state.url", "%v", err)
	}
	for key, file := range map[string]string{"credentials": s.Credentials, "tls.ca": s.TLS.CA, "tls.certificate": s.TLS.Certificate, "tls.key": s.TLS.Key} {
		if file == "" {
			continue
		}
		if f, err := os.Open(file); err != nil {
			fault("state."+key, "%v", err)
		} else {
			f.Close()
		}
	}
	if (s.TLS.Certificate == "") != (s.TLS.Key == "") {
		fault("state.tls", "certificate and key belong together: set both, or none")
	}
	if s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5 {
		fault("state.replicas", "%d: want 3 or 5, on as many servers of the cluster, or 1 for a NATS server without a cluster", s.Replicas)
	}
	if err := state.CheckName(s.Prefix); err != nil {
		fault("state.prefix", "%v", err)
	}
	r := &c.Replica
	for key, address := range map[string]string{"listen": r.Listen, "advertise": r.Advertise} {
		if address == "" {
			continue
		}
		if _, isSocket := endpoint.SocketPath(address); isSocket {
			fault("replica."+key, "%q: other replicas cannot reach a socket file: want host:port", address)
		} else if err := endpoint.Check(address); err != nil {
			fault("replica."+key, "%v", err)
		}
	}
	if r.Lease < 2*time.Second || r.Lease > 10*time.Minute {
		fault("replica.lease", "%s is out of bounds: want 2s to 10m", r.Lease)
	}
}
