// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/endpoint"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newSessions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Open, see, change and close sessions",
		Long: `sessions works with the sessions of a server. A session is where calls happen: a
workspace, how much it is trusted, and which tools it has. Who never opens one
works in the session "default". 'toolserver sessions' alone lists them.`,
	}
	listsAlone(cmd, newSessionsList())
	cmd.AddCommand(newSessionsCreate(), newSessionsShow(), newSessionsMode(), newSessionsClose(), newSessionsEvents())
	return cmd
}

// onServer returns what runs a command with a client of a server that is running.
func onServer(to *Target, run func(ctx context.Context, c *Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := to.connectOutside(cmd)
		if err != nil {
			return err
		}
		defer client.Close()
		return run(cmd.Context(), client, args)
	}
}

// word reads one of the words that an enumeration has.
func word[E ~int32](what, text, prefix string, values map[string]int32) (E, error) {
	if text == "" {
		return 0, nil
	}
	name := prefix + strings.ToUpper(strings.ReplaceAll(text, "-", "_"))
	if value := values[name]; value != 0 {
		return E(value), nil
	}
	known := words(prefix, values)
	hint := ": want " + strings.Join(known[:len(known)-1], ", ") + " or " + known[len(known)-1]
	hint += nearest.Hint(nearest.Names(text, known))
	return 0, fmt.Errorf("%s %q%s", what, text, hint)
}

// words returns the words of an enumeration, in its order.
func words(prefix string, values map[string]int32) []string {
	var list []string
	for name, value := range values {
		if value != 0 {
			list = append(list, strings.ToLower(strings.TrimPrefix(name, prefix)))
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		return int(values[prefix+strings.ToUpper(a)] - values[prefix+strings.ToUpper(b)])
	})
	return list
}

func newSessionsCreate() *cobra.Command {
	var (
		to                                  Target
		mode, level, network, order, answer string
		workspace                           string
		idle, wait                          time.Duration
		asJSON                              bool
	)
	request := &pb.CreateSessionRequest{Tools: new(pb.ToolSelection), Activation: new(pb.ToolActivation)}
	cmd := &cobra.Command{
		Use:   "create [ID]",
		Short: "Open a session and print its id",
		Long: `create opens a session. Without ID the server chooses one; without --workspace it
makes an empty directory, which it keeps for a while after the session ended: with
--restore a new session of the same ID works on in it. A directory that is there
already can be chosen at or below those that sessions.allowed_workspaces of the server's
configuration lists, which is none by default. What no flag says is as the server has it
by default, and no flag goes beyond what its operator allows.`,
		Example: `  toolserver sessions create --mode accept_edits mine && toolserver cp . mine:
  toolserver sessions create --restore mine
  S=$(toolserver sessions create) && toolserver call --session $S bash command=pwd`,
		Args: Arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&mode, "mode", "", "what happens with calls that change something: "+strings.Join(words("MODE_", pb.Mode_value), ", "))
	flags.StringVar(&level, "level", "", "how much it is trusted: "+strings.Join(words("LEVEL_", pb.Level_value), ", "))
	flags.StringVar(&network, "network", "", "how far its commands reach: "+strings.Join(words("NETWORK_", pb.Network_value), ", "))
	flags.StringSliceVar(&request.Tools.Include, "tools", nil, `tools it has: names, globs such as "git_*", kinds such as "@builtin"; none: all`)
	flags.StringSliceVar(&request.Tools.Exclude, "without", nil, "tools it does not have, also if --tools names them")
	flags.StringSliceVar(&request.Activation.Pinned, "pin", nil, "tools whose definitions its model is always given: names, or globs (default: as the server has it)")
	flags.Uint32Var(&request.Activation.Limit, "active", 0, "how many others its model is given, those found or called last (default: as the server has it)")
	flags.StringToStringVar(&request.Labels, "label", nil, "free words for rules, logs and people, such as team=infra")
	flags.DurationVar(&idle, "idle-ttl", 0, "how long to keep it unused; 0: for ever (default: as the server has it)")
	flags.StringVar(&order, "call-order", "", "which calls run at the same time: free (all that come) or safe (those that disturb no other)")
	flags.DurationVar(&wait, "edit-errors", 0, "how long edits may wait for the errors that their files have since, at most 30s; 0: not at all (default: as the server has it)")
	flags.StringVar(&answer, "answer", "", `how much text an answer has at most: characters, such as 50000, or tokens, such as "12000 tokens"`)
	flags.StringVar(&request.Persona, "persona", "", "agent system whose tools it shows and whose results it gives, such as claude-code (default: our own)")
	flags.StringVar(&request.Dialect, "dialect", "", "how its model reads and writes calls, such as anthropic: tokens are estimated for it")
	flags.BoolVar(&request.Restore, "restore", false, "work on in the workspace of your last session ID, which ended, with its todos, plan and notes; nothing else of it comes back")
	flags.BoolVar(&asJSON, "json", false, "print the session, as JSON")
	Complete(cmd, "dialect", toolcall.Names()...)
	Complete(cmd, "call-order", words("CALL_ORDER_", pb.CallOrder_value)...)
	Complete(cmd, "mode", words("MODE_", pb.Mode_value)...)
	Complete(cmd, "level", words("LEVEL_", pb.Level_value)...)
	Complete(cmd, "network", words("NETWORK_", pb.Network_value)...)
	flags.StringVar(&workspace, "workspace", "", "directory of the server to work in (default: a new one, which is kept for a while after the session ended)")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		var err error
		if len(args) == 1 {
			request.SessionId = args[0]
		}
		if request.Mode, err = word[pb.Mode]("--mode", mode, "MODE_", pb.Mode_value); err != nil {
			return err
		}
		if request.Level, err = word[pb.Level]("--level", level, "LEVEL_", pb.Level_value); err != nil {
			return err
		}
		if request.Network, err = word[pb.Network]("--network", network, "NETWORK_", pb.Network_value); err != nil {
			return err
		}
		if request.CallOrder, err = word[pb.CallOrder]("--call-order", order, "CALL_ORDER_", pb.CallOrder_value); err != nil {
			return err
		}
		if request.Answer, err = budgetFrom(answer); err != nil {
			return fmt.Errorf("--answer: %w", err)
		}
		if request.GetRestore() && request.GetSessionId() == "" {
			return errors.New("--restore: name the session that ended; 'toolserver sessions list --ended' lists them")
		}
		if flags.Changed("idle-ttl") {
			request.IdleTtl = durationpb.New(idle)
		}
		if flags.Changed("edit-errors") {
			request.EditErrors = durationpb.New(wait)
		}
		if request.Workspace, err = to.serverPath("--workspace", workspace); err != nil {
			return err
		}
		response, err := c.CreateSession(ctx, request)
		if err != nil {
			return err
		}
		out := NewStream(os.Stdout)
		if asJSON {
			return WriteJSON(out, response.GetSession())
		}
		_, err = fmt.Fprintln(out, response.GetSession().GetSessionId())
		return err
	})
	return cmd
}

// budgetFrom reads how much text an answer has at most; nothing says nothing.
func budgetFrom(text string) (*pb.AnswerBudget, error) {
	if text == "" {
		return nil, nil
	}
	var size tools.Budget
	if err := size.UnmarshalText([]byte(text)); err != nil {
		return nil, err
	}
	if size.Tokens > 0 {
		return &pb.AnswerBudget{Size: &pb.AnswerBudget_Tokens{Tokens: uint32(size.Tokens)}}, nil
	}
	return &pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: uint32(size.Characters)}}, nil
}

// budgetText is the words for it.
func budgetText(b *pb.AnswerBudget) string {
	if n := b.GetTokens(); n > 0 {
		return fmt.Sprintf("at most %d tokens", n)
	}
	return fmt.Sprintf("at most %d characters", b.GetCharacters())
}

// serverPath returns a path of the server's machine. One that is relative is
// taken to be one of this machine, where the server is here.
func (t *Target) serverPath(flag, path string) (string, error) {
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	if !endpoint.IsLocal(t.address) {
		return "", fmt.Errorf("%s %q: want an absolute path of the server's machine", flag, path)
	}
	return filepath.Abs(path)
}

func newSessionsList() *cobra.Command {
	var (
		to            Target
		ended, asJSON bool
		of            ownerFlags
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your sessions, the oldest first",
		Long: `list lists your sessions, the oldest first; with --ended those that ended and that
the server still knows of: when and why, and until when the workspace that was made
for one is kept. 'toolserver sessions create --restore' works on in that.`,
		Args: Arguments,
	}
	cmd.Flags().BoolVar(&ended, "ended", false, "list the sessions that ended, and no others")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one session a line, as JSON")
	of.addFlags(cmd, "those of this principal, or * for everybody's, instead of yours")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, _ []string) error {
		list, gone, err := c.sessionsAnd(ctx, of, ended)
		if err != nil {
			return err
		}
		if ended {
			list = gone
		}
		out := NewStream(os.Stdout)
		if asJSON {
			return writeLines(out, list)
		}
		if ended {
			return endedTable(out, list)
		}
		return sessionTable(out, list, time.Now(), of != ownerFlags{})
	})
	return cmd
}

// ownerFlags says whose things a command is about. The zero value is the caller.
type ownerFlags struct{ principal, tenant string }

// addFlags adds the flags for those who look at what others have.
func (w *ownerFlags) addFlags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&w.principal, "principal", "", usage+" (for operators and viewers)")
	cmd.Flags().StringVar(&w.tenant, "tenant", "", "the tenant of that principal, or * for every tenant in lists (for operators and viewers of all tenants)")
}

// ownerText names a principal of a tenant.
func ownerText(tenant, principal string) string {
	if tenant != "" {
		return Visible(tenant + "/" + principal)
	}
	return Visible(principal)
}

// allSessions returns the sessions of the caller.
func (c *Client) allSessions(ctx context.Context) ([]*pb.Session, error) {
	list, _, err := c.sessionsAnd(ctx, ownerFlags{}, false)
	return list, err
}

// sessionsAnd returns the sessions of a principal, or of the caller, and, where they are
// wanted, those that ended.
func (c *Client) sessionsAnd(ctx context.Context, of ownerFlags, wanted bool) (list, ended []*pb.Session, err error) {
	request := &pb.ListSessionsRequest{PageSize: 1000, IncludeEnded: wanted, Principal: of.principal, Tenant: of.tenant}
	for {
		page, err := c.ListSessions(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range page.GetSessions() {
			if s.GetEndTime() != nil {
				ended = append(ended, s)
			} else {
				list = append(list, s)
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return list, ended, nil
		}
	}
}

func endedTable(out *Stream, list []*pb.Session) error {
	t := NewTable(out, "SESSION", "ENDED", "KEPT UNTIL", "WHY", "WORKSPACE")
	for _, s := range list {
		kept := "not kept"
		if at := s.GetWorkspaceExpireTime(); at != nil {
			kept = at.AsTime().Local().Format(time.DateTime)
		}
		t.Row(Visible(s.GetSessionId()), s.GetEndTime().AsTime().Local().Format(time.DateTime), kept,
			Visible(s.GetEndReason()), Visible(s.GetWorkspace()))
	}
	return t.Flush()
}

// sessionTable writes sessions, those of agents below who began them, with whose they are if
// that is asked for.
func sessionTable(out *Stream, list []*pb.Session, now time.Time, whose bool) error {
	heads := []string{"SESSION", "MODE", "LEVEL", "NETWORK", "USED", "WORKSPACE"}
	if whose {
		heads = slices.Insert(heads, 1, "PRINCIPAL")
	}
	t := NewTable(out, heads...)
	for _, s := range asTree(list) {
		row := []string{s.name, modeText(s.GetMode()), levelText(s.GetLevel()), networkWord(s.GetNetwork()),
			ageText(now.Sub(s.GetLastUsedTime().AsTime())), Visible(s.GetWorkspace())}
		if whose {
			row = slices.Insert(row, 1, ownerText(s.GetTenant(), s.GetPrincipal()))
		}
		t.Row(row...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		if s.GetStranded() != "" {
			fmt.Fprintf(out, "%s: %s\n", Visible(s.GetSessionId()), Visible(s.GetStranded()))
		}
	}
	return nil
}

// withNearest adds to a refusal the names that are like the one given, or else the
// command that lists them.
func (c *Client) withNearest(err error, name string, known []string, list string) error {
	hint := c.command(list) + " lists them"
	if near := nearest.Names(name, known); len(near) > 0 {
		hint = "did you mean " + near[0] + "?" // ids are often like each other
	}
	return status.Error(status.Code(err), status.Convert(err).Message()+"; "+hint)
}

func newSessionsMode() *cobra.Command {
	var to Target
	modes := words("MODE_", pb.Mode_value)
	cmd := &cobra.Command{
		Use:   "mode SESSION MODE",
		Short: "Change what happens with calls that change something",
		Long: `mode changes the mode of a session, for calls that come after it:

  ask           a person is asked about each
  accept_edits  edits of workspace files run, a person is asked about the rest
  allow         they run, as far as they are contained
  plan          they are refused
  deny          no call runs, not even one that only reads`,
		Example: `  toolserver sessions mode default accept_edits`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want the session and its new mode, such as: toolserver sessions mode default %s", modes[0])
			}
			return nil
		},
	}
	names := completeSessions(&to)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return modes, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, prefix)
	}
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		mode, err := word[pb.Mode]("mode", args[1], "MODE_", pb.Mode_value)
		if err != nil {
			return err
		}
		if mode == 0 {
			return fmt.Errorf("the mode is empty: want one of %s", strings.Join(modes, ", "))
		}
		response, err := c.UpdateSession(ctx, &pb.UpdateSessionRequest{
			Session:    &pb.Session{SessionId: args[0], Mode: mode},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode"}},
		})
		if err != nil {
			return c.unknownSession(ctx, err, ownerFlags{}, args[0])
		}
		s := response.GetSession()
		_, err = fmt.Fprintln(NewStream(os.Stdout), Visible(s.GetSessionId()), modeText(s.GetMode()))
		return err
	})
	return cmd
}

func newSessionsClose() *cobra.Command {
	var (
		to     Target
		reason string
		of     ownerFlags
	)
	cmd := &cobra.Command{
		Use:   "close SESSION...",
		Short: "Close sessions, and end what runs in them",
		Long: `close cancels what runs in a session, waits for its end, and ends the session. A
workspace that the server made for it is kept for a while, as its operator says:
'toolserver sessions create --restore' works on in it, and 'toolserver sessions list
--ended' says until when.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the session to close; 'toolserver sessions list' lists them")
			}
			return nil
		},
		ValidArgsFunction: completeSessions(&to),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in a sentence; its owner and the audit log are told")
	of.addFlags(cmd, "whose sessions they are, where they are not yours")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		for _, id := range args {
			// That of which the files are gone cannot be looked at, but can be closed.
			if _, err := c.session(ctx, of, id); err != nil && status.Code(err) != codes.FailedPrecondition {
				return err
			}
			response, err := c.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: id, Principal: of.principal, Tenant: of.tenant, Reason: reason})
			if err != nil {
				return err
			}
			fmt.Fprintf(NewStream(os.Stdout), "%s closed, %d executions cancelled\n", Visible(id), response.GetCancelledExecutions())
		}
		return nil
	})
	return cmd
}

func newSessionsEvents() *cobra.Command {
	var (
		to     Target
		asJSON bool
		of     ownerFlags
	)
	cmd := &cobra.Command{
		Use:   "events [SESSION]",
		Short: "Follow what comes, runs and ends in a session",
		Long: `events prints a line for each execution of a session that has not ended, and then
one whenever an execution comes, begins to run or ends, until the session is closed
or you press Ctrl-C. It changes nothing: what runs does not wait for you, and the
session counts as unused. "toolserver watch" follows one execution in full.`,
		Args:              Arguments,
		ValidArgsFunction: completeSessions(&to),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one execution a line, as JSON")
	of.addFlags(cmd, "whose session it is, where it is not yours")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		id := strings.Join(args, "")
		stream, err := c.WatchSession(ctx, &pb.WatchSessionRequest{SessionId: id, Principal: of.principal, Tenant: of.tenant})
		if err != nil {
			return err
		}
		out := NewStream(os.Stdout)
		for {
			response, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				fmt.Fprintln(NewStream(os.Stderr), "(the session was closed)")
				return nil
			}
			if err != nil {
				return c.unknownSession(ctx, err, of, id)
			}
			switch x := response.GetExecution(); {
			case x == nil: // nothing happened for a while
			case asJSON:
				err = WriteJSON(out, x)
			default:
				err = writeChange(out, x)
			}
			if err != nil {
				return err
			}
		}
	})
	return cmd
}

// writeChange writes a line about an execution.
func writeChange(out *Stream, x *pb.Execution) error {
	at, took := x.GetCreateTime(), ""
	if x.GetStartTime() != nil {
		at = x.GetStartTime()
	}
	if x.GetEndTime() != nil {
		took = " after " + lapse(x.GetEndTime().AsTime().Sub(x.GetCreateTime().AsTime()))
		at = x.GetEndTime()
	}
	line := fmt.Sprintf("%s %s %s %s%s", at.AsTime().Local().Format(time.TimeOnly), x.GetExecutionId(), Visible(x.GetTool()), stateText(x), took)
	if x.GetPurpose() != "" {
		line += ": " + Visible(x.GetPurpose())
	}
	if out.terminal {
		line = fit(line, out.width())
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// completeSessions completes ids of sessions.
func completeSessions(to *Target) completer {
	return completeIDs(to, func(ctx context.Context, client *Client) ([]*pb.Session, error) { return client.allSessions(ctx) },
		func(s *pb.Session) (id, about string) {
			return s.GetSessionId(), modeText(s.GetMode()) + " " + Visible(s.GetWorkspace())
		})
}
