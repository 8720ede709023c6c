// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// withPolicy puts a policy in force.
func withPolicy(t *testing.T, text string) func(*service.Config) {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte("version: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return func(c *service.Config) { c.Policy = p }
}

const askToRead = `
rules:
  - {name: look, action: ask, tools: [read_file]}
`

// asked begins a call that asks, and returns its stream and what is asked.
func (c *client) asked(request *pb.ExecuteToolRequest) (eventStream, *pb.Approval) {
	c.t.Helper()
	stream, first := c.begin(request)
	if first.GetAccepted().GetVerdict().GetAction() != pb.Action_ACTION_ASK {
		c.t.Fatalf("the call was not asked about: %v", first)
	}
	second, err := stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	approval := second.GetEvent().GetApprovalRequested().GetApproval()
	if approval == nil {
		c.t.Fatalf("nothing was asked: %v", second)
	}
	return stream, approval
}

func (c *client) answer(request *pb.ResolveApprovalRequest) *pb.ApprovalAnswer {
	c.t.Helper()
	response, err := c.ResolveApproval(timeout(c.t), request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.GetAnswer()
}

// end returns the last event of a stream.
func (c *client) end(stream eventStream) *pb.Finished {
	c.t.Helper()
	events, err := rest(stream)
	if err != nil {
		c.t.Fatal(err)
	}
	return events[len(events)-1].GetFinished()
}

// TestApproval asks, answers from another connection, and sees who answered.
func TestApproval(t *testing.T) {
	s := serve(t, withTokens, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	alice, carol := s.dial("alice-alice-alice"), s.dial("carol-carol-carol")
	request := asJSON("read_file", `{"path":"a.txt"}`)
	request.Purpose = "to see what is in it"

	stream, approval := alice.asked(request)
	if approval.GetTool() != "read_file" || approval.GetPrincipal() != "alice" || approval.GetPurpose() != request.Purpose ||
		approval.GetVerdict().GetRule() != "rule look" || approval.GetVerdict().GetPolicyVersion() == "" || len(approval.GetDigest()) != 64 ||
		!strings.Contains(approval.GetPreview().GetText(), "a.txt") || len(approval.GetTiers()) == 0 || approval.GetExpireTime() == nil {
		t.Errorf("asked %v", approval)
	}
	list, err := carol.ListApprovals(timeout(t), &pb.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 || list.GetApprovals()[0].GetApprovalId() != approval.GetApprovalId() {
		t.Fatalf("%v, %v", list, err)
	}
	answer := carol.answer(&pb.ResolveApprovalRequest{
		ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE, Digest: approval.GetDigest(),
	})
	if answer.GetBy() != "carol" || !strings.HasPrefix(answer.GetFrom(), "127.0.0.1:") || answer.GetTime() == nil {
		t.Errorf("answer %v", answer)
	}
	events, err := rest(stream)
	if err != nil {
		t.Fatal(err)
	}
	if by := events[0].GetApprovalResolved().GetAnswer().GetBy(); by != "carol" || events[1].GetStarted() == nil {
		t.Errorf("after the answer: %v", events)
	}
	if end := events[len(events)-1].GetFinished(); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("end %v", end)
	}

	// The answer was for that one call.
	stream, approval = alice.asked(request)
	carol.answer(&pb.ResolveApprovalRequest{
		ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE, Comment: "use b.txt",
	})
	end := alice.end(stream)
	if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || !strings.Contains(text(end), "use b.txt") || end.GetVerdict().GetRule() != "approver carol" {
		t.Errorf("end %v", end)
	}
}

// TestApprovalRefusals has a row for each answer that is not taken.
func TestApprovalRefusals(t *testing.T) {
	s := serve(t, withTokens, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	alice, bob, carol := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob"), s.dial("carol-carol-carol")
	stream, approval := alice.asked(asJSON("read_file", `{"path":"a.txt"}`))
	id, allow := approval.GetApprovalId(), pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
	always := pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS
	for _, test := range []struct {
		name    string
		who     *client
		request *pb.ResolveApprovalRequest
		code    codes.Code
	}{
		{"by the caller itself", alice, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow}, codes.PermissionDenied},
		{"by somebody who may not see it", bob, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow}, codes.NotFound},
		{"guessed", carol, &pb.ResolveApprovalRequest{ApprovalId: "guessed", Kind: allow}, codes.NotFound},
		{"no id", carol, &pb.ResolveApprovalRequest{Kind: allow}, codes.NotFound},
		{"no answer", carol, &pb.ResolveApprovalRequest{ApprovalId: id}, codes.InvalidArgument},
		{"an answer only the server gives", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: pb.AnswerKind_ANSWER_KIND_EXPIRED}, codes.InvalidArgument},
		{"always what", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: always}, codes.InvalidArgument},
		{"a tier that was not offered", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: always, TierId: "99"}, codes.InvalidArgument},
		{"a tier that is none", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: always, TierId: "x"}, codes.InvalidArgument},
		{"another digest", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow, Digest: strings.Repeat("00", 31) + "01"}, codes.InvalidArgument},
		{"no digest", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow, Digest: "zz"}, codes.InvalidArgument},
		{"a long comment", carol, &pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow, Comment: strings.Repeat("x", 5000)}, codes.InvalidArgument},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.who.ResolveApproval(timeout(t), test.request)
			wantCode(t, err, test.code, "")
		})
	}
	if list, err := bob.ListApprovals(timeout(t), &pb.ListApprovalsRequest{}); err != nil || len(list.GetApprovals()) != 0 {
		t.Errorf("bob sees %v, %v", list, err)
	}
	carol.answer(&pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow})
	carol.answer(&pb.ResolveApprovalRequest{ApprovalId: id, Kind: allow}) // again: the same
	_, err := carol.ResolveApproval(timeout(t), &pb.ResolveApprovalRequest{ApprovalId: id, Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE})
	wantCode(t, err, codes.FailedPrecondition, "answered")
	if end := alice.end(stream); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("end %v", end)
	}
}

// TestGrants allows always, calls unasked, revokes, and is asked again.
func TestGrants(t *testing.T) {
	s := serve(t, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	s.write("b.txt", "there")
	c := s.dial("")
	_, approval := c.asked(asJSON("read_file", `{"path":"a.txt"}`))
	var tier *pb.TrustTier
	for _, offered := range approval.GetTiers() {
		if offered.GetKind() == pb.TierKind_TIER_KIND_FILE {
			tier = offered
		}
	}
	if tier == nil || tier.GetLabel() != "read_file reading a.txt" { // and by no other tool
		t.Fatalf("no tier for this file among %v", approval.GetTiers())
	}
	answer := c.answer(&pb.ResolveApprovalRequest{
		ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: tier.GetTierId(),
	})
	if got := answer.GetTier().GetLabel(); got != tier.GetLabel() {
		t.Errorf("the answer says %q, and %q was chosen", got, tier.GetLabel())
	}
	if end := c.run(asJSON("read_file", `{"path":"./a.txt","limit":5}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("what was granted ended with %v", end)
	}
	c.asked(asJSON("read_file", `{"path":"b.txt"}`)) // another file

	grants, err := c.ListGrants(timeout(t), &pb.ListGrantsRequest{})
	if err != nil || len(grants.GetGrants()) != 1 {
		t.Fatalf("%v, %v", grants, err)
	}
	grant := grants.GetGrants()[0]
	if grant.GetGrantId() != answer.GetGrantId() || grant.GetTool() != "read_file" || grant.GetAction() != pb.Action_ACTION_ALLOW || grant.GetBy() != "local" {
		t.Errorf("grant %v", grant)
	}
	if _, err := c.RevokeGrant(timeout(t), &pb.RevokeGrantRequest{GrantId: grant.GetGrantId()}); err != nil {
		t.Fatal(err)
	}
	_, err = c.RevokeGrant(timeout(t), &pb.RevokeGrantRequest{GrantId: grant.GetGrantId()})
	wantCode(t, err, codes.NotFound, "")
	c.asked(asJSON("read_file", `{"path":"a.txt"}`))
}

// TestForbiddenMeanwhile allows calls that something forbids while they wait: a
// new policy, another mode, other tools.
func TestForbiddenMeanwhile(t *testing.T) {
	replace := func(t *testing.T, s *testServer, text string) {
		t.Helper()
		p, err := policy.Parse("policy.yaml", []byte("version: 1\n"+text))
		if err == nil {
			err = s.ReplacePolicy(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	update := func(t *testing.T, c *client, session *pb.Session, path string) {
		t.Helper()
		session.SessionId = "work"
		if _, err := c.UpdateSession(timeout(t), &pb.UpdateSessionRequest{Session: session, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		happens func(*testing.T, *testServer, *client)
		rule    string // that denies; "" where the call runs
	}{
		"nothing":         {func(*testing.T, *testServer, *client) {}, ""},
		"the same policy": {func(t *testing.T, s *testServer, _ *client) { replace(t, s, askToRead) }, ""},
		"a policy that denies": {func(t *testing.T, s *testServer, _ *client) {
			replace(t, s, "rules: [{name: closed, action: deny, reads: [a.txt]}]\n")
		}, "rule closed"},
		"a policy that hides": {func(t *testing.T, s *testServer, _ *client) {
			replace(t, s, "rules: [{name: gone, action: deny, tools: [read_file]}]\n")
		}, "tools"},
		"mode deny": {func(t *testing.T, _ *testServer, c *client) {
			update(t, c, &pb.Session{Mode: pb.Mode_MODE_DENY}, "mode")
		}, "mode deny"},
		"other tools": {func(t *testing.T, _ *testServer, c *client) {
			update(t, c, &pb.Session{Tools: &pb.ToolSelection{Include: []string{"sleep"}}}, "tools")
		}, "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, withPolicy(t, askToRead))
			c := s.dial("")
			if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "work"}); err != nil {
				t.Fatal(err)
			}
			request := asJSON("read_file", `{"path":"a.txt"}`)
			request.SessionId = "work"
			stream, approval := c.asked(request)
			test.happens(t, s, c)
			c.answer(&pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
			end := c.end(stream)
			if test.rule == "" {
				if end.GetFailure().GetCode() != "file_not_found" { // it ran
					t.Errorf("it ended with %v", end)
				}
				return
			}
			if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || end.GetVerdict().GetRule() != test.rule {
				t.Errorf("it ended with %v", end)
			}
		})
	}
}

// TestGrantMeetsNewPolicy gives a grant that covers another call that waits, which
// a new policy forbids.
func TestGrantMeetsNewPolicy(t *testing.T) {
	s := serve(t, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	c := s.dial("")
	first, approval := c.asked(asJSON("read_file", `{"path":"a.txt"}`))
	second, _ := c.asked(asJSON("read_file", `{"path":"a.txt","limit":1}`))
	p, err := policy.Parse("policy.yaml", []byte("version: 1\nrules: [{name: short, action: deny, tools: [read_file], when: 'has(input.limit)'}, {name: look, action: ask, tools: [read_file]}]\n"))
	if err == nil {
		err = s.ReplacePolicy(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range approval.GetTiers() {
		if tier.GetKind() == pb.TierKind_TIER_KIND_FILE {
			c.answer(&pb.ResolveApprovalRequest{
				ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: tier.GetTierId(),
			})
		}
	}
	if end := c.end(first); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("what was allowed ended with %v", end)
	}
	if end := c.end(second); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Errorf("what is forbidden by now ended with %v", end)
	}
}

// TestNobodyAnswers: no answer in time is a denial.
func TestNobodyAnswers(t *testing.T) {
	s := serve(t, withPolicy(t, askToRead+"approvals: {expire: 1s}\n"))
	s.write("a.txt", "hello")
	end := s.dial("").run(asJSON("read_file", `{"path":"a.txt"}`))
	if end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || end.GetFailure().GetCode() != "approval_expired" {
		t.Errorf("end %v", end)
	}
}

// TestApprovalWatch sees a question come and go.
func TestApprovalWatch(t *testing.T) {
	s := serve(t, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	c := s.dial("")
	watch, err := c.WatchApprovals(timeout(t), &pb.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *pb.WatchApprovalsResponse {
		t.Helper()
		change, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return change
	}
	if first := next(); first.GetSnapshot() == nil || len(first.GetSnapshot().GetApprovals()) != 0 {
		t.Errorf("first %v", first)
	}
	stream, approval := c.asked(asJSON("read_file", `{"path":"a.txt"}`))
	if asked := next().GetAsked(); asked.GetApprovalId() != approval.GetApprovalId() {
		t.Errorf("asked %v", asked)
	}
	id := approval.GetExecutionId()
	if _, err := c.Cancel(timeout(t), &pb.CancelRequest{ExecutionId: id}); err != nil {
		t.Fatal(err)
	}
	if ended := next().GetEnded(); ended.GetAnswer().GetKind() != pb.AnswerKind_ANSWER_KIND_WITHDRAWN {
		t.Errorf("ended %v", ended)
	}
	if end := c.end(stream); end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Errorf("end %v", end)
	}
	_, err = c.ResolveApproval(timeout(t), &pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	wantCode(t, err, codes.FailedPrecondition, "")
}

// TestQuestions has a tool ask, and a person answer.
func TestQuestions(t *testing.T) {
	c := serve(t).dial("")
	stream, first := c.begin(asJSON("ask_user", `{"questions":[{"question":"Which?","options":[{"label":"left"},{"label":"right"}]}]}`))
	if first.GetAccepted() == nil {
		t.Fatalf("first %v", first)
	}
	var approval *pb.Approval
	for approval == nil {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		approval = event.GetEvent().GetApprovalRequested().GetApproval()
	}
	c.answer(&pb.ResolveApprovalRequest{
		ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ANSWERED,
		Answers: []*pb.QuestionAnswer{{Chosen: []string{"right"}}},
	})
	if end := c.end(stream); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(text(end), "right") {
		t.Errorf("end %v", end)
	}
}

// TestPlanMode enters plan mode, where nothing is changed, and leaves it once a
// person has seen the plan.
func TestPlanMode(t *testing.T) {
	s := serve(t)
	c := s.dial("")
	if end := c.run(asJSON("enter_plan_mode", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("enter: %v", end)
	}
	if end := c.run(asJSON("writes", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || end.GetVerdict().GetRule() != "mode plan" {
		t.Errorf("a change in mode plan: %v", end)
	}
	stream, approval := c.asked(asJSON("exit_plan_mode", `{"plan":"1. Write it."}`))
	if approval.GetPreview().GetText() != "1. Write it." || len(approval.GetTiers()) != 0 {
		t.Errorf("asked %v", approval)
	}
	c.answer(&pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	if end := c.end(stream); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("leave: %v", end)
	}
	got, err := c.GetSession(timeout(t), &pb.GetSessionRequest{})
	if err != nil || got.GetSession().GetMode() != pb.Mode_MODE_ASK {
		t.Errorf("%v, %v, want mode ask", got, err)
	}
}

// TestRateLimit calls until it is one too many.
func TestRateLimit(t *testing.T) {
	s := serve(t, withPolicy(t, `
limits:
  - {name: few, tools: [count], rate: 1/h, burst: 2}
  - {name: seen, rate: 1/h, burst: 1, shadow: true}
rules:
  - {name: never, action: deny, tools: [echo_number], when: 'input.n == 1'}
`))
	c := s.dial("")
	for range 2 {
		if end := c.run(asJSON("count", `{}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatal(end)
		}
	}
	end := c.run(asJSON("count", `{}`))
	if after := end.GetFailure().GetRetryAfter().AsDuration(); end.GetOutcome() != pb.Outcome_OUTCOME_RATE_LIMITED ||
		after <= 0 || after > time.Hour || !end.GetFailure().GetRetryable() || text(end) == "" {
		t.Errorf("end %v", end)
	}
	metrics := metricsText(t, s.metrics)
	for _, want := range []string{
		`toolserver_limited_total{limit="few",tool="count"} 1`,
		`toolserver_shadow_limited_total{limit="seen",tool="count"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
}

// TestLoopGuard repeats itself.
func TestLoopGuard(t *testing.T) {
	c := serve(t, withPolicy(t, "loop_guard: {repeat: 3, alternate: 2}\n")).dial("")
	for range 3 {
		if end := c.run(asJSON("echo_number", `{"n":1}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatal(end)
		}
	}
	end := c.run(asJSON("echo_number", `{ "n" : 1 }`))
	if end.GetOutcome() != pb.Outcome_OUTCOME_RATE_LIMITED || !strings.Contains(text(end), "echo_number") {
		t.Errorf("end %v", end)
	}
	if end := c.run(asJSON("echo_number", `{"n":2}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("another call: %v", end)
	}
}

// TestHiddenTool: a tool that is denied outright is not told from one that does
// not exist.
func TestHiddenTool(t *testing.T) {
	s := serve(t, withTokens, withPolicy(t, `
rules:
  - {name: not_bob, action: deny, tools: [read_file], principals: [bob]}
explicit_only: [count]
`))
	list := func(c *client) string {
		t.Helper()
		response, err := c.ListTools(timeout(t), &pb.ListToolsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range response.GetTools() {
			names = append(names, tool.GetName())
		}
		return " " + strings.Join(names, " ") + " "
	}
	alice, bob := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob")
	if got := list(alice); !strings.Contains(got, " read_file ") || strings.Contains(got, " count ") {
		t.Errorf("alice has%s", got)
	}
	if got := list(bob); strings.Contains(got, "read_file") {
		t.Errorf("bob has%s", got)
	}
	hidden, unknown := bob.run(asJSON("read_file", `{}`)), bob.run(asJSON("reax_file", `{}`))
	if hidden.GetOutcome() != pb.Outcome_OUTCOME_NO_SUCH_TOOL ||
		strings.ReplaceAll(text(hidden), "read_file", "X") != strings.ReplaceAll(text(unknown), "reax_file", "X") {
		t.Errorf("%v\nand %v can be told apart", hidden, unknown)
	}
	created, err := alice.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "named", Tools: &pb.ToolSelection{Include: []string{"*", "count"}}})
	if err != nil {
		t.Fatal(err)
	}
	request := asJSON("count", `{}`)
	request.SessionId = created.GetSession().GetSessionId()
	if end := alice.run(request); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("named: %v", end)
	}
}

// TestCheckCall explains without running.
func TestCheckCall(t *testing.T) {
	s := serve(t, withPolicy(t, askToRead+"limits: [{name: few, tools: ['read_*'], rate: 1/h}]\n"))
	c := s.dial("")
	response, err := c.CheckCall(timeout(t), &pb.CheckCallRequest{Tool: "Read", InputJson: []byte(`{"path":"a.txt"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if response.GetTool() != "read_file" || response.GetVerdict().GetAction() != pb.Action_ACTION_ASK ||
		response.GetVerdict().GetRule() != "rule look" || len(response.GetEffects()) != 2 ||
		response.GetEffects()[0].GetEffect().GetReads().GetPath() != "a.txt" || len(response.GetTiers()) == 0 ||
		len(response.GetLimits()) != 1 {
		t.Errorf("%v", response)
	}
	if list, err := c.ListApprovals(timeout(t), &pb.ListApprovalsRequest{}); err != nil || len(list.GetApprovals()) != 0 {
		t.Errorf("somebody was asked: %v, %v", list, err)
	}
	for _, bad := range []*pb.CheckCallRequest{
		{}, {Tool: "none"}, {Tool: "read_file", InputJson: []byte(`{"pat":1}`)}, {Tool: "read_file", Command: "ls", InputJson: []byte(`{}`)},
	} {
		_, err := c.CheckCall(timeout(t), bad)
		wantCode(t, err, codes.InvalidArgument, "")
	}
}

type brokenCall struct{ tools.Call }

func (brokenCall) Preview(context.Context) tools.Preview { panic("secret of preview") }

type brokenTool struct{ tools.Tool }

func (b brokenTool) Decode(env *tools.Env, input json.RawMessage) (tools.Call, error) {
	call, err := b.Tool.Decode(env, input)
	return brokenCall{call}, err
}

// TestPreviewThatPanics: what goes wrong before a call becomes an execution
// takes nothing of its limits.
func TestPreviewThatPanics(t *testing.T) {
	s := serve(t, withPolicy(t, "limits: [{name: one, tools: [shell], concurrent: 1}]\n"), func(c *service.Config) {
		if err := c.Registry.Replace("shell", brokenTool{shellTool()}); err != nil {
			t.Fatal(err)
		}
	})
	c := s.dial("")
	_, err := c.call(asJSON("shell", `{"command":"make"}`))
	wantCode(t, err, codes.Internal, "")
	if end := c.run(asJSON("shell", `{"command":"ls"}`)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("the next call ended with %v", end)
	}
}
