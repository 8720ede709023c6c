// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Answer what waits for a person",
		Long: `approvals shows and answers what waits for a person: calls that need approval,
and questions of agents. What nobody answers in time is denied. 'toolserver approvals' alone lists them.

An ID may be shortened to its beginning, of four characters at least.`,
	}
	listsAlone(cmd, newApprovalsList())
	cmd.AddCommand(newApprovalsWatch(), newApprovalsShow(), newApprovalsDecide(true), newApprovalsDecide(false), newApprovalsAnswer())
	return cmd
}

func newApprovalsList() *cobra.Command {
	var (
		to      Target
		session string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what waits, the oldest first",
		Args:  Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, _ []string) error {
			response, err := client.ListApprovals(ctx, &pb.ListApprovalsRequest{SessionId: session})
			if err != nil {
				return err
			}
			return printList(response.GetApprovals(), asJSON, approvalTable)
		}),
	}
	cmd.Flags().StringVar(&session, "session", "", "only those of this session")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one approval a line, as JSON")
	to.addOutsideFlags(cmd)
	return cmd
}

func approvalTable(to *Stream, list []*pb.Approval) error {
	now := time.Now()
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSESSION\tPRINCIPAL\tAGE\tLEFT\tWHAT")
	for _, a := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", shortID(a.GetApprovalId()), sessionText(a), callerText(a.GetTenant(), a.GetPrincipal(), a.GetOnBehalfOf()),
			ageText(now.Sub(a.GetCreateTime().AsTime())), ageText(a.GetExpireTime().AsTime().Sub(now)), approvalText(a))
	}
	return table.Flush()
}

func newApprovalsShow() *cobra.Command {
	var (
		to     Target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:               "show ID",
		Short:             "Show all about something that waits",
		Args:              Arguments,
		ValidArgsFunction: completeApprovals(&to),
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			a, err := client.approval(ctx, args[0])
			if err != nil {
				return err
			}
			if a.GetTool() == "" {
				return status.Errorf(codes.NotFound, "nothing waits under %q", args[0])
			}
			out := NewStream(os.Stdout)
			if asJSON {
				return WriteJSON(out, a)
			}
			return writeRows(out, newCard(a).rows())
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	to.addOutsideFlags(cmd)
	return cmd
}
