// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/toolserver/toolserver/internal/tools"
)

// An exampleFile is a call that a rule must match, or must not. What it leaves
// out of tool, principal, tenant and labels is taken to fit the rule.
type exampleFile struct {
	Tool      string            `yaml:"tool"`
	Kind      string            `yaml:"kind"`
	Server    string            `yaml:"server"`
	Principal string            `yaml:"principal"`
	Tenant    string            `yaml:"tenant"`
	Labels    map[string]string `yaml:"labels"`
	Reads     string            `yaml:"reads"`
	Writes    string            `yaml:"writes"`
	Command   string            `yaml:"command"`
	Host      string            `yaml:"host"`
	Uses      string            `yaml:"uses"`
	Input     any               `yaml:"input"`
}

// tenant returns the tenant of the call.
func (f *exampleFile) tenant() string {
	if f.Tenant == defaultTenant {
		return ""
	}
	return f.Tenant
}

// examples tries the examples of a rule.
func (c *compiler) examples(key string, f *ruleFile, r *rule) {
	if c.Err() != nil {
		return // a rule that was not understood matches anything
	}
	for _, group := range []struct {
		key  string
		list []exampleFile
		want bool
	}{{key + ".match", f.Examples.Match, true}, {key + ".not_match", f.Examples.NotMatch, false}} {
		for i := range group.list {
			at := fmt.Sprintf("%s[%d]", group.key, i)
			got, err := r.tries(&group.list[i])
			switch {
			case err != nil:
				c.Fault(at, "%v", err)
			case got && !group.want:
				c.Fault(at, "rule %s matches this example, and should not", r.name)
			case !got && group.want:
				c.Fault(at, "rule %s does not match this example", r.name)
			}
		}
	}
}

// tries reports whether the rule matches an example: one of its effects at
// least, in part or whole.
func (r *rule) tries(f *exampleFile) (bool, error) {
	call, err := f.call()
	if err != nil {
		return false, err
	}
	given := *r
	given.networks = nil
	if f.Tool == "" && f.Kind == "" && f.Server == "" {
		given.tools = nil
	}
	if f.Principal == "" {
		given.principals = nil
	}
	if f.Tenant == "" {
		given.tenants = nil
	}
	if f.Labels == nil {
		given.labels = nil
	}
	if !given.forCaller(call.Tenant, call.Principal, call.Labels, call.Spec) {
		return false, nil
	}
	for i := range call.Effects {
		s := subject{call: call, effect: &call.Effects[i], shared: new(shared)}
		if given.fits(&s) == misses {
			continue
		}
		if r.when == nil {
			return true, nil
		}
		holds, _, err := r.when.holds(new(facts), call, s.effect)
		if err != nil {
			return false, fmt.Errorf("the condition of rule %s cannot be evaluated for this example: %w", r.name, err)
		}
		if holds {
			return true, nil
		}
	}
	return false, nil
}

// call returns the call that an example stands for.
func (f *exampleFile) call() (*Subject, error) {
	spec := &tools.Spec{Name: f.Tool, Server: f.Server, Level: tools.ReadOnly}
	if f.Kind != "" {
		kinds := []tools.Kind{tools.Builtin, tools.MCP, tools.OpenAPI, tools.Dynamic, tools.Script}
		i := slices.IndexFunc(kinds, func(k tools.Kind) bool { return k.String() == f.Kind })
		if i < 0 {
			return nil, fmt.Errorf("%q is no kind: want builtin, mcp, openapi, dynamic or script", f.Kind)
		}
		spec.Kind = kinds[i]
	}
	call := &Subject{
		Principal: f.Principal, Tenant: f.tenant(), Labels: f.Labels, Spec: spec,
		Level: tools.DangerFullAccess, Mode: tools.ModeAsk, Workspace: "/workspace", Home: func() string { return "/home/user" },
	}
	if f.Input != nil {
		input, err := json.Marshal(f.Input)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		call.Input = input
	}
	add := func(e tools.Effect) { call.Effects = append(call.Effects, e) }
	if f.Reads != "" {
		add(tools.Effect{Kind: tools.ReadsPath, Path: homePath(f.Reads)})
	}
	if f.Writes != "" {
		add(tools.Effect{Kind: tools.WritesPath, Path: homePath(f.Writes)})
	}
	if f.Command != "" {
		words, err := splitCommand(f.Command)
		if err != nil {
			return nil, fmt.Errorf("command %q %w", f.Command, err)
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("command %q: want the words of a command", f.Command)
		}
		add(tools.Effect{Kind: tools.RunsProgram, Program: words[0], Argv: words})
	}
	if f.Host != "" {
		e := tools.Effect{Kind: tools.ReachesHost, Host: f.Host}
		if host, port, err := net.SplitHostPort(f.Host); err == nil {
			e.Host = host
			if e.Port, err = strconv.Atoi(port); err != nil {
				return nil, fmt.Errorf("host %q: %q is not a port", f.Host, port)
			}
		}
		add(e)
	}
	if f.Uses != "" {
		add(tools.Effect{Kind: tools.UsesTool, Tool: f.Uses})
	}
	if len(call.Effects) == 0 {
		add(tools.Effect{Kind: tools.UsesTool, Tool: spec.Name})
	}
	return call, nil
}

// homePath returns a path with ~ in it as examples see it.
func homePath(p string) string {
	if p == "~" || len(p) > 1 && p[:2] == "~/" {
		return "/home/user" + p[1:]
	}
	return p
}
