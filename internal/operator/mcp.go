// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// MCP returns the commands of "toolserver mcp" that need no server.
func MCP() []*cobra.Command { return []*cobra.Command{newMCPTest(), newMCPAdd()} }

func newMCPTest() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "test [NAME...]",
		Short: "Connect to the MCP servers of a configuration, and print their tools",
		Long: `test starts or reaches the MCP servers of a configuration from this process, as a server
would, and prints which tools they offer, how calls of them are judged, and what is not
offered and why. Nothing is kept. It exits with 1 if a server is not available.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(cmd.Flags(), (*config.Config).ValidateInside)
			if err != nil {
				return err
			}
			for _, name := range args {
				if !slices.Contains(c.MCP.Names(), name) {
					return fmt.Errorf("the configuration has no MCP server %s; it has %s", name, strings.Join(c.MCP.Names(), ", "))
				}
			}
			if len(args) > 0 {
				c.MCP = c.MCP.Only(args...)
			}
			if len(c.MCP) == 0 {
				return errors.New("the configuration has no MCP servers: see the section mcp of deploy/toolserver.yaml")
			}
			return trySources(cmd.Context(), c, wait, os.Stdout)
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for servers")
	config.AddFlags(cmd.Flags())
	return cmd
}

// trySources prints what the MCP servers of a configuration offer.
func trySources(ctx context.Context, c *config.Config, wait time.Duration, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	statuses, offered, logs, err := server.TrySources(ctx, c, os.Stderr)
	if errors.Is(err, context.DeadlineExceeded) {
		return &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("not every server has answered within %s", wait)}
	}
	if err != nil {
		return err
	}
	down := 0
	for _, s := range statuses {
		if s.State != source.Available {
			down++
			fmt.Fprintf(to, "%s is not available: %s\n", s.Name, cli.Visible(s.Reason))
			for _, line := range logs[s.Name] {
				fmt.Fprintf(to, "  %s\n", cli.Visible(line))
			}
			continue
		}
		fmt.Fprintf(to, "%s offers %d tools\n", s.Name, s.Tools)
		table := tabwriter.NewWriter(to, 2, 0, 2, ' ', 0)
		for _, entry := range offered {
			if entry.Spec.Server == s.Name {
				judged := "asked about"
				switch {
				case entry.Spec.Needs() == tools.ReadOnly && entry.Spec.Level == tools.ReadOnly:
					judged = "reads only"
				case entry.Spec.Needs() == tools.ReadOnly:
					judged = "by what it touches"
				}
				fmt.Fprintf(table, "  %s\t%s\t%s\n", entry.Spec.Name, judged, cli.Visible(entry.Spec.Summary))
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
		for _, why := range s.Refused {
			fmt.Fprintf(to, "  not offered: %s\n", cli.Visible(why))
		}
	}
	if down > 0 {
		return &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("%d of %d servers are not available", down, len(statuses))}
	}
	return nil
}

func newMCPAdd() *cobra.Command {
	var (
		dryRun  bool
		address string
		network string
		hosts   []string
		env     []string
		read    []string
		write   []string
		wait    time.Duration
	)
	cmd := &cobra.Command{
		Use:   "add --dry-run NAME (--url URL | -- COMMAND [ARG...])",
		Short: "Try an MCP server, and print its entry for the configuration",
		Long: `add tries an MCP server as "mcp test" does, and prints the entry of the section "mcp"
for it. The configuration is yours: it is printed and never changed, so --dry-run has to
be given.`,
		Example: `  toolserver mcp add --dry-run files --write /srv/docs -- npx -y @modelcontextprotocol/server-filesystem /srv/docs
  toolserver mcp add --dry-run tickets --url https://mcp.example.com/mcp`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("NAME is missing: want %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !dryRun {
				return errors.New("give --dry-run: the entry is printed, and you put it into the configuration")
			}
			entry := entryOf(args[0], [][2]any{
				{"command", args[1:]}, {"url", address}, {"env", env}, {"read", read}, {"write", write}, {"network", network}, {"hosts", hosts},
			})
			dir, err := os.MkdirTemp("", "toolserver-mcp-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			file := filepath.Join(dir, "toolserver.yaml")
			if err := os.WriteFile(file, []byte(entry), 0o600); err != nil {
				return err
			}
			flags := cmd.Flags()
			config.AddFlags(flags)
			flags.Set("config", file)
			c, err := config.Load(flags, (*config.Config).ValidateInside)
			if err != nil {
				return errors.New(strings.ReplaceAll(err.Error(), file, "the entry"))
			}
			failed := trySources(cmd.Context(), c, wait, os.Stderr)
			fmt.Print(entry)
			return failed
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "print the entry, and change nothing")
	flags.StringVar(&address, "url", "", "where the server is reached")
	flags.StringVar(&network, "network", "", "how far the command reaches: none, loopback, hosts or open")
	flags.StringSliceVar(&hosts, "host", nil, "a host that the command reaches")
	flags.StringArrayVar(&env, "env", nil, "a variable of the command: NAME=value, or NAME")
	flags.StringSliceVar(&read, "read", nil, "what the command may read")
	flags.StringSliceVar(&write, "write", nil, "what the command may write")
	flags.DurationVar(&wait, "wait", time.Minute, "how long to wait for the server")
	return cmd
}

// entryOf returns the section "mcp" with one entry. JSON is YAML, too.
func entryOf(name string, keys [][2]any) string {
	var b strings.Builder
	quoted := func(value any) string {
		text, _ := json.Marshal(value)
		return string(text)
	}
	fmt.Fprintf(&b, "mcp:\n  - name: %s\n", quoted(name))
	for _, key := range keys {
		switch v := key[1].(type) {
		case string:
			if v != "" {
				fmt.Fprintf(&b, "    %s: %s\n", key[0], quoted(v))
			}
		case []string:
			if len(v) > 0 {
				fmt.Fprintf(&b, "    %s: %s\n", key[0], quoted(v))
			}
		}
	}
	return b.String()
}
