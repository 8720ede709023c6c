// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
)

func newPolicyDefault() *cobra.Command {
	return &cobra.Command{
		Use:   "default",
		Short: "Print the built-in policy",
		Long: `default prints the policy that is in force where no other is given. It explains
every key and is a file to begin with:

  toolserver policy default >policy.yaml`,
		Args: cli.Arguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := os.Stdout.WriteString(policy.BuiltinText())
			return err
		},
	}
}

// supposed returns the configuration of a server in this process on which calls
// are judged and none runs: its sessions may be anything, and nothing is recorded.
// The offer is that of a sandbox that holds, with a loopback.
func supposed(cmd *cobra.Command) (*config.Config, *tools.Offer, error) {
	c, err := config.Load(cmd.Flags(), (*config.Config).ValidateInside)
	if err != nil {
		return nil, nil, err
	}
	c.Sessions.MaxLevel, c.Sessions.Modes = tools.DangerFullAccess, nil
	c.Audit = audit.Config{}
	return c, &tools.Offer{
		Holds: true, Covers: true, Network: tools.NetworkLoopback, Temporary: []string{"/tmp"},
		Readable: slices.Concat([]string{"/bin", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr", "/etc/os-release"}, c.Sandbox.Read, c.Skills),
	}, nil
}
