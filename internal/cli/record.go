// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/recording"
	"github.com/toolserver/toolserver/internal/wholefile"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newRecord() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Keep executions and sessions as files that can be played back",
		Long: `record makes recordings: files with all that happened in executions. "toolserver
replay" plays them back, and "toolserver serve --replay" answers calls from them.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRecordExport())
	return cmd
}

func newRecordExport() *cobra.Command {
	var (
		to            Target
		of            ownerFlags
		session, file string
	)
	cmd := &cobra.Command{
		Use:   "export [EXECUTION...]",
		Short: "Write executions, or all of a session, to a file",
		Long: `export writes what the server still keeps of executions to a file: their inputs and
events, when each was, and the tools of their session. Secrets are masked in it as they
are in results. Of an execution that has not ended it is what there is by now. What is
no longer kept is told on standard error.

` + shortHelp,
		Example: `  toolserver record export 36oux -o build.rec
  toolserver record export --session s1 -o s1.rec`,
		ValidArgsFunction: completeExecutions(&to, pb.ExecutionState_EXECUTION_STATE_UNSPECIFIED),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := NewStream(os.Stdout)
			switch {
			case (session == "") == (len(args) == 0):
				return errors.New("say what to record: some EXECUTION, or all that a session has with --session; 'toolserver executions' lists them")
			case session == "" && of != ownerFlags{}:
				return errors.New("--principal and --tenant are for --session: an EXECUTION is known by its id")
			case file == "" && out.terminal:
				return errors.New("a recording is not for a terminal: name a file with --output")
			}
			client, err := to.connectOutside(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			r := recorder{client, session, of, NewStream(os.Stderr)}
			if file == "" {
				return r.write(cmd.Context(), os.Stdout, args)
			}
			return wholefile.Write(file, func(to io.Writer) error { return r.write(cmd.Context(), to, args) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&session, "session", "", "record all executions of this session that the server keeps")
	flags.StringVarP(&file, "output", "o", "", "file to write to, instead of standard output")
	of.addFlags(cmd, "whose session it is, instead of yours")
	to.addOutsideFlags(cmd)
	return cmd
}

// recorder writes recordings.
type recorder struct {
	client  *Client
	session string // all of which is wanted; empty: single executions
	of      ownerFlags
	stderr  *Stream
}

func (r *recorder) write(ctx context.Context, to io.Writer, ids []string) error {
	var list []*pb.Execution
	if r.session != "" {
		newest, more, err := r.client.list(ctx, &pb.ListExecutionsRequest{SessionId: r.session, Principal: r.of.principal, Tenant: r.of.tenant}, recording.MaxExecutions)
		if err != nil {
			return err
		}
		if more {
			r.note("only the newest %d executions are recorded", recording.MaxExecutions)
		}
		list = newest
		slices.Reverse(list)
	}
	for _, id := range ids {
		id, err := r.client.wholeExecution(ctx, id)
		if err != nil {
			return err
		}
		got, err := r.client.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id})
		if err != nil {
			return r.client.unknownExecution(ctx, err, id, executionFlags{})
		}
		list = append(list, got.GetExecution())
	}
	if len(list) == 0 {
		return fmt.Errorf("there is nothing to record: the server keeps no execution of session %q", r.session)
	}
	info, err := r.client.GetServerInfo(ctx, &pb.GetServerInfoRequest{})
	if err != nil {
		return err
	}
	w, err := recording.NewWriter(to, recording.Header{Time: time.Now().UTC(), Server: info.GetVersion()})
	if err != nil {
		return err
	}
	if err := r.room(ctx, w, list[0].GetSessionId()); err != nil {
		return err
	}
	for _, x := range list {
		if err := r.execution(ctx, w, x.GetExecutionId()); err != nil {
			return err
		}
	}
	return w.Close()
}

func (r *recorder) note(format string, args ...any) {
	fmt.Fprintln(r.stderr, "toolserver: "+fmt.Sprintf(format, args...))
}

// room writes the session of the executions, and its tools.
func (r *recorder) room(ctx context.Context, w *recording.Writer, id string) error {
	tools := &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL}
	got, err := r.client.GetSession(ctx, &pb.GetSessionRequest{SessionId: id, Principal: r.of.principal, Tenant: r.of.tenant})
	switch {
	case err == nil:
		if err := w.Write(recording.Item{Session: got.GetSession()}); err != nil {
			return err
		}
		if got.GetSession().GetPersona() == "" && r.of == (ownerFlags{}) {
			tools.SessionId = id // with a persona it shows other tools than those that run
		}
	case status.Code(err) != codes.NotFound && status.Code(err) != codes.PermissionDenied:
		return err
	}
	for {
		page, err := r.client.ListTools(ctx, tools)
		if err != nil {
			return err
		}
		for _, tool := range page.GetTools() {
			if err := w.Write(recording.Item{Tool: tool}); err != nil {
				return err
			}
		}
		if tools.PageToken = page.GetNextPageToken(); tools.PageToken == "" {
			return nil
		}
	}
}

// execution writes an execution and its events, up to the newest there is by now.
func (r *recorder) execution(ctx context.Context, w *recording.Writer, id string) error {
	got, err := r.client.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: id})
	if status.Code(err) == codes.NotFound {
		r.note("execution %s is no longer kept: it is left out", id)
		return nil
	}
	if err != nil {
		return err
	}
	x := got.GetExecution()
	x.Finished, x.Followers = nil, 0 // the last event tells the end
	if x.GetInputJson() == "" {
		r.note("the input of execution %s is not kept: a server that replays cannot answer the call", id)
	}
	if x.GetState() != pb.ExecutionState_EXECUTION_STATE_FINISHED {
		r.note("execution %s has not ended: it is recorded up to event %d", id, x.GetLastSequence())
	}
	if err := w.Write(recording.Item{Execution: x}); err != nil || x.GetLastSequence() == 0 {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	for event, err := range r.client.watch(&pb.WatchExecutionRequest{ExecutionId: id})(ctx) {
		if err != nil {
			return err
		}
		if event.GetHeartbeat() != nil {
			continue
		}
		if skipped := event.GetSkipped(); skipped != nil {
			r.note("events %d to %d of execution %s are no longer kept", skipped.GetFirst(), event.GetSequence(), id)
		}
		if err := w.Write(recording.Item{Event: event}); err != nil {
			return err
		}
		if event.GetSequence() >= x.GetLastSequence() {
			break
		}
	}
	return nil
}
