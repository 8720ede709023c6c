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

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newGrants() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "List and revoke what was always allowed or denied",
		Long: `grants is about lasting answers: what a person allowed or denied for the rest of
a session. They end with the session, or when they are revoked. 'toolserver grants' alone lists them.`,
	}
	listsAlone(cmd, newGrantsList())
	cmd.AddCommand(newGrantsRevoke())
	return cmd
}

func newGrantsList() *cobra.Command {
	var (
		to      Target
		session string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List grants, the oldest first",
		Args:  Arguments,
		RunE: onServer(&to, func(ctx context.Context, client *Client, _ []string) error {
			response, err := client.ListGrants(ctx, &pb.ListGrantsRequest{SessionId: session})
			if err != nil {
				return err
			}
			return printList(response.GetGrants(), asJSON, grantTable)
		}),
	}
	cmd.Flags().StringVar(&session, "session", "", "only those of this session")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one grant a line, as JSON")
	to.addOutsideFlags(cmd)
	return cmd
}

func grantTable(to *Stream, list []*pb.Grant) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSESSION\tPRINCIPAL\tGIVEN\tBY\tWHAT")
	for _, g := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", shortID(g.GetGrantId()), Visible(g.GetSessionId()), ownerText(g.GetTenant(), g.GetPrincipal()),
			g.GetCreateTime().AsTime().Local().Format(time.DateTime), Visible(g.GetBy()), grantText(g))
	}
	return table.Flush()
}

func grantText(g *pb.Grant) string {
	return ActionText(g.GetAction()) + " " + Visible(g.GetTool()) + ": " + Visible(g.GetTier().GetLabel())
}

func newGrantsRevoke() *cobra.Command {
	var to Target
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End a grant: what it covered is asked for again",
		Long: `revoke ends a grant. What it covered is asked for again, or allowed again. An ID
may be shortened to its beginning, of four characters at least.`,
		Args:              Arguments,
		ValidArgsFunction: completeGrants(&to),
		RunE: onServer(&to, func(ctx context.Context, client *Client, args []string) error {
			response, err := client.ListGrants(ctx, &pb.ListGrantsRequest{})
			if err != nil {
				return err
			}
			grant, err := uniquely(response.GetGrants(), (*pb.Grant).GetGrantId, args[0])
			if err != nil {
				return err
			}
			if grant == nil {
				grant = &pb.Grant{GrantId: args[0]} // the server says that there is none
			}
			revoked, err := client.RevokeGrant(ctx, &pb.RevokeGrantRequest{GrantId: grant.GetGrantId()})
			if err != nil {
				return err
			}
			fmt.Fprintln(NewStream(os.Stdout), shortID(revoked.GetGrant().GetGrantId()), "revoked:", grantText(revoked.GetGrant()))
			return nil
		}),
	}
	to.addOutsideFlags(cmd)
	return cmd
}
