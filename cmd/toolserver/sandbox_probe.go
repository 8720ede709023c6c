// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
	checks, err := c.probeApart()
	if err != nil {
		logger.Warn("the sandbox could not be tried: toolserver sandbox probe tells more", zap.Error(err))
		return fmt.Errorf("the sandbox could not be tried: %w", err)
	}
	values := make([][]string, len(checks))
	var failed, weak []string
	for i, check := range checks {
		values[i] = []string{check.Name, strconv.FormatBool(check.Holds)}
		switch {
		case check.Holds:
		case check.Required:
			failed = append(failed, check.Name)
		default:
			weak = append(weak, check.Name)
		}
	}
	tested(append(slices.Clone(failed), weak...))
	addFacts(registry, "toolserver_sandbox_check", "What the self-test of the sandbox found; always 1.", []string{"check", "holds"}, values)
	fields := []zap.Field{zap.Int("checks", len(checks)), zap.Strings("failed", failed), zap.Strings("weak", weak)}
	if len(failed) == 0 {
		logger.Info("the sandbox holds", fields...)
		return nil
	}
	logger.Warn("the sandbox does not hold: toolserver sandbox probe tells more", fields...)
	return fmt.Errorf("the sandbox does not hold, and sandbox.mode is %s: %s; toolserver sandbox probe tells more", c.Mode, strings.Join(failed, ", "))
}

// probeApart runs the self-test in a process of its own, which takes with it what
// it needed in memory: a server would keep that for as long as it lives.
func (c *sandboxConfig) probeApart() ([]sandbox.Check, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	process, err := os.StartProcess("/proc/self/exe", []string{"toolserver", "sandbox", "probe", "--json"}, &os.ProcAttr{
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.Getenv("TMPDIR"),
			envOf("sandbox.mode") + "=" + c.Mode.String(), envOf("sandbox.helper") + "=" + c.Helper,
			envOf("sandbox.namespaces") + "=" + strconv.FormatBool(c.Namespaces),
		},
		Files: []*os.File{nil, in, os.Stderr},
	})
	in.Close()
	if err != nil {
		return nil, err
	}
	out.SetReadDeadline(time.Now().Add(selfTestTime))
	checks, err := readChecks(out)
	process.Kill() // which is too late unless it hangs
	if _, waited := process.Wait(); err == nil {
		err = waited
	}
	return checks, err
}

// probe runs the self-test in a sandbox of its own.
func (c *sandboxConfig) probe(ctx context.Context) ([]sandbox.Check, sandbox.Capabilities, error) {
	jails, err := c.open()
	if err != nil {
		return nil, sandbox.Capabilities{}, err
	}
	defer jails.Close()
	ctx, cancel := context.WithTimeout(ctx, selfTestTime)
	defer cancel()
	return jails.Probe(ctx), jails.Capabilities(), nil
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
network and the kernel. It exits with 1 if something required does not hold; a
server with sandbox.mode "required" would not serve then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), (*config).validateInside)
			if err != nil {
				return err
			}
			checks, capabilities, err := c.Sandbox.probe(cmd.Context())
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
			for _, check := range checks {
				if check.Required && !check.Holds {
					return &exitError{exitFailed, fmt.Errorf("the sandbox does not hold: %s", check.Name)}
				}
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", check.Name, yesNo(check.Holds), yesNo(check.Required), check.What, oneLine(check.Detail))
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
	Required bool   `json:"required"`
	What     string `json:"what"`
	Answer   string `json:"answer"`
}

func printChecksJSON(to io.Writer, checks []sandbox.Check) error {
	encoder := json.NewEncoder(to)
	for _, check := range checks {
		if err := encoder.Encode(checkLine{check.Name, check.Holds, check.Required, check.What, check.Detail}); err != nil {
			return err
		}
	}
	return nil
}

// readChecks reads what printChecksJSON wrote. There is always something.
func readChecks(from io.Reader) ([]sandbox.Check, error) {
	var checks []sandbox.Check
	for decoder := json.NewDecoder(from); ; {
		var line checkLine
		switch err := decoder.Decode(&line); {
		case err == io.EOF && len(checks) > 0:
			return checks, nil
		case err != nil:
			return nil, fmt.Errorf("its process did not tell what it found: %w", err)
		}
		checks = append(checks, sandbox.Check{Name: line.Check, Holds: line.Holds, Required: line.Required, What: line.What, Detail: line.Answer})
	}
}
