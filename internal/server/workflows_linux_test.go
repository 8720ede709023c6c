// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// create keeps a workflow, which has to be right.
func (s *wholeServer) create(name, definition string) {
	s.t.Helper()
	if end := s.run("workflow_create", inputOf(s.t, map[string]any{"name": name, "definition": definition})); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		s.t.Fatalf("workflow_create: %v", end)
	}
}

func inputOf(t testing.TB, input map[string]any) string {
	t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWorkflowKinds runs a workflow with a step of each kind that needs no model: it is one
// execution with what its steps do nested in it, and a person approves one of them.
func TestWorkflowKinds(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	s.create("inner", `parameters: {type: object, properties: {n: {type: integer}}, required: [n]}
steps:
- {id: double, tool: bash, input: {command: "echo $(( ${params.n} * 2 ))"}, output: {type: integer}}
`)
	s.create("all", `parameters: {type: object, properties: {words: {type: array, items: {type: string}}}, required: [words]}
flow: start >> (each | sub | many) >> ask >> (big | skipped) >> last
steps:
- {id: start, wait: 1ms}
- {id: each, map: "${params.words}", tool: bash, input: {command: "echo ${index}-${item} | tee -a effects"}}
- {id: sub, workflow: inner, input: {n: 21}}
- {id: many, condition: "size(params.words) > 1"}
- {id: ask, approval: "Go on with ${steps.sub.output}?"}
- {id: big, tool: bash, input: {command: "echo big"}, when: steps.many.output}
- {id: skipped, tool: bash, input: {command: "echo never >> effects"}, when: "!steps.many.output"}
- {id: last, tool: bash, input: {command: "echo done"}}
result: {each: "${steps.each.output.map(t, t.trim())}", sub: "${steps.sub.output}", skipped: "${steps.skipped.state}"}
result_schema: {type: object, properties: {sub: {type: integer}}, required: [each, sub]}
`)
	asked := 0
	events, end := s.callAnswering("workflow_run", `{"name":"all","parameters":{"words":["x","y"]}}`, func(q *pb.Approval) string {
		asked++
		return "Approve"
	})
	if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("%v", end)
	}
	var result struct {
		Each    []string
		Sub     int
		Skipped string
	}
	if err := json.Unmarshal([]byte(end.GetContent()[0].GetJson()), &result); err != nil || fmt.Sprint(result) != "{[0-x 1-y] 42 skipped}" {
		t.Errorf("%v: %s", err, end.GetContent()[0].GetJson())
	}
	s.create("both", `bash{"command": "echo first"} >> inner{"n": 4}`)
	if end := s.run("workflow_run", `{"name":"both"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || end.GetContent()[0].GetJson() != "8" {
		t.Errorf("a workflow in the short form: %v", end)
	}
	if asked != 1 || strings.Count(s.read("effects"), "\n") != 2 {
		t.Errorf("asked %d times, and the effects are %q", asked, s.read("effects"))
	}
	calls := make(map[string]int)
	for _, e := range events {
		if n := e.GetNested(); n.GetCall().GetEvent().GetFinished() != nil {
			calls[n.GetStage()]++
		}
	}
	for _, step := range []string{"each/0", "each/1", "sub/double", "ask", "big", "last"} {
		if calls[step] != 1 {
			t.Errorf("the end of step %s was told %d times", step, calls[step])
		}
	}
}

// callAnswering runs a call, and answers the questions of its steps by what answer chooses.
func (s *wholeServer) callAnswering(tool, input string, answer func(*pb.Approval) string) ([]*pb.Event, *pb.Finished) {
	s.t.Helper()
	stream, err := s.ExecuteTool(s.t.Context(), &pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)})
	if err != nil {
		s.t.Fatal(err)
	}
	var events []*pb.Event
	for {
		response, err := stream.Recv()
		if err != nil {
			s.t.Fatal(err)
		}
		event := response.GetEvent()
		events = append(events, event)
		if f := event.GetFinished(); f != nil {
			return events, f
		}
		if q := event.GetNested().GetCall().GetEvent().GetApprovalRequested().GetApproval(); q != nil {
			_, err := s.approvals.ResolveApproval(s.t.Context(), &pb.ResolveApprovalRequest{
				ApprovalId: q.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ANSWERED, Answers: []*pb.QuestionAnswer{{Chosen: []string{answer(q)}}},
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// TestWorkflowFailures shows what a step that fails comes to: it is tried again as often as it
// says; an output that does not fit is told; the run is resumed from there, or after it.
func TestWorkflowFailures(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	s.create("retried", `steps:
- {id: try, tool: bash, input: {command: "echo x >> tries; test $(wc -l < tries) -ge 3"}, retry: {times: 5, wait: 1ms}}
`)
	if end := s.run("workflow_run", `{"name":"retried"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || strings.Count(s.read("tries"), "x") != 3 {
		t.Errorf("%v after %q", end, s.read("tries"))
	}
	s.create("typed", `steps:
- {id: before, tool: bash, input: {command: "echo before >> order"}}
- {id: number, tool: bash, input: {command: "cat number"}, output: {type: integer, minimum: 10}}
- {id: after, tool: bash, input: {command: "echo ${steps.number.output} >> order"}}
`)
	s.write("number", "seven")
	end := s.run("workflow_run", `{"name":"typed"}`)
	if end.GetFailure().GetCode() != "invalid_output" || !strings.Contains(end.GetFailure().GetMessage(), "does not fit its schema") {
		t.Fatalf("%v", end)
	}
	var details struct{ Run, State, Step string }
	if err := json.Unmarshal([]byte(end.GetDetailsJson()), &details); err != nil || details.State != "failed" || details.Step != "number" {
		t.Fatalf("%v: %s", err, end.GetDetailsJson())
	}
	s.write("number", "12")
	if end := s.run("workflow_run", `{"run":"`+details.Run+`","operation":"resume"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("%v", end)
	}
	if s.read("order") != "before\n12\n" {
		t.Errorf("the order is %q", s.read("order"))
	}
	if end := s.run("workflow_run", `{"run":"`+details.Run+`","operation":"resume"}`); end.GetFailure().GetCode() != "not_paused" {
		t.Errorf("%v", end)
	}
	s.create("denied", `steps: [{id: ask, approval: "May I?"}, {id: then, tool: bash, input: {command: "echo x >> never"}}]`)
	if _, end := s.callAnswering("workflow_run", `{"name":"denied"}`, func(*pb.Approval) string { return "Deny" }); end.GetFailure().GetCode() != "denied" || s.read("never") != "" {
		t.Errorf("%v", end)
	}
}

// TestWorkflowTold shows what is told of a run: the step that runs, that a pause is on its way, and of
// one that failed its reason once, with what the step wrote.
func TestWorkflowTold(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	s.create("slow", `steps:
- {id: first, tool: bash, input: {command: "echo first"}}
- {id: gate, tool: bash, input: {command: "until [ -e go-on ]; do sleep 0.05; done; seq 5000; echo the last words; exit 3"}}
- {id: never, tool: bash, input: {command: "echo never"}}
`)
	var run struct{ Run string }
	json.Unmarshal([]byte(s.run("workflow_run", `{"name":"slow","background":true}`).GetDetailsJson()), &run)
	about := func(operation string) string {
		return contentText(s.run("workflow_run", inputOf(t, map[string]any{"run": run.Run, "operation": operation})))
	}
	status := func() string { return about("status") }
	waitUntil(t, func() bool { return strings.Contains(status(), "- gate: running") }, status)
	if text := about("pause"); !strings.Contains(text, "to be paused when the steps that run have ended") || strings.Contains(text, "never: ") {
		t.Errorf("while it is paused: %s", text)
	}
	s.write("go-on", "")
	waitUntil(t, func() bool { return strings.Contains(status(), "failed at step gate") }, status)
	text := about("wait")
	if strings.Count(text, "exit status 3") != 1 || !strings.Contains(text, "the last words") || !strings.Contains(text, "- gate: failed\n") {
		t.Errorf("of a run that failed: %s", text)
	}
}

// TestWorkflowMistakes shows that everything that is wrong is told at once.
func TestWorkflowMistakes(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	end := s.run("workflow_validate", inputOf(t, map[string]any{"definition": `steps:
- {id: one, tool: bsh, input: {command: "${params.who} ${steps.two.output}"}, after: [three]}
- {id: two, tool: bash, when: "1 +", after: [one], retries: 3}
- {id: Three, wait: soon}
- {id: four, agent: x}
`}))
	for _, want := range []string{
		`definition:2: steps[0].tool: there is no tool "bsh"`, `there is no step "three"`, `there is no parameter "who"`, "steps.two is not known here",
		"definition:3: steps[1].when: column", "definition:3: steps[1].retries: unknown key", `"Three" is no id`, `"soon" is no time to wait`, "steps[3].prompt: is for steps with agent",
	} {
		if !strings.Contains(end.GetFailure().GetMessage(), want) {
			t.Errorf("%q is not told in\n%s", want, end.GetFailure().GetMessage())
		}
	}
	for definition, want := range map[string]string{
		"steps: [{id: a, wait: 1s, after: [b]}, {id: b, wait: 1s, after: [a]}]": "wait for each other: a after b after a",
		"bash >> (grep | ":                            "column 17 of the flow",
		`bash{"command": `:                            "the input of a step is a JSON object",
		"steps: [{id: a, workflow: nothing}]":         `there is no workflow "nothing"`,
		"steps: [{id: a, map: \"${[1]}\", wait: 1s}]": "map: is for steps with",
		"nothing: 1":                                  "unknown key",
		"steps: [{id: a, approval: \"${1 +}\"}]":      "steps[0].approval: ",
		`bash{"comand": "x"}`:                         "bash: /comand",
		`bash{"command": "x", "timeout_ms": "long"}`:  "bash: /timeout_ms",
		"bash": "bash: /command: is required",
		"parameters: {type: object, properties: {p: {type: string}}}\nsteps: [{id: a, tool: write_file, input: {path: \"${params.p}\", contnt: x}}]": "/contnt",
		"steps: [{id: a, tool: bash, input: {command: \"${item}\"}}]":                                                                                "item and index are known",
	} {
		end := s.run("workflow_validate", inputOf(t, map[string]any{"definition": definition}))
		if !strings.Contains(end.GetFailure().GetMessage(), want) {
			t.Errorf("%s: %q, want %q", definition, end.GetFailure().GetMessage(), want)
		}
	}
	s.create("later", "parameters: {type: object, properties: {p: {type: string}}}\nsteps: [{id: a, tool: write_file, input: {path: \"${params.p}\", content: \"${params.p}\"}}]")
	s.create("self", "git_status")
	if end := s.run("workflow_update", `{"name":"self","definition":"steps: [{id: a, workflow: self}]"}`); !strings.Contains(end.GetFailure().GetMessage(), "self runs self") {
		t.Errorf("%v", end)
	}
	if end := s.run("workflow_run", `{"name":"sefl"}`); !strings.Contains(end.GetFailure().GetMessage(), "did you mean self") {
		t.Errorf("%v", end)
	}
}

// TestWorkflowAgent has an agent do a step, whose model is scripted: what it reports fits the schema
// of the step, and steps after it go on with that.
func TestWorkflowAgent(t *testing.T) {
	provider := httptest.NewServer(modeltest.New(func(r *modeltest.Request) modeltest.Turn {
		if r.Said() == 0 && strings.Contains(fmt.Sprint(r.Last()), "Count to 3.") {
			return modeltest.Turn{Text: "I count.", Calls: []toolcall.Call{modeltest.Call("bash", map[string]any{"command": "echo counted >> effects", "description": "count"})}}
		}
		return modeltest.Turn{Text: `{"n": 3}`}
	}))
	t.Cleanup(provider.Close)
	t.Setenv("TEST_MODEL_KEY", "key")
	s := serveAllowing(t, fmt.Sprintf("models: [{name: main, format: anthropic, model: scripted, url: %q, key_env: TEST_MODEL_KEY}]\nagents: {list: [{name: counter, prompt: You count., tools: [Bash]}]}\n", provider.URL))
	s.create("counts", `steps:
- {id: count, agent: counter, prompt: "Count to ${1 + 2}.", output: {type: object, properties: {n: {type: integer}}, required: [n]}}
- {id: write, tool: bash, input: {command: "echo ${steps.count.output.n} >> effects"}}
result: ${steps.count.output.n}
`)
	end := s.run("workflow_run", `{"name":"counts"}`)
	if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || end.GetContent()[0].GetJson() != "3" || s.read("effects") != "counted\n3\n" {
		t.Errorf("%v, %q", end, s.read("effects"))
	}
}

// TestWorkflowSession has a run not go on in another session of the same id, and tell of a person
// it waits for.
func TestWorkflowSession(t *testing.T) {
	s := serveAllowing(t, "")
	s.create("asks", `steps: [{id: ask, approval: "Go on?"}, {id: then, tool: bash, input: {command: "echo x >> effects"}}]`)
	made := func() {
		t.Helper()
		if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "s", Workspace: s.workspace}); err != nil {
			t.Fatal(err)
		}
	}
	made()
	began := s.in("s", "workflow_run", `{"name":"asks","background":true}`, nil)
	var run struct{ Run string }
	if json.Unmarshal([]byte(began.GetDetailsJson()), &run); run.Run == "" {
		t.Fatal(began)
	}
	status := func() string {
		return contentText(s.run("workflow_run", inputOf(t, map[string]any{"run": run.Run, "operation": "status"})))
	}
	waitUntil(t, func() bool { return strings.Contains(status(), "ask: waiting: a person is asked") }, status)
	if _, err := s.sessions.CloseSession(t.Context(), &pb.CloseSessionRequest{SessionId: "s"}); err != nil {
		t.Fatal(err)
	}
	made()
	waitUntil(t, func() bool { return strings.Contains(status(), "failed at step ask") }, status)
	if end := s.in("s", "workflow_run", inputOf(t, map[string]any{"run": run.Run, "operation": "resume", "done": true}), nil); end.GetFailure().GetCode() != "not_approved" || s.read("effects") != "" {
		t.Errorf("an approval is said to be done: %v, %q", end, s.read("effects"))
	}
	resume := inputOf(t, map[string]any{"run": run.Run, "operation": "resume"})
	if _, end := s.callAnswering("workflow_run", resume, func(*pb.Approval) string { return "Approve" }); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || s.read("effects") != "x\n" {
		t.Errorf("%v, %q", end, s.read("effects"))
	}
}

// TestWorkflowSteered pauses, resumes and cancels a run that waits, and cancels the call that
// began one.
func TestWorkflowSteered(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	s.create("waits", `steps:
- {id: first, tool: bash, input: {command: "echo first >> order"}}
- {id: long, wait: 1h}
`)
	state := func(end *pb.Finished) (run struct{ Run, State string }) {
		t.Helper()
		if err := json.Unmarshal([]byte(end.GetDetailsJson()), &run); err != nil {
			t.Fatal(end, err)
		}
		return run
	}
	run := state(s.run("workflow_run", `{"name":"waits","background":true}`)).Run
	operate := func(operation string) string {
		t.Helper()
		return state(s.run("workflow_run", inputOf(t, map[string]any{"run": run, "operation": operation, "background": operation == "resume"}))).State
	}
	waits := func() bool {
		return strings.Contains(contentText(s.run("workflow_run", `{"run":"`+run+`","operation":"status"}`)), "long: waiting")
	}
	waitUntil(t, waits, func() string { return "it does not wait" })
	operate("pause") // which does not wait for steps that run
	waitUntil(t, func() bool { return operate("status") == "paused" }, func() string { return operate("status") })
	for _, step := range []struct{ operation, want string }{{"resume", "running"}, {"cancel", "cancelled"}} {
		if got := operate(step.operation); got != step.want {
			t.Errorf("after %s it is %s", step.operation, got)
		}
	}
	if end := s.run("workflow_run", `{"run":"`+run+`","operation":"resume"}`); end.GetFailure().GetCode() != "not_paused" {
		t.Error(end)
	}
	if s.read("order") != "first\n" {
		t.Errorf("the first step ran more than once: %q", s.read("order"))
	}

	stream, err := s.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{Tool: "workflow_run", InputJson: []byte(`{"name":"waits"}`)})
	if err != nil {
		t.Fatal(err)
	}
	var end *pb.Finished
	for end == nil {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		event := response.GetEvent()
		if event.GetNested().GetStage() == "long" {
			if _, err := s.Cancel(t.Context(), &pb.CancelRequest{ExecutionId: event.GetExecutionId()}); err != nil {
				t.Fatal(err)
			}
		}
		end = event.GetFinished()
	}
	if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
		t.Error(end)
	}
	waitUntil(t, func() bool {
		return strings.Count(contentText(s.run("workflow_get", `{"name":"waits"}`)), ": cancelled: ") == 2
	},
		func() string { return contentText(s.run("workflow_get", `{"name":"waits"}`)) })
}
