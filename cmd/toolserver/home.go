// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/sandbox"
)

// programs returns where commands find programs.
func (c *config) programs() command.Programs {
	home, _ := os.UserHomeDir()
	return command.FindPrograms(command.ProgramsConfig{
		Operator: c.Sandbox.Path, Inherited: os.Getenv("PATH"), Home: home, RustupHome: os.Getenv("RUSTUP_HOME"),
		Covered: append(sandbox.SystemPaths(), c.Sandbox.Read...), Apart: c.apart(),
	})
}

// apart returns what no tree of programs may have in it: what sessions write, and
// what is the server's own.
func (c *config) apart() []string {
	list := slices.Concat(c.Sessions.AllowedWorkspaces, c.Sandbox.Write, []string{
		c.Sessions.Workspace, c.Sessions.WorkspaceRoot, c.Sandbox.Caches.Dir, c.Artifacts.Dir,
		c.Audit.File, c.Policy.File, c.TLS.Key, os.Getenv("TOOLSERVER_CONFIG"),
	})
	for _, token := range c.Authentication.Tokens {
		list = append(list, token.TokenFile)
	}
	for _, secret := range c.Secrets {
		list = append(list, secret.File)
	}
	return slices.DeleteFunc(list, func(path string) bool { return path == "" })
}

// readable returns what every command may read beside its workspace.
func (c *sandboxConfig) readable(programs command.Programs) []string {
	return slices.Concat(sandbox.SystemPaths(), c.Read, programs.Trees)
}

// sockets returns the files that the server is served on, which no command may reach.
func (c *config) sockets() []string {
	var list []string
	for _, address := range []string{c.Listen, c.Admin.Address} {
		path, ok := socketPath(address)
		if !ok {
			continue
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(dir, filepath.Base(path))
		}
		if path, err := filepath.Abs(path); err == nil {
			list = append(list, path)
		}
	}
	return list
}
