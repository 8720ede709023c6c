// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// idOf returns the id of the loop that a call began.
func idOf(t *testing.T, f *pb.Finished) string {
	t.Helper()
	var details struct {
		ID string `json:"child_loop_id"`
	}
	if err := json.Unmarshal([]byte(f.GetDetailsJson()), &details); err != nil || details.ID == "" {
		t.Fatalf("no id in %v: %v", f, err)
	}
	return details.ID
}

// TestBackground proves that an agent in the background goes on without its call, hears
// what is said to it, and that its report can be fetched later, again and again.
func TestBackground(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	w := newWorld(t, only(reviewer), tools.ModeAsk, func(turn int, r *model.Request) answer {
		if turn == 1 {
			return answer{calls: []toolcall.Call{call("c", "read_file", `{"path":"a.txt"}`)}, stop: model.Calling, then: func(context.Context) error {
				close(asked)
				<-goOn
				return nil
			}}
		}
		return answer{text: "I was told: " + r.Messages[len(r.Messages)-1].Text}
	})
	w.file("a.txt", "hello\n")
	_, begun := w.run("agent", `{"prompt":"Go.","run_in_background":true}`)
	id := idOf(t, begun)
	<-asked
	if _, end := w.run("agent_send", `{"to":"`+id+`","content":"Leave the tests alone."}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(text(end))
	}
	if _, end := w.run("agent_status", `{}`); !strings.Contains(text(end), id+"  reviewer  running") {
		t.Error(text(end))
	}
	other, err := w.connect(auth.Principal{Name: auth.Local.Name, OnBehalfOf: "somebody else"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	w.use(other) // who shares the session
	for _, input := range []string{`agent_send {"to":"` + id + `","content":"Remove them."}`, `agent_status {"id":"` + id + `"}`, `agent_stop {"id":"` + id + `"}`} {
		tool, input, _ := strings.Cut(input, " ")
		if _, end := w.run(tool, input); end.GetOutcome() != pb.Outcome_OUTCOME_FAILED || strings.Contains(text(end), "reviewer") {
			t.Errorf("%s: %v", tool, end)
		}
	}
	w.use(w.own)
	close(goOn)
	for range 2 {
		_, end := w.run("agent_status", `{"id":"`+id+`","wait_ms":60000}`)
		if !strings.Contains(text(end), "I was told: (A message of who gave you the task:)\nLeave the tests alone.") {
			t.Error(text(end))
		}
	}
	if _, end := w.run("agent_send", `{"id":"`+id+`","message":"x"}`); end.GetFailure().GetCode() != "agent_ended" {
		t.Error(text(end))
	}
	if _, end := w.run("agent_stop", `{"id":"nobody"}`); end.GetFailure().GetCode() != "no_such_loop" || !strings.Contains(text(end), id) {
		t.Error(text(end))
	}
}

// TestStop proves that an agent in the background ends when it is told to, when its session
// does and when the server does; and that another session does not see it.
func TestStop(t *testing.T) {
	waiting := make(chan context.Context, 10)
	w := newWorld(t, only(reviewer), tools.ModeAsk, says(answer{text: "I begin.", then: func(ctx context.Context) error {
		waiting <- ctx
		<-ctx.Done()
		return ctx.Err()
	}}))
	_, begun := w.run("agent", `{"prompt":"Go.","run_in_background":true}`)
	id, ctx := idOf(t, begun), <-waiting
	if _, err := w.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "other"}); err != nil {
		t.Fatal(err)
	}
	stream, err := w.tools.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{SessionId: "other", Tool: "agent_stop", InputJson: []byte(`{"id":"` + id + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if end := lastOf(t, stream); end.GetFailure().GetCode() != "no_such_loop" || ctx.Err() != nil {
		t.Error(text(end))
	}
	if _, end := w.run("agent_stop", `{"id":"`+id+`","reason":"Enough."}`); !strings.Contains(text(end), "agent_stopped") || ctx.Err() == nil {
		t.Error(text(end))
	}
	if _, end := w.run("agent_status", `{"id":"`+id+`"}`); end.GetFailure().GetCode() != "agent_stopped" || !strings.Contains(text(end), "Enough.") {
		t.Error(text(end))
	}

	stream, err = w.tools.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{SessionId: "other", Tool: "agent", InputJson: []byte(`{"prompt":"Go.","run_in_background":true}`)})
	if err != nil {
		t.Fatal(err)
	}
	lastOf(t, stream)
	ctx = <-waiting
	if _, err := w.sessions.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "other"}); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()

	w.run("agent", `{"prompt":"Go.","run_in_background":true}`) // ends with the server
	<-waiting
}

// lastOf returns how a call ended.
func lastOf(t *testing.T, stream interface {
	Recv() (*pb.ExecuteToolResponse, error)
}) *pb.Finished {
	t.Helper()
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if f := response.GetEvent().GetFinished(); f != nil {
			return f
		}
	}
}

// TestApproval proves that a call of an agent waits for a person like any other, with the chain
// of who asked whom, and that the caller's stream shows it.
func TestApproval(t *testing.T) {
	w := newWorld(t, only(reviewer), tools.ModeAsk, says(
		answer{calls: []toolcall.Call{call("c", "write_file", `{"path":"b.txt","content":"b"}`)}, stop: model.Calling},
		answer{text: "Written."},
	))
	asked := 0
	_, end := w.follow(timeout(t), "agent", `{"prompt":"Write b.txt."}`, func(event *pb.Event) {
		a := event.GetNested().GetCall().GetEvent().GetApprovalRequested().GetApproval()
		if a == nil {
			return
		}
		asked++
		if chain := a.GetChain(); len(chain) != 1 || chain[0].GetAgent() != "reviewer" || chain[0].GetSessionId() != event.GetNested().GetChildLoopId() || chain[0].GetExecutionId() != event.GetExecutionId() {
			t.Errorf("who asked whom: %v", chain)
		}
		if _, err := w.approvals.ResolveApproval(t.Context(), &pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE, Digest: a.GetDigest()}); err != nil {
			t.Error(err)
		}
	})
	if asked != 1 || text(end) != "Written.\n" {
		t.Errorf("%d questions; %s", asked, text(end))
	}
}

// TestCancel proves that the end of a call ends the agent that it began: the model's
// request, the calls, those that wait for a person, and an agent below it.
func TestCancel(t *testing.T) {
	w := newWorld(t, agent.Config{List: []agent.Definition{reviewer, {Name: "writer", Prompt: "You write."}}, MaxDepth: 2}, tools.ModeAsk, func(turn int, r *model.Request) answer {
		if r.System == "You write." {
			return answer{calls: []toolcall.Call{call("w", "write_file", `{"path":"b.txt","content":"b"}`), call("s", "sleep", `{"duration_ms":600000}`)}, stop: model.Calling}
		}
		return answer{calls: []toolcall.Call{call("a", "agent", `{"agent":"writer","prompt":"Write."}`)}, stop: model.Calling}
	})
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	inner, loops := false, make(map[string]bool)
	events, end := w.follow(ctx, "agent", `{"agent":"reviewer","prompt":"Have b.txt written."}`, func(event *pb.Event) {
		outer := event.GetNested()
		loops[outer.GetChildLoopId()] = true
		deep := outer.GetCall().GetEvent().GetNested()
		loops[deep.GetChildLoopId()] = true
		if a := deep.GetCall().GetEvent().GetApprovalRequested().GetApproval(); a != nil && !inner {
			inner = true
			if chain := a.GetChain(); len(chain) != 2 || chain[0].GetAgent() != "reviewer" || chain[1].GetAgent() != "writer" {
				t.Errorf("who asked whom: %v", chain)
			}
			go w.tools.Cancel(ctx, &pb.CancelRequest{ExecutionId: event.GetExecutionId(), Reason: "enough"})
		}
	})
	if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !inner || len(loops) != 3 {
		t.Fatalf("it ended with %v after %d events, %v", end, len(events), loops)
	}
	waitUntil(t, func() bool {
		sessions, err := w.sessions.ListSessions(ctx, &pb.ListSessionsRequest{})
		questions, err2 := w.approvals.ListApprovals(ctx, &pb.ListApprovalsRequest{})
		return err == nil && err2 == nil && len(sessions.GetSessions()) == 1 && len(questions.GetApprovals()) == 0
	})
}

func waitUntil(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come")
		}
	}
}

// TestBounds proves what an agent may not be or do.
func TestBounds(t *testing.T) {
	danger, wrong, elsewhere, allow := reviewer, reviewer, reviewer, reviewer
	danger.Name, danger.Level = "danger", tools.DangerFullAccess
	wrong.Name, wrong.Tools = "wrong", []string{"Read", "nonsense"}
	elsewhere.Name, elsewhere.Endpoint = "elsewhere", "nowhere"
	allow.Name, allow.Mode = "allow", tools.ModeAllow
	w := newWorld(t, only(reviewer, danger, wrong, elsewhere, allow), tools.ModeAsk, func(turn int, r *model.Request) answer {
		if turn == 1 {
			return answer{calls: []toolcall.Call{call("c", "agent", `{"agent":"reviewer","prompt":"You do it."}`)}, stop: model.Calling}
		}
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		return answer{text: strings.Join(names, " ") + "; " + string(r.Messages[len(r.Messages)-1].Results[0].Content[0].(toolcall.Text))}
	})
	for input, want := range map[string]string{
		`{"agent":"danger","prompt":"x"}`:                    "level danger_full_access is above workspace_write",
		`{"agent":"allow","prompt":"x"}`:                     "mode allow is above ask",
		`{"agent":"wrong","prompt":"x"}`:                     "tools that do not exist: nonsense",
		`{"agent":"elsewhere","prompt":"x"}`:                 "there is no endpoint nowhere",
		`{"agent":"reviwer","prompt":"x"}`:                   `There is no agent "reviwer"; did you mean reviewer? There are: reviewer, danger, wrong, elsewhere, allow.`,
		`{"prompt":"x"}`:                                     "Say which agent is to do it.",
		`{"agent":"reviewer"}`:                               "/prompt: is required",
		`{"agent":"reviewer","prompt":"x"}`:                  `There is no tool "agent" in this session`,
		`{"agent":"reviewer","prompt":"x","read_only":true}`: `There is no tool "agent" in this session`,
		`{}`: "- reviewer: Looks at code\n",
	} {
		if _, end := w.run("agent", input); !strings.Contains(text(end), want) {
			t.Errorf("%s: there is no %q in %s", input, want, text(end))
		}
	}
	if _, end := w.run("summary", `{"report":"x"}`); end.GetFailure().GetCode() != "no_task" {
		t.Error(text(end))
	}
}
