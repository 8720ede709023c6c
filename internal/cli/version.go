// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/version"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newVersion() *cobra.Command {
	var to Target
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, with --address also the server's",
		Args:  Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := NewStream(os.Stdout)
			fmt.Fprintln(out, version.Line())
			if to.Resolve() == "" {
				return nil
			}
			client, err := to.dial()
			if err != nil {
				return err
			}
			defer client.Close()
			info, err := client.GetServerInfo(cmd.Context(), &pb.GetServerInfoRequest{})
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "server %s %s, authentication %s, you are %s\n",
				info.GetVersion(), info.GetGoVersion(), info.GetAuthentication(), info.GetPrincipal())
			return nil
		},
	}
	to.addFlags(cmd, "server whose version to show as well: host:port or unix:/path (env TOOLSERVER_ADDRESS)")
	return cmd
}
