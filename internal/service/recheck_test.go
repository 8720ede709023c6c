// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestStreamsEndWithTheirCredentials: a token that is taken away, expires or loses its role
// ends the streams that were begun with it. What they follow goes on.
func TestStreamsEndWithTheirCredentials(t *testing.T) {
	known, err := auth.NewTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(c *service.Config) { c.Authenticator = &auth.Chain{Tokens: known} })
	of := func(name string, roles auth.Roles, expires time.Time) auth.Token {
		return auth.Token{Principal: auth.Principal{Name: name, Roles: roles}, Digest: auth.DigestOf("the-token-of-" + name), Expires: expires}
	}
	replace := func(list ...auth.Token) {
		t.Helper()
		if err := known.Replace(list); err != nil {
			t.Fatal(err)
		}
	}
	const agent = auth.Agent
	stays, goes, late := of("stays", agent, time.Time{}), of("goes", agent, time.Time{}), of("late", agent, time.Now().Add(2*time.Second))
	demoted, renamed := of("demoted", agent, time.Time{}), of("renamed", agent, time.Time{})
	replace(stays, goes, late, demoted, renamed)
	streams := make(map[string]eventStream)
	executions := make(map[string]string)
	for _, name := range []string{"stays", "goes", "late", "demoted", "renamed"} {
		stream, first := s.dial("the-token-of-" + name).begin(asJSON("sleep", `{"duration_ms":60000}`))
		streams[name], executions[name] = stream, first.GetExecutionId()
	}
	watch, err := s.dial("the-token-of-goes").WatchApprovals(timeout(t), new(pb.WatchApprovalsRequest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	viewer, other := of("demoted", auth.Viewer, time.Time{}), of("renamed", agent, time.Time{})
	viewer.Principal.Roles, other.Principal.Name = auth.Approver, "somebody"
	replace(stays, late, viewer, other)

	const lasts = "what was begun goes on"
	for name, want := range map[string]struct {
		code codes.Code
		says string
	}{
		"goes": {codes.Unauthenticated, "unknown token"}, "late": {codes.Unauthenticated, "expired"},
		"demoted": {codes.PermissionDenied, "which you have no longer"}, "renamed": {codes.Unauthenticated, "somebody else's"},
	} {
		_, err := rest(streams[name])
		wantCode(t, err, want.code, want.says, lasts)
	}
	_, err = watch.Recv()
	wantCode(t, err, codes.Unauthenticated, lasts)

	replace(stays, goes)
	for _, name := range []string{"stays", "goes"} {
		c := s.dial("the-token-of-" + name)
		if got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{ExecutionId: executions[name]}); err != nil || got.GetExecution().GetState() != pb.ExecutionState_EXECUTION_STATE_RUNNING {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		again, err := c.WatchExecution(timeout(t), &pb.WatchExecutionRequest{ExecutionId: executions[name], AfterSequence: 1})
		if err != nil {
			t.Fatal(err)
		}
		if event, err := again.Recv(); err != nil || event.GetEvent().GetSequence() != 2 {
			t.Errorf("%s follows it again: %v, %v", name, event, err)
		}
		if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: executions[name]}); err != nil {
			t.Error(err)
		}
	}
	events, err := rest(streams["stays"])
	if err != nil || len(events) == 0 || events[len(events)-1].GetFinished() == nil {
		t.Errorf("the stream of who stays: %v, %v", events, err)
	}
}

// TestStreamsEndWithWhatTheyShow: a stream that shows more than its caller may see by now
// ends, also where the caller may still call the method.
func TestStreamsEndWithWhatTheyShow(t *testing.T) {
	const secret = "the-token-of-somebody"
	wide := auth.Principal{Name: "somebody", Tenant: "acme", Roles: auth.Agent | auth.Approver, AllTenants: auth.AllRoles}
	known, err := auth.NewTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(c *service.Config) { c.Authenticator = &auth.Chain{Tokens: known} })
	is := func(p auth.Principal) {
		t.Helper()
		if err := known.Replace([]auth.Token{{Principal: p, Digest: auth.DigestOf(secret)}}); err != nil {
			t.Fatal(err)
		}
	}
	for change, test := range map[string]struct {
		to   func(*auth.Principal)
		code codes.Code
	}{
		"another tenant":      {func(p *auth.Principal) { p.Tenant = "beta" }, codes.Unauthenticated},
		"one tenant alone":    {func(p *auth.Principal) { p.AllTenants = 0 }, codes.Unauthenticated},
		"another mode":        {func(p *auth.Principal) { p.MaxMode = tools.ModePlan }, codes.Unauthenticated},
		"no approver anymore": {func(p *auth.Principal) { p.Roles = auth.Agent }, codes.PermissionDenied},
	} {
		is(wide)
		watch, err := s.dial(secret).WatchApprovals(timeout(t), new(pb.WatchApprovalsRequest))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watch.Recv(); err != nil {
			t.Fatal(err)
		}
		now := wide
		test.to(&now)
		is(now)
		if _, err = watch.Recv(); status.Code(err) != test.code || !strings.Contains(err.Error(), "what was begun goes on") {
			t.Errorf("%s: %v, want %s", change, err, test.code)
		}
	}
}

// stalled begins a download of a session and takes its first message alone.
func stalled(t *testing.T, c *client, session string) {
	t.Helper()
	files := pb.NewWorkspaceServiceClient(c.conn)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	file, err := files.ReadFile(ctx, &pb.ReadFileRequest{SessionId: session, Path: "large"})
	if err == nil {
		_, err = file.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	tree, err := files.DownloadTree(ctx, &pb.DownloadTreeRequest{SessionId: session})
	if err == nil {
		_, err = tree.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ends waits until the server has ended calls of methods with a code.
func (s *testServer) ends(code codes.Code, methods ...string) {
	s.t.Helper()
	ctx := timeout(s.t)
	for _, method := range methods {
		want := fmt.Sprintf("\ntoolserver_rpcs_total{code=%q,method=%q} 1\n", code, "/toolserver.v1."+method)
		for !strings.Contains(metricsText(s.t, s.metrics), want) {
			if ctx.Err() != nil {
				s.t.Fatalf("no call of %s ends with %s", method, code)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func large(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDownloadsThatNobodyReadsEnd: they keep neither their session nor their place among
// the calls that run.
func TestDownloadsThatNobodyReadsEnd(t *testing.T) {
	s := serve(t, withArtifacts(t, artifact.Config{}), func(c *service.Config) { c.Files.Idle = 50 * time.Millisecond })
	large(t, s.workspace)
	c := s.dial("")
	stalled(t, c, "")
	link := c.keep("", `{"bytes":4000000}`)
	if text := metricsText(t, s.metrics); !strings.Contains(text, "\ntoolserver_artifacts 1\n") || !strings.Contains(text, "\ntoolserver_artifact_bytes 4e+06\n") {
		t.Errorf("an artifact is kept:\n%s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := c.ReadArtifact(ctx, &pb.ReadArtifactRequest{Uri: link.GetUri()})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.ends(codes.DeadlineExceeded, "WorkspaceService/ReadFile", "WorkspaceService/DownloadTree", "ToolService/ReadArtifact")
}

// TestCloseSessionEndsDownloads: of a session that is closed nothing more is sent.
func TestCloseSessionEndsDownloads(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	dir := filepath.Join(os.Getenv("TEST_ALLOWED"), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	large(t, dir)
	if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "files", Workspace: dir}); err != nil {
		t.Fatal(err)
	}
	stalled(t, c, "files")
	if _, err := c.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "files"}); err != nil {
		t.Fatal(err)
	}
	s.ends(codes.Aborted, "WorkspaceService/ReadFile", "WorkspaceService/DownloadTree")
}

// TestLookingMakesNoSession: who is no agent has no session, and gets none by looking.
func TestLookingMakesNoSession(t *testing.T) {
	s := serve(t, withRoles)
	vera := s.dial(viewerToken)
	ctx := timeout(t)
	list, err := vera.ListTools(ctx, new(pb.ListToolsRequest))
	if err != nil || len(list.GetTools()) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	watch, err := vera.WatchTools(ctx, new(pb.WatchToolsRequest))
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetVersion() != list.GetVersion() {
		t.Errorf("%v, %v", first, err)
	}
	_, err = vera.GetSession(ctx, new(pb.GetSessionRequest))
	wantCode(t, err, codes.NotFound)
	_, err = vera.ListTools(ctx, &pb.ListToolsRequest{SessionId: "nix"})
	wantCode(t, err, codes.NotFound)
	if sessions, err := vera.ListSessions(ctx, &pb.ListSessionsRequest{Principal: "*"}); err != nil || len(sessions.GetSessions()) != 0 {
		t.Errorf("looking made %v, %v", sessions, err)
	}
}
