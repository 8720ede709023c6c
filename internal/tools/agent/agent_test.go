// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// idle are agents that have nothing to do: their loops end at once.
type idle struct{}

func (idle) All() ([]agent.About, uint64) {
	return []agent.About{{Name: "reviewer", Description: "Looks at code"}, {Name: "tester"}}, 0
}
func (idle) Served(tools.Env) []agent.About { return []agent.About{{Name: "helper"}} }
func (idle) Begin(ctx context.Context, _ tools.Env, _ agent.Task, _ tools.Sink) (agent.Loop, error) {
	return loop{}, context.Cause(ctx)
}
func (idle) Crew(_ context.Context, _ tools.Env, crew *agent.Crew, _ tools.Sink) (endings []agent.Ending, err error) {
	for i := range crew.Stages {
		endings = append(endings, agent.Ending{Stage: &crew.Stages[i], Status: agent.Status{Report: agent.Report{Text: "Done."}}})
	}
	return endings, nil
}
func (idle) Find(tools.Env, string) (agent.Loop, error) { return loop{}, nil }
func (idle) Loops(tools.Env) []agent.Status             { return nil }
func (idle) Summarize(tools.Env, agent.Summary) error   { return nil }

type loop struct{}

func (loop) Wait(context.Context, tools.Sink) (agent.Report, error) {
	return agent.Report{Text: "Done."}, nil
}
func (loop) Follow(tools.Sink) func()           { return func() {} }
func (loop) Send(string) error                  { return nil }
func (loop) Stop(context.Context, string) error { return nil }
func (loop) Status() agent.Status               { return agent.Status{ID: "s-abc", Agent: "reviewer"} }

func TestContract(t *testing.T) {
	for _, tool := range agent.Tools(idle{}, "") {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

// TestEffect proves that rules can speak of an agent by the name that its definition has.
func TestEffect(t *testing.T) {
	for input, want := range map[string]string{
		`{}`: "", `{"agent":"Helper","prompt":"x"}`: "agent/helper", `{"agent":"REVIEWER","prompt":"x"}`: "agent/reviewer", `{"subagent_type":"tester","prompt":"x"}`: "agent/tester", `{"agent":"nobody","prompt":"x"}`: "agent/nobody",
	} {
		tool := agent.Tools(idle{}, "")[0]
		spec := tool.Spec()
		call, err := tool.Decode(new(toolstest.Env(t, nil)), spec.Rename([]byte(input)))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range call.Effects() {
			got = e.Tool
			if e.Kind != tools.UsesTool || !e.Configured {
				t.Errorf("%s has the effect %+v", input, e)
			}
		}
		if got != want {
			t.Errorf("%s uses %q", input, got)
		}
	}
}

// late are agents whose time is over.
type late struct{ idle }

func (late) Loops(tools.Env) []agent.Status {
	return []agent.Status{{ID: "agent-abc", Agent: "reviewer", Err: context.DeadlineExceeded}}
}

// TestOutOfTime proves that agent_status has the word that the stream had: the call whose time was
// over was not cancelled.
func TestOutOfTime(t *testing.T) {
	for _, tool := range agent.Tools(late{}, "") {
		if tool.Spec().Name != "agent_status" {
			continue
		}
		call, err := tool.Decode(new(toolstest.Env(t, nil)), []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
		if err != nil || !strings.Contains(string(result.Details), `"state":"timed_out"`) {
			t.Errorf("it has %s, and %v", result.Details, err)
		}
		return
	}
	t.Error("there is no agent_status")
}
