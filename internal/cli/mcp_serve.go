// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolserver/toolserver/internal/edge"
	"github.com/toolserver/toolserver/internal/version"
)

func newMCPServe(in Inside) *cobra.Command {
	var target Target
	var settings edge.Settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve an MCP client on standard input and output",
		Long: `serve has one client of the Model Context Protocol use the tools: it is what
Claude Code, Codex, Cursor and others start. Without an address it runs the server
in its own process, as the configuration says, with the current directory as the
workspace. With an address it passes everything on to the server there.

Calls that need an approval are asked about at the client, where it can ask its user
(elicitation). Where it cannot, they wait for somebody else to answer; in this process
nobody can, and they are declined. Messages go to standard error.`,
		Example: `  toolserver mcp serve
  toolserver mcp serve --workspace ~/project --session new --mode accept_edits
  toolserver mcp serve --server 127.0.0.1:8665 --session project`,
		Args: Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := target.Connect(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return edge.Stdio(ctx, client.calls.Conn(), version.Text(), settings, client.inProcess, os.Stdin, os.Stdout)
		},
	}
	target.AddFlags(cmd, in)
	flags := cmd.Flags()
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "server" { // the word of those who configure clients
			name = "address"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(&settings.Session, "session", "", `session to work in: one of yours, or made if there is none; "new": one that ends with the client (default: your default session)`)
	flags.StringVar(&settings.Mode, "mode", "", "mode of a session that is made: plan, ask, accept_edits or allow")
	flags.StringVar(&settings.Persona, "persona", "", "agent system whose tools a session that is made shows, such as claude-code")
	Complete(cmd, "mode", "plan", "ask", "accept_edits", "allow")
	return cmd
}
