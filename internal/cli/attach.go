// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const defaultDetachKeys = "ctrl-]"

const attachHelp = `On a terminal the program has it: keys go to it as they are pressed, Ctrl-C too, and
it knows the size of the window as it changes. What it writes is shown as it is, so
it can do to the terminal what any program can that you run there. Ctrl-] detaches:
the program goes on, and "toolserver attach" comes back to it. --detach-keys chooses
other keys, such as ctrl-p,ctrl-q, or with "" none.`

func newAttach() *cobra.Command {
	var (
		to    Target
		which executionFlags
		keys  string
	)
	cmd := &cobra.Command{
		Use:   "attach [EXECUTION]",
		Short: "Take the terminal of an execution that runs interactively",
		Long: `attach connects this terminal with that of an execution, such as a call of bash
with interactive=true. What the execution wrote before, as far as it is kept, is shown first.

` + shortHelp + `

` + attachHelp + `

` + exitHelp(),
		Example: `  toolserver attach 36oux
  toolserver attach --detach-keys ctrl-p,ctrl-q 36oux`,
		Args:              Arguments,
		ValidArgsFunction: completeExecutions(&to, pb.ExecutionState_EXECUTION_STATE_RUNNING),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := which.id(args)
			if err != nil {
				return err
			}
			detach, err := parseDetachKeys(keys)
			if err != nil {
				return err
			}
			if !atTerminal() {
				return errors.New("attach needs a terminal as standard input and output: 'toolserver watch' shows an execution without one, 'toolserver input' sends to it")
			}
			client, err := to.connectOutside(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if id, err = client.wholeExecution(cmd.Context(), id); err != nil {
				return err
			}
			response, err := client.GetExecution(cmd.Context(), &pb.GetExecutionRequest{ExecutionId: id, SessionId: which.session, CallId: which.callID})
			if err != nil {
				return client.unknownExecution(cmd.Context(), err, id, which)
			}
			return client.attach(cmd.Context(), response.GetExecution(), detach)
		},
	}
	addDetachKeys(cmd, &keys)
	which.AddFlags(cmd)
	to.addOutsideFlags(cmd)
	return cmd
}

func addDetachKeys(cmd *cobra.Command, keys *string) {
	cmd.Flags().StringVar(keys, "detach-keys", defaultDetachKeys, "keys that leave a terminal without ending what runs there")
	Complete(cmd, "detach-keys", defaultDetachKeys, "ctrl-p,ctrl-q")
}

// attach shows an execution on this terminal, until it ends or the person leaves.
func (c *Client) attach(ctx context.Context, x *pb.Execution, detach []byte) error {
	id := x.GetExecutionId()
	switch x.GetState() {
	case pb.ExecutionState_EXECUTION_STATE_FINISHED:
		return status.Errorf(codes.FailedPrecondition, "execution %s has ended: %s shows what it wrote, %s how it ended", id, c.command("watch "+id), c.command("executions show "+id))
	case pb.ExecutionState_EXECUTION_STATE_RUNNING:
		if err := c.hasTerminal(ctx, id); err != nil {
			return err
		}
	}
	stderr := NewStream(os.Stderr)
	v := newTerminalView(c, newTextView(NewStream(os.Stdout), stderr, false), newKeyboard(os.Stdin), detach)
	v.history = x.GetLastSequence()
	defer v.close()
	if x.GetState() == pb.ExecutionState_EXECUTION_STATE_RUNNING {
		if err := v.begin(id); err != nil {
			return err
		}
	}
	err := follow(v, nil, c.watch(&pb.WatchExecutionRequest{ExecutionId: id}), nil)
	if errors.Is(err, errDetached) {
		v.detached(id)
		return nil
	}
	return err
}

// detached tells how to come back.
func (v *terminalView) detached(id string) {
	if v.stderr.midline {
		v.stderr.endLine()
	}
	fmt.Fprintf(v.stderr, "detached: it goes on; %s comes back\n", v.client.command("attach "+id))
}

// hasTerminal gives the terminal of an execution the size of this one, and so
// finds out whether it has one.
func (c *Client) hasTerminal(ctx context.Context, id string) error {
	size := windowSize()
	if size == nil {
		size = &pb.WindowSize{Rows: 24, Columns: 80}
	}
	var err error
	for range 20 { // one that has just started may take no input yet
		_, err = c.WriteInput(ctx, &pb.WriteInputRequest{
			ExecutionId: id, Input: &pb.WriteInputRequest_WindowSize{WindowSize: size},
		})
		if status.Code(err) != codes.FailedPrecondition {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return status.Errorf(codes.FailedPrecondition, "execution %s has no terminal to attach to (%s): %s shows it", id, status.Convert(err).Message(), c.command("watch "+id))
}

// terminalCall is what a call says about a terminal.
type terminalCall struct {
	Interactive bool            `json:"interactive"`
	Background  bool            `json:"run_in_background"`
	Rows        json.RawMessage `json:"rows"`
	Columns     json.RawMessage `json:"columns"`
	TimeoutMS   json.RawMessage `json:"timeout_ms"`
	Timeout     json.RawMessage `json:"timeout"`
}

// onTerminal readies a request for the terminal that it is made on, and reports
// whether it wants one: its program gets the size of it, the time that the server
// allows at most where none is said, and goes on when the person detaches.
func (f *callFlags) onTerminal(cmd *cobra.Command, client *Client, request *pb.ExecuteToolRequest) (bool, error) {
	ctx := cmd.Context()
	var in terminalCall
	if f.json || f.raw || f.detach || !atTerminal() || json.Unmarshal(request.GetInputJson(), &in) != nil || !in.Interactive || in.Background {
		return false, nil
	}
	properties, err := client.Properties(ctx, f.session, request.GetTool())
	if err != nil {
		return false, err
	}
	for _, key := range []string{"interactive", "rows", "columns"} {
		if _, ok := properties[key]; !ok {
			return false, nil
		}
	}
	if size := windowSize(); size != nil && in.Rows == nil && in.Columns == nil {
		rest := request.GetInputJson()
		for rest[0] != '{' { // it is an object
			rest = rest[1:]
		}
		request.InputJson = append(fmt.Appendf(nil, `{"rows":%d,"columns":%d,`, min(size.GetRows(), 1000), min(size.GetColumns(), 1000)), rest[1:]...)
	}
	if request.Timeout == nil && in.TimeoutMS == nil && in.Timeout == nil {
		info, err := client.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
		if err != nil {
			return false, err
		}
		request.Timeout = info.GetLimits().GetMaxTimeout()
	}
	if !cmd.Flags().Changed("on-disconnect") && !client.inProcess {
		request.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_DETACH
	}
	return true, nil
}

// leaveTerminal ends a call that was made on a terminal whose person left.
func (c *Client) leaveTerminal(v *terminalView, why error) error {
	id := v.request.GetExecutionId()
	if errors.Is(why, errDetached) && !c.inProcess {
		v.detached(id)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	reason := "the terminal was closed"
	if errors.Is(why, errDetached) {
		reason = "the user left"
		v.stderr.endLine()
		fmt.Fprintln(v.stderr, "the call ends: its server is in this process; with --address it would go on")
	}
	c.Cancel(ctx, &pb.CancelRequest{ExecutionId: id, Reason: reason})
	return &ExitError{Code: ExitCancelled}
}
