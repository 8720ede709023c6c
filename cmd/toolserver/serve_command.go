// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve tools over gRPC",
		Long: `serve serves tools until it gets SIGINT or SIGTERM. Then it takes no new calls,
lets those that run finish within the grace of the configuration, cancels the
rest, and exits with 0. A second signal ends it at once.

Without authentication it serves loopback addresses and sockets only. Every
option is explained in deploy/toolserver.yaml. The environment wins over the
file, a flag wins over both.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), (*config).validate)
			if err != nil {
				return err
			}
			if err := serve(c); err != nil {
				return &exitError{code: exitFailed, err: err}
			}
			return nil
		},
	}
	addConfigFlags(cmd.Flags(), "listen", "admin", "workspace", "policy", "log-level")
	complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}
