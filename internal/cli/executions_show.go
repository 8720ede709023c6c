// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newExecutionsShow() *cobra.Command {
	var (
		to     Target
		which  executionFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "show [EXECUTION]",
		Short: "Show all about an execution: verdict, effects, timing and end",
		Long: `show tells what the policy said to a call and about each thing it would touch, when
it came, began and ended, what it used and how it ended. "toolserver watch" shows
what it wrote.

` + shortHelp,
		Args:              Arguments,
		ValidArgsFunction: completeExecutions(&to, pb.ExecutionState_EXECUTION_STATE_UNSPECIFIED),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	which.AddFlags(cmd)
	to.addOutsideFlags(cmd)
	cmd.RunE = onExecution(&to, &which, func(ctx context.Context, c *Client, id string) error {
		response, err := c.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id, SessionId: which.session, CallId: which.callID})
		if err != nil {
			return err
		}
		out := NewStream(os.Stdout)
		if asJSON {
			return WriteJSON(out, response.GetExecution())
		}
		return writeRows(out, executionRows(response.GetExecution(), time.Now()))
	})
	return cmd
}

// executionRows tells all about an execution but for its content.
func executionRows(x *pb.Execution, now time.Time) []row {
	c := new(card)
	c.say(bold.Render(Visible(x.GetTool())) + " " + stateText(x))
	c.field("id", x.GetExecutionId())
	c.field("session", x.GetSessionId()+" of "+callerText(x.GetTenant(), x.GetPrincipal(), x.GetOnBehalfOf()))
	c.field("call", x.GetCallId())
	c.field("purpose", x.GetPurpose())
	if x.GetVerdict() != nil {
		c.field("verdict", VerdictText(x.GetVerdict()))
		c.field("policy", x.GetVerdict().GetPolicyVersion())
		for _, judged := range x.GetEffects() {
			c.effect(judged)
		}
		if n := x.GetMoreEffects(); n > 0 {
			c.say(alarm.Render(fmt.Sprintf("! NOT SHOWN: %d more effects", n)))
		}
		c.field("jail", JailText(x.GetVerdict().GetRights()))
	}
	c.timing(x, now)
	if x.GetFinished() != nil {
		c.end(x.GetFinished())
	}
	return c.rows()
}

// stateText is the word for where an execution stands, or how it ended.
func stateText(x *pb.Execution) string {
	if x.GetState() == pb.ExecutionState_EXECUTION_STATE_FINISHED {
		return outcomeText(x.GetOutcome())
	}
	return enumWord(x.GetState(), "EXECUTION_STATE_")
}

// timing tells when what happened.
func (c *card) timing(x *pb.Execution, now time.Time) {
	created := x.GetCreateTime().AsTime()
	c.field("came", timeText(x.GetCreateTime(), now))
	if x.GetStartTime() == nil && x.GetEndTime() == nil {
		c.field("waits", "for "+lapse(now.Sub(created)))
		return
	}
	began := x.GetStartTime().AsTime()
	if x.GetStartTime() != nil {
		c.field("began", "after "+lapse(began.Sub(created)))
	}
	switch {
	case x.GetEndTime() == nil:
		c.field("runs", fmt.Sprintf("for %s, at most %s", lapse(now.Sub(began)), x.GetTimeout().AsDuration()))
	case x.GetStartTime() == nil:
		c.field("ended", "after "+lapse(x.GetEndTime().AsTime().Sub(created))+", without having run")
	default:
		c.field("ran", fmt.Sprintf("for %s, at most %s", lapse(x.GetEndTime().AsTime().Sub(began)), x.GetTimeout().AsDuration()))
	}
	c.field("events", fmt.Sprintf("%d to %d, %d followers", x.GetFirstSequence(), x.GetLastSequence(), x.GetFollowers()))
}

func lapse(d time.Duration) string { return max(d, 0).Round(time.Millisecond).String() }

// end tells how an execution ended.
func (c *card) end(f *pb.Finished) {
	u := f.GetUsage()
	if u.GetCpuUser() != nil {
		c.field("used", fmt.Sprintf("%s of the processor and %s of the system, %s of memory, %d processes",
			lapse(u.GetCpuUser().AsDuration()), lapse(u.GetCpuSystem().AsDuration()), byteCount(float64(u.GetMaxRssBytes())), u.GetProcesses()))
	}
	if n := u.GetOutputBytes(); n > 0 {
		c.field("output", byteCount(float64(n)))
	}
	if exit := f.GetExit(); exit != nil {
		text := strings.ReplaceAll(enumWord(exit.GetReason(), "EXIT_REASON_"), "_", " ")
		switch {
		case exit.GetSignal() != "":
			text += " by " + exit.GetSignal()
		case exit.GetReason() == pb.ExitReason_EXIT_REASON_EXITED:
			text += fmt.Sprintf(" with %d", exit.GetCode())
		}
		c.field("program", text)
	}
	if v := f.GetVerdict(); v != nil {
		c.field("refused", VerdictText(v))
	}
	if by := f.GetCancellation(); by != nil {
		c.field("ended by", strings.TrimSuffix(by.GetBy()+": "+by.GetReason(), ": "))
	}
	if f.GetFailure() != nil {
		c.field("failure", f.GetFailure().GetMessage()+" ("+f.GetFailure().GetCode()+")")
	}
	for _, warning := range f.GetWarnings() {
		c.field("warning", warning)
	}
}
