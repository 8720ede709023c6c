// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// history returns what schedule_list tells of a schedule.
func (s *wholeServer) history(name string) string {
	s.t.Helper()
	return contentText(s.run("schedule_list", inputOf(s.t, map[string]any{"name": name})))
}

// TestSchedules has a tool and a workflow called by schedules, as their maker in a session of
// their own; what is wrong or would be refused is not kept.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "schedules: {max_per_principal: 3}")
	s.create("note", `parameters: {type: object, properties: {word: {type: string}}, required: [word]}
steps: [{id: write, tool: bash, input: {command: "echo ${params.word} >> effects; echo b was done"}}]
`)
	made := s.run("schedule_create", `{"name":"a","tool":"bash","input":{"command":"echo tool >> effects; echo a was done"},"cron":"30 2 * * *","time_zone":"Europe/Berlin"}`)
	if made.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(contentText(made), "lost when the server ends") {
		t.Fatal(made)
	}
	if made := s.run("schedule_create", `{"name":"b","workflow":"note","parameters":{"word":"flow"},"every":"24h"}`); made.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(made)
	}
	for _, name := range []string{"a", "b"} {
		if fired := s.run("schedule_run_now", inputOf(t, map[string]any{"name": name})); fired.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatal(fired)
		}
		waitUntil(t, func() bool { return strings.Contains(s.history(name), "Z: succeeded "+name+" was done") }, func() string { return s.history(name) })
	}
	if got := s.read("effects"); got != "tool\nflow\n" {
		t.Errorf("the effects are %q", got)
	}
	for input, want := range map[string]string{
		`{"name":"c","tool":"bash","input":{"command":"x"},"cron":"0 0 31 2 *"}`:                      "never fires",
		`{"name":"c","tool":"bash","input":{"command":"x"},"every":"10s"}`:                            "at least 1m0s have to be between",
		`{"name":"c","tool":"bash","input":{"comand":"x"},"every":"1h"}`:                              "command",
		`{"name":"c","tool":"bsh","every":"1h"}`:                                                      "bsh",
		`{"name":"c","tool":"bash","workflow":"note","every":"1h"}`:                                   "want either tool",
		`{"name":"c","tool":"bash","input":{"command":"x"},"every":"1h","at":"2030-01-01T00:00:00Z"}`: "want exactly one of cron, every and at",
		`{"name":"a","tool":"bash","input":{"command":"x"},"every":"1h"}`:                             "There is a schedule a already",
		`{"name":"c","tool":"workflow_run","input":"note","every":"1h"}`:                              "want an object",
		`{"name":"c","tool":"WorkflowRun","input":{"id":"note"},"every":"1h"}`:                        "unknown key",
	} {
		if end := s.run("schedule_create", input); end.GetOutcome() == pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(contentText(end), want) {
			t.Errorf("%s: %v, want %q", input, end, want)
		}
	}
	if end := s.run("workflow_run", `{"name":"note","parameters":{"word":"never"},"digest":"of-another"}`); end.GetFailure().GetCode() != "workflow_changed" {
		t.Errorf("a run of another workflow than was meant: %v", end)
	}
	// A workflow that was changed since is not what the schedule is to run.
	s.run("workflow_update", `{"name":"note","definition":"bash{\"command\":\"echo other >> effects\"}"}`)
	s.run("schedule_run_now", `{"name":"b"}`)
	waitUntil(t, func() bool { return strings.Contains(s.history("b"), "refused the workflow") }, func() string { return s.history("b") })
	if got := s.read("effects"); got != "tool\nflow\n" {
		t.Errorf("what was changed ran: %q", got)
	}
	// Nor is one that a step calls by its tool, which the schedule could not know.
	if end := s.run("workflow_create", `{"name":"outer","definition":"steps: [{id: a, tool: workflow_run, input: {name: note}}]"}`); !strings.Contains(contentText(end), "want the step workflow") {
		t.Error(end)
	}
	if end := s.run("schedule_pause", `{"name":"a"}`); !strings.Contains(contentText(end), "paused") {
		t.Error(end)
	}
	if end := s.run("schedule_resume", `{"name":"a"}`); !strings.Contains(contentText(end), "next ") {
		t.Error(end)
	}
	if end := s.run("schedule_delete", `{"name":"a"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(s.history("a"), "no schedule") {
		t.Error(end)
	}
	if list := contentText(s.run("schedule_list", `{}`)); !strings.Contains(list, "b: the workflow note, every 24h") || strings.Contains(list, "- a:") {
		t.Error(list)
	}
}

// TestUnattended has a schedule in a session that asks about changes: it is refused where nobody
// answers, and its history says so.
func TestUnattended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serveWhole(t, dir, inDir(dir, "", "", ", allowed_workspaces: ["+dir+"/ws], mode: ask", ""), zap.NewNop())
	asked := func(q *pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE }
	_, made := s.call(&pb.ExecuteToolRequest{Tool: "schedule_create", InputJson: []byte(`{"name":"a","tool":"bash","input":{"command":"touch x"},"every":"24h"}`)}, asked)
	if made.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(contentText(made), "A person has to approve each firing") {
		t.Fatal(made)
	}
	for _, input := range []string{
		`{"name":"b","tool":"bash","input":{"command":"x"},"cron":"0 0 31 2 *"}`, `{"name":"b","tool":"bash","input":{"command":"x"},"every":"1s"}`,
		`{"name":"b","tool":"bash","input":{"command":"x"},"at":"2020-01-01T00:00:00Z"}`, `{"name":"b","tool":"bash","input":{"command":"x"},"cron":"x"}`,
	} {
		_, end := s.call(&pb.ExecuteToolRequest{Tool: "schedule_create", InputJson: []byte(input)}, func(*pb.Approval) pb.AnswerKind {
			t.Errorf("a person is asked about %s", input)
			return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
		})
		if code := end.GetFailure().GetCode(); code != "invalid_time" && code != "too_often" {
			t.Errorf("%s: %v", input, end)
		}
	}
	s.call(&pb.ExecuteToolRequest{Tool: "workflow_create", InputJson: []byte(`{"name":"there","definition":"parameters: {type: object, required: [p]}\nsteps: [{id: a, wait: 1s}]"}`)}, asked)
	for _, one := range []struct{ tool, input, want string }{
		{"workflow_create", `{"name":"no name","definition":"bash{\"command\":\"x\"}"}`, "invalid_name"},
		{"workflow_create", `{"name":"there","definition":"bash{\"command\":\"x\"}"}`, "workflow_exists"},
		{"workflow_create", `{"name":"other","definition":"bsh{\"command\":\"x\"}"}`, "invalid_workflow"},
		{"workflow_update", `{"name":"other","definition":"bash{\"command\":\"x\"}"}`, "no_such_workflow"},
		{"workflow_delete", `{"name":"other"}`, "no_such_workflow"},
		{"workflow_run", `{"name":"other"}`, "no_such_workflow"},
		{"workflow_run", `{"name":"there"}`, "invalid_parameters"},
		{"schedule_create", `{"name":"a","tool":"bash","input":{"command":"x"},"every":"1h"}`, "schedule_exists"},
		{"schedule_create", `{"name":"b","tool":"bsh","every":"1h"}`, "no_such_tool"},
		{"schedule_create", `{"name":"b","tool":"bash","input":{"comand":"x"},"every":"1h"}`, "invalid_call"},
		{"schedule_create", `{"name":"b","workflow":"other","every":"1h"}`, "no_such_workflow"},
		{"schedule_resume", `{"name":"b"}`, "no_such_schedule"},
		{"schedule_run_now", `{"name":"b"}`, "no_such_schedule"},
		{"schedule_delete", `{"name":"b"}`, "no_such_schedule"},
	} {
		_, end := s.call(&pb.ExecuteToolRequest{Tool: one.tool, InputJson: []byte(one.input)}, func(*pb.Approval) pb.AnswerKind {
			t.Errorf("a person is asked about %s %s", one.tool, one.input)
			return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
		})
		if code := end.GetFailure().GetCode(); code != one.want {
			t.Errorf("%s %s: %v, want %s", one.tool, one.input, end, one.want)
		}
	}
	s.call(&pb.ExecuteToolRequest{Tool: "schedule_run_now", InputJson: []byte(`{"name":"a"}`)}, asked)
	var q *pb.Approval
	waitUntil(t, func() bool {
		list, err := s.approvals.ListApprovals(t.Context(), &pb.ListApprovalsRequest{})
		if err == nil && len(list.GetApprovals()) > 0 {
			q = list.GetApprovals()[0]
		}
		return q != nil
	}, func() string { return "nobody is asked" })
	if _, err := s.approvals.ResolveApproval(t.Context(), &pb.ResolveApprovalRequest{ApprovalId: q.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE, Digest: q.GetDigest()}); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() bool {
		return strings.Contains(s.history("a"), "refused") && strings.Contains(s.history("a"), "denied the call")
	}, func() string { return s.history("a") })
}

// TestSchedulesReadOnly has a session that may only read change neither what a schedule runs nor
// when it does.
func TestSchedulesReadOnly(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "")
	s.create("check", "bash{\"command\":\"echo good >> effects\"}")
	if made := s.run("schedule_create", `{"name":"nightly","workflow":"check","every":"24h"}`); made.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(made)
	}
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "ro", Level: pb.Level_LEVEL_READ_ONLY, Mode: pb.Mode_MODE_PLAN}); err != nil {
		t.Fatal(err)
	}
	for tool, input := range map[string]string{
		"workflow_create":  `{"name":"other","definition":"git_status"}`,
		"workflow_update":  `{"name":"check","definition":"bash{\"command\":\"echo evil >> effects\"}"}`,
		"workflow_delete":  `{"name":"check"}`,
		"schedule_run_now": `{"name":"nightly"}`,
		"schedule_resume":  `{"name":"nightly"}`,
		"schedule_delete":  `{"name":"nightly"}`,
	} {
		if end := s.in("ro", tool, input, nil); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
			t.Errorf("%s: %v", tool, end)
		}
	}
}

// TestSchedulesLabels has what a rule denies to a session of a label denied to the schedules that
// it makes.
func TestSchedulesLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: red, action: deny, reads: [secrets/], labels: {team: red}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveWhole(t, dir, allowing(dir, "policy: {file: "+rules+"}"), zap.NewNop())
	if err := os.MkdirAll(filepath.Join(s.workspace, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("secrets/key.txt", "TOPSECRET")
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "red", Workspace: s.workspace, Labels: map[string]string{"team": "red"}}); err != nil {
		t.Fatal(err)
	}
	if end := s.in("red", "read_file", `{"path":"secrets/key.txt"}`, nil); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
		t.Fatal(end)
	}
	made := s.in("red", "schedule_create", `{"name":"leak","tool":"read_file","input":{"path":"secrets/key.txt"},"every":"24h"}`, nil)
	if made.GetFailure().GetCode() != "denied" {
		t.Error(made)
	}
}

// TestWorkflowsDocument runs what docs/workflows.md shows.
func TestWorkflowsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serveAllowing(t, "")
	shown := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(shown) != 3 {
		t.Fatalf("%d examples", len(shown))
	}
	s.create("short", shown[0][2])
	if end := s.run("workflow_run", `{"name":"short"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || s.read("out/b") != "b\n" {
		t.Error(end)
	}
	s.create("long", shown[1][2])
	end := s.run("workflow_run", `{"name":"long","parameters":{"texts":["it's","two words"]}}`)
	var result struct{ Counts []int }
	if json.Unmarshal([]byte(end.GetContent()[0].GetJson()), &result); len(result.Counts) != 2 || result.Counts[1] != 2 {
		t.Error(end)
	}
	if end := s.run("workflow_run", `{"name":"long","parameters":{"texts":[]}}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(end)
	}
	if end := s.run("schedule_create", shown[2][2]); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(end)
	}
}
