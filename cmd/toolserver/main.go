// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command toolserver runs tools for AI agents. It serves them over gRPC and is
// a client of its own: "toolserver serve" starts a server, the other commands
// list tools, call them, and follow and end what runs.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	err := newRoot().Execute()
	complain(err)
	os.Exit(exitCodeOf(err))
}

func newRoot() *cobra.Command {
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
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true, // complain prints them
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w\nRun '%s --help' to see what there is", err, cmd.CommandPath())
	})
	root.AddCommand(
		newServe(), newTools(), newCall(), newWatch(), newInput(), newCancel(), newArtifact(),
		newExecutions(), newApprovals(), newGrants(), newPolicy(), newConfig(), newAudit(), newVersion(),
	)
	return root
}
