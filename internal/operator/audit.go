// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/cli"
)

func newAuditVerify() *cobra.Command {
	var last, has string
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check that an audit log is what was written",
		Long: `verify reads an audit log and says whether records were removed, changed, moved
or inserted, and in which lines. Several files are read as one log: name the
oldest first. "-" is standard input.

A log cannot show by itself that its end was removed, or that all of it was
written anew. Against that, note the hash that verify prints, or that the server
logs, and give it with --last or --has.

It exits with 0 if the log is as it was written, with 1 if it is not, and with 2
if it cannot be read.`,
		Example: `  toolserver audit verify audit.jsonl
  toolserver audit verify audit.jsonl.[0-9]* audit.jsonl`,
		Args: cli.Arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			var v audit.Verifier
			for _, hash := range []struct {
				flag, text string
				to         *audit.Digest
			}{{"--last", last, &v.Last}, {"--has", has, &v.Has}} {
				if hash.text == "" {
					continue
				}
				if err := hash.to.UnmarshalText([]byte(strings.ToLower(hash.text))); err != nil {
					return fmt.Errorf("%s: %w", hash.flag, err)
				}
			}
			for _, name := range args {
				if err := readAudit(&v, name); err != nil {
					return err
				}
			}
			report, err := v.Report()
			if err != nil {
				return &cli.ExitError{Code: cli.ExitFailed, Err: brokenAudit(report)}
			}
			fmt.Fprintln(os.Stdout, "OK")
			return summarizeAudit(cli.NewStream(os.Stdout), report)
		},
	}
	cmd.Flags().StringVar(&last, "last", "", "the hash that the last record must have")
	cmd.Flags().StringVar(&has, "has", "", "a hash that some record must have")
	return cmd
}

// readAudit has one file of a log verified.
func readAudit(v *audit.Verifier, name string) error {
	if name == "-" {
		return v.Read("standard input", os.Stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return v.Read(name, file)
}

// brokenAudit tells everything that is wrong with a log.
func brokenAudit(report audit.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v:", audit.ErrBroken)
	for _, problem := range report.Problems {
		fmt.Fprintf(&b, "\n%s", problem)
	}
	if report.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", report.More)
	}
	return errors.New(b.String())
}

// summarizeAudit writes what was found in a log that is whole.
func summarizeAudit(to io.Writer, report audit.Report) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if report.Records == 0 {
		fmt.Fprintf(table, "records\tnone\n")
		return table.Flush()
	}
	fmt.Fprintf(table, "records\t%d, from number %d to %d\n", report.Records, report.First.Seq, report.Last.Seq)
	fmt.Fprintf(table, "written\t%s to %s\n", report.Begins.Format(time.RFC3339), report.End.Format(time.RFC3339))
	if report.Lost > 0 {
		fmt.Fprintf(table, "lost\t%d records that the server could not write\n", report.Lost)
	}
	if report.Recovered > 0 {
		fmt.Fprintf(table, "recovered\t%d times from a torn end\n", report.Recovered)
	}
	end := "closed in good order"
	if !report.Ended {
		end = "not closed: the server still writes, or was killed, or the end was removed"
	}
	fmt.Fprintf(table, "end\t%s\n", end)
	fmt.Fprintf(table, "last hash\t%s\n", report.Last.Hash)
	return table.Flush()
}
