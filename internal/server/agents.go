// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/tools"
	agenttools "github.com/toolserver/toolserver/internal/tools/agent"
)

// openAgents returns the agents of a configuration, and offers the tools that give them
// tasks. Close them after use.
func openAgents(c *config.Config, registry *tools.Registry, mask func(string) string, logger *zap.Logger) (*agent.Agents, error) {
	table, err := model.New(c.Models, model.Options{})
	if err != nil {
		return nil, err
	}
	agents := agent.New(c.Agents, agent.Options{
		Model: func(name string) (model.Model, error) { return table.Endpoint(name) }, Endpoints: table.Names(), Done: table.Close, Ours: func(name string) []string { return ours(registry, name) },
		Mask: mask, Logger: logger,
		Changed: func(a *agent.Agents) { registry.Replace(agentSource, agenttools.Tools(a, a.Unavailable())...) }, // which it took before
	})
	for _, wrong := range agents.Wrong() {
		logger.Warn("an agent is left out", zap.String("reason", wrong))
	}
	return agents, registry.Replace(agentSource, agenttools.Tools(agents, agents.Unavailable())...)
}

// agentSource is what the registry knows the tools by whose descriptions change with the
// agents there are.
const agentSource = "agents"

// ours returns what a tool is called here that has a name in any system.
func ours(registry *tools.Registry, name string) (names []string) {
	anybody := func(*tools.Spec) bool { return true }
	if entry, ok := registry.Lookup(name, anybody); ok {
		return []string{entry.Spec.Name}
	}
	for _, theirs := range persona.Lookup(name) {
		for _, meaning := range theirs.Means {
			if !slices.Contains(names, meaning.Tool) {
				names = append(names, meaning.Tool)
			}
		}
	}
	return names
}

// WrongAgents returns what agents of a configuration name and no server would have.
func WrongAgents(c *config.Config) (wrong []string) {
	builtin := new(tools.Registry)
	known := make(map[string]bool)
	for _, spec := range BuiltinSpecs() {
		known[spec.Name] = true
		for _, alias := range spec.Aliases {
			known[alias] = true
		}
	}
	machine := c.AgentMachine()
	machine.Knows = func(name string) bool {
		return known[name] || len(ours(builtin, name)) > 0 || strings.Contains(name, tools.NamespaceMark) // of a source, which may come later
	}
	return c.Agents.Wrong(machine)
}
