// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// shortHelp is for commands that take the id of an execution.
const shortHelp = `EXECUTION may be shortened to its beginning, of four characters at least.`

// executionFlags name an execution: by its id, or by session and call id.
type executionFlags struct{ session, callID string }

func (f *executionFlags) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.session, "session", "", "session of --call-id (default: your default session)")
	cmd.Flags().StringVar(&f.callID, "call-id", "", "call id of the execution, instead of EXECUTION")
}

// id returns the execution that args name, if that is how it is named.
func (f *executionFlags) id(args []string) (string, error) {
	switch {
	case len(args) == 1 && (f.callID != "" || f.session != ""):
		return "", errors.New("name the execution in one way: EXECUTION, or --call-id with --session")
	case len(args) == 1:
		return args[0], nil
	case f.callID == "":
		return "", errors.New("name the execution: EXECUTION, or --call-id with --session; 'toolserver executions' lists them")
	}
	return "", nil
}

// onExecution is onServer for commands that are about the execution that arguments or flags
// name.
func onExecution(to *Target, which *executionFlags, run func(ctx context.Context, c *Client, id string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := which.id(args)
		if err != nil {
			return err
		}
		return onServer(to, func(ctx context.Context, c *Client, _ []string) error {
			id, err := c.wholeExecution(ctx, id)
			if err != nil {
				return err
			}
			return c.unknownExecution(ctx, run(ctx, c, id), id, *which)
		})(cmd, args)
	}
}

func newWatch() *cobra.Command {
	var (
		to     Target
		which  executionFlags
		after  uint64
		asJSON bool
		raw    bool
	)
	cmd := &cobra.Command{
		Use:   "watch [EXECUTION]",
		Short: "Follow an execution, from any of its events on",
		Long: `watch shows the events of an execution as call does, those that were and those
to come, and exits as call does. Ctrl-C ends the watching alone.

` + shortHelp + `

` + exitHelp(),
		Args:              Arguments,
		ValidArgsFunction: completeExecutions(&to, pb.ExecutionState_EXECUTION_STATE_UNSPECIFIED),
		RunE: onExecution(&to, &which, func(_ context.Context, client *Client, id string) error {
			return follow(newView(NewStream(os.Stderr), asJSON, raw), nil, client.watch(&pb.WatchExecutionRequest{
				ExecutionId: id, SessionId: which.session, CallId: which.callID, AfterSequence: after,
			}), nil)
		}),
	}
	flags := cmd.Flags()
	flags.Uint64Var(&after, "after", 0, "sequence of the last event you have")
	flags.BoolVar(&asJSON, "json", false, "print one event a line, as JSON")
	flags.BoolVar(&raw, "raw", false, rawUsage)
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
	which.AddFlags(cmd)
	to.addOutsideFlags(cmd)
	return cmd
}
