// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/sandbox"
)

const (
	// selfTestDelay lets a server that has just started answer its first callers.
	selfTestDelay = 200 * time.Millisecond

	selfTestTime = 30 * time.Second
)

// selfTest tries what commands must not be able to do, logs and exports what
// holds, and fails if something required does not.
func (c *sandboxConfig) selfTest(logger *zap.Logger, registry prometheus.Registerer, tested func(failed []string)) error {
	stderr, err := logLines(logger, "a helper of the sandbox failed")
	if err != nil {
		return err
	}
	defer stderr.Close()
	checks, _, err := c.probe(context.Background(), stderr)
	if err != nil {
		logger.Warn("the sandbox could not be tried: toolserver sandbox probe tells more", zap.Error(err))
		return fmt.Errorf("the sandbox could not be tried: %w", err)
	}
	values := make([][]string, len(checks))
	var failed, weak, untried []string
	for i, check := range checks {
		values[i] = []string{check.Name, strconv.FormatBool(check.Holds)}
		switch {
		case !check.Tried:
			values[i][1] = "unknown"
			untried = append(untried, check.Name)
		case check.Holds:
		case check.Required:
			failed = append(failed, check.Name)
		default:
			weak = append(weak, check.Name)
		}
	}
	tested(slices.Concat(failed, weak, untried))
	addFacts(registry, "toolserver_sandbox_check", "What the self-test of the sandbox found; always 1.", []string{"check", "holds"}, values)
	fields := []zap.Field{zap.Int("checks", len(checks)), zap.Strings("failed", failed), zap.Strings("weak", weak), zap.Strings("not_tried", untried)}
	err = verdictOn(checks)
	if err == nil {
		logger.Info("the sandbox holds", fields...)
		return nil
	}
	logger.Warn(err.Error()+"; toolserver sandbox probe tells more", fields...)
	return fmt.Errorf("sandbox.mode is %s, and %w; toolserver sandbox probe tells more", c.Mode, err)
}

// verdictOn is an error unless all checks that are required hold. It tells what
// does not hold from what could not be tried.
func verdictOn(checks []sandbox.Check) error {
	var failed, untried []string
	why := ""
	for _, check := range checks {
		switch {
		case !check.Required:
		case !check.Tried:
			untried = append(untried, check.Name)
			why = check.Detail
		case !check.Holds:
			failed = append(failed, check.Name)
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("the sandbox does not hold: %s", strings.Join(failed, ", "))
	case len(untried) == 0:
		return nil
	case len(untried) > maxNamed:
		untried = append(untried[:maxNamed], fmt.Sprintf("and %d more", len(untried)-maxNamed))
	}
	return fmt.Errorf("the sandbox could not be tried, so it is not known to hold (%s): %s", strings.Join(untried, ", "), oneLine(why))
}

// maxNamed is how many checks are named that could not be tried: mostly it is
// all of them, for one reason.
const maxNamed = 3

// probe runs the self-test in a sandbox of its own, whose helpers write to stderr.
func (c *sandboxConfig) probe(ctx context.Context, stderr *os.File) ([]sandbox.Check, sandbox.Capabilities, error) {
	jails, err := c.open(stderr)
	if err != nil {
		return nil, sandbox.Capabilities{}, err
	}
	defer jails.Close()
	ctx, cancel := context.WithTimeout(ctx, selfTestTime)
	defer cancel()
	return jails.Probe(ctx, filepath.Join(stateDir(), "toolserver")), jails.Capabilities(), nil
}

func newSandbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Find out what this machine can confine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSandboxProbe())
	return cmd
}

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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), (*config).validateInside)
			if err != nil {
				return err
			}
			checks, capabilities, err := c.Sandbox.probe(cmd.Context(), os.Stderr)
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
			if err := verdictOn(checks); err != nil {
				return &exitError{exitFailed, err}
			}
			return nil
		},
	}
	addConfigFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one check a line as JSON")
	return cmd
}

func printChecks(to io.Writer, checks []sandbox.Check, c sandbox.Capabilities) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tHOLDS\tREQUIRED\tWHAT\tANSWER")
	for _, check := range checks {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", check.Name, holdsText(check), yesNo(check.Required), check.What, oneLine(check.Detail))
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
