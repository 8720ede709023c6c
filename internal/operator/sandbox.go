// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/server"
)

func newSandboxProbe() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Try what commands must not be able to do, and print what holds",
		Long: `probe runs the self-test that a server runs at its start: through the real helper,
in a real sandbox, it tries to read and write outside, to reach the server, the
network and the kernel. Its files are in the state directory, where workspaces
are. It exits with 1 if something required does not hold or could not be tried; a
server with sandbox.mode "required" would not serve then.`,
		Args: cli.Arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), (*config.Config).ValidateInside)
			if err != nil {
				return err
			}
			checks, capabilities, err := server.Probe(cmd.Context(), c, os.Stderr)
			if err != nil {
				return err
			}
			if asJSON {
				err = printChecksJSON(os.Stdout, checks)
			} else {
				err = printChecks(os.Stdout, checks, capabilities)
			}
			if err != nil {
				return err
			}
			if err := server.VerdictOn(checks); err != nil {
				return &cli.ExitError{Code: cli.ExitFailed, Err: err}
			}
			return nil
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one check a line as JSON")
	return cmd
}

func printChecks(to io.Writer, checks []sandbox.Check, c sandbox.Capabilities) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tHOLDS\tREQUIRED\tWHAT\tANSWER")
	for _, check := range checks {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", check.Name, holdsText(check), yesNo(check.Required), check.What, cli.OneLine(check.Detail))
	}
	fmt.Fprintf(table, "\nNamespaces of sessions: %s\nLandlock %d, signal scope: %s, as user %d\n", namespacesText(c), c.Landlock, yesNo(c.Scope), c.User)
	return table.Flush()
}

// namespacesText says whether sessions have namespaces, and what that means.
func namespacesText(c sandbox.Capabilities) string {
	if c.Namespaces {
		return "yes: mounts, processes, network (own /tmp, /proc and loopback; what a rule denies is covered)"
	}
	return "no (" + c.Why + "): Landlock and seccomp hold without them; loopback by asking; /tmp is closed, use $TMPDIR"
}

func holdsText(check sandbox.Check) string {
	if !check.Tried {
		return "not tried"
	}
	return yesNo(check.Holds)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// A checkLine is a check as JSON.
type checkLine struct {
	Check    string `json:"check"`
	Holds    bool   `json:"holds"`
	Tried    bool   `json:"tried"` // false: it is not known whether it holds
	Required bool   `json:"required"`
	What     string `json:"what"`
	Answer   string `json:"answer"`
}

func printChecksJSON(to io.Writer, checks []sandbox.Check) error {
	encoder := json.NewEncoder(to)
	for _, check := range checks {
		if err := encoder.Encode(checkLine{check.Name, check.Holds, check.Tried, check.Required, check.What, check.Detail}); err != nil {
			return err
		}
	}
	return nil
}
