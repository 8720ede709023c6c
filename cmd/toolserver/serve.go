// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/server"
)

func newServe() *cobra.Command {
	var recordings []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve tools over gRPC",
		Long: `serve serves tools until it gets SIGINT or SIGTERM. Then it takes no new calls,
lets those that run finish within the grace of the configuration, cancels the
rest, and exits with 0. A second signal ends it at once.

Without authentication it serves loopback addresses and sockets only. Every
option is explained in deploy/toolserver.yaml. The environment wins over the
file, a flag wins over both.

With --replay it runs nothing: calls that are in a recording of "toolserver record" are
answered with what was recorded, and others are refused.`,
		Args: cli.Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), (*config.Config).Validate)
			if err != nil {
				return err
			}
			if err := server.Serve(c, recordings...); err != nil {
				return &cli.ExitError{Code: cli.ExitFailed, Err: err}
			}
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "listen", "admin", "http", "workspace", "policy", "log-level")
	cmd.Flags().StringArrayVar(&recordings, "replay", nil, "answer calls from this recording, and run nothing; may be given several times")
	cli.Complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}
