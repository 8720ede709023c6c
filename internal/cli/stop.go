// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// everybody is the name that stands for all principals.
const everybody = "*"

// stopFlags say whom a stop is about.
type stopFlags struct {
	all    bool
	tenant string
	reason string
}

func (f *stopFlags) add(cmd *cobra.Command, audience string) {
	cmd.Flags().BoolVar(&f.all, "all", false, "everybody, instead of one principal")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "its tenant, for operators of all tenants (default: your own; with --all, every tenant of which you are an operator)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, in a sentence; "+audience)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if f.all == (len(args) == 1) || len(args) > 1 {
			return errors.New("name one principal, or give --all")
		}
		return nil
	}
}

func (f *stopFlags) principal(args []string) string {
	if f.all {
		return everybody
	}
	return args[0]
}

func newStop() *cobra.Command {
	var (
		to  Target
		who stopFlags
	)
	cmd := &cobra.Command{
		Use:   "stop {PRINCIPAL | --all}",
		Short: "Emergency stop: end what a principal runs, and refuse its calls",
		Long: `stop ends everything that a principal runs, with background processes and
transfers, and has its calls refused until 'toolserver resume'. It returns when all
has ended. A stop outlives the server where that keeps its state, or has a stop_file. It is
for operators, and holds for all servers that share the state.`,
		Example: `  toolserver stop --reason 'it deletes what it should not' alice
  toolserver stop --tenant acme alice
  toolserver stop --all --reason 'break-in'`,
	}
	who.add(cmd, "callers and the audit log are told")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		response, err := c.StopPrincipal(ctx, &pb.StopPrincipalRequest{Principal: who.principal(args), Tenant: who.tenant, Reason: who.reason})
		if err != nil {
			return err
		}
		stop, out := response.GetStop(), NewStream(os.Stdout)
		fmt.Fprintf(out, "%s: %d executions cancelled, %d calls and %d processes ended\n",
			stopText(stop), response.GetCancelledExecutions(), response.GetEndedCalls(), response.GetEndedProcesses())
		if response.GetUnknown() {
			fmt.Fprintln(NewStream(os.Stderr), unknownText(stop))
		}
		if !stop.GetDurable() {
			fmt.Fprintln(NewStream(os.Stderr), "The stop ends with the server: it keeps no state and has no stop_file, or those could not be written.")
		}
		return nil
	})
	return cmd
}

// unknownText warns of a stop that may be about nobody.
func unknownText(stop *pb.Stop) string {
	text := fmt.Sprintf("Nobody called %s has, or had lately, a session or a call on this server: the stop is for whoever comes.",
		ownerText(stop.GetTenant(), stop.GetPrincipal()))
	if tenant, name, ok := strings.Cut(stop.GetPrincipal(), "/"); ok && stop.GetTenant() == "" && tenant != "" && name != "" {
		return text + fmt.Sprintf(" If %s of tenant %s is meant: toolserver stop --tenant %[2]s %[1]s", Visible(name), Visible(tenant))
	}
	return text + " See who is there with 'toolserver sessions list --principal \"*\"'; one of another tenant needs --tenant."
}

func newResume() *cobra.Command {
	var (
		to  Target
		who stopFlags
	)
	cmd := &cobra.Command{
		Use:   "resume {PRINCIPAL | --all}",
		Short: "Lift an emergency stop",
		Long: `resume lifts the stop of a principal, or that of everybody, which leaves those of
single principals. What was ended does not begin again. It is for operators.`,
	}
	who.add(cmd, "the audit log is told")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		response, err := c.ResumePrincipal(ctx, &pb.ResumePrincipalRequest{Principal: who.principal(args), Tenant: who.tenant, Reason: who.reason})
		if err != nil {
			return err
		}
		out := NewStream(os.Stdout)
		if response.GetStop() == nil {
			fmt.Fprintln(out, Visible(who.principal(args)), "was not stopped")
		} else {
			fmt.Fprintln(out, "resumed:", stopText(response.GetStop()))
		}
		for _, other := range response.GetRemaining() {
			fmt.Fprintln(out, "still in force:", stopText(other))
		}
		return nil
	})
	return cmd
}

func newStops() *cobra.Command {
	var (
		to     Target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "stops",
		Short: "List the emergency stops in force, the oldest first",
		Args:  Arguments,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one stop a line, as JSON")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, _ []string) error {
		response, err := c.ListStops(ctx, new(pb.ListStopsRequest))
		if err != nil {
			return err
		}
		return printList(response.GetStops(), asJSON, stopTable)
	})
	return cmd
}

func stopTable(to *Stream, list []*pb.Stop) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PRINCIPAL\tSINCE\tBY\tKEPT\tREASON")
	for _, s := range list {
		kept := "until restart"
		if s.GetDurable() {
			kept = "durable"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", ownerText(s.GetTenant(), s.GetPrincipal()),
			s.GetCreateTime().AsTime().Local().Format(time.DateTime), Visible(s.GetBy()), kept, Visible(s.GetReason()))
	}
	return table.Flush()
}

func stopText(s *pb.Stop) string {
	text := ownerText(s.GetTenant(), s.GetPrincipal()) + " stopped by " + Visible(s.GetBy())
	if s.GetReason() != "" {
		text += ": " + Visible(s.GetReason())
	}
	return text
}
