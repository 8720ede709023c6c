// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/nearest"
)

const variablePrefix = "TOOLSERVER_"

// clientVariables are those that no key of the configuration has.
var clientVariables = []string{"TOOLSERVER_CONFIG", "TOOLSERVER_ADDRESS", "TOOLSERVER_TOKEN"}

// knownVariables returns all variables that mean something to this program.
func knownVariables() []string {
	known := slices.Clone(clientVariables)
	for _, key := range scalarKeys(reflect.TypeFor[Config](), "") {
		known = append(known, envOf(key))
	}
	for _, o := range overrides {
		known = append(known, o.env)
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// A strayVariable begins as those of this program do and means nothing to it.
type strayVariable struct {
	Name string
	near []string // what may have been meant
}

// StrayVariables returns those of the environment, but for some that are named
// elsewhere, and those that Kubernetes sets for a service with this name.
func StrayVariables(named ...string) []strayVariable {
	known := knownVariables()
	short := make([]string, len(known)) // without what all have in common
	for i, name := range known {
		short[i] = strings.TrimPrefix(name, variablePrefix)
	}
	var stray []strayVariable
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || slices.Contains(known, name) || slices.Contains(named, name) ||
			rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_") {
			continue
		}
		v := strayVariable{Name: name}
		for _, near := range nearest.Names(rest, short) {
			v.near = append(v.near, variablePrefix+near)
		}
		stray = append(stray, v)
	}
	slices.SortFunc(stray, func(a, b strayVariable) int { return strings.Compare(a.Name, b.Name) })
	return stray
}

// NamedVariables are those that the configuration names itself.
func (c *Config) NamedVariables() []string {
	var named []string
	for _, token := range c.Authentication.Tokens {
		named = append(named, token.TokenEnv)
	}
	for _, secret := range c.Secrets {
		named = append(named, secret.Env)
	}
	for _, pair := range c.Sandbox.Env { // NAME=value, or NAME
		name, _, _ := strings.Cut(pair, "=")
		named = append(named, name)
	}
	return append(named, c.Models.Variables()...)
}
