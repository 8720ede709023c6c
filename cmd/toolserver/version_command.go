// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newVersion(in inside) *cobra.Command {
	var to target
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, with --address also the server's",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := newStream(os.Stdout)
			fmt.Fprintln(out, versionLine())
			if to.resolve() == "" {
				return nil
			}
			client, err := to.connect(cmd)
			if err != nil {
				return err
			}
			defer client.close()
			info, err := client.GetServerInfo(cmd.Context(), &pb.GetServerInfoRequest{})
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "server %s %s, authentication %s, you are %s\n",
				info.GetVersion(), info.GetGoVersion(), info.GetAuthentication(), info.GetPrincipal())
			return nil
		},
	}
	to.addFlags(cmd, in)
	return cmd
}
