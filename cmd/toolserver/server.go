// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/files"
	"github.com/toolserver/toolserver/internal/tools/git"
	searchtools "github.com/toolserver/toolserver/internal/tools/search"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

// builtin returns the tools that are part of the server.
func builtin(rooms *command.Rooms, documents files.Documents, searched search.Config) []tools.Tool {
	writes := files.Tools(documents)
	for i, tool := range writes {
		if tool.Spec().Level == tools.WorkspaceWrite {
			writes[i] = tools.Around(tool, rooms.Writing)
		}
	}
	list := slices.Concat(
		writes,
		shell.Tools(rooms),
		git.Tools(rooms),
		searchtools.Tools(search.NewPool(searched)),
		turn.Tools(),
	)
	return append(list, benchTools(len(list))...)
}

// timeFields are the inputs, in milliseconds, that ask for the time of a call.
var timeFields = map[string]string{
	"bash": "timeout_ms", "powershell": "timeout_ms", "repl": "timeout_ms", "sleep": "duration_ms",
}

// withMaxTimeout has the schemas of tools tell the longest time that a call may have.
func withMaxTimeout(list []tools.Tool, longest time.Duration) []tools.Tool {
	for i, tool := range list {
		if field, ok := timeFields[tool.Spec().Name]; ok {
			list[i] = tools.WithMaximum(tool, field, float64(longest.Milliseconds()))
		}
	}
	return list
}

// newServer makes the server that a configuration describes. Shut it down
// after use.
func newServer(c *config, logger *zap.Logger, metrics prometheus.Registerer, tracer trace.TracerProvider) (*service.Server, error) {
	authenticator, err := c.Authentication.authenticator()
	if err != nil {
		return nil, err
	}
	return newServerWith(authenticator, auth.Local.Name, c, logger, metrics, tracer)
}

// newServerWith is newServer with other callers: the workspace of the
// configuration is that of owner.
func newServerWith(authenticator auth.Authenticator, owner string, c *config, logger *zap.Logger, metrics prometheus.Registerer, tracer trace.TracerProvider) (_ *service.Server, err error) {
	var opened []func() // what a start that fails has to close, in the order it was opened
	defer func() {
		if err != nil {
			for _, closeIt := range slices.Backward(opened) {
				closeIt()
			}
		}
	}()
	if err := c.fillIn(); err != nil {
		return nil, err
	}
	stderr, err := logLines(logger, "a helper of the sandbox failed")
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { stderr.Close() })
	jails, err := c.Sandbox.open(stderr)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { jails.Close() })
	masker, err := c.masker()
	if err != nil {
		return nil, err
	}
	has := jails.Capabilities()
	addFacts(metrics, "toolserver_sandbox_info", "How commands are confined; always 1.", []string{"namespaces", "landlock"},
		[][]string{{strconv.FormatBool(has.Namespaces), strconv.Itoa(has.Landlock)}})
	rooms := c.rooms(jails, c.programs(), masker, logger)
	documents := pdf.NewReader(pdf.Config{Sandbox: jails, Cache: filepath.Join(stateDir(), "toolserver", "pdf")})
	registry := &tools.Registry{Capabilities: c.Sandbox.capabilities(jails, rooms)}
	if err := registry.Replace("builtin", withMaxTimeout(builtin(rooms, documents, c.Search.engines()), c.Executions.MaxTimeout)...); err != nil {
		return nil, err
	}
	certificates, err := c.TLS.load()
	if err != nil {
		return nil, err
	}
	policy, err := loadPolicy(c.Policy.File)
	if err != nil {
		return nil, err
	}
	kept, err := artifact.Open(c.Artifacts.store())
	if err != nil {
		return nil, err
	}
	opened = append(opened, kept.Close)
	records, err := c.Audit.open(logger)
	if err != nil {
		return nil, err
	}
	if records != nil {
		opened = append(opened, func() { records.Close() })
	}
	sessions := session.NewStore(c.store(owner))
	opened = append(opened, sessions.Close)
	executions := c.Executions.executor()
	executions.Mask = func(text string) string { return masker().String(text) }
	server, err := service.New(service.Config{
		Logger:        logger,
		Registry:      registry,
		Sessions:      sessions,
		Policy:        policy,
		Approvals:     approval.Config{SelfApproval: c.Authentication.off()},
		Artifacts:     kept,
		Audit:         records,
		AuditInputs:   c.Audit.Inputs,
		Authenticator: authenticator,
		Metrics:       metrics,
		Executor:      executions,
		Wire:          c.Wire.wire(),
		Files:         c.Files.limits(),
		Closers:       []io.Closer{jails, stderr},
		Offer:         rooms.Offer,
		Receiving:     rooms.Receiving,
		Space:         rooms.Space,
		Confines:      func() (bool, int) { return has.Namespaces, has.Landlock },
		TLS:           certificates,
		Version:       versionText(),
		Reflection:    c.Reflection,
		Channelz:      c.Channelz,
		Tracer:        tracer,
	})
	if err != nil {
		return nil, err
	}
	warnAbout(policy, registry, logger)
	return server, nil
}

// warnAbout tells an operator of tools that a policy names and nobody has.
func warnAbout(p *policy.Policy, registry *tools.Registry, logger *zap.Logger) {
	entries, _ := registry.All()
	specs := make([]*tools.Spec, len(entries))
	for i, entry := range entries {
		specs[i] = &entry.Spec
	}
	if err := p.Check(specs); err != nil {
		logger.Warn("the policy names tools that do not exist", zap.Error(err))
	}
}

// open opens the audit log; nil where none is kept.
func (c auditConfig) open(logger *zap.Logger) (*audit.Log, error) {
	if c.off() {
		return nil, nil
	}
	options := audit.Options{
		Sync: audit.Sync(c.Sync), Required: c.Required, MaxBytes: int64(c.MaxBytes), Keep: c.Keep, Logger: logger,
	}
	if c.Stdout {
		options.Copy = os.Stdout
	}
	return audit.Open(c.File, options)
}

func (c *config) store(owner string) session.Config {
	s := &c.Sessions
	config := session.Config{
		DefaultWorkspace:  map[string]string{owner: s.Workspace},
		WorkspaceRoot:     s.WorkspaceRoot,
		Closed:            append(c.ownTrees(), c.ownFiles()...),
		AllowedWorkspaces: s.AllowedWorkspaces,
		Default:           session.Settings{Level: s.Level, Mode: s.Mode, Network: c.Sandbox.Network, IdleTTL: cmp.Or(s.IdleTTL, session.Forever), Answer: tools.Budget(c.Answers.Default)},
		MaxAnswer:         tools.Budget(c.Answers.Max).Size(),
		MaxLevel:          s.MaxLevel,
		MaxNetwork:        c.Sandbox.MaxNetwork,
		Modes:             s.Modes,
		MaxPerPrincipal:   s.MaxPerPrincipal,
		KeepWorkspace:     s.KeepWorkspace,
		MaxKept:           s.MaxKept,
	}
	if c.Sandbox.Caches.MaxBytes > 0 {
		config.Caches, config.MaxCacheBytes = c.Sandbox.Caches.Dir, int64(c.Sandbox.Caches.MaxBytes)
	}
	return config
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
		MaxRemembered:    c.MaxRemembered,
		MaxRememberedAll: c.MaxRememberedAll,
		MaxResultBytes:   int(c.MaxResultBytes),
		MaxLogBytes:      int(c.MaxLogBytes),
		MaxLogEvents:     c.MaxLogEvents,
		LogMemory:        int64(c.LogMemory),
		ReaderPatience:   c.ReaderPatience,
		ProgressInterval: c.ProgressInterval,
		Heartbeat:        c.Heartbeat,
	}
}

func (c searchConfig) engines() search.Config {
	config := search.Config{MaxText: int64(c.MaxText), MaxIndex: int64(c.MaxIndex), IdleAfter: c.IdleAfter}
	if c.MaxText == 0 {
		config.MaxText = -1 // there 0 is the default
	}
	return config
}

func (c artifactsConfig) store() artifact.Config {
	return artifact.Config{
		Dir:             c.Dir,
		MaxBytes:        int64(c.MaxBytes),
		MaxSessionBytes: int64(c.MaxSessionBytes),
		MaxTotalBytes:   int64(c.MaxTotalBytes),
		TTL:             c.TTL,
	}
}

func (c filesConfig) limits() service.FileLimits {
	return service.FileLimits{
		MaxFileBytes:   int64(c.MaxFileBytes),
		MaxTreeBytes:   int64(c.MaxTreeBytes),
		MaxTreeEntries: c.MaxTreeEntries,
		MaxUploads:     c.MaxUploads,
		MaxUploadBytes: int64(c.MaxUploadBytes),
		UploadTTL:      c.UploadTTL,
		Idle:           c.StreamIdle,
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
