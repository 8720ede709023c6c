// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// serve has a runtime serve agents, and work on each task as do says.
func (w *world) serve(ctx context.Context, do func(runtime grpc.BidiStreamingClient[pb.ServeRequest, pb.ServeResponse], task *pb.AgentTask), offered ...*pb.OfferedAgent) error {
	w.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	stream, err := w.serving.Serve(ctx)
	if err == nil {
		err = stream.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Offer{Offer: &pb.AgentOffer{Agents: offered, MaxTasks: 4}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	w.t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if task := m.GetTask(); task != nil {
				do(stream, task)
			}
		}
	}()
	return nil
}

// TestAgentOfARuntime proves that the tool "agent" gives tasks to a runtime that serves the
// agent: in a session below that of the caller, with no more rights than it has, and that
// what the runtime does is seen.
func TestAgentOfARuntime(t *testing.T) {
	config := only(reviewer)
	config.Serve = true
	w := newWorld(t, config, tools.ModePlan, says(answer{text: "The model was asked."}))
	w.file("a.txt", "hello\n")
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	do := func(runtime grpc.BidiStreamingClient[pb.ServeRequest, pb.ServeResponse], task *pb.AgentTask) {
		got, err := w.sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: task.GetTaskId()})
		if s := got.GetSession(); err != nil || s.GetAgent() != "helper" || s.GetDepth() != 1 || s.GetMode() != pb.Mode_MODE_PLAN || s.GetParentSessionId() == "" {
			t.Errorf("the session is %v, %v", s, err)
		}
		if chain := task.GetChain(); len(chain) != 1 || chain[0].GetAgent() != "helper" || chain[0].GetSessionId() != task.GetTaskId() || chain[0].GetExecutionId() == "" {
			t.Errorf("the chain is %v", chain)
		}
		var said []string
		for _, c := range [][2]string{{"read_file", `{"path":"a.txt"}`}, {"write_file", `{"path":"a.txt","content":"x"}`}, {"glob", `{"pattern":"*"}`}} {
			stream, err := w.tools.ExecuteTool(ctx, &pb.ExecuteToolRequest{SessionId: task.GetTaskId(), Tool: c[0], InputJson: []byte(c[1])})
			for err == nil {
				var m *pb.ExecuteToolResponse
				if m, err = stream.Recv(); m.GetEvent().GetFinished() != nil {
					said = append(said, c[0]+" "+m.GetEvent().GetFinished().GetOutcome().String())
				}
			}
		}
		runtime.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Report{Report: &pb.TaskReport{TaskId: task.GetTaskId(), Text: strings.Join(said, ", ")}}})
	}
	if err := w.serve(ctx, do, &pb.OfferedAgent{Name: "Reviewer"}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("an agent of the operator was offered: %v", err)
	}
	if err := w.serve(ctx, do, &pb.OfferedAgent{Name: "helper", Description: "Helps", Tools: &pb.ToolSelection{Include: []string{"read_file", "write_file"}}}); err != nil {
		t.Fatal(err)
	}
	if _, end := w.run("agent", `{}`); !strings.Contains(text(end), "- helper: Helps") || !strings.Contains(text(end), "- reviewer") {
		t.Errorf("the agents are %s", text(end))
	}
	listed, err := w.serving.ListAgents(ctx, &pb.ListAgentsRequest{})
	if list := listed.GetAgents(); err != nil || len(list) != 2 || list[0].GetName() != "helper" || list[0].GetRuntimes().GetCount() != 1 || list[1].GetRuntimes() != nil {
		t.Errorf("the agents are %v, %v", list, err)
	}
	events, end := w.run("agent", `{"agent":"HELPER","prompt":"Help."}`)
	if got, want := text(end), "read_file OUTCOME_SUCCEEDED, write_file OUTCOME_DENIED, glob OUTCOME_NO_SUCH_TOOL\n"; got != want {
		t.Errorf("the report is %q, want %q", got, want)
	}
	var calls []string
	for _, n := range nested(events) {
		if f := n.GetCall().GetEvent().GetFinished(); f != nil {
			calls = append(calls, n.GetAgent()+" "+n.GetCall().GetTool())
		}
	}
	if got := strings.Join(calls, ", "); got != "helper read_file, helper write_file, helper glob" {
		t.Errorf("the caller saw %s", got)
	}
	if _, end := w.run("agent", `{"agent":"reviewer","prompt":"Review."}`); text(end) != "The model was asked.\n" {
		t.Errorf("the agent of the operator said %s", text(end))
	}
	if _, end := w.run("agent", `{"agent":"helpr","prompt":"Help."}`); !strings.Contains(text(end), "helper") {
		t.Errorf("a wrong name gives %s", text(end))
	}
}

// TestSummaryOfARuntime proves that a runtime may pass on the calls of its model as they are:
// the tool "summary" ends its task.
func TestSummaryOfARuntime(t *testing.T) {
	w := newWorld(t, agent.Config{Serve: true}, tools.ModeAsk, says())
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	const tasks = 5 // more than it takes at once: each was answered
	answered := make(chan struct{}, tasks)
	err := w.serve(ctx, func(runtime grpc.BidiStreamingClient[pb.ServeRequest, pb.ServeResponse], task *pb.AgentTask) {
		defer func() { answered <- struct{}{} }()
		stream, err := w.tools.ExecuteTool(ctx, &pb.ExecuteToolRequest{SessionId: task.GetTaskId(), Tool: "summary", InputJson: []byte(`{"report":"Done."}`)})
		for err == nil {
			_, err = stream.Recv()
		}
		if m, err := runtime.Recv(); err != nil || m.GetCancelled().GetTaskId() != task.GetTaskId() {
			t.Errorf("the runtime was told %v, %v", m, err)
		}
		runtime.Send(&pb.ServeRequest{Kind: &pb.ServeRequest_Failure{Failure: &pb.TaskFailure{TaskId: task.GetTaskId()}}})
	}, &pb.OfferedAgent{Name: "helper"})
	if err != nil {
		t.Fatal(err)
	}
	for range tasks {
		if _, end := w.run("agent", `{"prompt":"Help."}`); text(end) != "Done.\n" {
			t.Errorf("the report is %s", text(end))
		}
	}
	for range tasks { // the caller has its report before the runtime is told
		<-answered
	}
}
