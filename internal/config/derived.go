// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// AgentMachine returns what agents are checked against.
func (c *Config) AgentMachine() agent.Machine {
	return agent.Machine{MaxLevel: c.Sessions.MaxLevel, Endpoints: c.Models.Names()}
}

// LoadPolicy reads a policy file; no path means the built-in policy.
func LoadPolicy(path string) (*policy.Policy, error) {
	if path == "" {
		return policy.Builtin(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return policy.Parse(path, text)
}

// Value returns the secret, from wherever it is kept.
func (c Secret) Value() (string, error) {
	text, ok := os.LookupEnv(c.Env)
	switch {
	case (c.File == "") == (c.Env == ""):
		return "", errors.New("want one of file and env")
	case c.File != "":
		data, err := os.ReadFile(c.File)
		if err != nil {
			return "", err
		}
		text = string(data)
	case !ok:
		return "", fmt.Errorf("env: the environment has no %s", c.Env)
	}
	text = strings.TrimRight(text, "\r\n")
	if len(text) < output.MinValue {
		return "", fmt.Errorf("%s has %d bytes: want at least %d, for less would be found everywhere", cmp.Or(c.File, c.Env), len(text), output.MinValue)
	}
	return text, nil
}

// MaxMode returns the most permissive mode that sessions may have whose principal has
// none of its own: what the operator says or, where it is not said, the mode of a session
// that asks for none. Where nobody authenticates, callers are the operator.
func (c *Config) MaxMode() tools.Mode {
	if c.Sessions.MaxMode != 0 {
		return tools.Mode(c.Sessions.MaxMode)
	}
	if c.Authentication.Off() {
		return tools.ModeAllow
	}
	most := c.Sessions.Mode
	for _, mode := range c.Sessions.Modes { // which the operator named
		if mode.Above(most) {
			most = mode
		}
	}
	return most
}

// Masker returns what masks secrets in the output of tools: those that are
// configured, the tokens of callers, and what looks like one.
func (c *Config) Masker() (func() *output.Masker, error) {
	var values []string
	for _, s := range c.Secrets {
		value, err := s.Value()
		if err != nil {
			return nil, fmt.Errorf("secrets: %w", err)
		}
		values = append(values, value)
	}
	for _, token := range c.Authentication.Tokens {
		value, err := token.secret()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	files := c.toolSecrets()
	for _, issuer := range c.Authentication.OIDC {
		files = append(files, issuer.SecretFile)
	}
	for _, file := range files {
		if value, err := source.Secret(file); err == nil { // whoever uses it says what is wrong
			values = append(values, value)
		}
	}
	values = append(values, c.Models.Keys()...)
	return sync.OnceValue(func() *output.Masker { return output.NewMasker(values) }), nil
}
