// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/skill"
)

// OpenSandbox returns the sandbox of the server, whose helpers write to stderr.
func OpenSandbox(c *config.Sandbox, stderr *os.File) (*sandbox.Sandbox, error) {
	config := sandbox.Config{Helper: c.Helper, Image: execImage, Stderr: stderr, Off: c.Mode == config.SandboxOff, NoNamespaces: !c.Namespaces}
	if config.Helper == "" && len(config.Image) == 0 {
		config.Helper = execBeside()
	}
	return sandbox.Open(config)
}

// execBeside returns the toolserver-exec that lies beside the server; where none
// does, the server itself, which can be one too.
func execBeside() string {
	if path := beside(ExecName); path != "" {
		return path
	}
	self, _ := os.Executable()
	return self
}

// beside returns a program that lies beside the server; "" where none does.
func beside(name string) string {
	if dir := Beside(); dir != "" && isFile(filepath.Join(dir, name)) {
		return filepath.Join(dir, name)
	}
	return ""
}

// Beside returns the directory of the server's program; "" where that is not known.
func Beside() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(self)
}

// syntaxOf returns how source code is parsed.
func syntaxOf(c syntax.Config) syntax.Config {
	c.Program = SyntaxProgram(c)
	return c
}

// SyntaxProgram returns the program that parses source code; "" where there is none.
func SyntaxProgram(c syntax.Config) string { return cmp.Or(c.Program, beside("toolserver-syntax")) }

// ExecName is the name by which the server knows that it is to be the helper.
const ExecName = "toolserver-exec"

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// capabilities returns what the machine offers to tools.
func capabilities(c *config.Config, s *sandbox.Sandbox, runners *command.Runners, browsers *browser.Set) (list []string) {
	if len(c.Skills) > 0 {
		list = append(list, skill.Capability)
	}
	if c.Sandbox.Mode != config.SandboxOff && s.Capabilities().Landlock == 0 {
		return list
	}
	list = append(list, command.Capability)
	if _, ok := runners.Find(shell.PowerShell); ok {
		list = append(list, shell.PowerShell)
	}
	if browsers.Available() {
		list = append(list, browser.Capability)
	}
	return list
}

// NewRunners returns what runs commands.
func NewRunners(all *config.Config, s *sandbox.Sandbox, programs command.Programs, masker func() *output.Masker, logger *zap.Logger) *command.Runners {
	c := &all.Sandbox
	return command.New(command.Config{
		Sandbox: s,
		Masker:  masker,
		View:    sandbox.View{Read: all.Readable(programs), Write: c.Write},
		Network: c.MaxNetwork, SessionNetwork: c.Network,
		Hosts:   egress.Config{Upstream: c.Proxy},
		Grace:   c.Grace,
		State:   filepath.Join(all.StateDir(), "integrity"),
		Apart:   config.WithoutLinks(all.OwnTrees()),
		Files:   config.WithoutLinks(all.OwnFiles()),
		Sockets: config.WithoutLinks(all.Sockets()),
		Path:    programs.Path,
		Env:     append(programs.Env, environOf(c.Env)...),
		Trace:   c.Trace,
		Limits:  c.Limits,
		Violation: func(sessionID, what string) {
			logger.Warn("what was planted is taken back", zap.String("session", sessionID), zap.String("what", what))
		},
	})
}

// languagesOf returns those of the tool repl that the operator has added.
func languagesOf(c *config.Sandbox) []companion.Language {
	var list []companion.Language
	for _, r := range c.Repl {
		if r.Mark == "" {
			list = append(list, companion.Driven(r.Language, r.Command))
		} else {
			list = append(list, companion.Lines(r.Language, r.Command, r.Begin, r.Mark))
		}
	}
	return list
}

// environOf returns what commands have in their environment by the operator: NAME=value, or
// NAME for what this process has.
func environOf(pairs []string) []string {
	var env []string
	for _, pair := range pairs {
		name, _, given := strings.Cut(pair, "=")
		if !given {
			value, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			pair = name + "=" + value
		}
		env = append(env, pair)
	}
	return env
}
