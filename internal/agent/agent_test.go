// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestTask proves that an agent reads a file of its caller's workspace, and that its last text
// is the report.
func TestTask(t *testing.T) {
	w := newWorld(t, only(reviewer), tools.ModeAsk, says(
		answer{text: "I look.|\n", calls: []toolcall.Call{call("c1", "read_file", `{"path":"a.txt"}`)}, stop: model.Calling, usage: model.Usage{Input: 10, Output: 5}},
		answer{text: "It says hello.", usage: model.Usage{Input: 20, Output: 5}},
	))
	w.file("a.txt", "hello\n")
	events, end := w.run("agent", `{"agent":"Reviewer","prompt":"What is in a.txt?"}`)
	if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || text(end) != "It says hello.\n" {
		t.Fatalf("it ended with %v %q", end.GetOutcome(), text(end))
	}
	var kinds []string
	for _, n := range nested(events) {
		if n.GetChildLoopId() == "" || n.GetAgent() != "reviewer" {
			t.Errorf("whose is %v?", n)
		}
		switch kind := n.GetKind().(type) {
		case *pb.Nested_Begun:
			kinds = append(kinds, "begun")
		case *pb.Nested_Turn:
			kinds = append(kinds, "turn")
		case *pb.Nested_Text:
			kinds = append(kinds, strings.TrimSpace(kind.Text))
		case *pb.Nested_Call:
			if f := kind.Call.GetEvent().GetFinished(); f != nil {
				kinds = append(kinds, kind.Call.GetTool()+" "+strings.TrimSpace(text(f)))
			}
		case *pb.Nested_Finished:
			kinds = append(kinds, kind.Finished.GetOutcome())
			if u := kind.Finished.GetUsage(); u.GetTurns() != 2 || u.GetCalls() != 1 || u.GetInputTokens() != 30 || u.GetOutputTokens() != 10 {
				t.Errorf("it used %v", u)
			}
		}
	}
	if got := strings.Join(kinds, "; "); got != "begun; turn; I look.; read_file hello; turn; It says hello.; done" {
		t.Error(got)
	}
	if r := w.model.asked[1]; len(r.Messages) != 3 || r.System != "You review." || len(r.Messages[2].Results) != 1 || r.Messages[2].Results[0].CallID != "c1" {
		t.Errorf("the second turn was asked %+v", r)
	}
	list, err := w.sessions.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) > 1 {
		t.Errorf("sessions that are left: %v %v", list.GetSessions(), err)
	}
}
