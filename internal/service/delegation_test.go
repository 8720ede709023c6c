// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	runtimeToken = "the-token-of-a-runtime"
	onBehalfOf   = "toolserver-on-behalf-of"
)

// withRuntime knows a runtime that acts for some users.
func withRuntime(c *service.Config) {
	known, err := auth.NewTokens(append(slices.Clone(tokens),
		auth.Token{Principal: auth.Principal{Name: "runtime", ActsFor: "user:* carol"}, Secret: runtimeToken},
		auth.Token{Principal: auth.Principal{Name: "oscar", Roles: auth.Operator}, Secret: operatorToken},
	))
	if err != nil {
		panic(err)
	}
	c.Authenticator, c.Approvals.SelfApproval = &auth.Chain{Tokens: known}, false
}

// TestDelegation: a runtime calls for a user where it may; both are in the conditions of
// the policy, in what people are asked, and in the audit log.
func TestDelegation(t *testing.T) {
	option, read := withAudit(t, withRuntime)
	s := serve(t, option, withPolicy(t, `
rules:
  - {name: guests, action: deny, tools: [count], when: 'principal == "runtime" && on_behalf_of == "user:guest"'}
  - {name: alone, action: deny, tools: [raw], when: 'on_behalf_of == ""'}
  - {name: look, action: ask, tools: [read_file]}
`))
	s.write("a.txt", "hello")
	runtime, carol := s.dial(runtimeToken), s.dial(tokens[3].Secret)
	as := func(user string, request *pb.ExecuteToolRequest) (*pb.Finished, error) {
		stream, err := runtime.ExecuteTool(withHeader(timeout(t), onBehalfOf, user), request)
		if err != nil {
			return nil, err
		}
		events, err := rest(stream)
		if err != nil {
			return nil, err
		}
		return events[len(events)-1].GetFinished(), nil
	}
	for user, want := range map[string]pb.Outcome{"user:ann": pb.Outcome_OUTCOME_SUCCEEDED, "user:guest": pb.Outcome_OUTCOME_DENIED} {
		if end, err := as(user, asJSON("count", `{}`)); err != nil || end.GetOutcome() != want {
			t.Errorf("for %s: %v, %v", user, end, err)
		}
	}
	if end, err := as("user:ann", asJSON("raw", `{}`)); err != nil || end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v, %v", end, err)
	}
	if end := runtime.run(asJSON("raw", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Errorf("for itself: %v", end)
	}
	checked, err := runtime.CheckCall(withHeader(timeout(t), onBehalfOf, "user:guest"), &pb.CheckCallRequest{Tool: "count", InputJson: []byte(`{}`)})
	if err != nil || checked.GetVerdict().GetRule() != "rule guests" {
		t.Errorf("%v, %v", checked, err)
	}
	info, err := runtime.GetServerInfo(withHeader(timeout(t), onBehalfOf, "user:ann"), new(pb.GetServerInfoRequest))
	if err != nil || info.GetPrincipal() != "runtime" || info.GetOnBehalfOf() != "user:ann" {
		t.Errorf("%v, %v", info, err)
	}

	// A person sees both; whom the call is for does not approve it.
	stream, err := runtime.ExecuteTool(withHeader(timeout(t), onBehalfOf, "carol"), asJSON("read_file", `{"path":"a.txt"}`))
	if err != nil {
		t.Fatal(err)
	}
	for asked := false; !asked; {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		asked = event.GetEvent().GetApprovalRequested() != nil
	}
	list, err := carol.ListApprovals(timeout(t), new(pb.ListApprovalsRequest))
	if err != nil || len(list.GetApprovals()) != 1 || list.GetApprovals()[0].GetPrincipal() != "runtime" || list.GetApprovals()[0].GetOnBehalfOf() != "carol" {
		t.Fatalf("%v, %v", list, err)
	}
	_, err = carol.ResolveApproval(timeout(t), &pb.ResolveApprovalRequest{ApprovalId: list.GetApprovals()[0].GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	wantCode(t, err, codes.PermissionDenied, "cannot approve its own calls")

	// A stop of the user ends the call, and refuses those for it alone.
	if stopped, err := s.dial(operatorToken).StopPrincipal(timeout(t), &pb.StopPrincipalRequest{Principal: "carol"}); err != nil || stopped.GetCancelledExecutions() != 1 {
		t.Errorf("%v, %v", stopped, err)
	}
	_, err = as("carol", asJSON("count", `{}`))
	wantCode(t, err, codes.FailedPrecondition, `"carol" was stopped`)
	if end, err := as("user:ann", asJSON("count", `{}`)); err != nil || end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v, %v", end, err)
	}
	if _, err := runtime.CreateSession(withHeader(timeout(t), onBehalfOf, "user:ann"), &pb.CreateSessionRequest{SessionId: "ann"}); err != nil {
		t.Error(err)
	}
	s.shutdown()
	found := make(map[audit.Step]int)
	for _, r := range read() {
		if r.Principal == "runtime" && r.OnBehalfOf != "" {
			found[r.Step]++
		}
	}
	for _, step := range []audit.Step{audit.Proposed, audit.Verdict, audit.Started, audit.Finished, audit.Approval, audit.SessionCreated} {
		if found[step] == 0 {
			t.Errorf("no record %s has both names: %v", step, found)
		}
	}
}

// TestStopOfAUser: of a runtime's sessions, what runs for that user ends.
func TestStopOfAUser(t *testing.T) {
	var halted []string
	s := serve(t, withRuntime, func(c *service.Config) {
		c.Halt = func(s *session.Session, user string) int {
			halted = append(halted, s.Owner.Name()+" for "+user)
			return 1
		}
	})
	for _, token := range []string{runtimeToken, tokens[0].Secret, tokens[3].Secret} {
		if _, err := s.dial(token).CreateSession(timeout(t), &pb.CreateSessionRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	stopped, err := s.dial(operatorToken).StopPrincipal(timeout(t), &pb.StopPrincipalRequest{Principal: "carol"})
	if err != nil || stopped.GetEndedProcesses() != 3 {
		t.Errorf("%v, %v", stopped, err)
	}
	if want := []string{"runtime for carol", "alice for carol", "carol for "}; !slices.Equal(halted, want) {
		t.Errorf("halted: %q, want %q", halted, want)
	}
}

// TestCallIDsOfUsers: the id of a call for one user leads nobody who calls for another to
// its result, in whatever spelling, and runs nothing either.
func TestCallIDsOfUsers(t *testing.T) {
	s := serve(t, withRuntime)
	runtime := s.dial(runtimeToken)
	for i, input := range []string{`{"n":7}`, `{ "n": 7.0 }`} {
		for user, code := range map[string]codes.Code{"user:ann": codes.OK, "user:bob": codes.AlreadyExists, "": codes.AlreadyExists} {
			ctx := timeout(t)
			if user != "" {
				ctx = withHeader(ctx, onBehalfOf, user)
			}
			first := asJSON("echo_number", `{"n":7}`)
			first.CallId = proto.String(fmt.Sprint("call-", i, user))
			stream, err := runtime.ExecuteTool(withHeader(timeout(t), onBehalfOf, "user:ann"), first)
			if err == nil {
				_, err = rest(stream)
			}
			if err != nil {
				t.Fatal(err)
			}
			again := asJSON("echo_number", input)
			again.CallId = first.CallId
			stream, err = runtime.ExecuteTool(ctx, again)
			if err == nil {
				_, err = rest(stream)
			}
			if status.Code(err) != code {
				t.Errorf("%s for %q: %v, want %s", input, user, err, code)
			}
		}
	}
}

// TestGrantsOfUsers: that a call is allowed for ever for one user says nothing about the
// same call for another.
func TestGrantsOfUsers(t *testing.T) {
	s := serve(t, withRuntime, withPolicy(t, `rules: [{name: look, action: ask, tools: [read_file]}]`))
	runtime, carol := s.dial(runtimeToken), s.dial(tokens[3].Secret)
	created, err := runtime.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(created.GetSession().GetWorkspace(), "a.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	call := func(user string) (eventStream, *pb.Event) {
		t.Helper()
		request := asJSON("read_file", `{"path":"a.txt"}`)
		request.SessionId = "shared"
		stream, err := runtime.ExecuteTool(withHeader(timeout(t), onBehalfOf, user), request)
		if err != nil {
			t.Fatal(err)
		}
		for {
			event, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if event.GetEvent().GetApprovalRequested() != nil || event.GetEvent().GetFinished() != nil {
				return stream, event.GetEvent()
			}
		}
	}
	stream, asked := call("user:ann")
	question := asked.GetApprovalRequested().GetApproval()
	exact := slices.IndexFunc(question.GetTiers(), func(tier *pb.TrustTier) bool { return tier.GetLabel() == "this exact call" })
	if exact < 0 {
		t.Fatalf("%v", asked)
	}
	if _, err := carol.ResolveApproval(timeout(t), &pb.ResolveApprovalRequest{
		ApprovalId: question.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: question.GetTiers()[exact].GetTierId(),
	}); err != nil {
		t.Fatal(err)
	}
	if events, err := rest(stream); err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("%v, %v", events, err)
	}
	if _, event := call("user:ann"); event.GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("for the same user: %v", event)
	}
	if _, event := call("user:bob"); event.GetApprovalRequested() == nil {
		t.Errorf("for another user: %v", event)
	}
}

// TestDelegationIsRefused: who may not act for somebody, and whoever says it in an odd way.
func TestDelegationIsRefused(t *testing.T) {
	s := serve(t, withRuntime)
	runtime, alice := s.dial(runtimeToken), s.dial(tokens[0].Secret)
	for _, test := range []struct {
		who    *client
		header []string
		code   codes.Code
		says   string
	}{
		{alice, []string{onBehalfOf, "user:ann"}, codes.PermissionDenied, `"alice" acts for itself alone`},
		{runtime, []string{onBehalfOf, "alice"}, codes.PermissionDenied, `may not act on behalf of "alice": the operator allows ["user:*" "carol"]`},
		{runtime, []string{onBehalfOf, "user:ann", onBehalfOf, "user:bob"}, codes.InvalidArgument, "2 headers"},
		{runtime, []string{onBehalfOf, "user:ann", onBehalfOf, "user:ann"}, codes.InvalidArgument, "2 headers"},
		{runtime, []string{onBehalfOf, ""}, codes.InvalidArgument, "1 to 256 bytes"},
		{runtime, []string{onBehalfOf, "user:" + strings.Repeat("x", 300)}, codes.InvalidArgument, "1 to 256 bytes, not 305"},
		{runtime, []string{onBehalfOf, "*"}, codes.InvalidArgument, "stand for something else"},
		{runtime, []string{onBehalfOf, "server"}, codes.InvalidArgument, "stand for something else"},
		{s.dial("nobody-knows-this-one"), []string{onBehalfOf, "user:ann"}, codes.Unauthenticated, ""},
	} {
		_, err := test.who.GetServerInfo(withHeader(timeout(t), test.header...), new(pb.GetServerInfoRequest))
		wantCode(t, err, test.code, test.says)
		stream, err := test.who.ExecuteTool(withHeader(timeout(t), test.header...), asJSON("count", `{}`))
		if err == nil {
			_, err = stream.Recv()
		}
		wantCode(t, err, test.code, test.says)
	}
	for _, name := range []string{"user:\x00", "user:\n", "user:\x1b[2J", "user:\u202e", "user:\xff"} { // which gRPC may not let through
		if _, err := (auth.Principal{Name: "runtime", ActsFor: "user:*"}).For(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
