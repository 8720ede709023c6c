// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// decideFlags are the flags of approvals allow and deny.
type decideFlags struct {
	to           Target
	allow        bool
	always, tier string
	comment      string
}

// narrowest is what --always means without a tier.
const narrowest = "1"

func newApprovalsDecide(allow bool) *cobra.Command {
	f := decideFlags{allow: allow}
	cmd := &cobra.Command{
		Use:   "deny ID",
		Short: "Deny a call, or decline to answer a question",
		Long: `deny says no to a call that waits, and to a question that it will not be
answered. With --always, calls that the tier covers are denied unasked for the
rest of the session; "toolserver grants" lists and revokes that.`,
		Example: `  toolserver approvals deny k3f9 --comment 'use the copy in testdata'
  toolserver approvals deny k3f9 --tier 'git push *'`,
	}
	if allow {
		cmd.Use, cmd.Short = "allow ID", "Let a call run"
		cmd.Long = `allow lets a call run that waits. With --always, calls that the tier covers run
unasked for the rest of the session; "toolserver grants" lists and revokes that.
"toolserver approvals show ID" tells what the call would do, and its tiers.`
		cmd.Example = `  toolserver approvals allow k3f9
  toolserver approvals allow k3f9 --always       # this exact call
  toolserver approvals allow k3f9 --always=2     # the second tier
  toolserver approvals allow k3f9 --tier 'git pull *'`
	}
	cmd.Args = Arguments
	cmd.ValidArgsFunction = completeApprovals(&f.to)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("always") && cmd.Flags().Changed("tier") {
			return errors.New("name the tier in one way: --always=TIER or --tier TIER")
		}
		return answerWith(cmd, &f.to, args[0], f.answer)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.always, "always", "", "for the rest of the session too, as far as TIER goes (number or label): --always=TIER; the narrowest without one")
	flags.Lookup("always").NoOptDefVal = narrowest
	flags.StringVar(&f.tier, "tier", "", "the same as --always=TIER")
	flags.StringVar(&f.comment, "comment", "", "what to say to the model")
	f.to.addOutsideFlags(cmd)
	return cmd
}

// answer returns what to say to an approval.
func (f *decideFlags) answer(a *pb.Approval) (*pb.ResolveApprovalRequest, error) {
	request := answerTo(a, once(f.allow))
	request.Comment = f.comment
	tier := f.always + f.tier
	if tier == "" {
		return request, nil
	}
	request.Kind = always(f.allow)
	if a.GetTool() == "" { // it waits no longer, which the server tells
		request.TierId = tier
		return request, nil
	}
	var err error
	request.TierId, err = tierOf(a, tier)
	return request, err
}

func newApprovalsAnswer() *cobra.Command {
	var (
		to      Target
		comment string
	)
	cmd := &cobra.Command{
		Use:   "answer ID ANSWER...",
		Short: "Answer the questions of an agent",
		Long: `answer answers what an agent asks, with one ANSWER for each question, in their
order: the number or label of an option, several of them with commas where that
is possible, or free text. "toolserver approvals show ID" shows the questions.`,
		Example: `  toolserver approvals answer k3f9 2
  toolserver approvals answer k3f9 1,3 'call it toolserver'`,
		Args:              Arguments,
		ValidArgsFunction: completeApprovals(&to),
		RunE: func(cmd *cobra.Command, args []string) error {
			return answerWith(cmd, &to, args[0], func(a *pb.Approval) (*pb.ResolveApprovalRequest, error) {
				request := answerTo(a, pb.AnswerKind_ANSWER_KIND_ANSWERED)
				request.Comment = comment
				if a.GetTool() == "" {
					return request, nil
				}
				var err error
				request.Answers, err = answersOf(a, args[1:])
				return request, err
			})
		},
	}
	cmd.Flags().StringVar(&comment, "comment", "", "what else to say to the model")
	to.addOutsideFlags(cmd)
	return cmd
}

// answerWith answers the approval that an id names, and says what came of it.
func answerWith(cmd *cobra.Command, to *Target, id string, answer func(*pb.Approval) (*pb.ResolveApprovalRequest, error)) error {
	client, err := to.connectOutside(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.answer(cmd.Context(), id, answer)
}

func (c *Client) answer(ctx context.Context, id string, answer func(*pb.Approval) (*pb.ResolveApprovalRequest, error)) error {
	a, err := c.approval(ctx, id)
	if err != nil {
		return err
	}
	request, err := answer(a)
	if err != nil {
		return err
	}
	response, err := c.ResolveApproval(ctx, request)
	if status.Code(err) == codes.NotFound && len(id) < wholeID { // the server tells only of whole ones
		return status.Errorf(codes.NotFound, "no approval that waits begins with %q: it may have been answered, or its call has ended (its whole id, of %d characters, would tell); %s shows what waits",
			id, wholeID, c.command("approvals list"))
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(NewStream(os.Stdout), shortID(a.GetApprovalId()), answerText(response.GetAnswer()))
	return nil
}
