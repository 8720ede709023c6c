// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestCallsAnswerAgain: what ended before a server was killed is answered by call id and
// by execution id as before, to who made it and nobody else, and nothing runs twice.
func TestCallsAnswerAgain(t *testing.T) {
	w := start(t)
	agent := w.as("agent")
	session := agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	const command = `{"command": "echo once >> effects; echo said; exit 3"}`
	first, err := agent.call("s", "write", "bash", command)
	if err != nil {
		t.Fatal(err)
	}
	unnamed, err := agent.call("", "", "bash", `{"command": "echo default"}`)
	if err != nil {
		t.Fatal(err)
	}
	read, err := agent.call("s", "read", "list_dir", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	id := first[0].GetExecutionId()
	agent.flushed("s")
	for round := range 2 { // also of the run before the last
		if w.again(); round == 1 {
			w.again()
		}
		agent = w.as("agent")
		for _, call := range []struct {
			id, tool, input string
			events          []*pb.Event
		}{{"write", "bash", command, first}, {"write", "bash", `{"command":"echo once >> effects; echo said; exit 3"}`, first}, {"read", "list_dir", `{}`, read}} {
			events, err := agent.call("s", call.id, call.tool, call.input)
			if err != nil {
				t.Fatal(err)
			}
			same(t, call.id, events, call.events)
		}
		again, err := agent.watch(id, 0)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "watched", again, first)
		if again, err = agent.watch(unnamed[0].GetExecutionId(), 2); err != nil {
			t.Fatal(err)
		}
		same(t, "of the default session", again, unnamed[2:])
		got, err := agent.tools.GetExecution(agent.ctx, &pb.GetExecutionRequest{SessionId: "s", CallId: "write"})
		if x := got.GetExecution(); err != nil || x.GetExecutionId() != id || x.GetState() != pb.ExecutionState_EXECUTION_STATE_FINISHED ||
			!proto.Equal(x.GetFinished(), first[len(first)-1].GetFinished()) || x.GetVerdict() == nil || x.GetCreateTime() == nil || x.GetStartTime() == nil {
			t.Errorf("%v, %v", got, err)
		}
		agent.lists(read[0].GetExecutionId(), unnamed[0].GetExecutionId(), id)
		if _, err := agent.call("s", "write", "bash", `{"command": "echo other"}`); status.Code(err) != codes.AlreadyExists {
			t.Errorf("another call under the id: %v", err)
		}
		for _, stranger := range []string{"other", "acme"} {
			c := w.as(stranger)
			c.session(&pb.CreateSessionRequest{SessionId: "s" + strings.Repeat("x", round), Mode: pb.Mode_MODE_ALLOW})
			if _, err := c.watch(id, 0); status.Code(err) != codes.NotFound {
				t.Errorf("%s watches: %v", stranger, err)
			}
			c.lists()
			if _, err := c.tools.GetExecution(c.ctx, &pb.GetExecutionRequest{SessionId: "s", CallId: "write"}); status.Code(err) != codes.NotFound {
				t.Errorf("%s looks: %v", stranger, err)
			}
		}
	}
	if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["once"] != 1 {
		t.Errorf("it ran %d times", got["once"])
	}
}

// lists checks that executions of before the restart are listed, the newest first, page by page:
// these, in this order, and perhaps others.
func (c *caller) lists(want ...string) {
	c.t.Helper()
	var got []string
	for token := ""; ; {
		page, err := c.tools.ListExecutions(c.ctx, &pb.ListExecutionsRequest{PageSize: 1, PageToken: token})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, x := range page.GetExecutions() {
			got = append(got, x.GetExecutionId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(want) == 0 && len(got) > 0 {
		c.t.Errorf("a stranger is shown %v", got)
	}
	at := 0
	for _, id := range got {
		if at < len(want) && id == want[at] {
			at++
		}
	}
	if at < len(want) {
		c.t.Errorf("listed are %v, without %v in its place", got, want[at])
	}
}

// flushed returns when what was to be stored behind the calls of a session is: the end of
// a call that changes something is stored after it.
func (c *caller) flushed(session string) {
	c.t.Helper()
	for range 3 {
		c.end(session, "", "bash", `{"command": "sleep 0.1"}`)
	}
}

func same(t *testing.T, what string, got, want []*pb.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d events, want %d: %v", what, len(got), len(want), got)
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("%s: event %d is\n%v\nwant\n%v", what, i, got[i], want[i])
		}
	}
}

// TestRunningCallsAreLost: calls that had not ended are lost, and say whether they may have
// had effects; those that waited for a person are cancelled. None is run again.
func TestRunningCallsAreLost(t *testing.T) {
	w := start(t)
	agent := w.as("agent")
	session := agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	agent.session(&pb.CreateSessionRequest{SessionId: "asks", Mode: pb.Mode_MODE_ASK})
	calls := []struct {
		session, id, tool, input string
		code, says               string
	}{
		{"s", "runs", "bash", `{"command": "echo run >> effects; echo up; sleep 60"}`, "lost_effects_unknown", "may have had effects"},
		{"asks", "waits", "bash", `{"command": "echo approved >> effects"}`, "lost_without_effects", "waited for the approval"},
		{"s", "reads", "sleep", `{"duration_ms": 60000}`, "lost_unknown", "nothing is recorded"},
	}
	executions := make([]string, len(calls))
	seen := make([]uint64, len(calls))
	for i, c := range calls {
		stream, err := agent.tools.ExecuteTool(agent.ctx, &pb.ExecuteToolRequest{SessionId: c.session, CallId: &c.id, Tool: c.tool, InputJson: []byte(c.input)})
		for err == nil {
			var response *pb.ExecuteToolResponse
			if response, err = stream.Recv(); err != nil {
				break
			}
			event := response.GetEvent()
			executions[i], seen[i] = event.GetExecutionId(), event.GetSequence()
			if event.GetOutput() != nil || event.GetApprovalRequested() != nil || c.id == "reads" && event.GetStarted() != nil {
				break
			}
		}
		if err != nil {
			t.Fatal(c.id, err)
		}
	}
	w.again()
	agent = w.as("agent")
	person := w.as("person")
	if pending, err := person.approvals.ListApprovals(person.ctx, &pb.ListApprovalsRequest{}); err != nil || len(pending.GetApprovals()) != 0 {
		t.Errorf("pending: %v, %v", pending, err)
	}
	for i, c := range calls {
		events, err := agent.watch(executions[i], seen[i])
		if err != nil {
			t.Fatal(c.id, err)
		}
		if len(events) != 1 || events[0].GetSequence() != seen[i]+1 {
			t.Errorf("%s: events after %d: %v", c.id, seen[i], events)
		}
		lost := events[len(events)-1].GetFinished()
		if lost.GetOutcome() != pb.Outcome_OUTCOME_LOST || lost.GetFailure().GetCode() != c.code || !strings.Contains(textOf(lost), c.says) {
			t.Errorf("%s ended with %v", c.id, lost)
		}
		if c.id == "reads" {
			if _, err := w.as("other").watch(executions[i], 0); status.Code(err) != codes.NotFound {
				t.Errorf("a stranger watches: %v", err)
			}
			continue
		}
		last, again := agent.end(c.session, c.id, c.tool, c.input)
		if !proto.Equal(again, lost) || last.GetExecutionId() != executions[i] {
			t.Errorf("%s again: %v", c.id, again)
		}
	}
	if got := lines(t, filepath.Join(session.GetWorkspace(), "effects")); got["run"] != 1 {
		t.Errorf("it ran %d times", got["run"])
	}
}

// TestSessionsGoOn: sessions, with settings, files, documents and grants, are there after a
// kill and after a shutdown; those that were closed are not.
func TestSessionsGoOn(t *testing.T) {
	w := start(t)
	agent, person := w.as("agent"), w.as("person")
	made := agent.session(&pb.CreateSessionRequest{
		SessionId: "s", Mode: pb.Mode_MODE_ALLOW, Labels: map[string]string{"team": "a"}, Tools: &pb.ToolSelection{Exclude: []string{"web_*"}},
		Answer: &pb.AnswerBudget{Size: &pb.AnswerBudget_Tokens{Tokens: 5000}}, CallOrder: pb.CallOrder_CALL_ORDER_SAFE,
	})
	agent.session(&pb.CreateSessionRequest{SessionId: "closed", Mode: pb.Mode_MODE_ALLOW})
	agent.end("s", "", "bash", `{"command": "echo kept > file"}`)
	agent.end("s", "", "todo_write", `{"todos": [{"content": "remember this"}]}`)
	if err := agent.mode("s", pb.Mode_MODE_ASK); err != nil {
		t.Fatal(err)
	}
	granted(agent, person, "s")
	if _, err := agent.sessions.CloseSession(agent.ctx, &pb.CloseSessionRequest{SessionId: "closed"}); err != nil {
		t.Fatal(err)
	}
	w.as("acme").session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	before := agent.state("s")
	grants := person.grants()
	if len(grants) != 1 {
		t.Fatalf("grants: %v", grants)
	}
	for round := range 3 {
		if round == 1 {
			w.Stop()
			w.Restart()
		} else {
			w.again()
		}
		agent, person = w.as("agent"), w.as("person")
		after := agent.state("s")
		after.LastUsedTime = before.GetLastUsedTime()
		after.Activation.Active = before.GetActivation().GetActive() // which is stored with the next change
		if !proto.Equal(before, after) {
			t.Errorf("round %d: the session is\n%v\nwant\n%v", round, after, before)
		}
		if got := lines(t, filepath.Join(made.GetWorkspace(), "file")); got["kept"] != 1 {
			t.Error("its files are gone")
		}
		if _, todo := agent.end("s", "", "todo_read", `{}`); !strings.Contains(textOf(todo), "remember this") {
			t.Errorf("its todo list is %v", todo)
		}
		if got := person.grants(); len(got) != 1 || !proto.Equal(got[0], grants[0]) {
			t.Errorf("round %d: grants are %v, want %v", round, got, grants)
		}
		if _, ran := agent.end("s", "", "bash", `{"command": "touch granted"}`); ran.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Errorf("what was granted: %v", ran)
		}
		if _, err := agent.sessions.GetSession(agent.ctx, &pb.GetSessionRequest{SessionId: "closed"}); status.Code(err) != codes.NotFound {
			t.Errorf("the closed one: %v", err)
		}
		other := w.as("acme").state("s")
		if other.GetWorkspace() == made.GetWorkspace() || len(other.GetLabels()) != 0 {
			t.Errorf("another tenant's session of the same id: %v", other)
		}
	}
}

// granted has a person allow a call of a session for always, in mode ask.
func granted(agent, person *caller, session string) {
	agent.t.Helper()
	stream, err := agent.tools.ExecuteTool(agent.ctx, &pb.ExecuteToolRequest{SessionId: session, Tool: "bash", InputJson: []byte(`{"command": "touch granted"}`)})
	if err != nil {
		agent.t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			agent.t.Fatal(err)
		}
		if asked := response.GetEvent().GetApprovalRequested().GetApproval(); asked != nil {
			if _, err := person.approvals.ResolveApproval(person.ctx, &pb.ResolveApprovalRequest{
				ApprovalId: asked.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, TierId: asked.GetTiers()[0].GetTierId(),
			}); err != nil {
				agent.t.Fatal(err)
			}
		}
		if response.GetEvent().GetFinished() != nil {
			return
		}
	}
}

func (c *caller) state(id string) *pb.Session {
	c.t.Helper()
	response, err := c.sessions.GetSession(c.ctx, &pb.GetSessionRequest{SessionId: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return response.GetSession()
}

func (c *caller) grants() []*pb.Grant {
	c.t.Helper()
	response, err := c.approvals.ListGrants(c.ctx, &pb.ListGrantsRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return response.GetGrants()
}

// mode changes the mode of a session.
func (c *caller) mode(id string, mode pb.Mode) error {
	_, err := c.sessions.UpdateSession(c.ctx, &pb.UpdateSessionRequest{
		Session: &pb.Session{SessionId: id, Mode: mode}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode"}},
	})
	return err
}
