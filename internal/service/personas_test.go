// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestJudgedAsOurs proves that a rule for one of our tools holds however the tool is
// called, and that audit and approvals have both names.
func TestJudgedAsOurs(t *testing.T) {
	option, read := withAudit(t, nil)
	s := serve(t, withTokens, withPolicy(t, `
rules:
  - {name: closed, action: deny, tools: [read_file], when: 'input.path == "secret.txt"'}
  - {name: shown, action: ask, tools: [read_file], when: 'input.path == "asked.txt"'}
  - {name: rest, action: allow, tools: ["*"]}
`), option)
	s.write("secret.txt", "hello")
	s.write("asked.txt", "hello")
	alice, carol := s.dial("alice-alice-alice"), s.dial("carol-carol-carol")
	for _, call := range []struct{ tool, input string }{
		{"read_file", `{"path":"secret.txt"}`},
		{"str_replace_based_edit_tool", `{"command":"view","path":"secret.txt"}`},
		{"view_image", `{"path":"secret.txt"}`},
		{"NotebookRead", `"{\"notebook_path\":\"secret.txt\"}"`},
	} {
		if end := alice.run(asJSON(call.tool, call.input)); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED {
			t.Errorf("%s %s ended %s", call.tool, call.input, end.GetOutcome())
		}
	}
	stream, approval := alice.asked(asJSON("NotebookRead", `{"notebook_path":"asked.txt"}`))
	if approval.GetTool() != "read_file" || approval.GetCalledAs() != "NotebookRead" {
		t.Errorf("the approval is for %s, called as %q", approval.GetTool(), approval.GetCalledAs())
	}
	carol.answer(&pb.ResolveApprovalRequest{ApprovalId: approval.GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE})
	alice.end(stream)
	s.shutdown()
	called := 0
	for _, r := range read() {
		if r.CalledAs == "view_image" && r.Tool == "read_file" {
			called++
		}
	}
	if called == 0 {
		t.Error("no record has both names")
	}
}

func TestPersonaOfASession(t *testing.T) {
	s := serve(t)
	s.write("a.txt", "one\ntwo\n")
	c := s.dial("")
	if _, err := c.CreateSession(t.Context(), &pb.CreateSessionRequest{Persona: "cursor"}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "claude-code") {
		t.Errorf("a persona that is not known: %v", err)
	}
	if _, err := c.ListTools(t.Context(), &pb.ListToolsRequest{Persona: "../kiro"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a list of what is not known: %v", err)
	}
	names := func(request *pb.ListToolsRequest) (names []string) {
		t.Helper()
		list, err := c.ListTools(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.GetTools() {
			names = append(names, tool.GetName())
			if request.GetView() == pb.ToolView_TOOL_VIEW_FULL && !strings.HasPrefix(tool.GetInputSchema(), `{"type": "object", "properties"`) {
				t.Errorf("the schema of %s is %s", tool.GetName(), tool.GetInputSchema())
			}
		}
		return names
	}
	full := names(&pb.ListToolsRequest{Persona: "phi-core", View: pb.ToolView_TOOL_VIEW_FULL})
	if !slices.Contains(full, "read_file") || slices.Contains(full, "sleep") {
		t.Errorf("phi-core has %q", full)
	}
	if some := names(&pb.ListToolsRequest{Persona: "phi-core", Names: []string{"read_*"}}); !slices.Equal(some, []string{"read_file"}) {
		t.Errorf("of them, %q", some)
	}
	created, err := c.CreateSession(t.Context(), &pb.CreateSessionRequest{Persona: "claw-code", Workspace: ""})
	if err != nil {
		t.Fatal(err)
	}
	id := created.GetSession().GetSessionId()
	if got := names(&pb.ListToolsRequest{SessionId: id}); !slices.Contains(got, "read_file") || slices.Contains(got, "undo") {
		t.Errorf("the session has %q", got)
	}
	// 0 is the first line there, and the last one here.
	request := asJSON("read_file", `{"path":"a.txt","offset":-1}`)
	request.SessionId = id
	if end := c.run(request); end.GetOutcome() != pb.Outcome_OUTCOME_INVALID_INPUT || !strings.Contains(textOf(end), "/offset: minimum") {
		t.Errorf("an input that their schema does not allow: %v", end)
	}
	if _, err := c.UpdateSession(t.Context(), &pb.UpdateSessionRequest{
		Session: &pb.Session{SessionId: id}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"persona"}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := names(&pb.ListToolsRequest{SessionId: id}); !slices.Contains(got, "undo") {
		t.Errorf("without a persona the session has %q", got)
	}
}

// TestReread calls tools by names of other systems, in a session that chose none.
func TestReread(t *testing.T) {
	s := serve(t)
	s.write("a.txt", "one\ntwo\n")
	c := s.dial("")
	first := textOf(c.run(asJSON("NotebookRead", `{"notebook_path":"a.txt"}`)))
	if !strings.Contains(first, "two") || !strings.Contains(first, "NotebookRead is read as read_file here, with the keys of Claude Code.") {
		t.Errorf("the first result is %q", first)
	}
	if again := textOf(c.run(asJSON("NotebookRead", `{"notebook_path":"a.txt"}`))); strings.Contains(again, "is read as") {
		t.Errorf("it is said again: %q", again)
	}
	for _, call := range []struct{ tool, input, want string }{
		{"NotebookRead", `{"path":"a.txt"}`, "As Claude Code has it:\n/notebook_path: is required"},
		{"AgentSearch", `{}`, "for agents, which this server does not have yet"},
		{"read_file", `{"absolute_path":"a.txt","offset":0}`, "one"},
		{"read_file", `{"pat":"a.txt"}`, `unknown key, did you mean "path"?`},
	} {
		if got := textOf(c.run(asJSON(call.tool, call.input))); !strings.Contains(got, call.want) {
			t.Errorf("%s %s: %q, want %q", call.tool, call.input, got, call.want)
		}
	}
}

// textOf returns all text of an ending.
func textOf(end *pb.Finished) string {
	var b strings.Builder
	for _, content := range end.GetContent() {
		b.WriteString(content.GetText())
	}
	return b.String()
}

// TestSecretsInTheirForm: a result in the form of another system has no secret in it,
// whatever it is made of.
func TestSecretsInTheirForm(t *testing.T) {
	const secret = "s3cr3t-s3cr3t"
	s := serve(t, func(c *service.Config) {
		c.Executor.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "[hidden]") }
	})
	c := s.dial("")
	for _, persona := range []string{"", "claw-code"} {
		created, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{Persona: persona, Mode: pb.Mode_MODE_ALLOW})
		if err != nil {
			t.Fatal(err)
		}
		id, dir := created.GetSession().GetSessionId(), created.GetSession().GetWorkspace()
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("token = "+secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		request := asJSON("read_file", `{"path":"a.txt"}`)
		request.SessionId = id
		end := c.run(request)
		if shown := end.String(); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || strings.Contains(shown, secret) || !strings.Contains(shown, "[hidden]") {
			t.Errorf("as %q: %s", persona, shown)
		}
	}
}
