// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// executionStates are the values of --state.
var executionStates = map[string]pb.ExecutionState{
	"":         pb.ExecutionState_EXECUTION_STATE_UNSPECIFIED,
	"waiting":  pb.ExecutionState_EXECUTION_STATE_WAITING,
	"running":  pb.ExecutionState_EXECUTION_STATE_RUNNING,
	"finished": pb.ExecutionState_EXECUTION_STATE_FINISHED,
}

func newExecutions() *cobra.Command {
	var (
		to                   Target
		session, state, tool string
		of                   ownerFlags
		asJSON               bool
		limit                int
	)
	cmd := &cobra.Command{
		Use:   "executions",
		Short: "List executions, newest first; show one of them",
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted, ok := executionStates[state]
			if !ok {
				return fmt.Errorf("--state %q: want waiting, running or finished", state)
			}
			if limit < 1 {
				return fmt.Errorf("--limit %d: want at least 1", limit)
			}
			client, err := to.connectOutside(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			list, more, err := client.list(cmd.Context(), &pb.ListExecutionsRequest{SessionId: session, State: wanted, Tool: tool, Principal: of.principal, Tenant: of.tenant}, limit)
			if err != nil {
				return err
			}
			out := NewStream(os.Stdout)
			if asJSON {
				return writeLines(out, list)
			}
			if err := executionTable(out, list, time.Now(), of != ownerFlags{}); err != nil {
				return err
			}
			if more {
				fmt.Fprintf(NewStream(os.Stderr), "(there are more than %d: see --limit)\n", limit)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&session, "session", "", "only those of this session")
	flags.StringVar(&state, "state", "", "only those in this state: waiting, running or finished")
	flags.StringVar(&tool, "tool", "", "only those of this tool")
	flags.IntVar(&limit, "limit", 50, "how many at most")
	flags.BoolVar(&asJSON, "json", false, "print one execution a line, as JSON")
	of.addFlags(cmd, "those of this principal, or * for everybody's, instead of yours")
	Complete(cmd, "state", "waiting", "running", "finished")
	to.addOutsideFlags(cmd)
	cmd.AddCommand(newExecutionsShow())
	return cmd
}

// list returns at most limit executions, and whether there are more.
func (c *Client) list(ctx context.Context, request *pb.ListExecutionsRequest, limit int) (list []*pb.Execution, more bool, err error) {
	for {
		request.PageSize = int32(min(limit-len(list), 1000))
		page, err := c.ListExecutions(ctx, request)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page.GetExecutions()...)
		request.PageToken = page.GetNextPageToken()
		if request.PageToken == "" || len(list) >= limit {
			return list, request.PageToken != "", nil
		}
	}
}

// wideTable is how wide a terminal must be for all there is to say.
const wideTable = 120

// executionTable writes executions, with whose they are if that is asked for.
func executionTable(out *Stream, list []*pb.Execution, now time.Time, whose bool) error {
	narrow := out.terminal && out.width() < wideTable
	heads := []string{"EXECUTION", "TOOL", "STATE", "SESSION", "CALL", "BEGAN", "TOOK", "PURPOSE"}
	if narrow {
		heads = []string{"EXECUTION", "TOOL", "STATE", "SESSION", "BEGAN", "TOOK", "PURPOSE"}
	}
	if whose {
		heads = slices.Insert(heads, 1, "PRINCIPAL")
	}
	t := NewTable(out, heads...)
	for _, x := range list {
		state := stateText(x)
		begin, end := x.GetCreateTime().AsTime().Local(), now
		if x.GetEndTime() != nil {
			end = x.GetEndTime().AsTime()
		}
		took := max(end.Sub(begin), 0).Round(time.Millisecond).String()
		row := []string{x.GetExecutionId(), fit(OneLine(x.GetTool()), 32), state, Visible(x.GetSessionId()), fit(OneLine(x.GetCallId()), 32),
			begin.Format(time.DateTime), took, fit(OneLine(x.GetPurpose()), 60)}
		if narrow {
			row = []string{x.GetExecutionId(), fit(OneLine(x.GetTool()), 18), state, fit(Visible(x.GetSessionId()), 16),
				begin.Format(time.TimeOnly), took, OneLine(x.GetPurpose())}
		}
		if whose {
			row = slices.Insert(row, 1, fit(ownerText(x.GetTenant(), x.GetPrincipal()), 32))
		}
		t.Row(row...)
	}
	return t.Flush()
}

// wholeExecution returns the id of the one execution of the caller that begins with id;
// id itself where none does, of which the server knows more.
func (c *Client) wholeExecution(ctx context.Context, id string) (string, error) {
	if id == "" || len(id) >= wholeID {
		return id, nil
	}
	list, _, err := c.list(ctx, &pb.ListExecutionsRequest{}, math.MaxInt)
	if err != nil {
		return "", err
	}
	x, err := uniquely(list, (*pb.Execution).GetExecutionId, id)
	return cmp.Or(x.GetExecutionId(), id), err
}

// unknownExecution adds to an error about an execution that there is not what may
// have been meant.
func (c *Client) unknownExecution(ctx context.Context, err error, id string, which executionFlags) error {
	if status.Code(err) != codes.NotFound {
		return err
	}
	var ids []string
	if list, _, err := c.list(ctx, &pb.ListExecutionsRequest{}, 1000); err == nil {
		for _, x := range list {
			switch {
			case which.callID == "":
				ids = append(ids, x.GetExecutionId())
			case x.GetSessionId() == cmp.Or(which.session, "default"):
				ids = append(ids, x.GetCallId())
			}
		}
	}
	return c.withNearest(err, id+which.callID, ids, "executions")
}
