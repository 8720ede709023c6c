// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// stored is what outlives a server. Its methods take nil for a server of which nothing
// does.
type stored struct {
	dir            string
	installation   string
	engine         state.Engine
	sessionRecords *session.Records
	callRecords    *executor.Records
	grantRecords   state.KV
}

// identity is what a server is, however often it is started.
type identity struct {
	Version      int    `json:"v"`
	Installation string `json:"installation"` // names directories of it
	Run          uint64 `json:"run"`          // how often it was started
	Key          []byte `json:"key"`          // makes the ids of executions
}

const identityVersion = 1

// openState opens what a server keeps beyond its process; nil where that is nothing.
func openState(c *config.Config, logger *zap.Logger) (_ *stored, err error) {
	if err := c.FillIn(); err != nil {
		return nil, err
	}
	if c.State.Off() {
		return nil, nil
	}
	ctx := context.Background()
	s := &stored{dir: c.State.Dir}
	if s.engine, err = state.Open(ctx, state.Options{Dir: s.dir, Log: logger}); err != nil {
		return nil, fmt.Errorf("state.dir: %w", err)
	}
	defer func() {
		if err != nil {
			s.engine.Close()
		}
	}()
	who, err := identify(ctx, s.engine)
	if err != nil {
		return nil, fmt.Errorf("state.dir %s: %w", s.dir, err)
	}
	s.installation = who.Installation
	if s.sessionRecords, err = session.OpenRecords(ctx, s.engine, who.Installation, logger); err != nil {
		return nil, err
	}
	if s.grantRecords, err = s.engine.KV(ctx, state.Space{Name: "grants"}); err != nil {
		return nil, fmt.Errorf("records of grants: %w", err)
	}
	s.callRecords, err = executor.OpenRecords(ctx, executor.RecordsConfig{
		Engine: s.engine, Run: who.Run, Key: [16]byte(who.Key), Retention: c.State.Retention, HistoryBytes: int64(c.State.MaxHistory), Logger: logger,
	})
	return s, err
}

// identify returns what the server is, and counts that it was started once more.
func identify(ctx context.Context, engine state.Engine) (identity, error) {
	kv, err := engine.KV(ctx, state.Space{Name: "server", MaxBytes: 1 << 20})
	if err != nil {
		return identity{}, err
	}
	const key = "identity"
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		secret := make([]byte, 16)
		rand.Read(secret) // never fails
		who := identity{identityVersion, strings.ToLower(rand.Text())[:16], 1, secret}
		_, err := kv.Create(ctx, key, encodeIdentity(who), 0)
		return who, err
	}
	if err != nil {
		return identity{}, err
	}
	var who identity
	if err := json.Unmarshal(entry.Value, &who); err != nil {
		return identity{}, fmt.Errorf("what the server is cannot be read: %w", err)
	}
	if who.Version > identityVersion || len(who.Key) != 16 {
		return identity{}, fmt.Errorf("it is of version %d, and this server knows %d: serve with a later version, or with another state.dir", who.Version, identityVersion)
	}
	who.Run++
	_, err = kv.Update(ctx, key, encodeIdentity(who), entry.Revision, 0)
	return who, err
}

func encodeIdentity(who identity) []byte {
	text, err := json.Marshal(who)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return text
}

func (s *stored) sessions() *session.Records {
	if s == nil {
		return nil
	}
	return s.sessionRecords
}

func (s *stored) calls() *executor.Records {
	if s == nil {
		return nil
	}
	return s.callRecords
}

func (s *stored) grants() state.KV {
	if s == nil {
		return nil
	}
	return s.grantRecords
}

// artifacts opens the store of artifacts, which outlive the server where the rest does.
func (s *stored) artifacts(c artifact.Config) (*artifact.Store, error) {
	if s == nil {
		return artifact.Open(c)
	}
	return artifact.OpenLasting(c, s.installation)
}

// place tells people where the state is.
func (s *stored) place() string {
	if s == nil {
		return "memory"
	}
	return s.dir
}

// closers are closed after everything that stores something.
func (s *stored) closers() []io.Closer {
	if s == nil {
		return nil
	}
	return []io.Closer{s.callRecords, s.engine}
}

func (s *stored) close() {
	for _, closer := range s.closers() {
		closer.Close()
	}
}
