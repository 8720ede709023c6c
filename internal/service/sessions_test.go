// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestListTools(t *testing.T) {
	c := serve(t).dial("")
	names := func(request *pb.ListToolsRequest) []string {
		t.Helper()
		response, err := c.ListTools(timeout(t), request)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range response.GetTools() {
			names = append(names, tool.GetName())
		}
		return names
	}
	all := names(&pb.ListToolsRequest{})
	if !slices.IsSorted(all) || !slices.Contains(all, "read_file") || len(all) < 10 {
		t.Errorf("all: %v", all)
	}
	if got := names(&pb.ListToolsRequest{Names: []string{"Read", "s*"}}); !slices.Equal(got, []string{"read_file", "send_user_message", "sleep", "structured_output"}) {
		t.Errorf("by name: %v", got)
	}
	if got := names(&pb.ListToolsRequest{Query: "WAIT"}); !slices.Equal(got, []string{"sleep"}) {
		t.Errorf("by word: %v", got)
	}
	if got := names(&pb.ListToolsRequest{Category: "files", Kind: pb.ToolKind_TOOL_KIND_BUILTIN}); !slices.Contains(got, "read_file") || slices.Contains(got, "sleep") {
		t.Errorf("by category: %v", got)
	}
	if got := names(&pb.ListToolsRequest{Kind: pb.ToolKind_TOOL_KIND_MCP}); len(got) != 0 {
		t.Errorf("by kind: %v", got)
	}
	response, err := c.ListTools(timeout(t), &pb.ListToolsRequest{Names: []string{"read_file", "needs_gpu"}, View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil || len(response.GetTools()) != 2 {
		t.Fatal(response, err)
	}
	if reason := response.GetTools()[0].GetUnavailableReason(); !strings.Contains(reason, "gpu") {
		t.Errorf("unavailable: %q", reason)
	}
	tool := response.GetTools()[1]
	if tool.GetDescription() == "" || !strings.HasPrefix(tool.GetInputSchema(), `{"type":"object"`) || len(tool.GetExamples()) == 0 ||
		tool.GetLevel() != pb.Level_LEVEL_READ_ONLY || tool.GetKind() != pb.ToolKind_TOOL_KIND_BUILTIN {
		t.Errorf("full view: %v", tool)
	}
	if response, err = c.ListTools(timeout(t), &pb.ListToolsRequest{Names: []string{"read_file"}}); err != nil || response.GetTools()[0].GetInputSchema() != "" {
		t.Errorf("index: %v, %v", response, err)
	}
}

func TestSessions(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	ctx := timeout(t)
	created, err := c.CreateSession(ctx, &pb.CreateSessionRequest{
		SessionId: "work", Mode: pb.Mode_MODE_ALLOW, Labels: map[string]string{"team": "a"},
		Tools: &pb.ToolSelection{Include: []string{"@builtin"}, Exclude: []string{"s*"}}, IdleTtl: durationpb.New(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	session := created.GetSession()
	if session.GetWorkspace() == s.workspace || session.GetLevel() != pb.Level_LEVEL_WORKSPACE_WRITE || session.GetMode() != pb.Mode_MODE_ALLOW {
		t.Errorf("created %v", session)
	}
	in := func(tool string) *pb.Finished {
		t.Helper()
		return c.run(&pb.ExecuteToolRequest{SessionId: "work", Tool: tool})
	}
	if end := in("writes"); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("mode allow: %v", end)
	}
	if end := in("sleep"); end.GetOutcome() != pb.Outcome_OUTCOME_NO_SUCH_TOOL {
		t.Errorf("a tool that is not selected: %v", end)
	}
	if list, err := c.ListTools(ctx, &pb.ListToolsRequest{SessionId: "work", Names: []string{"sleep"}}); err != nil || len(list.GetTools()) != 0 {
		t.Errorf("a tool that is not selected is listed: %v", list)
	}
	updated, err := c.UpdateSession(ctx, &pb.UpdateSessionRequest{
		Session:    &pb.Session{SessionId: "work", Mode: pb.Mode_MODE_PLAN, Labels: map[string]string{"ignored": "x"}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode", "tools"}},
	})
	if err != nil || updated.GetSession().GetMode() != pb.Mode_MODE_PLAN || updated.GetSession().GetLabels()["team"] != "a" {
		t.Errorf("updated %v, %v", updated, err)
	}
	if end := in("writes"); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || end.GetVerdict().GetRule() != "mode plan" {
		t.Errorf("mode plan: %v", end)
	}

	request := asJSON("sleep", `{"duration_ms":60000}`)
	request.SessionId = "work"
	stream, _ := c.begin(request)
	closed, err := c.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "work"})
	if err != nil || closed.GetCancelledExecutions() != 1 {
		t.Errorf("closed %v, %v", closed, err)
	}
	if events, err := rest(stream); err != nil || !strings.Contains(text(events[len(events)-1].GetFinished()), "session was closed") {
		t.Errorf("%v, %v", events, err)
	}
	if _, err := c.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "work"}); err != nil {
		t.Errorf("closing again: %v", err)
	}
	_, err = c.GetSession(ctx, &pb.GetSessionRequest{SessionId: "work"})
	wantCode(t, err, codes.NotFound)
}

// TestSessionOfTheSameName proves that a session that was closed leaves its call
// ids to nobody.
func TestSessionOfTheSameName(t *testing.T) {
	c := serve(t).dial("")
	ctx := timeout(t)
	var ids []string
	for range 2 {
		if _, err := c.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "again"}); err != nil {
			t.Fatal(err)
		}
		events, err := c.call(&pb.ExecuteToolRequest{SessionId: "again", CallId: proto.String("1"), Tool: "count", InputJson: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, events[0].GetExecutionId())
		if _, err := c.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "again"}); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] == ids[1] {
		t.Error("the second session has the call of the first")
	}
}

// TestNetworkOfASession proves that a caller chooses how far its commands reach,
// within what the operator allows, and is told what that is.
func TestNetworkOfASession(t *testing.T) {
	c := serve(t, func(config *service.Config) {
		config.Sessions = session.NewStore(session.Config{
			WorkspaceRoot: t.TempDir(), MaxLevel: tools.ReadOnly, MaxNetwork: tools.NetworkHosts,
			Default: session.Settings{Level: tools.ReadOnly, Mode: tools.ModeAsk, Network: tools.NetworkLoopback},
		})
	}).dial("")
	ctx := timeout(t)
	created, err := c.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "work", Network: pb.Network_NETWORK_HOSTS})
	if err != nil || created.GetSession().GetNetwork() != pb.Network_NETWORK_HOSTS {
		t.Fatal(created, err)
	}
	update := func(network pb.Network, paths ...string) (*pb.UpdateSessionResponse, error) {
		return c.UpdateSession(ctx, &pb.UpdateSessionRequest{
			Session: &pb.Session{SessionId: "work", Network: network}, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
		})
	}
	_, err = update(pb.Network_NETWORK_OPEN, "network")
	wantCode(t, err, codes.PermissionDenied, "network open is above hosts")
	_, err = update(77, "network")
	wantCode(t, err, codes.InvalidArgument, "network 77")
	for _, step := range []struct {
		asked, want pb.Network
		path        string
	}{
		{pb.Network_NETWORK_NONE, pb.Network_NETWORK_HOSTS, "labels"}, // which the mask does not name
		{pb.Network_NETWORK_NONE, pb.Network_NETWORK_NONE, "network"},
		{pb.Network_NETWORK_UNSPECIFIED, pb.Network_NETWORK_LOOPBACK, "network"}, // the default again
	} {
		if updated, err := update(step.asked, step.path); err != nil || updated.GetSession().GetNetwork() != step.want {
			t.Errorf("%s of %s: %v, %v", step.path, step.asked, updated, err)
		}
		if got, err := c.GetSession(ctx, &pb.GetSessionRequest{SessionId: "work"}); err != nil || got.GetSession().GetNetwork() != step.want {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestIdleTime(t *testing.T) {
	c := serve(t).dial("")
	for asked, want := range map[*durationpb.Duration]time.Duration{
		nil: 0, durationpb.New(0): 0, durationpb.New(time.Minute): time.Minute,
	} {
		created, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{IdleTtl: asked})
		if err != nil || created.GetSession().GetIdleTtl().AsDuration() != want {
			t.Errorf("asked for %v: %v, %v, want %s", asked, created, err, want)
		}
	}
}

func TestSessionRefusals(t *testing.T) {
	c := serve(t).dial("")
	ctx := timeout(t)
	for _, test := range []struct {
		name    string
		request *pb.CreateSessionRequest
		code    codes.Code
	}{
		{"bad id", &pb.CreateSessionRequest{SessionId: "../x"}, codes.InvalidArgument},
		{"taken id", &pb.CreateSessionRequest{SessionId: "default"}, codes.AlreadyExists},
		{"level above the operator's", &pb.CreateSessionRequest{Level: pb.Level_LEVEL_DANGER_FULL_ACCESS}, codes.PermissionDenied},
		{"unknown level", &pb.CreateSessionRequest{Level: 99}, codes.InvalidArgument},
		{"network beyond the operator's", &pb.CreateSessionRequest{Network: pb.Network_NETWORK_OPEN}, codes.PermissionDenied},
		{"unknown network", &pb.CreateSessionRequest{Network: 99}, codes.InvalidArgument},
		{"unknown mode", &pb.CreateSessionRequest{Mode: 99}, codes.InvalidArgument},
		{"negative idle time", &pb.CreateSessionRequest{IdleTtl: durationpb.New(-time.Second)}, codes.InvalidArgument},
		{"too many patterns", &pb.CreateSessionRequest{Tools: &pb.ToolSelection{Include: slices.Repeat([]string{"x"}, 300)}}, codes.InvalidArgument},
		{"bad pattern", &pb.CreateSessionRequest{Tools: &pb.ToolSelection{Include: []string{"@no pe"}}}, codes.InvalidArgument},
		{"long label", &pb.CreateSessionRequest{Labels: map[string]string{"a": strings.Repeat("x", 300)}}, codes.InvalidArgument},
		{"relative workspace", &pb.CreateSessionRequest{Workspace: "here"}, codes.InvalidArgument},
		{"workspace elsewhere", &pb.CreateSessionRequest{Workspace: "/etc"}, codes.PermissionDenied},
		{"workspace that is not", &pb.CreateSessionRequest{Workspace: "/nope/nope"}, codes.PermissionDenied},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := c.GetSession(ctx, &pb.GetSessionRequest{}); err != nil {
				t.Fatal(err)
			}
			_, err := c.CreateSession(ctx, test.request)
			wantCode(t, err, test.code)
		})
	}
	_, err := c.CloseSession(ctx, &pb.CloseSessionRequest{})
	wantCode(t, err, codes.InvalidArgument, "default")
	_, err = c.UpdateSession(ctx, &pb.UpdateSessionRequest{})
	wantCode(t, err, codes.InvalidArgument, "update_mask")
	_, err = c.UpdateSession(ctx, &pb.UpdateSessionRequest{UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"workspace"}}})
	wantCode(t, err, codes.InvalidArgument, "workspace")
}

func TestListSessions(t *testing.T) {
	c := serve(t).dial("")
	ctx := timeout(t)
	for range 5 {
		if _, err := c.CreateSession(ctx, &pb.CreateSessionRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for token := ""; ; {
		page, err := c.ListSessions(ctx, &pb.ListSessionsRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range page.GetSessions() {
			ids = append(ids, session.GetSessionId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 5 {
		t.Errorf("sessions %v, want 5", ids)
	}
}
