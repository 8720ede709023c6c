// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// loopReads is how many files an agent reads in a turn.
const loopReads = 3

// agentsFigure is the figure of agents: what a turn costs beside what a runtime outside has
// to do as well, which is to ask the model and to make the calls; and an agent that waits.
func agentsFigure(ctx context.Context, h *harness) ([]row, error) {
	provider := httptest.NewServer(modeltest.New(readsOrSleeps(h.plan.turns)))
	defer provider.Close()
	table, err := model.New(model.Config{{Name: "main", Format: "anthropic", Model: "scripted", URL: provider.URL, KeyEnv: "HOME"}}, model.Options{})
	if err != nil {
		return nil, err
	}
	defer table.Close()
	endpoint, err := table.Endpoint("")
	if err != nil {
		return nil, err
	}
	s, err := h.startAgents(ctx, provider.URL)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	tools, err := s.client.ListTools(ctx, &pb.ListToolsRequest{Names: []string{work.ReadFile}, View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		return nil, err
	}
	turn := func(loop func(context.Context) error) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			begin := time.Now()
			err := loop(ctx)
			return float64(time.Since(begin)) / 1e6 / float64(h.plan.turns), err
		}
	}
	inside := turn(func(ctx context.Context) error { return askAgent(ctx, s, "reader", false) })
	outside := turn(func(ctx context.Context) error { return loopOutside(ctx, s, endpoint, tools.GetTools(), h.plan.turns) })
	var turns sides[float64]
	steps := turns.entrants(inside, outside, outside)
	if err := interleave(ctx, 1, steps); err != nil {
		return nil, err
	}
	turns.forget()
	if err := interleave(ctx, max(1, h.plan.rounds/2), steps); err != nil {
		return nil, err
	}
	more := make([]float64, len(turns.subject))
	for i := range more {
		more[i] = turns.subject[i] - turns.bare[i]
	}
	weight, resident, err := h.weighAgents(ctx, provider.URL)
	if err != nil {
		return nil, err
	}
	return []row{
		turns.row(fmt.Sprintf("a turn of an agent with %d reads, of %d (bare: the same loop outside)", loopReads, h.plan.turns), "ms", itself, target{}),
		row{Name: "what it takes more than outside", Unit: "ms", Toolserver: spreadOf(more), Rounds: len(more)}.judge(valueAtMost(2)),
		single(fmt.Sprintf("heap and stacks of each of %d agents that sleep in the background", h.plan.agents), "KiB", weight, valueAtMost(64)),
		single("RSS of each, with what the collector leaves between", "KiB", resident, target{}),
	}, nil
}

// readsOrSleeps is a model that reads files for so many turns or, where its agent is to
// wait, sleeps.
func readsOrSleeps(turns int) modeltest.Script {
	return func(r *modeltest.Request) (turn modeltest.Turn) {
		switch {
		case strings.HasPrefix(r.System, "sleep"):
			turn.Calls = []toolcall.Call{modeltest.Call(work.Sleep, work.SleepInput{DurationMS: 600_000})}
		case r.Said() < turns-1:
			for range loopReads {
				turn.Calls = append(turn.Calls, modeltest.Call(work.ReadFile, work.ReadFileInput{Path: work.FileName}))
			}
		default:
			turn.Text = "Done."
		}
		return turn
	}
}

// startAgents starts toolserver with two agents.
func (h *harness) startAgents(ctx context.Context, provider string) (*server, error) {
	dir, err := os.MkdirTemp(h.dir, "agents-")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`admin: {address: "127.0.0.1:0", pprof: true}
models: [{name: main, format: anthropic, model: scripted, url: %q, key_env: HOME}]
sessions: {max_per_principal: 10000}
agents: {max_running: 10000, list: [{name: reader, prompt: read, tools: [%s], limits: {turns: %d}}, {name: sleeper, prompt: sleep, tools: [%s]}]}
`, provider, work.ReadFile, 2*h.plan.turns, work.Sleep)
	for name, text := range map[string]string{"config.yaml": config, work.FileName: string(lines(1 << 10))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	command := h.command(h.subject, "serve", "--config", "config.yaml", "--listen", anyPort)
	command.Dir = dir
	return h.start(ctx, command)
}

// askAgent gives an agent a task, and waits for its report unless it works in the background.
func askAgent(ctx context.Context, s *server, name string, background bool) error {
	request := &pb.ExecuteToolRequest{Tool: "agent", InputJson: work.JSON(map[string]any{"agent": name, "prompt": "Begin.", "run_in_background": background})}
	return follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
		if end := message.GetEvent().GetFinished(); end != nil && end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			return fmt.Errorf("the agent %s: %v", name, end)
		}
		return nil
	})
}

// loopOutside does what the agent does, as a runtime that has the server for its calls alone.
func loopOutside(ctx context.Context, s *server, endpoint *model.Endpoint, tools []*pb.Tool, turns int) error {
	request := &model.Request{System: "read", Messages: []model.Message{{Text: "Begin."}}}
	for _, tool := range tools {
		request.Tools = append(request.Tools, toolcall.Tool{Name: tool.GetName(), Description: tool.GetDescription(), Schema: []byte(tool.GetInputSchema())})
	}
	for turn := range turns {
		said := model.Message{FromModel: true}
		if _, err := endpoint.Ask(ctx, request, func(piece toolcall.Piece) {
			if call, ok := piece.(toolcall.Call); ok {
				said.Calls = append(said.Calls, call)
			}
		}); err != nil {
			return err
		}
		if len(said.Calls) == 0 {
			if turn != turns-1 {
				return fmt.Errorf("the model was done after %d turns", turn+1)
			}
			return nil
		}
		results, err := callOutside(ctx, s, said.Calls)
		if err != nil {
			return err
		}
		request.Messages = append(request.Messages, said, model.Message{Results: results})
	}
	return errors.New("the model is never done")
}

// callOutside makes the calls of a turn.
func callOutside(ctx context.Context, s *server, calls []toolcall.Call) (results []toolcall.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.ExecuteBatch(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Start{Start: &pb.BatchStart{}}}); err != nil {
		return nil, err
	}
	for _, call := range calls {
		if err := stream.Send(&pb.ExecuteBatchRequest{Kind: &pb.ExecuteBatchRequest_Call{Call: &pb.ExecuteToolRequest{Tool: call.Tool, InputJson: call.Input}}}); err != nil {
			return nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if end := message.GetEvent().GetCall().GetEvent().GetFinished(); end != nil {
			results = append(results, toolcall.Result{CallID: calls[len(results)].ID, Tool: work.ReadFile, Content: []toolcall.Content{toolcall.Text(end.GetContent()[0].GetText())}})
		}
	}
	if len(results) != len(calls) {
		return nil, fmt.Errorf("%d of %d calls ended", len(results), len(calls))
	}
	return results, nil
}

// weighAgents returns the KiB that each of many agents adds to a new server which sleep in the
// background: in use, and as the system sees it.
func (h *harness) weighAgents(ctx context.Context, provider string) (used, resident float64, err error) {
	s, err := h.startAgents(ctx, provider)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	if err := askAgent(ctx, s, "reader", false); err != nil { // what the first needs is not theirs
		return 0, 0, err
	}
	var before, after [2]float64
	if before, err = inUse(ctx, s, h.plan.settle); err != nil {
		return 0, 0, err
	}
	for range h.plan.agents {
		if err := askAgent(ctx, s, "sleeper", true); err != nil {
			return 0, 0, err
		}
	}
	after, err = inUse(ctx, s, 4*h.plan.settle)
	each := 1024 * float64(h.plan.agents)
	return (after[0] - before[0]) / each, (after[1] - before[1]) / each, err
}

// inUse returns the bytes of heap and stacks that a server has in use after a while, and its RSS.
func inUse(ctx context.Context, s *server, after time.Duration) (bytes [2]float64, err error) {
	if err := pause(ctx, after); err != nil {
		return bytes, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return bytes, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return bytes, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return bytes, err
	}
	for line := range strings.Lines(string(text)) {
		var heap, stacks float64
		fmt.Sscanf(line, "# HeapAlloc = %g", &heap)
		fmt.Sscanf(line, "# Stack = %g", &stacks)
		bytes[0] += heap + stacks
	}
	bytes[1], _, err = memory(s.pid())
	return bytes, err
}
