// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newSessionsShow() *cobra.Command {
	var (
		to     Target
		asJSON bool
		of     ownerFlags
	)
	cmd := &cobra.Command{
		Use:               "show [SESSION]",
		Short:             "Show all about a session; without a name, your default session",
		Args:              Arguments,
		ValidArgsFunction: completeSessions(&to),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	of.addFlags(cmd, "whose session it is, where it is not yours")
	to.addOutsideFlags(cmd)
	cmd.RunE = onServer(&to, func(ctx context.Context, c *Client, args []string) error {
		s, err := c.session(ctx, of, strings.Join(args, ""))
		if err != nil {
			return err
		}
		out := NewStream(os.Stdout)
		if asJSON {
			return WriteJSON(out, s)
		}
		return c.showSession(ctx, out, s)
	})
	return cmd
}

// session returns a session; for one there is not, the nearest names.
func (c *Client) session(ctx context.Context, of ownerFlags, id string) (*pb.Session, error) {
	response, err := c.GetSession(ctx, &pb.GetSessionRequest{SessionId: id, Principal: of.principal, Tenant: of.tenant})
	return response.GetSession(), c.unknownSession(ctx, err, of, id)
}

// unknownSession adds to an error about a session that there is not what may have
// been meant.
func (c *Client) unknownSession(ctx context.Context, err error, of ownerFlags, id string) error {
	if status.Code(err) != codes.NotFound {
		return err
	}
	var ids []string
	if list, ended, failed := c.sessionsAnd(ctx, of, true); failed == nil {
		if slices.ContainsFunc(ended, func(s *pb.Session) bool { return s.GetSessionId() == id }) {
			return err // which says when and why
		}
		for _, s := range list {
			ids = append(ids, s.GetSessionId())
		}
	}
	return c.withNearest(err, id, ids, "sessions list")
}

func (c *Client) showSession(ctx context.Context, out *Stream, s *pb.Session) error {
	counts := make(map[pb.ExecutionState]int)
	executions, more, err := c.list(ctx, &pb.ListExecutionsRequest{SessionId: s.GetSessionId(), Principal: s.GetPrincipal(), Tenant: s.GetTenant()}, 1000)
	if err != nil {
		return err
	}
	for _, x := range executions {
		counts[x.GetState()]++
	}
	calls := fmt.Sprintf("%d running, %d waiting, %d finished", counts[pb.ExecutionState_EXECUTION_STATE_RUNNING],
		counts[pb.ExecutionState_EXECUTION_STATE_WAITING], counts[pb.ExecutionState_EXECUTION_STATE_FINISHED])
	if more {
		calls += ", and older ones"
	}
	idle := "kept for ever"
	if d := s.GetIdleTtl().AsDuration(); d > 0 {
		idle = "closed when unused for " + d.String()
	}
	name := Visible(s.GetSessionId())
	if s.GetIsDefault() {
		name += " (what you have without asking for any)"
	}
	now := time.Now()
	t := NewTable(out)
	t.Row("session", name)
	t.Row("principal", ownerText(s.GetTenant(), s.GetPrincipal()))
	if s.GetParentSessionId() != "" {
		t.Row("agent", Visible(linkText(&pb.AgentLink{
			Agent: s.GetAgent(), SessionId: s.GetSessionId(), ParentSessionId: s.GetParentSessionId(), ExecutionId: s.GetParentExecutionId()})))
	}
	t.Row("workspace", Visible(s.GetWorkspace()))
	t.Row("mode", modeText(s.GetMode()))
	t.Row("level", levelText(s.GetLevel()))
	t.Row("network", networkWord(s.GetNetwork()))
	t.Row("tools", selectionText(s.GetTools()))
	t.Row("pinned", Visible(strings.Join(s.GetActivation().GetPinned(), ", ")))
	t.Row("active", activeText(s.GetActivation()))
	if persona := s.GetPersona(); persona != "" {
		t.Row("persona", persona)
	}
	if dialect := s.GetDialect(); dialect != "" {
		t.Row("dialect", dialect)
	}
	t.Row("call order", enumWord(s.GetCallOrder(), "CALL_ORDER_"))
	if wait := s.GetEditErrors().AsDuration(); wait > 0 {
		t.Row("edit errors", "within "+wait.String())
	}
	t.Row("answers", budgetText(s.GetAnswer()))
	for _, key := range slices.Sorted(maps.Keys(s.GetLabels())) {
		t.Row("label", Visible(key)+"="+Visible(s.GetLabels()[key]))
	}
	t.Row("created", timeText(s.GetCreateTime(), now))
	t.Row("last used", timeText(s.GetLastUsedTime(), now))
	t.Row("idle", idle)
	t.Row("executions", calls)
	if n := s.GetForgottenCalls(); n > 0 {
		t.Row("forgotten", fmt.Sprintf("%d call ids: calls with them would run again", n))
	}
	return t.Flush()
}

// activeText tells which tools are active beside those that are pinned.
func activeText(a *pb.ToolActivation) string {
	names := "none yet"
	if len(a.GetActive()) > 0 {
		names = strings.Join(a.GetActive(), ", ")
	}
	return Visible(fmt.Sprintf("%s (%d at most)", names, a.GetLimit()))
}

func selectionText(s *pb.ToolSelection) string {
	text := "all"
	if len(s.GetInclude()) > 0 {
		text = Visible(strings.Join(s.GetInclude(), ", "))
	}
	if len(s.GetExclude()) > 0 {
		text += ", without " + Visible(strings.Join(s.GetExclude(), ", "))
	}
	return text
}
