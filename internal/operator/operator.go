// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package operator is the command line of whoever runs a server: it checks
// configurations and policies, explains and tests what a policy says, tries the
// sandbox, tells what commands find on this machine, verifies audit logs and state, and makes
// tokens.
package operator

import (
	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
)

// Commands returns the commands for the machine of a server.
func Commands(in cli.Inside) []*cobra.Command {
	return []*cobra.Command{
		group("policy", "Check, explain and test what may run", newPolicyCheck(), newPolicyDefault(), newPolicyExplain(in), newPolicyTest()),
		group("config", "Work with configuration files", newConfigCheck()),
		group("audit", "Work with audit logs", newAuditVerify()),
		newState(),
		group("sandbox", "Find out what this machine can confine", newSandboxProbe()),
		newDoctor(),
		group("token", "Make tokens for callers", newTokenCreate()),
	}
}

// group returns a command that has others below it, and does nothing itself.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cli.Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(below...)
	return cmd
}
