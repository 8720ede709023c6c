// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/helper"
	"github.com/toolserver/toolserver/internal/tools/shell"
)

// A sandboxMode is how much of the sandbox there must be.
type sandboxMode int

const (
	sandboxOff sandboxMode = iota
	sandboxPreferred
	sandboxRequired
)

var sandboxModes = []string{"off", "preferred", "required"}

// UnmarshalText reads the name of a mode.
func (m *sandboxMode) UnmarshalText(text []byte) error {
	i := slices.Index(sandboxModes, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no mode of the sandbox: want %s", text, strings.Join(sandboxModes, ", "))
	}
	*m = sandboxMode(i)
	return nil
}

func (m sandboxMode) String() string { return sandboxModes[m] }

// open returns the sandbox of the server, whose helpers write to stderr.
func (c *sandboxConfig) open(stderr *os.File) (*sandbox.Sandbox, error) {
	config := sandbox.Config{Helper: c.Helper, Image: execImage, Stderr: stderr, Off: c.Mode == sandboxOff, NoNamespaces: !c.Namespaces}
	if config.Helper == "" && len(config.Image) == 0 {
		config.Helper = execBeside()
	}
	return sandbox.Open(config)
}

// execBeside returns the toolserver-exec that lies beside the server; where none
// does, the server itself, which can be one too.
func execBeside() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if path := filepath.Join(filepath.Dir(self), execName); isFile(path) {
		return path
	}
	return self
}

// execName is the name by which the server knows that it is to be the helper.
const execName = "toolserver-exec"

// beExec has this process be the helper.
func beExec() {
	if err := helper.Execute(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", execName, err)
		os.Exit(exitFailed)
	}
	os.Exit(0)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// capabilities returns what the machine offers to tools.
func (c *sandboxConfig) capabilities(s *sandbox.Sandbox, rooms *command.Rooms) []string {
	if c.Mode != sandboxOff && s.Capabilities().Landlock == 0 {
		return nil
	}
	list := []string{command.Capability}
	if _, ok := rooms.Find(shell.PowerShell); ok {
		list = append(list, shell.PowerShell)
	}
	return list
}

// rooms returns where commands run.
func (all *config) rooms(s *sandbox.Sandbox, programs command.Programs, masker func() *output.Masker, logger *zap.Logger) *command.Rooms {
	c := &all.Sandbox
	l := &c.Limits
	return command.New(command.Config{
		Sandbox: s,
		Masker:  masker,
		View:    sandbox.View{Read: c.readable(programs), Write: c.Write},
		Network: c.MaxNetwork, SessionNetwork: c.Network,
		Upstream: c.Proxy,
		Grace:    c.Grace,
		State:    filepath.Join(stateDir(), "toolserver", "integrity"),
		Apart:    withoutLinks(all.ownTrees()),
		Files:    withoutLinks(all.ownFiles()),
		Sockets:  withoutLinks(all.sockets()),
		Path:     programs.Path,
		Env:      append(programs.Env, c.environ()...),
		Trace:    c.Trace,
		Limits: sandbox.Limits{
			Memory: uint64(l.Memory), Processes: l.Processes, CPU: l.CPU,
			OpenFiles: uint64(l.OpenFiles), FileSize: uint64(l.FileSize),
		},
		Languages:     c.languages(),
		Kept:          c.Kept.kept(),
		MaxOutput:     int64(l.Output),
		MaxRunning:    l.PerSession,
		MaxRunningAll: l.PerServer,
		SessionLimits: sandbox.GroupLimits{Memory: uint64(l.SessionMemory), Processes: l.SessionProcesses, CPU: l.SessionCPU},
		Violation: func(sessionID, what string) {
			logger.Warn("what was planted is taken back", zap.String("session", sessionID), zap.String("what", what))
		},
		Disk:         command.DiskLimits{SessionFiles: l.SessionFiles, ReservedFiles: uint64(l.ReservedFiles), ReservedSpace: uint64(l.ReservedSpace)},
		ServerLimits: sandbox.GroupLimits{Memory: uint64(l.ServerMemory), Processes: l.ServerProcesses},
	})
}

func (c *keptConfig) kept() command.Kept {
	return command.Kept{Output: int(c.Output), EndedOutput: int(c.EndedOutput), Ended: c.Ended, Idle: c.Idle}
}

// languages returns those of the tool repl that the operator has added.
func (c *sandboxConfig) languages() []command.Language {
	var list []command.Language
	for _, r := range c.Repl {
		if r.Mark == "" {
			list = append(list, command.Driven(r.Language, r.Command))
		} else {
			list = append(list, command.Lines(r.Language, r.Command, r.Begin, r.Mark))
		}
	}
	return list
}

// environ returns what commands have in their environment by the operator.
func (c *sandboxConfig) environ() []string {
	var env []string
	for _, pair := range c.Env {
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
