// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/state/statetest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestQuorumLost: a server whose cluster cannot decide refuses what changes something, with when
// to try again, and goes on reading; it goes on with the rest by itself.
func TestQuorumLost(t *testing.T) {
	cluster := statetest.NewCluster(t, 3, nil)
	w := startWith(t, "engine: cluster\n  url: "+cluster.Server(0))
	agent, person := w.as("agent"), w.as("person")
	session := agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	agent.session(&pb.CreateSessionRequest{SessionId: "asks", Mode: pb.Mode_MODE_ASK})
	agent.end("s", "before", "bash", `{"command": "echo before >> effects"}`)
	granted(agent, person, "asks")
	question := agent.asked("asks", "waits", `{"command": "rm -f nothing"}`)

	cluster.Stop(1)
	cluster.Stop(2)
	for what, try := range map[string]func() error{
		"a call": func() error {
			_, err := agent.call("s", "during", "bash", `{"command": "echo during >> effects"}`)
			return err
		},
		"a session": func() error {
			_, err := agent.sessions.CreateSession(agent.ctx, &pb.CreateSessionRequest{SessionId: "new"})
			return err
		},
		"an approval": func() error {
			_, err := person.approvals.ResolveApproval(person.ctx, &pb.ResolveApprovalRequest{
				ApprovalId: question.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: question.GetTiers()[0].GetTierId(),
			})
			return err
		},
	} {
		begin := time.Now()
		err := try()
		if status.Code(err) != codes.Unavailable || retryInfo(err) <= 0 {
			t.Errorf("%s: %v, want UNAVAILABLE with RetryInfo", what, err)
		}
		t.Logf("%s was refused after %v", what, time.Since(begin))
	}
	agent.serves(false)
	if _, read := agent.end("s", "", "list_dir", `{}`); read.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("a call that only reads: %v", read)
	}
	if _, err := person.approvals.RevokeGrant(person.ctx, &pb.RevokeGrantRequest{GrantId: person.grants()[0].GetGrantId()}); err != nil || len(person.grants()) != 0 {
		t.Errorf("a grant is revoked: %v", err)
	}

	cluster.Start(1)
	agent.serves(true)
	for {
		events, err := agent.call("s", "during", "bash", `{"command": "echo during >> effects"}`)
		if status.Code(err) == codes.Unavailable {
			<-time.After(retryInfo(err)) // as it said
			continue
		}
		if err != nil || events[len(events)-1].GetFinished().GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatalf("once there was a quorum: %v, %v", events, err)
		}
		break
	}
	if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["before"] != 1 || got["during"] != 1 {
		t.Errorf("effects: %v", got)
	}
}

// asked makes a call that a person is asked about, and returns the question.
func (c *caller) asked(session, id, input string) *pb.Approval {
	c.t.Helper()
	stream, err := c.tools.ExecuteTool(c.ctx, &pb.ExecuteToolRequest{SessionId: session, CallId: &id, Tool: "bash", InputJson: []byte(input)})
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err == nil && response.GetEvent().GetApprovalRequested() != nil {
			return response.GetEvent().GetApprovalRequested().GetApproval()
		}
	}
	c.t.Fatal(err)
	return nil
}
