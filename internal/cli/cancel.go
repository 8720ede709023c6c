// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newCancel() *cobra.Command {
	var (
		to     Target
		which  executionFlags
		reason string
	)
	cmd := &cobra.Command{
		Use:   "cancel [EXECUTION]",
		Short: "End an execution",
		Long: `cancel ends an execution, waits for its end and says how it ended. Cancelling
what has ended changes nothing and succeeds.

` + shortHelp,
		Args:              Arguments,
		ValidArgsFunction: completeExecutions(&to, pb.ExecutionState_EXECUTION_STATE_RUNNING),
		RunE: onExecution(&to, &which, func(ctx context.Context, client *Client, id string) error {
			response, err := client.Cancel(ctx, &pb.CancelRequest{
				ExecutionId: id, SessionId: which.session, CallId: which.callID, Reason: reason,
			})
			if err != nil {
				return err
			}
			x := response.GetExecution()
			fmt.Fprintln(NewStream(os.Stdout), x.GetExecutionId(), outcomeText(x.GetOutcome()))
			return nil
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in a sentence; the caller sees it")
	which.AddFlags(cmd)
	to.addOutsideFlags(cmd)
	return cmd
}
