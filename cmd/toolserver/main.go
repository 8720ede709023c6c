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

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/operator"
	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/sandbox/helper"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/version"
)

func main() {
	if filepath.Base(os.Args[0]) == server.ExecName {
		beExec()
	}
	if os.Args[0] == pdf.Name {
		pdf.Main()
	}
	run := newRoot().Execute
	if len(os.Args) > 1 && os.Args[1] == "serve" && server.LogsJSON() {
		err := withoutPanic(run)
		if err != nil {
			server.LogEnd(err)
		}
		os.Exit(cli.ExitCodeOf(err))
	}
	err := run()
	cli.Complain(err)
	os.Exit(cli.ExitCodeOf(err))
}

// newRoot returns the command line.
func newRoot() *cobra.Command {
	in := server.Inside{}
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
		Args:          cli.CommandsOnly,
		SilenceErrors: true, // cli.Complain prints them
		SilenceUsage:  true,
	}
	// Not by a template of cobra's: text/template calls methods by name, and the linker would keep all there are.
	showVersion := root.Flags().BoolP("version", "v", false, "version for toolserver")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*showVersion {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line())
		return err
	}
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(newServe())
	root.AddCommand(cli.Commands(in)...)
	root.AddCommand(operator.Commands(in)...)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "mcp" {
			cmd.AddCommand(operator.MCP()...)
		}
		if cmd.HasSubCommands() { // it takes nothing else
			cmd.Args = cli.CommandsOnly
		}
	}
	return root
}

// beExec has this process be the helper.
func beExec() {
	if err := helper.Execute(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", server.ExecName, err)
		os.Exit(cli.ExitFailed)
	}
	os.Exit(0)
}

// withoutPanic runs a function, and has a panic as an error.
func withoutPanic(run func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("panic: %v\n%s", reason, debug.Stack())}
		}
	}()
	return run()
}
