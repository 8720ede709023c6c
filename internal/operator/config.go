// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/server"
)

func newConfigCheck() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration without serving",
		Long: `check reads a configuration file as "toolserver serve" would, with the
environment over it, and says in short what would be served, or everything that
is wrong, with the lines. It exits with 0 or with 2.

--print shows every key with the value in force and where it comes from: a line of
the file, a variable, a flag, or the default. Secrets are never shown.

Without FILE it takes the file that TOOLSERVER_CONFIG names, if any.`,
		Args: cli.Arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := cmd.Flags().Set("config", args[0]); err != nil {
					return err
				}
			}
			c, origin, err := config.LoadWithOrigins(cmd.Flags(), (*config.Config).Validate)
			if err != nil {
				return err
			}
			if err := c.FillIn(); err != nil {
				return err
			}
			if wrong := append(c.Warnings(cmd.Context()), server.WrongAgents(c)...); len(wrong) > 0 {
				return fmt.Errorf("the server would start, and these are wrong:\n  %s", strings.Join(wrong, "\n  "))
			}
			if all {
				return printConfig(c, cli.NewStream(os.Stdout), origin)
			}
			fmt.Fprintln(os.Stdout, "OK")
			return summarizeConfig(c, cli.NewStream(os.Stdout))
		},
	}
	cmd.Flags().BoolVar(&all, "print", false, "show every key, its value and where that comes from")
	config.AddFlags(cmd.Flags(), "listen", "admin", "http", "workspace", "policy", "log-level")
	return cmd
}

// howProven tells how callers prove who they are.
func howProven(c *config.Authentication) string {
	var ways []string
	if n := len(c.Tokens); n > 0 {
		ways = append(ways, fmt.Sprintf("tokens (%d)", n))
	}
	if c.TokenFile != "" {
		ways = append(ways, "tokens of "+c.TokenFile)
	}
	if c.Certificates.CA != "" {
		ways = append(ways, "certificates")
	}
	for _, o := range c.OIDC {
		ways = append(ways, "tokens of "+o.Issuer)
	}
	if c.Kubernetes.TokenReview {
		ways = append(ways, "service accounts of "+c.Kubernetes.APIServer)
	}
	return strings.Join(ways, ", ")
}

// quotas tells what a tenant may have.
func quotas(t quota.Tenant) string {
	var list []string
	for _, q := range []struct {
		what string
		most int
	}{{"sessions", t.MaxSessions}, {"unfinished calls", t.MaxRunning}, {"calls a minute", t.CallsPerMinute}} {
		if q.most > 0 {
			list = append(list, fmt.Sprintf("%d %s", q.most, q.what))
		}
	}
	if t.MaxStorage > 0 {
		list = append(list, fmt.Sprintf("%v of storage", t.MaxStorage))
	}
	if len(list) == 0 {
		return "no bound"
	}
	return "at most " + strings.Join(list, ", ")
}

// summarizeConfig writes what the configuration comes to.
func summarizeConfig(c *config.Config, to io.Writer) error {
	admin, encryption, authentication := c.Admin.Address, "TLS", "none: every caller is the operator"
	if c.Admin.Off() {
		admin = "off"
	}
	if c.Admin.Pprof {
		admin += ", with pprof"
	}
	if c.TLS.Off() {
		encryption = "none"
	}
	workspace := c.Sessions.Workspace
	if !c.Authentication.Off() {
		authentication = howProven(&c.Authentication)
		workspace += ", of callers without authentication: there are none"
	}
	overHTTP := c.HTTP.Listen
	if c.HTTP.Off() {
		overHTTP = ""
	}
	stops := "in the state"
	if c.State.Off() {
		stops = "until the server ends: it keeps no state, and there is no stop_file"
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range []struct {
		name  string
		value any
	}{
		{"listen", c.Listen},
		{"http", overHTTP},
		{"admin", admin},
		{"encryption", encryption},
		{"authentication", authentication},
		{"log level", c.Log.Level},
		{"policy", c.Policy.File},
		{"audit", c.Audit.File},
		{"state", c.State.Place()},
		{"workspace", workspace},
		{"other workspaces", c.Sessions.WorkspaceRoot},
		{"allowed workspaces", strings.Join(c.Sessions.AllowedWorkspaces, ", ")},
		{"level, mode", fmt.Sprintf("%s (at most %s), %s", c.Sessions.Level, c.Sessions.MaxLevel, c.Sessions.Mode)},
		{"network", fmt.Sprintf("%s (at most %s)", c.Sandbox.Network, c.Sandbox.MaxNetwork)},
		{"executions", fmt.Sprintf("at most %d at once, %s each unless told otherwise, %s at most",
			c.Executions.MaxRunning, c.Executions.DefaultTimeout, c.Executions.MaxTimeout)},
		{"shutdown grace", c.ShutdownGrace},
		{"emergency stops", cmp.Or(c.StopFile, stops)},
	} {
		if row.value != "" { // it is set
			fmt.Fprintf(table, "%s\t%v\n", row.name, row.value)
		}
	}
	for _, tenant := range c.Tenants {
		fmt.Fprintf(table, "tenant %s\t%s\n", tenant.Name, quotas(tenant))
	}
	for i := range c.MCP {
		s := &c.MCP[i]
		fmt.Fprintf(table, "tools of %s\tMCP: %s\n", s.Name, cmp.Or(s.URL, strings.Join(s.Command, " ")))
	}
	for i := range c.OpenAPI {
		api := &c.OpenAPI[i]
		fmt.Fprintf(table, "tools of %s\tOpenAPI: %s\n", api.Name, cmp.Or(api.File, api.URL, "the document of the configuration"))
	}
	for _, folder := range c.Scripts {
		fmt.Fprintf(table, "tools of %s\tscripts: %s\n", folder.Name, folder.Dir)
	}
	for _, a := range c.Agents.All() {
		fmt.Fprintf(table, "agent %s\t%s\n", a.Name, cmp.Or(a.Description, "no description"))
	}
	for _, m := range c.Models {
		fmt.Fprintf(table, "model %s\t%s: %s\n", m.Name, m.Format, m.Model)
	}
	return table.Flush()
}
