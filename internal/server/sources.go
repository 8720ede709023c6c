// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/mcp"
	"github.com/toolserver/toolserver/internal/tools/openapi"
	"github.com/toolserver/toolserver/internal/tools/script"
	"github.com/toolserver/toolserver/internal/version"
)

// folderPatience is how long a start waits for a folder of tools, which is a moment unless
// its disk hangs.
const folderPatience = time.Second

// openSources begins to keep connected what the configuration names beside the tools that
// are built in, and waits for none but folders. It connects to MCP servers once the keeper
// that it returns is told to begin. Close that after use.
func openSources(c *config.Config, runners *command.Runners, registry *tools.Registry, masker func() *output.Masker, logger *zap.Logger) (_ *source.Keeper, err error) {
	keeper, err := openServers(filepath.Join(c.StateDir(), "mcp"), c, runners, registry, masker, logger,
		func(s source.Status) { logSource(logger, s) })
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			keeper.Close()
		}
	}()
	for _, spec := range c.OpenAPI {
		at := logger.With(zap.String("source", spec.Name))
		if err := keeper.Add(openapi.New(spec, func(text string) { at.Warn("an OpenAPI document", zap.String("notice", text)) })); err != nil {
			return nil, err
		}
	}
	for _, folder := range c.Scripts {
		s := script.New(folder, runners)
		if err := keeper.Add(s); err != nil {
			return nil, err
		}
		select {
		case <-s.Scanned():
		case <-time.After(folderPatience):
		}
	}
	return keeper, nil
}

// openServers prepares to connect to the MCP servers. They keep what they must in dir.
func openServers(dir string, c *config.Config, runners *command.Runners, registry *tools.Registry, masker func() *output.Masker, logger *zap.Logger, changed func(source.Status)) (*source.Keeper, error) {
	keeper := source.NewKeeper(registry, changed)
	options := mcp.Options{
		Runners: runners, Dir: dir, Logger: logger,
		Mask: func(text string) string { return masker().String(text) }, Version: version.Text(),
		Starting: make(chan struct{}, runtime.GOMAXPROCS(0)), // each start takes a core for a while
	}
	for _, server := range c.MCP {
		server.Env = environOf(server.Env)
		if err := keeper.AddLater(mcp.New(server, options)); err != nil {
			keeper.Close()
			return nil, err
		}
	}
	return keeper, nil
}

// TrySources connects to the MCP servers of a configuration in this process, and returns how
// they are once each has answered or failed, and the tools that they offer. What it keeps
// goes when it returns.
func TrySources(ctx context.Context, c *config.Config, stderr *os.File) (statuses []source.Status, offered []*tools.Entry, logs map[string][]string, err error) {
	if err := c.FillIn(); err != nil {
		return nil, nil, nil, err
	}
	dir, err := os.MkdirTemp("", "toolserver-mcp-")
	if err != nil {
		return nil, nil, nil, err
	}
	defer lease.RemoveAll(dir)
	jails, err := OpenSandbox(&c.Sandbox, stderr)
	if err != nil {
		return nil, nil, nil, err
	}
	defer jails.Close()
	masker, err := c.Masker()
	if err != nil {
		return nil, nil, nil, err
	}
	runners := NewRunners(c, jails, c.Programs(), masker, zap.NewNop())
	registry := new(tools.Registry)
	keeper, err := openServers(dir, c, runners, registry, masker, zap.NewNop(), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	defer keeper.Close()
	if err := keeper.Settle(ctx); err != nil {
		return nil, nil, nil, err
	}
	logs = make(map[string][]string)
	statuses = keeper.Statuses()
	for _, s := range statuses {
		if found, err := keeper.Find(s.Name); err == nil {
			if logged, ok := found.(source.Logged); ok {
				logs[s.Name] = logged.Log()
			}
		}
	}
	offered, _ = registry.All()
	return statuses, offered, logs, nil
}

// logSource tells the log how a source is; of one that stays away, once.
func logSource(logger *zap.Logger, s source.Status) {
	at := logger.With(zap.String("source", s.Name), zap.Stringer("kind", s.Kind), zap.Int("tools", s.Tools))
	switch {
	case s.State == source.Unavailable && s.Failures == 1:
		at.Warn("a source of tools is not available: it is tried again", zap.String("reason", s.Reason), zap.Time("next", s.Next))
	case s.State == source.Available && len(s.Refused) > 0:
		at.Warn("a source offers tools, and some are refused", zap.Strings("refused", s.Refused[:min(5, len(s.Refused))]))
	case s.State == source.Available:
		at.Info("a source offers tools")
	}
}
