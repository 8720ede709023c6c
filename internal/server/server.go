// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package server makes a server of a configuration and runs it: it opens what the
// parts need, puts them together, serves until a signal comes, and closes them.
//
// Goroutines: Serve has one each for gRPC, HTTP, the admin port, the watch of the policy file, of tokens and of
// certificates, and for giving memory back; all end when it returns. What is stored is opened on one
// that ends with the opening, and has one that measures it until it is closed.
package server

import (
	"cmp"
	"crypto/tls"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/schedule"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/dynamic"
	"github.com/toolserver/toolserver/internal/tools/skill"
	"github.com/toolserver/toolserver/internal/tools/web"
	"github.com/toolserver/toolserver/internal/version"
	"github.com/toolserver/toolserver/internal/workflow"
)

// New makes the server that a configuration describes, but for its state: nothing
// outlives it. Shut it down after use.
func New(c *config.Config, logger *zap.Logger, metrics prometheus.Registerer, tracer trace.TracerProvider) (*service.Server, error) {
	access, err := c.Access()
	if err != nil {
		return nil, err
	}
	return newWith(access, auth.Local.Name, c, nil, logger, metrics, tracer)
}

// newWith is New with other callers, and with what outlives the server; nil where nothing does:
// the workspace of the configuration is that of owner.
func newWith(access *config.Access, owner string, c *config.Config, openStored func() (*stored, error), logger *zap.Logger, metrics prometheus.Registerer, tracer trace.TracerProvider) (_ *service.Server, err error) {
	lasting := &lastingEngine{stored: openStored}
	if openStored == nil {
		openStored = func() (*stored, error) { return new(stored), nil }
	}
	var opened []func() // what a start that fails has to close, in the order it was opened
	defer func() {
		if err != nil {
			for _, closeIt := range slices.Backward(opened) {
				closeIt()
			}
		}
	}()
	opened = append(opened, func() {
		if stored, err := openStored(); err == nil {
			stored.close()
		}
	})
	if err := c.FillIn(); err != nil {
		return nil, err
	}
	stderr, err := LogLines(logger, "a helper of the sandbox failed")
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { stderr.Close() })
	jails, err := OpenSandbox(&c.Sandbox, stderr)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { jails.Close() })
	masker, err := c.Masker()
	if err != nil {
		return nil, err
	}
	has := jails.Capabilities()
	addFacts(metrics, "toolserver_sandbox_info", "How commands are confined; always 1.", []string{"namespaces", "landlock"},
		[][]string{{strconv.FormatBool(has.Namespaces), strconv.Itoa(has.Landlock)}})
	runners := NewRunners(c, jails, c.Programs(), masker, logger)
	documents := pdf.NewReader(pdf.Config{Sandbox: jails, Cache: filepath.Join(c.StateDir(), "pdf")})
	browsers := browser.New(runners, c.Browser)
	indexes := indexesOf(c.Search)
	engines := search.NewPool(indexes)
	c.Code.Beside = Beside()
	servers := lsp.New(runners, engines, c.Code)
	registry := &tools.Registry{Capabilities: capabilities(c, jails, runners, browsers)}
	companions := companion.New(runners, companion.Config{Limits: c.Sandbox.Kept, Languages: languagesOf(&c.Sandbox)})
	made, err := dynamic.New(c.Dynamic, registry, runners)
	if err != nil {
		logger.Error("some tools that agents made are left out", zap.Error(err))
	}
	skills := skill.New(c.Skills)
	for _, wrong := range skills.Wrong() {
		logger.Warn("a skill is left out", zap.String("reason", wrong))
	}
	pages, err := web.New(c.Web, documents)
	if err != nil {
		return nil, err
	}
	remembered, err := openMemory(c, lasting, func(text string) string { return masker().String(text) }, logger)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { remembered.Close() })
	door := new(errand.Door)
	workflows := workflow.New(workflow.Options{
		Config: c.Workflows, Door: door, Known: knownBy(access.Authenticator), Engine: lasting.engine, Lasting: lasting.stored != nil, Alone: !c.State.Shared(), Logger: logger,
	})
	schedules := schedule.New(schedule.Options{
		Config: c.Schedules, Digest: workflows.Digest, Run: workflow.RunOf, Door: door, Known: knownBy(access.Authenticator), Engine: lasting.engine, Lasting: lasting.stored != nil, Alone: !c.State.Shared(), Remembered: c.State.Retention, Logger: logger,
	})
	opened = append(opened, func() { schedules.Close(); workflows.Close(); lasting.Close() })
	builtin := families{
		workflows: workflows, schedules: schedules,
		runners: runners, companions: companions, browsers: browsers, documents: documents,
		engines: engines, syntax: syntax.NewPool(syntaxOf(c.Syntax), jails, indexes, engines), servers: servers, made: made, skills: skills, web: pages, memory: remembered.Store,
	}
	if err := registry.Replace("builtin", withMaxTimeout(builtin.tools(), c.Executions.MaxTimeout)...); err != nil {
		return nil, err
	}
	agents, err := openAgents(c, registry, func(text string) string { return masker().String(text) }, logger)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { agents.Close() })
	policy, err := config.LoadPolicy(c.Policy.File)
	if err != nil {
		return nil, err
	}
	stored, err := openStored()
	if err != nil {
		return nil, err
	}
	stored.measure(metrics, logger)
	kept, err := stored.artifacts(c.Artifacts)
	if err != nil {
		return nil, err
	}
	opened = append(opened, kept.Close)
	records, err := openAudit(c.Audit, metrics, logger)
	if err != nil {
		return nil, err
	}
	if records != nil {
		opened = append(opened, func() { records.Close() })
	}
	sessionConfig := SessionsOf(c, owner)
	sessionConfig.Records, sessionConfig.Replicas = stored.sessionRecords, stored.replicas(c)
	sessions := session.NewStore(sessionConfig)
	opened = append(opened, sessions.Close)
	sources, err := openSources(c, runners, registry, masker, logger)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { sources.Close() })
	closers := append([]io.Closer{schedules, workflows, agents, sources, remembered, jails, stderr, lasting}, stored.closers()...)
	if chain, ok := access.Authenticator.(io.Closer); ok {
		closers = append(closers, chain)
	}
	var certificates *tls.Config
	if access.TLS != nil {
		certificates = access.TLS.Config()
	}
	hooks, err := hook.New(c.Hooks, hook.Options{Runners: runners})
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { hooks.Close() })
	server, err := service.New(service.Config{
		Logger:        logger,
		Registry:      registry,
		Sessions:      sessions,
		Tenants:       c.Tenants,
		Policy:        policy,
		Approvals:     approval.Config{SelfApproval: c.Authentication.Off(), Records: stored.grantRecords},
		Artifacts:     kept,
		Hooks:         hooks,
		Sources:       sources,
		Agents:        agents,
		Audit:         records,
		AuditInputs:   c.Audit.Inputs,
		Authenticator: access.Authenticator,
		Metrics:       metrics,
		Executor:      executor.Config{Limits: c.Executions, Mask: func(text string) string { return masker().String(text) }, Records: stored.callRecords},
		Wire:          c.Wire,
		Files:         c.Files,
		State:         stored.engine,
		Limits:        stored.limits(metrics, logger),
		Closers:       closers,
		Offer:         runners.Offer,
		Receiving:     runners.Receiving,
		Monitored:     runners.Monitored,
		Space:         runners.Space,
		Halt: func(s *session.Session, user string) int {
			return companions.Halt(s, user) + browsers.Halt(s, user) + servers.Halt(s, user)
		},
		Processes:   runners.Running,
		Stops:       stored.stopRecords,
		StopFile:    c.StopFile,
		Confines:    func() (bool, int) { return has.Namespaces, has.Landlock },
		TLS:         certificates,
		Replication: stored.replication,
		Version:     version.Text(),
		Reflection:  c.Reflection,
		Channelz:    c.Channelz,
		Tracer:      tracer,
	})
	if err != nil {
		return nil, err
	}
	stored.fence.Store(server)
	agents.Connect(connectKnown(server.Connect, knownBy(access.Authenticator)))
	door.Connect(server.Connect, server.Takes)
	workflows.Begin()
	schedules.Begin()
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

// openAudit opens the audit log; nil where none is kept.
func openAudit(c audit.Config, metrics prometheus.Registerer, logger *zap.Logger) (*audit.Log, error) {
	if c.Off() {
		return nil, nil
	}
	records, err := audit.Open(audit.Options{Config: c, Logger: logger})
	if err != nil {
		return nil, err
	}
	metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolserver_audit_up", Help: "Whether the audit log can be written: 1 or 0.",
		}, func() float64 {
			if records.Stats().Failing != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolserver_audit_queued_bytes", Help: "Records of the audit log that wait to be written.",
		}, func() float64 { return float64(records.Stats().Queued) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "toolserver_audit_lost_total", Help: "Records of the audit log that were lost.",
		}, func() float64 { return float64(records.Stats().Lost) }))
	return records, nil
}

// SessionsOf returns what sessions are kept by: the workspace of the configuration is
// that of owner.
func SessionsOf(c *config.Config, owner string) session.Config {
	s := &c.Sessions
	config := session.Config{
		DefaultWorkspace:  map[string]string{owner: s.Workspace},
		WorkspaceRoot:     s.WorkspaceRoot,
		Closed:            append(c.OwnTrees(), c.OwnFiles()...),
		AllowedWorkspaces: s.AllowedWorkspaces,
		Default:           session.Settings{Level: s.Level, Mode: s.Mode, Network: c.Sandbox.Network, IdleTTL: cmp.Or(s.IdleTTL, session.Forever), Answer: c.Answers.Default, Activation: s.Activation, EditErrors: s.EditErrors},
		MaxAnswer:         c.Answers.Max.Size(),
		MaxLevel:          s.MaxLevel,
		MaxNetwork:        c.Sandbox.MaxNetwork,
		Modes:             s.Modes,
		MaxMode:           c.MaxMode(),
		MaxPerPrincipal:   s.MaxPerPrincipal,
		Tenants:           c.Tenants,
		KeepWorkspace:     s.KeepWorkspace,
		MaxKept:           s.MaxKept,
		MaxDepth:          c.Agents.MaxDepth,
		Exposed:           s.Settings,
	}
	if c.Sandbox.Caches.MaxBytes > 0 {
		config.Caches, config.MaxCacheBytes = c.Sandbox.Caches.Dir, int64(c.Sandbox.Caches.MaxBytes)
	}
	return config
}
