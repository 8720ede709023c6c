// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// explainFlags are the flags of policy explain.
type explainFlags struct {
	to               cli.Target
	session, command string
	mode, level      string
	network          string
	labels           map[string]string
	json             bool
}

func newPolicyExplain(in cli.Inside) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [TOOL] [INPUT...]",
		Short: "Tell what the policy says to a call, and why",
		Long: `explain tells whether a call would run, which rule decided, everything it would
touch and what each of that matched, the jail that its commands would have, what a
person could grant, and which limits count it. Nothing runs, nobody is asked and
nothing is counted.

With --command a shell command is judged, and TOOL may be left out. Without an
address the policy of --policy, or the built-in one, judges in this process; then
--mode, --level, --network and --label say what the session would be, and a sandbox
is supposed that holds.

` + cli.InputHelp + `

Exit codes:
    0  it would run
    5  it would be denied
   10  a person would be asked
    2  wrong usage or configuration
    9  the server cannot be reached, or refused the request`,
		Example: `  toolserver policy explain read_file path=.env
  toolserver policy explain --policy policy.yaml --mode plan --command 'sort a | tee b'`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.command == "" && len(args) == 0:
				return errors.New("name the tool of the call, or give --command")
			case f.command != "" && len(args) > 1:
				return errors.New("--command stands for the input: give one of them")
			}
			return nil
		},
		ValidArgsFunction: cli.CompleteCall(&f.to),
		RunE:              f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.session, "session", "", "session to judge for (default: your default session)")
	flags.StringVar(&f.command, "command", "", "shell command to judge")
	flags.StringVar(&f.mode, "mode", "", "mode of the session in this process: ask, allow, deny, plan or accept_edits")
	flags.StringVar(&f.level, "level", "", "level of the session in this process: read_only, workspace_write or danger_full_access")
	flags.StringVar(&f.network, "network", "loopback", "how far commands of the session in this process reach: none, loopback, hosts or open")
	flags.StringToStringVar(&f.labels, "label", nil, "labels of the session in this process, as KEY=VALUE")
	flags.BoolVar(&f.json, "json", false, "print the answer as JSON")
	cli.Complete(cmd, "mode", "ask", "allow", "deny", "plan", "accept_edits")
	cli.Complete(cmd, "level", "read_only", "workspace_write", "danger_full_access")
	cli.Complete(cmd, "network", "none", "loopback", "hosts", "open")
	f.to.AddFlags(cmd, in)
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	client, inForce, err := f.connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pb.CheckCallRequest{SessionId: f.session, Command: f.command}
	if len(args) > 0 {
		request.Tool = args[0]
	}
	if f.command == "" {
		input := cli.InputReader{Stdin: os.Stdin, Properties: func() (map[string]cli.PropertySchema, error) {
			return client.Properties(ctx, f.session, request.Tool)
		}}
		if request.InputJson, err = input.Read(args[1:]); err != nil {
			return err
		}
	}
	response, err := judge(ctx, client, request, inForce, auth.Local.Name, f.labels)
	if err != nil {
		return err
	}
	out := cli.NewStream(os.Stdout)
	if f.json {
		err = cli.WriteJSON(out, response)
	} else {
		err = showVerdict(out, response)
	}
	if err != nil {
		return err
	}
	switch response.GetVerdict().GetAction() {
	case pb.Action_ACTION_ALLOW:
		return nil
	case pb.Action_ACTION_ASK:
		return &cli.ExitError{Code: cli.ExitAsked}
	}
	return &cli.ExitError{Code: cli.ExitDenied}
}

// connect returns a client, and the policy it judges by where that is known.
func (f *explainFlags) connect(cmd *cobra.Command) (*cli.Client, *policy.Policy, error) {
	if f.to.Resolve() != "" {
		for _, name := range []string{"mode", "level", "network", "label"} {
			if cmd.Flags().Changed(name) {
				return nil, nil, fmt.Errorf("--%s is for a server in this process: with --address, name a session that is so with --session", name)
			}
		}
		client, err := f.to.Connect(cmd)
		return client, nil, err
	}
	wanted := supposition{Labels: f.labels}
	if f.mode != "" {
		if err := wanted.Mode.UnmarshalText([]byte(f.mode)); err != nil {
			return nil, nil, fmt.Errorf("--mode: %w", err)
		}
	}
	if f.level != "" {
		if err := wanted.Level.UnmarshalText([]byte(f.level)); err != nil {
			return nil, nil, fmt.Errorf("--level: %w", err)
		}
	}
	c, offer, err := supposed(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := offer.Network.UnmarshalText([]byte(f.network)); err != nil || offer.Network == 0 {
		return nil, nil, fmt.Errorf("--network: %q is no network: want none, loopback, hosts or open", f.network)
	}
	inForce, err := config.LoadPolicy(c.Policy.File)
	if err != nil {
		return nil, nil, err
	}
	conn, end, err := server.ConnectSupposed(c, auth.Local.Name, offer)
	if err != nil {
		return nil, nil, err
	}
	client := cli.NewClient(conn, end)
	if err := suppose(cmd.Context(), client, wanted); err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, inForce, nil
}

// A supposition is what a session would be; zero fields are the defaults of the
// server.
type supposition struct {
	Mode   tools.Mode
	Level  tools.Level
	Labels map[string]string
}

// suppose makes the default session so.
func suppose(ctx context.Context, c *cli.Client, wanted supposition) error {
	_, err := c.UpdateSession(ctx, &pb.UpdateSessionRequest{
		Session:    &pb.Session{Mode: pb.Mode(wanted.Mode), Level: pb.Level(wanted.Level), Labels: wanted.Labels},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode", "level", "labels"}},
	})
	return err
}

// judge has a call judged. A tool that the policy takes away is unknown to the
// server; where the policy is known here, that is a verdict too.
func judge(ctx context.Context, c *cli.Client, request *pb.CheckCallRequest, inForce *policy.Policy, principal string, labels map[string]string) (*pb.CheckCallResponse, error) {
	response, err := c.CheckCall(ctx, request)
	if status.Code(err) != codes.InvalidArgument || inForce == nil {
		return response, err
	}
	name := request.GetTool()
	for _, spec := range server.BuiltinSpecs() {
		if spec.Name != name && !slices.Contains(spec.Aliases, name) || !inForce.Hidden("", principal, labels, spec) {
			continue
		}
		return &pb.CheckCallResponse{Tool: spec.Name, Verdict: &pb.Verdict{
			Action: pb.Action_ACTION_DENY, Rule: "hidden", PolicyVersion: inForce.Version(),
			Reason: "The policy denies every call of the tool, so it is not listed, and calling it is like calling one that does not exist.",
		}}, nil
	}
	return nil, err
}

// showVerdict writes what the policy says to a call.
func showVerdict(out *cli.Stream, r *pb.CheckCallResponse) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", cli.VerdictText(r.GetVerdict()))
	fmt.Fprintf(&text, "(tool %s, policy %s)\n", cli.Visible(r.GetTool()), cli.Visible(r.GetVerdict().GetPolicyVersion()))
	if len(r.GetEffects()) > 0 {
		fmt.Fprintln(&text)
		table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "VERDICT\tBY\tEFFECT")
		shown := make(map[string]bool)
		for _, judged := range r.GetEffects() {
			verdict, effect := judged.GetVerdict(), cli.EffectText(judged.GetEffect())
			if shown[effect] && verdict.GetAction() == pb.Action_ACTION_ALLOW {
				continue // a tool that names its own use: that of the call says nothing more
			}
			shown[effect] = true
			fmt.Fprintf(table, "%s\t%s\t%s\n", cli.ActionText(verdict.GetAction()), cli.Visible(verdict.GetRule()), effect)
		}
		table.Flush()
	}
	if jail := cli.JailText(r.GetVerdict().GetRights()); jail != "" {
		fmt.Fprintf(&text, "\nJAIL  %s\n", jail)
	}
	if len(r.GetTiers()) > 0 {
		fmt.Fprint(&text, "\nFor the rest of the session a person could allow or forbid:\n")
		for _, tier := range r.GetTiers() {
			fmt.Fprintf(&text, "  %s  %s\n", cli.Visible(tier.GetTierId()), cli.Visible(tier.GetLabel()))
		}
	}
	if len(r.GetLimits()) > 0 {
		fmt.Fprintf(&text, "\nLimits that count it: %s\n", cli.Visible(strings.Join(r.GetLimits(), ", ")))
	}
	_, err := out.Write([]byte(text.String()))
	return err
}
