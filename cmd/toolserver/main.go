// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command toolserver runs tools for AI agents. It serves them over gRPC and is
// a client of its own: "toolserver serve" starts a server, the other commands
// list tools, call them, and follow and end what runs.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/sandbox/helper"
)

func main() {
	if filepath.Base(os.Args[0]) == execName {
		beExec()
	}
	if os.Args[0] == pdf.Name {
		pdf.Main()
	}
	run := newRoot().Execute
	if len(os.Args) > 1 && os.Args[1] == "serve" && logsJSON() {
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

// newRoot returns the command line.
func newRoot() *cobra.Command {
	in := ownProcess{}
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
		Version:       versionLine(),
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newServe())
	root.AddCommand(clientCommands(in)...)
	root.AddCommand(operatorCommands(in)...)
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() { // it takes nothing else
			cmd.Args = commandsOnly
		}
	}
	return root
}

// beExec has this process be the helper.
func beExec() {
	if err := helper.Execute(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", execName, err)
		os.Exit(exitFailed)
	}
	os.Exit(0)
}

// withoutPanic runs a function, and has a panic as an error.
func withoutPanic(run func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = &exitError{code: exitFailed, err: fmt.Errorf("panic: %v\n%s", reason, debug.Stack())}
		}
	}()
	return run()
}
