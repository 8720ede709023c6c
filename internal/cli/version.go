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

func newVersion(in Inside) *cobra.Command {
	var to Target
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, with --address also the server's",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := NewStream(os.Stdout)
			fmt.Fprintln(out, version.Line())
			if to.Resolve() == "" {
				return nil
			}
			client, err := to.Connect(cmd)
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
	to.AddFlags(cmd, in)
	return cmd
}
