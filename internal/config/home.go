// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/endpoint"
	"github.com/toolserver/toolserver/internal/sandbox"
)

// Programs returns where commands find programs.
func (c *Config) Programs() command.Programs {
	home, _ := os.UserHomeDir()
	return command.FindPrograms(command.ProgramsConfig{
		Operator: c.Sandbox.Path, Inherited: os.Getenv("PATH"), Home: home, RustupHome: os.Getenv("RUSTUP_HOME"),
		Covered: append(sandbox.SystemPaths(), c.Sandbox.Read...), Apart: c.apart(),
	})
}

// apart returns what no tree of programs may have in it: what sessions write, and
// what is the server's own.
func (c *Config) apart() []string {
	list := slices.Concat(c.Sessions.AllowedWorkspaces, c.Sandbox.Write, c.secretFiles(), []string{
		c.Sessions.Workspace, c.Sessions.WorkspaceRoot, c.Sandbox.Caches.Dir, c.Artifacts.Dir, c.Dynamic.Dir,
		c.Audit.File, c.Policy.File, os.Getenv("TOOLSERVER_CONFIG"),
	})
	return slices.DeleteFunc(list, func(path string) bool { return path == "" })
}

// secretFiles returns the files with secrets that the server, and what it calls, prove
// themselves with. Some may be empty.
func (c *Config) secretFiles() []string {
	list := []string{c.TLS.Key, c.Authentication.TokenFile, c.State.Credentials, c.State.TLS.Key}
	for _, issuer := range c.Authentication.OIDC {
		list = append(list, issuer.SecretFile)
	}
	for _, token := range c.Authentication.Tokens {
		list = append(list, token.TokenFile)
	}
	for _, secret := range c.Secrets {
		list = append(list, secret.File)
	}
	for _, api := range c.OpenAPI {
		list = append(list, api.Auth.Files()...)
	}
	for _, spec := range c.Hooks {
		list = append(list, spec.SecretFile)
	}
	return slices.Concat(list, c.toolSecrets(), c.Web.Files(), c.Models.Files())
}

// toolSecrets returns the files with secrets that programs of tools are given.
func (c *Config) toolSecrets() []string {
	list := c.MCP.SecretFiles()
	for _, folder := range c.Scripts {
		list = slices.AppendSeq(list, maps.Values(folder.Secrets))
	}
	return list
}

// Readable returns what every command may read beside its workspace.
func (c *Config) Readable(programs command.Programs) []string {
	return slices.Concat(sandbox.SystemPaths(), c.Sandbox.Read, c.Skills, programs.Trees)
}

// OwnTrees returns the directories in which the server keeps its own.
func (c *Config) OwnTrees() []string {
	trees := []string{c.StateDir(), c.Sessions.WorkspaceRoot, c.Sandbox.Caches.Dir, c.Artifacts.Dir, c.Dynamic.Dir}
	if !c.State.Off() && !c.State.Shared() {
		trees = append(trees, c.State.Dir)
	}
	return trees
}

// OwnFiles returns the files that the server writes, and the files with secrets that the server was given,
// as [workspace.Config.Closed] has them. The policy and the configuration are not among
// them: they name files with secrets, and have no secrets.
func (c *Config) OwnFiles() []string {
	list := append(c.secretFiles(), c.StopFile)
	if c.Authentication.Kubernetes.TokenReview {
		list = append(list, c.Authentication.Kubernetes.TokenFile)
	}
	if !c.Audit.Off() && c.Audit.File != "" {
		list = append(list, c.Audit.File+".*")
	}
	return slices.DeleteFunc(list, func(path string) bool { return path == "" })
}

// Sockets returns the files that the server is served on, which no command may reach.
func (c *Config) Sockets() []string {
	var list []string
	for _, at := range []string{c.Listen, c.Admin.Address, c.HTTP.Listen} {
		if path, ok := endpoint.SocketPath(at); ok {
			list = append(list, path)
		}
	}
	return list
}

// goModules returns the module cache that gopls may read; empty: none. That of the server's
// user is where everybody who reaches the server is taken for its operator.
func (c *Config) goModules() string {
	dir := c.Code.GoModules
	switch {
	case dir == "off" || dir == "" && !c.Authentication.Off():
		return ""
	case dir == "":
		home, _ := os.UserHomeDir()
		path := append(filepath.SplitList(os.Getenv("GOPATH")), filepath.Join(home, "go"))
		dir = cmp.Or(os.Getenv("GOMODCACHE"), filepath.Join(path[0], "pkg", "mod"))
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(real) {
		return ""
	}
	return real
}

// WithoutLinks returns where paths lead, as far as that is known.
func WithoutLinks(paths []string) []string {
	var list []string
	for _, path := range paths {
		if path == "" {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			continue
		}
		rest := ""
		for at := path; at != "/"; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
			if real, err := filepath.EvalSymlinks(at); err == nil {
				path = filepath.Join(real, rest)
				break
			}
		}
		list = append(list, path)
	}
	return list
}
