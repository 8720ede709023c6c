// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// denyAlways has carol deny for always what alice asks, and returns the grant.
func denyAlways(t *testing.T, alice, carol *client) string {
	t.Helper()
	_, asked := alice.asked(asJSON("read_file", `{"path":"a.txt"}`))
	answer := carol.answer(&pb.ResolveApprovalRequest{
		ApprovalId: asked.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS, TierId: asked.GetTiers()[0].GetTierId(),
	})
	if answer.GetGrantId() == "" {
		t.Fatalf("%v", answer)
	}
	return answer.GetGrantId()
}

// TestAuditOfOperations: sessions that are made, changed and closed, grants that are given
// and taken back, and files that are read again are in the audit log, with who did it.
func TestAuditOfOperations(t *testing.T) {
	option, read := withAudit(t, withRoles)
	s := serve(t, option, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	ctx := timeout(t)
	alice, carol, oscar := s.dial(tokens[0].Secret), s.dial(tokens[3].Secret), s.dial(operatorToken)
	if _, err := alice.CreateSession(ctx, &pb.CreateSessionRequest{SessionId: "work"}); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.UpdateSession(ctx, &pb.UpdateSessionRequest{
		Session: &pb.Session{SessionId: "work", Mode: pb.Mode_MODE_PLAN}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode", "labels"}},
	}); err != nil {
		t.Fatal(err)
	}
	grant := denyAlways(t, alice, carol)
	_, err := alice.RevokeGrant(ctx, &pb.RevokeGrantRequest{GrantId: grant})
	wantCode(t, err, codes.PermissionDenied)
	if _, err := oscar.RevokeGrant(ctx, &pb.RevokeGrantRequest{GrantId: grant}); err != nil {
		t.Fatal(err)
	}
	s.Reloaded("tokens", "", nil)
	s.Reloaded("policy", "v1", errors.New("want a list"))
	s.shutdown()
	records := read()
	for _, want := range []audit.Record{
		{Step: audit.SessionCreated, Principal: "alice", SessionID: "work", By: "alice", Action: "ask"},
		{Step: audit.SessionCreated, Principal: "alice", SessionID: "default", Action: "ask"},
		{Step: audit.SessionChanged, Principal: "alice", SessionID: "work", By: "alice", Action: "plan", Reason: "mode=plan labels"},
		{Step: audit.Granted, Principal: "alice", SessionID: "default", By: "carol", Action: "deny", Rule: "grant " + grant},
		{Step: audit.Revoked, Principal: "alice", SessionID: "default", By: "oscar", Action: "deny", Rule: "grant " + grant},
		{Step: audit.Reloaded, Rule: "tokens", By: "server", Outcome: "succeeded"},
		{Step: audit.Reloaded, Rule: "policy", Policy: "v1", By: "server", Outcome: "failed", Reason: "want a list"},
	} {
		if !slices.ContainsFunc(records, func(r audit.Record) bool {
			return r.Step == want.Step && r.Principal == want.Principal && r.SessionID == want.SessionID && r.By == want.By && r.Action == want.Action &&
				r.Rule == want.Rule && r.Outcome == want.Outcome && (want.Reason == "" || r.Reason == want.Reason)
		}) {
			t.Errorf("no record is %+v: %+v", want, records)
		}
	}
	if n := len(slices.DeleteFunc(records, func(r audit.Record) bool { return r.Step != audit.Revoked })); n != 1 {
		t.Errorf("%d records of what was revoked once", n)
	}
}

// TestDenialIsNotRevokedUnseen: where nobody would see it, an operator does not take back
// what an approver denied somebody else.
func TestDenialIsNotRevokedUnseen(t *testing.T) {
	s := serve(t, withRoles, withPolicy(t, askToRead))
	s.write("a.txt", "hello")
	alice, carol, oscar := s.dial(tokens[0].Secret), s.dial(tokens[3].Secret), s.dial(operatorToken)
	grant := denyAlways(t, alice, carol)
	_, err := oscar.RevokeGrant(timeout(t), &pb.RevokeGrantRequest{GrantId: grant})
	wantCode(t, err, codes.PermissionDenied, "an approver revokes it", "audit log")
	if _, err := carol.RevokeGrant(timeout(t), &pb.RevokeGrantRequest{GrantId: grant}); err != nil {
		t.Error(err)
	}
}

// TestMetricsOfOperations: approvals, verdicts by rule, sessions and processes are counted,
// and no label has values without end.
func TestMetricsOfOperations(t *testing.T) {
	s := serve(t, withRoles, withPolicy(t, askToRead), func(c *service.Config) { c.Processes = func() int { return 7 } })
	s.write("a.txt", "hello")
	alice, carol := s.dial(tokens[0].Secret), s.dial(tokens[3].Secret)
	stream, asked := alice.asked(asJSON("read_file", `{"path":"a.txt"}`))
	if text := metricsText(t, s.metrics); !strings.Contains(text, "\ntoolserver_approvals_waiting 1\n") {
		t.Errorf("one question waits:\n%s", text)
	}
	carol.answer(&pb.ResolveApprovalRequest{ApprovalId: asked.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	alice.end(stream)
	alice.run(asJSON("no such tool", `{}`))
	for i := range 400 { // of policies that come and go
		p, err := policy.Parse("policy.yaml", []byte(fmt.Sprintf("version: 1\nrules: [{name: r%d, action: deny, tools: [count], when: 'true'}]\n", i)))
		if err == nil {
			err = s.ReplacePolicy(p)
		}
		if err != nil {
			t.Fatal(err)
		}
		alice.run(asJSON("count", `{}`))
	}
	text := metricsText(t, s.metrics)
	for _, want := range []string{
		"toolserver_approvals_waiting 0\n", "toolserver_sessions 1\n", "toolserver_processes 7\n", "toolserver_stops 0\n",
		`toolserver_approval_answers_total{answer="allow_once"} 1` + "\n",
		`toolserver_approval_wait_seconds_count{answer="allow_once"} 1` + "\n",
		`toolserver_verdicts_total{action="ask",rule="rule look"} 1` + "\n",
		`toolserver_verdicts_total{action="deny",rule="no_such_tool"} 1` + "\n",
		`toolserver_verdicts_total{action="deny",rule="rule r0"} 1` + "\n",
		`toolserver_verdicts_total{action="deny",rule="(other)"} `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("want %s", want)
		}
	}
	if n := strings.Count(text, "\ntoolserver_verdicts_total{"); n > 302 {
		t.Errorf("%d values of a label", n)
	}
	if t.Failed() {
		t.Log(text)
	}
}
