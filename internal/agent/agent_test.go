// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/agent"
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
	if got := strings.Join(kinds, "; "); got != "begun; turn; I look.; read_file 1\thello; turn; It says hello.; done" {
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

// anyNumber is for what no clock can be asked about.
const anyNumber = 1 << 20

// TestEndings proves that every loop ends, with a report that says why.
func TestEndings(t *testing.T) {
	read := toolcall.Call{ID: "c", Tool: "read_file", Input: []byte(`{"path":"a.txt"}`)}
	schema := `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`
	limited := func(l agent.Limits) agent.Definition {
		d := reviewer
		d.Limits = l
		return d
	}
	for _, test := range []struct {
		name  string
		agent agent.Definition
		input string // beside agent and prompt
		say   func(int, *model.Request) answer
		want  string // the code of the failure, a space, and a text of the result
		turns uint32
	}{
		{"calls for ever", limited(agent.Limits{Turns: 4}), "", func(int, *model.Request) answer {
			return answer{text: "Once more.", calls: []toolcall.Call{read}, stop: model.Calling}
		}, "turn_limit The last that the agent said: Once more.", 4},
		{"says nothing", reviewer, "", func(int, *model.Request) answer { return answer{} }, "agent_silent ", 3},
		{"is cut off", reviewer, "", func(int, *model.Request) answer { return answer{text: "la la", stop: model.TooLong} }, "answer_too_long ", 3},
		{"is refused", reviewer, "", says(answer{stop: model.Refused}), "model_refused ", 1},
		{"is down", reviewer, "", says(answer{text: "Half", err: errors.New("The endpoint is down.")}), "model_failed The endpoint is down.", 1},
		{"tokens", limited(agent.Limits{Tokens: 100}), "", func(int, *model.Request) answer {
			return answer{calls: []toolcall.Call{read}, stop: model.Calling, usage: model.Usage{Input: 30, Output: 10}}
		}, "token_limit after 120 tokens", 3},
		{"dollars", limited(agent.Limits{Dollars: 0.5}), "", func(int, *model.Request) answer {
			return answer{calls: []toolcall.Call{read}, stop: model.Calling, usage: model.Usage{Dollars: 0.3}}
		}, "dollar_limit after 0.6000 dollars", 2},
		{"time", limited(agent.Limits{Time: time.Millisecond}), "", says(answer{then: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}), "time_limit ", anyNumber},
		{"unknown tool", reviewer, "", func(turn int, r *model.Request) answer {
			if turn == 1 {
				return answer{calls: []toolcall.Call{call("c", "reed_file", `{}`)}, stop: model.Calling}
			}
			result := r.Messages[len(r.Messages)-1].Results[0]
			return answer{text: fmt.Sprint(result.Failed, result.Content)}
		}, " true [There is no tool \"reed_file\" in this session. Did you mean read_file?]", 2},
		{"broken call", reviewer, "", func(turn int, r *model.Request) answer {
			if turn == 1 {
				return answer{broken: []toolcall.Broken{{ID: "c", Tool: "read_file", Raw: `{"path`, Message: "It ends in the middle."}}, stop: model.Calling}
			}
			before, last := r.Messages[len(r.Messages)-2], r.Messages[len(r.Messages)-1]
			return answer{text: fmt.Sprint(before.Calls[0].ID, string(before.Calls[0].Input), last.Results[0].CallID, last.Results[0].Content)}
		}, " c{}c[It ends in the middle.]", 2},
		{"broken text", reviewer, "", func(turn int, r *model.Request) answer {
			if turn == 1 {
				return answer{broken: []toolcall.Broken{{Raw: "<tool>", Message: "It has no name."}}}
			}
			return answer{text: r.Messages[len(r.Messages)-2].Text + r.Messages[len(r.Messages)-1].Text}
		}, " <tool>It has no name.", 2},
		{"many calls", reviewer, "", func(turn int, r *model.Request) answer {
			if turn == 1 {
				return answer{calls: slices.Repeat([]toolcall.Call{read}, 1000), stop: model.Calling}
			}
			results := r.Messages[len(r.Messages)-1].Results
			return answer{text: fmt.Sprint(len(results), results[len(results)-1].Content)}
		}, " 400 [Nothing was run: you made more than 200 calls", 2},
		{"summary", reviewer, "", says(answer{text: "Done.", calls: []toolcall.Call{call("c", "summary", `{"report":"All is well."}`)}, stop: model.Calling}), " All is well.", 1},
		{"result", reviewer, `,"result_schema":` + schema, says(answer{calls: []toolcall.Call{call("c", "summary", `{"result":{"n":3}}`)}, stop: model.Calling}), ` {"n":3}`, 1},
		{"result as text", reviewer, `,"result_schema":` + schema, says(answer{text: "Here:\n```json\n{\"n\": 4}\n```\n"}), ` {"n": 4}`, 1},
		{"result corrected", reviewer, `,"result_schema":` + schema, says(answer{text: `{"n":"x"}`}, answer{text: `{"n":5}`}), ` {"n":5}`, 2},
		{"result corrected by summary", reviewer, `,"result_schema":` + schema, says(
			answer{calls: []toolcall.Call{call("c", "summary", `{"result":{"m":3}}`)}, stop: model.Calling}, answer{calls: []toolcall.Call{call("d", "summary", `{"result":{"n":6}}`)}, stop: model.Calling}), ` {"n":6}`, 2},
		{"result wrong twice", reviewer, `,"result_schema":` + schema, func(int, *model.Request) answer { return answer{text: "No."} }, "result_invalid ", 2},
		{"bad schema", reviewer, `,"result_schema":{"type":"nonsense"}`, says(), "invalid_input ", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, only(test.agent), tools.ModeAsk, test.say)
			w.file("a.txt", "hello\n")
			events, end := w.run("agent", `{"agent":"reviewer","prompt":"Do it."`+test.input+`}`)
			code, contains, _ := strings.Cut(test.want, " ")
			if got := end.GetFailure().GetCode(); got != code {
				t.Errorf("it ended with %q: %s", got, text(end))
			}
			if !strings.Contains(text(end), contains) {
				t.Errorf("there is no %q in %s", contains, text(end))
			}
			var turns uint32
			for _, n := range nested(events) {
				if f := n.GetFinished(); f != nil {
					turns = f.GetUsage().GetTurns()
				}
			}
			if turns != test.turns && test.turns != anyNumber {
				t.Errorf("it took %d turns", turns)
			}
			if running, err := w.tools.ListExecutions(t.Context(), &pb.ListExecutionsRequest{State: pb.ExecutionState_EXECUTION_STATE_RUNNING}); err != nil || len(running.GetExecutions()) > 0 {
				t.Errorf("still running: %v %v", running, err)
			}
		})
	}
}
