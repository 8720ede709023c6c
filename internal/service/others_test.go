// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	operatorToken = "operator-and-nothing-else"
	viewerToken   = "viewer-and-nothing-else"
	boldToken     = "agent-who-may-more"
)

// withRoles is withTokens, and somebody for each of some roles alone.
func withRoles(c *service.Config) {
	known, err := auth.NewTokens(append(slices.Clone(tokens),
		auth.Token{Principal: auth.Principal{Name: "oscar", Roles: auth.Operator}, Secret: operatorToken},
		auth.Token{Principal: auth.Principal{Name: "vera", Roles: auth.Viewer}, Secret: viewerToken},
		auth.Token{Principal: auth.Principal{Name: "bold", Roles: auth.Agent, MaxMode: tools.ModeAcceptEdits}, Secret: boldToken},
	))
	if err != nil {
		panic(err)
	}
	c.Authenticator, c.Approvals.SelfApproval = &auth.Chain{Tokens: known}, false
}

// TestOperators: an operator sees and stops what others run, a viewer sees it, and who did
// what is in the audit log, with the reason.
func TestOperators(t *testing.T) {
	option, read := withAudit(t, withRoles)
	s := serve(t, option)
	ctx := timeout(t)
	alice, bob, oscar, vera := s.dial(tokens[0].Secret), s.dial(tokens[1].Secret), s.dial(operatorToken), s.dial(viewerToken)
	if _, err := alice.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "work"}); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "work"}); err != nil {
		t.Fatal(err)
	}
	begin := func(c *client, call string) (eventStream, string) {
		request := asJSON("sleep", `{"duration_ms":60000}`)
		request.SessionId, request.CallId = "work", proto.String(call)
		stream, first := c.begin(request)
		return stream, first.GetExecutionId()
	}
	one, first := begin(alice, "one")
	two, second := begin(alice, "two")
	_, _ = begin(bob, "three")

	// Both see all, and those of one.
	for _, who := range []*client{oscar, vera} {
		for principal, want := range map[string]int{"*": 2, "alice": 1, "nix": 0, "": 0} {
			list, err := who.ListSessions(ctx, &pb.ListSessionsRequest{Principal: principal})
			if err != nil || len(list.GetSessions()) != want {
				t.Errorf("sessions of %q: %v, %v", principal, list, err)
			}
		}
		for principal, want := range map[string]int{"*": 3, "alice": 2, "nix": 0, "": 0} {
			list, err := who.ListExecutions(ctx, &pb.ListExecutionsRequest{Principal: principal})
			if err != nil || len(list.GetExecutions()) != want {
				t.Errorf("executions of %q: %v, %v", principal, list, err)
			}
		}
		seen := make(map[string]bool) // by pages
		for page := new(pb.ListSessionsRequest); ; {
			page.Principal, page.PageSize = "*", 1
			list, err := who.ListSessions(ctx, page)
			if err != nil || len(list.GetSessions()) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			seen[list.GetSessions()[0].GetPrincipal()] = true
			if page.PageToken = list.GetNextPageToken(); page.PageToken == "" {
				break
			}
		}
		if len(seen) != 2 {
			t.Errorf("pages have sessions of %v", seen)
		}
		got, err := who.GetExecution(ctx, &pb.GetExecutionRequest{SessionId: "work", CallId: "one", Principal: "alice"})
		if err != nil || got.GetExecution().GetExecutionId() != first {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := who.GetSession(ctx, &pb.GetSessionRequest{SessionId: "work", Principal: "alice"}); err != nil || got.GetSession().GetPrincipal() != "alice" {
			t.Errorf("%v, %v", got, err)
		}
		_, err = who.GetSession(ctx, &pb.GetSessionRequest{Principal: "nix"}) // which is not made by looking
		wantCode(t, err, codes.NotFound)
		_, err = who.GetSession(ctx, &pb.GetSessionRequest{Principal: "*"})
		wantCode(t, err, codes.InvalidArgument, "name one")
		watch, err := who.WatchExecution(ctx, &pb.WatchExecutionRequest{ExecutionId: first})
		if err != nil {
			t.Fatal(err)
		}
		if event, err := watch.Recv(); err != nil || event.GetEvent().GetSequence() != 1 {
			t.Errorf("%v, %v", event, err)
		}
		if got, err := alice.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: first}); err != nil || got.GetExecution().GetFollowers() != 1 {
			t.Errorf("who looks on is no follower: %v, %v", got, err)
		}
		events, err := who.WatchSession(ctx, &pb.WatchSessionRequest{SessionId: "work", Principal: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		if event, err := events.Recv(); err != nil || event.GetExecution().GetExecutionId() != first {
			t.Errorf("%v, %v", event, err)
		}
	}
	// Nobody else can, and learns nothing: the answer is the same for what is not.
	for _, principal := range []string{"alice", "nix", "*"} {
		_, err := bob.ListSessions(ctx, &pb.ListSessionsRequest{Principal: principal})
		wantCode(t, err, codes.PermissionDenied, "a role of operator,viewer")
		_, err = bob.ListExecutions(ctx, &pb.ListExecutionsRequest{Principal: principal})
		wantCode(t, err, codes.PermissionDenied)
	}
	for _, principal := range []string{"alice", "nix"} {
		_, err := bob.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "work", Principal: principal})
		wantCode(t, err, codes.PermissionDenied)
		_, err = bob.Cancel(ctx, &pb.CancelRequest{SessionId: "work", CallId: "one", Principal: principal})
		wantCode(t, err, codes.PermissionDenied)
	}
	_, err := bob.Cancel(ctx, &pb.CancelRequest{ExecutionId: first})
	wantCode(t, err, codes.NotFound)
	_, err = vera.Cancel(ctx, &pb.CancelRequest{ExecutionId: first})
	wantCode(t, err, codes.PermissionDenied, "yours: viewer")
	_, err = oscar.call(asJSON("count", `{}`))
	wantCode(t, err, codes.PermissionDenied, "yours: operator")

	// The operator stops one call, and then the session.
	if _, err := oscar.Cancel(ctx, &pb.CancelRequest{ExecutionId: first, Reason: "it runs wild"}); err != nil {
		t.Fatal(err)
	}
	events, err := rest(one)
	if last := events[len(events)-1].GetFinished(); err != nil || last.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !strings.Contains(last.String(), "it runs wild") {
		t.Errorf("%v, %v", last, err)
	}
	_, err = oscar.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "work"})
	wantCode(t, err, codes.FailedPrecondition, "it was not closed", `"alice" "bob"`)
	closed, err := oscar.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "work", Principal: "alice", Reason: "maintenance"})
	if err != nil || closed.GetCancelledExecutions() != 1 {
		t.Fatalf("%v, %v", closed, err)
	}
	events, err = rest(two)
	if last := events[len(events)-1].GetFinished(); err != nil || !strings.Contains(last.String(), "was closed by oscar: maintenance") {
		t.Errorf("%v, %v", last, err)
	}
	_, err = alice.GetSession(ctx, &pb.GetSessionRequest{SessionId: "work"})
	wantCode(t, err, codes.NotFound, "closed by oscar: maintenance")
	if _, err := bob.GetSession(ctx, &pb.GetSessionRequest{SessionId: "work"}); err != nil {
		t.Errorf("the other session of this name: %v", err)
	}
	if _, err := oscar.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "nix"}); err != nil {
		t.Errorf("what is not there at all: %v", err)
	}
	_, err = oscar.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: "work", Principal: "bob", Reason: strings.Repeat("x", 5000)})
	wantCode(t, err, codes.InvalidArgument, "reason has 5000 bytes")

	s.shutdown()
	records := read()
	for _, want := range []audit.Record{
		{Step: audit.Cancelled, Principal: "alice", SessionID: "work", ExecutionID: first, By: "oscar", Reason: "it runs wild"},
		{Step: audit.SessionClosed, Principal: "alice", SessionID: "work", By: "oscar", Reason: "maintenance", Count: 1},
	} {
		if !slices.ContainsFunc(records, func(r audit.Record) bool {
			return r.Step == want.Step && r.Principal == want.Principal && r.SessionID == want.SessionID && r.ExecutionID == want.ExecutionID &&
				r.By == want.By && r.Reason == want.Reason && r.Count == want.Count && r.From != ""
		}) {
			t.Errorf("no record is %+v: %+v", want, records)
		}
	}
	_ = second
}

// TestModeCeiling: a caller chooses modes up to its own ceiling, else to the server's,
// which is the default mode unless the operator says more.
func TestModeCeiling(t *testing.T) {
	s := serve(t, withRoles, func(c *service.Config) {
		config := c.Sessions.Config()
		config.MaxMode = 0
		c.Sessions = session.NewStore(config)
	})
	ctx := timeout(t)
	alice, bold := s.dial(tokens[0].Secret), s.dial(boldToken)
	for _, test := range []struct {
		who  *client
		name string
		mode pb.Mode
		ok   bool
	}{
		{alice, "alice", pb.Mode_MODE_DENY, true}, {alice, "alice", pb.Mode_MODE_PLAN, true}, {alice, "alice", pb.Mode_MODE_ASK, true},
		{alice, "alice", pb.Mode_MODE_ACCEPT_EDITS, false}, {alice, "alice", pb.Mode_MODE_ALLOW, false},
		{bold, "bold", pb.Mode_MODE_PLAN, true}, {bold, "bold", pb.Mode_MODE_ACCEPT_EDITS, true}, {bold, "bold", pb.Mode_MODE_ALLOW, false},
	} {
		created, err := test.who.CreateSession(ctx, &pb.CreateSessionRequest{Mode: test.mode})
		if test.ok != (err == nil) {
			t.Errorf("%s makes a session with %s: %v, %v", test.name, test.mode, created, err)
		}
		if !test.ok {
			wantCode(t, err, codes.PermissionDenied, "not among those the operator allows you: [ask")
		}
		_, err = test.who.UpdateSession(ctx, &pb.UpdateSessionRequest{
			Session: &pb.Session{Mode: test.mode}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode"}},
		})
		if test.ok != (err == nil) {
			t.Errorf("%s changes its session to %s: %v", test.name, test.mode, err)
		}
	}
	info, err := bold.GetServerInfo(ctx, new(pb.GetServerInfoRequest))
	want := []pb.Mode{pb.Mode_MODE_ASK, pb.Mode_MODE_DENY, pb.Mode_MODE_PLAN, pb.Mode_MODE_ACCEPT_EDITS}
	if err != nil || !slices.Equal(info.GetSessions().GetModes(), want) || !slices.Equal(info.GetRoles(), []string{"agent"}) {
		t.Errorf("%v, %v", info, err)
	}
}
