// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/recording"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/version"
)

// newReplay makes a server that answers calls from recordings. It has what callers need to be
// known and to have sessions, and nothing that could run something or reach files.
func newReplay(access *config.Access, c *config.Config, files []string, logger *zap.Logger, metrics prometheus.Registerer, tracer trace.TracerProvider) (_ *service.Server, err error) {
	recorded, err := recording.Load(files...)
	if err != nil {
		return nil, err
	}
	masker, err := c.Masker()
	if err != nil {
		return nil, err
	}
	registry := new(tools.Registry)
	if err := service.OfferRecorded(registry, recorded); err != nil {
		logger.Warn("some recorded tools are not listed", zap.Error(err))
	}
	workspaces, err := os.MkdirTemp("", "toolserver-replay-")
	if err != nil {
		return nil, err
	}
	closers := []io.Closer{removed(workspaces)}
	if chain, ok := access.Authenticator.(io.Closer); ok {
		closers = append(closers, chain)
	}
	var certificates *tls.Config
	if access.TLS != nil {
		certificates = access.TLS.Config()
	}
	sessions := SessionsOf(c, "")
	sessions.DefaultWorkspace, sessions.AllowedWorkspaces, sessions.Closed, sessions.Caches = nil, nil, nil, ""
	sessions.WorkspaceRoot, sessions.KeepWorkspace = workspaces, 0
	server, err := service.New(service.Config{
		Logger: logger, Registry: registry, Sessions: session.NewStore(sessions), Tenants: c.Tenants, Replay: recorded,
		Policy: policy.Builtin(), Authenticator: access.Authenticator, Metrics: metrics, Tracer: tracer, TLS: certificates, Wire: c.Wire,
		Executor: executor.Config{Limits: c.Executions, Mask: func(text string) string { return masker().String(text) }},
		Closers:  closers, Version: version.Text(), Reflection: c.Reflection, Channelz: c.Channelz,
	})
	if err != nil {
		closers[0].Close()
	}
	return server, err
}

// removed is a directory that is removed when it is closed.
type removed string

func (dir removed) Close() error { return os.RemoveAll(string(dir)) }
