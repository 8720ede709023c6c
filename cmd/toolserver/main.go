// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command toolserver runs tools for AI agents. It serves them over gRPC and is
// a client of its own: "toolserver serve" starts a server, the other commands
// list tools, call them, and follow and end what runs.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/pdf"
)

func main() {
	if filepath.Base(os.Args[0]) == execName {
		beExec()
	}
	if os.Args[0] == pdf.Name {
		pdf.Main()
	}
	arguments := os.Args[1:]
	run := newRoot(arguments).Execute
	if len(arguments) > 0 && arguments[0] == "serve" && logsJSON() {
		err := withoutPanic(run)
		if err != nil {
			logEnd(err)
		}
		os.Exit(exitCodeOf(err))
	}
	err := run()
	complain(err)
	os.Exit(exitCodeOf(err))
}

// commands are all there are, by name.
var commands = []struct {
	name string
	make func() *cobra.Command
}{
	{"serve", newServe}, {"tools", newTools}, {"call", newCall}, {"watch", newWatch}, {"attach", newAttach}, {"input", newInput},
	{"cancel", newCancel}, {"artifact", newArtifact}, {"cp", newCp},
	{"executions", newExecutions}, {"sessions", newSessions}, {"approvals", newApprovals}, {"grants", newGrants},
	{"policy", newPolicy}, {"config", newConfig}, {"audit", newAudit}, {"sandbox", newSandbox}, {"doctor", newDoctor}, {"version", newVersion},
}

// newRoot returns the command line. It has the one command that the arguments
// begin with, or all where they do not: a server need not make what it does not
// run.
func newRoot(arguments []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "toolserver",
		Short: "Run tools for AI agents",
		Long: `toolserver runs tools for AI agents: it lists them, executes them as a stream
of events, and decides before anything runs whether it may.

Begin with nothing started:

  toolserver tools
  toolserver call read_file path=README.md

or with a server:

  toolserver serve
  toolserver call --address 127.0.0.1:8665 sleep duration_ms=3000`,
		Args:          commandsOnly,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true, // complain prints them
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	for _, c := range commands {
		if len(arguments) > 0 && arguments[0] == c.name {
			add(root, c.make())
			root.CompletionOptions.DisableDefaultCmd = true
			return root
		}
	}
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	for _, c := range commands {
		add(root, c.make())
	}
	return root
}

// add adds a command. One with others below it takes nothing else.
func add(root, cmd *cobra.Command) {
	root.AddCommand(cmd)
	if cmd.HasSubCommands() {
		cmd.Args = commandsOnly
	}
}
