// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/model/modeltest"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// serveAgents serves agents whose model is scripted, in mode ask.
func serveAgents(t *testing.T, script modeltest.Script, agents string) *wholeServer {
	t.Helper()
	provider := httptest.NewServer(modeltest.New(script))
	t.Cleanup(provider.Close)
	dir := t.TempDir()
	return serveWhole(t, dir, inDir(dir, "", "", ", allowed_workspaces: ["+dir+"/ws], max_mode: allow, mode: ask", fmt.Sprintf(
		"models: [{name: main, format: anthropic, model: scripted, url: %q, key_env: TEST_MODEL_KEY}]\nagents: %s\n", provider.URL, agents)), zap.NewNop())
}

// TestAgents has two levels of agents work under a person's eyes, and cancels them in the
// middle: nothing goes on, all streams end, and the audit log tells who asked whom.
func TestAgents(t *testing.T) {
	t.Parallel()
	script := func(r *modeltest.Request) modeltest.Turn {
		turn := r.Said()
		switch {
		case strings.HasPrefix(r.System, "You lead.") && turn == 0:
			return modeltest.Turn{Text: "I have it done.", Calls: []toolcall.Call{modeltest.Call("agent", map[string]any{"agent": "worker", "prompt": "Run it, and write b.txt."})}}
		case strings.HasPrefix(r.System, "You work.") && turn == 0:
			return modeltest.Turn{Text: "I begin.", Calls: []toolcall.Call{modeltest.Call("bash", map[string]any{"command": "echo here $$ > pid; sleep 600", "description": "wait"})}}
		}
		return modeltest.Turn{Text: "Done."}
	}
	s := serveAgents(t, script, `{max_depth: 2, list: [{name: leader, prompt: You lead.}, {name: worker, prompt: You work., tools: [Bash, Write]}]}`)
	ctx := t.Context()
	stream, err := s.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "agent", InputJson: []byte(`{"agent":"leader","prompt":"Have it done."}`)})
	if err != nil {
		t.Fatal(err)
	}
	var chain []*pb.AgentLink
	var end *pb.Finished
	cancelled := false
	for end == nil {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		event := response.GetEvent()
		end = event.GetFinished()
		inner := event.GetNested().GetCall().GetEvent().GetNested().GetCall().GetEvent()
		if a := inner.GetApprovalRequested().GetApproval(); a != nil {
			chain = a.GetChain()
			if _, err := s.approvals.ResolveApproval(ctx, &pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE, Digest: a.GetDigest()}); err != nil {
				t.Fatal(err)
			}
		}
		if inner.GetStarted() != nil && !cancelled {
			cancelled = true
			waitUntil(t, func() bool { return s.read("pid") != "" }, func() string { return "the command did not begin" })
			go s.Cancel(context.WithoutCancel(ctx), &pb.CancelRequest{ExecutionId: event.GetExecutionId(), Reason: "enough"})
		}
	}
	if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !cancelled {
		t.Fatalf("it ended with %v", end)
	}
	if len(chain) != 2 || chain[0].GetAgent() != "leader" || chain[1].GetAgent() != "worker" || chain[1].GetParentSessionId() != chain[0].GetSessionId() {
		t.Errorf("who asked whom: %v", chain)
	}
	waitUntil(t, func() bool {
		sessions, err := s.sessions.ListSessions(ctx, &pb.ListSessionsRequest{})
		running, err2 := s.ListExecutions(ctx, &pb.ListExecutionsRequest{State: pb.ExecutionState_EXECUTION_STATE_RUNNING})
		return err == nil && err2 == nil && len(sessions.GetSessions()) == 1 && len(running.GetExecutions()) == 0
	}, func() string { return "something goes on" })
	s.stop() // with the records written
	var bash map[string]any
	audit, err := os.ReadFile(filepath.Join(s.dir, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(audit)) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record["tool"] == "bash" && record["outcome"] == "cancelled" {
			bash = record
		}
	}
	if text := fmt.Sprint(bash["chain"]); !strings.Contains(text, "leader") || !strings.Contains(text, "worker") {
		t.Errorf("the audit log has no chain: %v\n%s", bash, audit)
	}
}

// TestAgentOfMCPClient proves that who uses an MCP client is told which agent asks, and that
// progress of a step of an agent is not taken for that of its whole task.
func TestAgentOfMCPClient(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(modeltest.New(modeltest.Turns(
		modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("write_file", map[string]any{"path": "a.txt", "content": "x"})}},
		modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("sleep", map[string]any{"duration_ms": 200})}},
		modeltest.Turn{Text: "Done."})))
	t.Cleanup(provider.Close)
	s := serveREST(t, fmt.Sprintf("models: [{name: main, format: anthropic, model: scripted, url: %q, key_env: TEST_MODEL_KEY}]\nagents: {list: [{name: worker, prompt: You work., mode: ask}]}\n", provider.URL))
	var mu sync.Mutex
	var asked, progress []string
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, fmt.Sprintf("%g of %g: %s", r.Params.Progress, r.Params.Total, r.Params.Message))
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	params := &mcp.CallToolParams{Name: "agent", Arguments: map[string]any{"agent": "worker", "prompt": "Do it."}}
	params.SetProgressToken("token")
	if result, err := session.CallTool(t.Context(), params); err != nil || result.IsError {
		t.Fatalf("%v, %v", result, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || !strings.Contains(asked[0], "It is a call of an agent: worker.") {
		t.Errorf("asked was %q", asked)
	}
	waited := 0
	for _, text := range progress {
		if strings.Contains(text, ": worker: waiting") {
			waited++
		}
		if !strings.Contains(text, " of 0: ") {
			t.Errorf("told was %q", text)
		}
	}
	if waited == 0 {
		t.Errorf("nothing was told of the step: %q", progress)
	}
}

// TestAgentsHaveNoPlace proves that an agent does not wait for a place among the calls that run,
// which it would hold itself.
func TestAgentsHaveNoPlace(t *testing.T) {
	t.Parallel()
	s := serveAgents(t, modeltest.Turns(modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("read_file", map[string]any{"path": "a.txt"})}}, modeltest.Turn{Text: "Done."}),
		"{list: [{name: reader, prompt: x}]}\nexecutions: {max_active: 1}")
	s.file("a.txt", "hello\n")
	if end := s.run("agent", `{"prompt":"x"}`); contentText(end) != "Done.\n" {
		t.Error(end)
	}
}

// TestAgentPolicy proves that rules can speak of agents, and that without any rule they are
// no question.
func TestAgentPolicy(t *testing.T) {
	t.Parallel()
	s := serveAgents(t, modeltest.Turns(modeltest.Turn{Text: "Done."}), `{list: [{name: good, prompt: x}, {name: bad, prompt: x}]}
policy: {file: `+writtenPolicy(t, `version: 1
rules:
  - {name: no_bad, action: deny, uses: ["agent/b*"], reason: Not that one.}
`)+`}`)
	if end := s.run("agent", `{"agent":"good","prompt":"x"}`); contentText(end) != "Done.\n" {
		t.Error(contentText(end))
	}
	if end := s.run("Task", `{"subagent_type":"bad","prompt":"x","description":"d"}`); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || !strings.Contains(contentText(end), "Not that one.") {
		t.Error(end)
	}
}

// TestAgentFolder proves that an agent of another system's file works as it is, and that a
// change counts at once.
func TestAgentFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("code-reviewer.md", "---\nname: code-reviewer\ndescription: Use this agent when: code was written\ntools: Read, Grep, Glob, LS, Bash(git diff:*)\nmodel: sonnet\ncolor: blue\n---\n\nYou review code.\n")
	write("broken.md", "no front matter\n")
	s := serveAgents(t, func(r *modeltest.Request) modeltest.Turn {
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		return modeltest.Turn{Text: r.System + ": " + strings.Join(names, " ")}
	}, "{folders: ["+dir+"]}")
	if got, want := contentText(s.run("agent", `{"prompt":"x"}`)), "You review code.: bash glob grep list_dir read_file summary\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	write("second.md", "---\ndescription: Another one\ntools: [Read]\nlimits: {turns: 3, time: 1m}\nlevel: read_only\n---\nYou are second.\n")
	if got := contentText(s.run("agent", `{"agent":"second","prompt":"x"}`)); got != "You are second.: read_file summary\n" {
		t.Error(got)
	}
	list, err := s.ListTools(t.Context(), &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL, Names: []string{"agent"}})
	if err != nil || !strings.Contains(list.GetTools()[0].GetDescription(), "- second: Another one\n") {
		t.Errorf("%v %v", list, err)
	}
}

// writtenPolicy writes a policy.
func writtenPolicy(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAgentWorktree proves that an isolated agent works on a copy, and that what it changed is
// merged, or kept as a branch.
func TestAgentWorktree(t *testing.T) {
	t.Parallel()
	git := needs(t, "git")
	s := serveAgents(t, func(r *modeltest.Request) modeltest.Turn {
		if r.Said() > 0 {
			return modeltest.Turn{Text: "Done."}
		}
		if strings.Contains(r.Messages[0].Text, "nothing") {
			return modeltest.Turn{Text: "I leave it."}
		}
		return modeltest.Turn{Calls: []toolcall.Call{modeltest.Call("write_file", map[string]any{"path": "a.txt", "content": r.Messages[0].Text[:1] + "\n"})}}
	}, `{list: [{name: writer, prompt: You write.}]}`)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-C", s.workspace, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "-b", "main")
	s.file("a.txt", "0\n")
	run("add", ".")
	run("commit", "-q", "-m", "first")
	call := func(prompt string) string {
		t.Helper()
		return contentText(s.in("repo", "agent", `{"prompt":"`+prompt+`","isolation":"worktree"}`, nil))
	}
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "repo", Workspace: s.workspace, Mode: pb.Mode_MODE_ALLOW}); err != nil {
		t.Fatal(err)
	}
	if got := call("1"); !strings.Contains(got, "What it changed is merged") || s.read("a.txt") != "1\n" {
		t.Errorf("%s; a.txt has %q", got, s.read("a.txt"))
	}
	if got := call("nothing"); !strings.Contains(got, "It changed nothing") {
		t.Error(got)
	}
	s.file("a.txt", "dirty\n")
	if got := call("2"); !strings.Contains(got, "on the branch agent/agent-") || s.read("a.txt") != "dirty\n" {
		t.Errorf("%s; a.txt has %q", got, s.read("a.txt"))
	}
	if got := run("worktree", "list"); strings.Contains(got, "\n") {
		t.Error(got)
	}
	if got := run("branch", "--list", "agent/*"); strings.Count(got, "agent/") != 1 {
		t.Error(got)
	}
}
