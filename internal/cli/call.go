// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// callFlags are the flags of call.
type callFlags struct {
	to                       Target
	session, callID, purpose string
	onDisconnect, approve    string
	detachKeys               string
	timeout                  time.Duration
	detach, json, raw        bool
}

// whenDisconnected are the values of --on-disconnect.
var whenDisconnected = map[string]pb.OnDisconnect{
	"grace":  pb.OnDisconnect_ON_DISCONNECT_GRACE,
	"cancel": pb.OnDisconnect_ON_DISCONNECT_CANCEL,
	"detach": pb.OnDisconnect_ON_DISCONNECT_DETACH,
}

func newCall(in Inside) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call TOOL [INPUT...]",
		Short: "Execute a tool and show what happens",
		Long: `call executes a tool. Its output comes as it is written and its result at the
end, both on standard output; progress and what goes wrong are on standard
error. Without an address the server runs in this process.

` + InputHelp + `

The first Ctrl-C cancels the execution and waits for its end, the second leaves
at once. When the connection breaks, the call continues on a new one.

A call that needs approval, and a question of an agent, is put to you if standard
input and error are a terminal: yes, always, no or never. If not, the call waits
for somebody to answer it with "toolserver approvals"; without an address, where
nobody could, it is denied at once. --approve changes that: "yes" approves every
call once, where the server lets you approve your own; "no" declines at once;
"wait" leaves the answer to others.

A call of bash with interactive=true runs in a terminal. ` + attachHelp + `

` + exitHelp(),
		Example: `  toolserver call read_file path=README.md limit=20
  toolserver call --address 127.0.0.1:8665 --json sleep duration_ms=3000
  toolserver call bash interactive=true command=bash
  echo '{"data": {"answer": 42}}' | toolserver call structured_output -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the tool to call; 'toolserver tools' lists them")
			}
			return nil
		},
		ValidArgsFunction: CompleteCall(&f.to),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0], args[1:])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.session, "session", "", "session to run in (default: your default session)")
	flags.StringVar(&f.callID, "call-id", "", "id that makes the call idempotent within its session (default: a new one)")
	flags.StringVar(&f.purpose, "purpose", "", "what the call is for, in a sentence")
	flags.DurationVar(&f.timeout, "timeout", 0, "how long the tool may run (default: the tool's own)")
	flags.StringVar(&f.onDisconnect, "on-disconnect", "grace", "what happens to the execution when nobody follows it any more: grace, cancel or detach")
	flags.StringVar(&f.approve, "approve", approveAsk, "what to do where approval is needed: ask, yes, no or wait")
	flags.BoolVar(&f.detach, "detach", false, "leave as soon as the call is accepted, and print the id of the execution")
	flags.BoolVar(&f.json, "json", false, "print one event a line, as JSON")
	flags.BoolVar(&f.raw, "raw", false, rawUsage)
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
	cmd.MarkFlagsMutuallyExclusive("detach", "on-disconnect")
	cmd.MarkFlagsMutuallyExclusive("detach", "approve")
	Complete(cmd, "on-disconnect", "grace", "cancel", "detach")
	Complete(cmd, "approve", approveAsk, approveYes, approveNo, approveWait)
	addDetachKeys(cmd, &f.detachKeys)
	f.to.AddFlags(cmd, in)
	return cmd
}

func (f *callFlags) run(cmd *cobra.Command, tool string, words []string) error {
	if f.detach && f.to.Resolve() == "" {
		return errors.New("--detach needs a server that goes on: give its address with --address or TOOLSERVER_ADDRESS")
	}
	if f.approve == approveWait && f.to.Resolve() == "" {
		return errors.New("--approve wait needs a server where others can answer: give its address with --address or TOOLSERVER_ADDRESS")
	}
	request, err := f.request(cmd, tool)
	if err != nil {
		return err
	}
	client, err := f.to.Connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	input := InputReader{Stdin: os.Stdin, Properties: func() (map[string]PropertySchema, error) {
		return client.Properties(cmd.Context(), f.session, tool)
	}}
	if request.InputJson, err = input.Read(words); err != nil {
		return err
	}
	stderr := NewStream(os.Stderr)
	v := newView(stderr, f.json, f.raw)
	if f.detach {
		return client.detach(cmd.Context(), v, request)
	}
	detach, err := parseDetachKeys(f.detachKeys)
	if err != nil {
		return err
	}
	interactive, err := f.onTerminal(cmd, client, request)
	if err != nil {
		return err
	}
	asker := newAsker(client, f.approve, stderr, v)
	if text, ok := v.(*textView); ok && interactive {
		keys := newKeyboard(os.Stdin)
		asker.stdin = bufio.NewReader(keys)
		terminal := newTerminalView(client, text, keys, detach)
		terminal.asker = asker
		v = terminal
	}
	err = follow(v, asker, client.execute(request), func(ctx context.Context, id string) error {
		_, err := client.Cancel(ctx, &pb.CancelRequest{ExecutionId: id, Reason: "interrupted by the user"})
		return err
	})
	if terminal, ok := v.(*terminalView); ok && (errors.Is(err, errDetached) || errors.Is(err, errHangup)) {
		return client.leaveTerminal(terminal, err)
	}
	return err
}

func (f *callFlags) request(cmd *cobra.Command, tool string) (*pb.ExecuteToolRequest, error) {
	request := &pb.ExecuteToolRequest{SessionId: f.session, Tool: tool, Purpose: f.purpose}
	if !cmd.Flags().Changed("call-id") {
		f.callID = "cli-" + strings.ToLower(rand.Text()[:16])
	}
	request.CallId = &f.callID
	if cmd.Flags().Changed("timeout") {
		if f.timeout <= 0 {
			return nil, fmt.Errorf("--timeout %s: want more than 0", f.timeout)
		}
		request.Timeout = durationpb.New(f.timeout)
	}
	var ok bool
	if request.OnDisconnect, ok = whenDisconnected[f.onDisconnect]; !ok {
		return nil, fmt.Errorf("--on-disconnect %q: want grace, cancel or detach", f.onDisconnect)
	}
	if !slices.Contains([]string{approveAsk, approveYes, approveNo, approveWait}, f.approve) {
		return nil, fmt.Errorf("--approve %q: want ask, yes, no or wait", f.approve)
	}
	if f.detach {
		request.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_DETACH
	}
	return request, nil
}

// detach starts a call and leaves it alone. A call that ended at once, because
// it was refused, is shown.
func (c *Client) detach(ctx context.Context, v view, request *pb.ExecuteToolRequest) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	for event, err := range c.execute(request)(ctx) {
		if err != nil {
			return err
		}
		if finished := event.GetFinished(); finished != nil {
			if err := v.show(event); err != nil {
				return err
			}
			return exitOf(finished.GetOutcome())
		}
		if _, ok := v.(*jsonView); ok {
			return v.show(event)
		}
		fmt.Println(event.GetExecutionId())
		if event.GetAccepted().GetVerdict().GetAction() == pb.Action_ACTION_ASK {
			v.note("it waits for approval: " + c.command("approvals watch") + " shows and answers it")
		}
		return nil
	}
	return ctx.Err()
}

// Properties returns the schema of each key of a tool's input; none for a tool
// there is not, since the server says so when it is called.
func (c *Client) Properties(ctx context.Context, session, name string) (map[string]PropertySchema, error) {
	response, err := c.ListTools(ctx, &pb.ListToolsRequest{
		SessionId: session, View: pb.ToolView_TOOL_VIEW_FULL, Names: []string{name},
	})
	if status.Code(err) == codes.InvalidArgument { // such a name is not even a pattern
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, tool := range response.GetTools() {
		if tool.GetName() == name || slices.Contains(tool.GetAliases(), name) {
			return propertiesOf(tool.GetInputSchema())
		}
	}
	return nil, nil
}
