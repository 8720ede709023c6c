// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

// versionText returns the version of this program: as linked, or else of the
// module or commit it was built from.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return "devel-" + setting.Value[:12]
		}
	}
	return "devel"
}

// versionLine is versionText with what it was built with and for.
func versionLine() string {
	return fmt.Sprintf("toolserver %s %s %s/%s", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion() *cobra.Command {
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
	to.addFlags(cmd)
	return cmd
}
