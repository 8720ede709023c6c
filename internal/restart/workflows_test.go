// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/soaktest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A runStatus is what workflow_run tells of a run.
type runStatus struct{ Run, State, Step, Code, Reason string }

// workflow calls workflow_run.
func (c *caller) workflow(format string, args ...any) (s runStatus, f *pb.Finished) {
	c.t.Helper()
	_, f = c.end("s", "", "workflow_run", fmt.Sprintf(format, args...))
	json.Unmarshal([]byte(f.GetDetailsJson()), &s)
	return s, f
}

// TestWorkflowKilled kills a server in the middle of workflows of 200 steps whose effects are
// not idempotent. Each goes on by itself after the restart. Where it was killed during a step,
// nobody can know whether that had its effect: the run fails there and is resumed by somebody
// who looked. In the end each step has had its effect once. What one principal has, others do
// not find.
func TestWorkflowKilled(t *testing.T) {
	const steps, kills = 200, 3
	w := start(t)
	session := w.as("agent").session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	effects := filepath.Join(session.GetWorkspace(), "effects")
	var b strings.Builder
	b.WriteString("parameters: {type: object, properties: {round: {type: integer}}}\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&b, "- {id: s%d, tool: bash, input: {command: \"echo ${params.round}-%d >> effects\"}}\n", i, i)
	}
	input, _ := json.Marshal(map[string]string{"name": "long", "definition": b.String()})
	if _, f := w.as("agent").end("s", "", "workflow_create", string(input)); f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(f)
	}
	killed, lost := 0, 0
	for round := range soaktest.Times(1, 17) {
		agent := w.as("agent")
		began, f := agent.workflow(`{"name": "long", "parameters": {"round": %d}, "background": true}`, round)
		if began.State != "running" {
			t.Fatal(f)
		}
		for kill := range kills {
			for now := runStatus(began); len(lines(t, effects)) < round*steps+(kill+1)*steps/(kills+2) && now.State != "succeeded"; {
				now = tend(agent, began.Run, effects, round, &lost)
			}
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // anywhere in a step, or between two
			w.again()
			killed++
			agent = w.as("agent")
		}
		for now := began; now.State != "succeeded"; {
			now = tend(agent, began.Run, effects, round, &lost)
		}
		for _, stranger := range []string{"other", "acme"} {
			other := w.as(stranger)
			_, byRun := other.end("", "", "workflow_run", fmt.Sprintf(`{"run": %q, "operation": "status"}`, began.Run))
			_, byName := other.end("", "", "workflow_get", `{"name": "long"}`)
			if byRun.GetFailure().GetCode() != "no_such_run" || byName.GetFailure().GetCode() != "no_such_workflow" {
				t.Errorf("%s finds %v and %v", stranger, byRun, byName)
			}
		}
	}
	counts := lines(t, effects)
	for effect, times := range counts {
		if times != 1 {
			t.Errorf("%s happened %d times", effect, times)
		}
	}
	if rounds := soaktest.Times(1, 17); len(counts) != rounds*steps {
		t.Errorf("%d effects, want %d", len(counts), rounds*steps)
	}
	t.Logf("%d kills, %d steps whose effect was looked for, %d effects", killed, lost, len(counts))
}

// tend looks at a run and, where a step was lost, says whether it had its effect.
func tend(agent *caller, run, effects string, round int, lost *int) runStatus {
	agent.t.Helper()
	now, f := agent.workflow(`{"run": %q, "operation": "status"}`, run)
	switch {
	case now.State == "failed" && now.Code == "lost_effects_unknown":
		*lost++
		_, happened := lines(agent.t.(*testing.T), effects)[fmt.Sprintf("%d-%s", round, strings.TrimPrefix(now.Step, "s"))]
		now, f = agent.workflow(`{"run": %q, "operation": "resume", "done": %t, "background": true}`, run, happened)
		if now.Run == "" {
			agent.t.Fatal(f)
		}
	case now.State != "running" && now.State != "succeeded":
		agent.t.Fatal(now, f)
	}
	return now
}

// TestStoppedInPeace stops a server as an operator does while runs wait: for a person whom a step
// asks, for one whom the policy asks, for a call that only reads, and for a time. All of them go on
// after the restart, and so does a schedule whose firing waits for its run. Nothing is done twice.
func TestStoppedInPeace(t *testing.T) {
	t.Parallel()
	w := startWith(t, "dir: "+filepath.Join(t.TempDir(), "state")+"\nshutdown_grace: 1s")
	agent, person := w.as("agent"), w.as("person")
	asks := agent.session(&pb.CreateSessionRequest{SessionId: "s"})
	agent.session(&pb.CreateSessionRequest{SessionId: "allows", Mode: pb.Mode_MODE_ALLOW})
	create := func(name, definition string) {
		t.Helper()
		input, _ := json.Marshal(map[string]string{"name": name, "definition": definition})
		if _, f := agent.end("allows", "", "workflow_create", string(input)); f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			t.Fatal(f)
		}
	}
	create("waits", `flow: (ask | judged | reads | time) >> last
steps:
- {id: ask, approval: "Go on?"}
- {id: judged, tool: bash, input: {command: "echo judged >> effects"}}
- {id: reads, tool: sleep, input: {duration_ms: 4000}}
- {id: time, wait: 4s}
- {id: last, condition: "true"}
`)
	create("later", "steps: [{id: time, wait: 4s}, {id: write, tool: bash, input: {command: echo later}}]")
	began, f := agent.workflow(`{"name": "waits", "background": true}`)
	if began.State != "running" {
		t.Fatal(f)
	}
	if _, f := agent.end("allows", "", "schedule_create", `{"name": "later", "workflow": "later", "every": "1h"}`); f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(f)
	}
	if _, f := agent.end("allows", "", "schedule_run_now", `{"name": "later"}`); f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(f)
	}
	pending := func() []*pb.Approval {
		t.Helper()
		for late := time.Now().Add(time.Minute); ; {
			list, err := person.approvals.ListApprovals(person.ctx, &pb.ListApprovalsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.GetApprovals()) == 2 {
				return list.GetApprovals()
			}
			if time.Now().After(late) {
				now, f := agent.workflow(`{"run": %q, "operation": "status"}`, began.Run)
				t.Fatal(list, now, f)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	running := func() bool {
		_, f := agent.end("", "", "workflow_get", `{"name": "later"}`)
		return strings.Contains(f.GetDetailsJson(), `"running"`)
	}
	for pending(); !running(); {
		time.Sleep(20 * time.Millisecond)
	}
	w.Stop()
	w.Restart()
	for _, q := range pending() {
		answer := &pb.ResolveApprovalRequest{ApprovalId: q.GetApprovalId(), Digest: q.GetDigest(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}
		if len(q.GetQuestions()) > 0 {
			answer.Kind, answer.Answers = pb.AnswerKind_ANSWER_KIND_ANSWERED, []*pb.QuestionAnswer{{Chosen: []string{"Approve"}}}
		}
		if _, err := person.approvals.ResolveApproval(person.ctx, answer); err != nil {
			t.Fatal(err)
		}
	}
	if _, f := agent.workflow(`{"run": %q}`, began.Run); f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(f)
	}
	if how := agent.outcome("later"); how != "succeeded" {
		_, f := agent.end("", "", "schedule_list", `{"name": "later"}`)
		t.Error(how, f)
	}
	if got := lines(t, filepath.Join(asks.GetWorkspace(), "effects")); len(got) != 1 || got["judged"] != 1 {
		t.Errorf("effects: %v", got)
	}
	if _, f := agent.end("", "", "workflow_get", `{"name": "later"}`); strings.Count(f.GetDetailsJson(), `"run-`) != 1 || !strings.Contains(f.GetDetailsJson(), `"succeeded"`) {
		t.Errorf("the schedule has made these runs: %v", f)
	}
}
