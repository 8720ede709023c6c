// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/metrics"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
	searchtools "github.com/toolserver/toolserver/internal/tools/search"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

// builtin returns the tools that are part of the server.
func builtin() []tools.Tool {
	return slices.Concat(
		files.Tools(),
		searchtools.Tools(search.NewPool(search.Config{})),
		turn.Tools(),
		benchTools(),
	)
}

// newServer makes the server that a configuration describes. Shut it down
// after use.
func newServer(c *config, logger *zap.Logger, metrics *metrics.Registry, tracing bool) (*service.Server, error) {
	if err := c.fillIn(); err != nil {
		return nil, err
	}
	registry := new(tools.Registry)
	if err := registry.Replace("builtin", builtin()...); err != nil {
		return nil, err
	}
	authenticator, err := c.Authentication.authenticator()
	if err != nil {
		return nil, err
	}
	certificates, err := c.TLS.load()
	if err != nil {
		return nil, err
	}
	return service.New(service.Config{
		Logger:        logger,
		Registry:      registry,
		Sessions:      session.NewStore(c.Sessions.store()),
		Policy:        policy.New(),
		Authenticator: authenticator,
		Metrics:       metrics,
		Executor:      c.Executions.executor(),
		Wire:          c.Wire.wire(),
		TLS:           certificates,
		Version:       versionText(),
		Reflection:    c.Reflection,
		Channelz:      c.Channelz,
		Tracing:       tracing,
	}), nil
}

func (c sessionsConfig) store() session.Config {
	return session.Config{
		DefaultWorkspace:  map[string]string{auth.Local.Name: c.Workspace},
		WorkspaceRoot:     c.WorkspaceRoot,
		AllowedWorkspaces: c.AllowedWorkspaces,
		Default:           session.Settings{Level: c.Level, Mode: c.Mode, IdleTTL: cmp.Or(c.IdleTTL, session.Forever)},
		MaxLevel:          c.MaxLevel,
		Modes:             c.Modes,
		MaxPerPrincipal:   c.MaxPerPrincipal,
	}
}

func (c executionsConfig) executor() executor.Config {
	return executor.Config{
		MaxRunning:       c.MaxRunning,
		DefaultTimeout:   c.DefaultTimeout,
		MaxTimeout:       c.MaxTimeout,
		StopGrace:        c.StopGrace,
		DisconnectGrace:  c.DisconnectGrace,
		Retention:        c.Retention,
		MaxRetained:      c.MaxRetained,
		MaxResultBytes:   int(c.MaxResultBytes),
		MaxLogBytes:      int(c.MaxLogBytes),
		MaxLogEvents:     c.MaxLogEvents,
		LogMemory:        int64(c.LogMemory),
		ReaderPatience:   c.ReaderPatience,
		ProgressInterval: c.ProgressInterval,
		Heartbeat:        c.Heartbeat,
	}
}

func (c wireConfig) wire() service.Wire {
	return service.Wire{
		MaxMessageBytes:    int(c.MaxMessageBytes),
		MaxStreams:         uint32(c.MaxStreams),
		MaxHeaderBytes:     uint32(c.MaxHeaderBytes),
		KeepaliveTime:      c.KeepaliveTime,
		KeepaliveTimeout:   c.KeepaliveTimeout,
		MinPingInterval:    c.MinPingInterval,
		MaxConnectionAge:   c.MaxConnectionAge,
		MaxConnectionGrace: c.MaxConnectionGrace,
	}
}
