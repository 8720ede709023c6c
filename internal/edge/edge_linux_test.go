// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/edge"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestTools proves that a client gets the tools of its session with what is known of
// them, and results as the protocol has them.
func TestTools(t *testing.T) {
	s := start(t, "")
	s.write(t, "a.txt", "one\ntwo\n")
	session := s.mustConnect(t, "", nil)
	if got := session.InitializeResult(); got.ProtocolVersion != edge.Protocols[0] || got.ServerInfo.Name != "toolserver" || got.Instructions == "" {
		t.Errorf("initialize: %+v", got)
	}
	tools := make(map[string]*mcp.Tool)
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool
	}
	read, run, write := tools["read_file"], tools["bash"], tools["write_file"]
	if read == nil || run == nil || write == nil {
		t.Fatalf("tools are missing among %d", len(tools))
	}
	if !read.Annotations.ReadOnlyHint || write.Annotations.ReadOnlyHint || *read.Annotations.OpenWorldHint || !*run.Annotations.OpenWorldHint {
		t.Errorf("annotations: %+v %+v %+v", read.Annotations, write.Annotations, run.Annotations)
	}
	if read.Description == "" || read.Title == "" || read.InputSchema.(map[string]any)["type"] != "object" {
		t.Errorf("read_file: %+v", read)
	}

	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}})
	if err != nil || result.IsError || !strings.Contains(textOf(result), "two") || result.Meta["toolserver/execution"] == nil {
		t.Errorf("read_file: %v %+v", err, result)
	}
	result, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "structured_output", Arguments: map[string]any{"data": map[string]any{"answer": 42}}})
	if err != nil || result.IsError {
		t.Fatalf("structured_output: %v %+v", err, result)
	}
	if got, _ := json.Marshal(result.StructuredContent); !strings.Contains(string(got), `"answer":42`) {
		t.Errorf("structured_output: structured content %s, text %s", got, textOf(result))
	}
	for name, want := range map[string]string{"read_fle": "read_file", "read_file": "path"} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"Path": "a.txt"}})
		if err != nil || !result.IsError || !strings.Contains(textOf(result), want) {
			t.Errorf("a wrong call of %s: %v %+v: want a result with %q", name, err, result, want)
		}
	}
}

// TestEveryResultFitsItsSchema proves that tools which promise structured content are
// such whose results are objects.
func TestEveryResultFitsItsSchema(t *testing.T) {
	s := start(t, "")
	for tool, err := range s.mustConnect(t, "", nil).Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if schema, ok := tool.OutputSchema.(map[string]any); tool.OutputSchema != nil && (!ok || schema["type"] != "object") {
			t.Errorf("%s has the output schema %v", tool.Name, tool.OutputSchema)
		}
	}
}

// onePixel is a picture.
const onePixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"

// TestImagesAndArtifacts proves that pictures are pictures, and that what is too large
// for a result is a link that can be read.
func TestImagesAndArtifacts(t *testing.T) {
	s := start(t, "sessions:\n  workspace: $DIR/ws\n  mode: allow\n")
	s.write(t, "p.png", onePixel)
	session := s.mustConnect(t, "", nil)
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "p.png"}})
	if err != nil || result.IsError {
		t.Fatal(err, result)
	}
	if !slices.ContainsFunc(result.Content, func(c mcp.Content) bool {
		image, ok := c.(*mcp.ImageContent)
		return ok && image.MIMEType == "image/png" && string(image.Data) == onePixel
	}) {
		t.Errorf("read_file of a picture: %+v", result.Content)
	}

	result, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "seq 1 40000"}})
	if err != nil || result.IsError {
		t.Fatal(err, textOf(result))
	}
	var link *mcp.ResourceLink
	for _, content := range result.Content {
		if l, ok := content.(*mcp.ResourceLink); ok {
			link = l
		}
	}
	if link == nil {
		t.Fatalf("bash with a large output has no link: %.300s", textOf(result))
	}
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	if err != nil || len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, "\n39999\n") {
		t.Errorf("resources/read: %v", err)
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///etc/passwd"}); err == nil {
		t.Error("resources/read read a file of the machine")
	}
}

// TestProgressAndCancel proves that progress comes where a token asks for it, and that a
// cancelled call ends on the server.
func TestProgressAndCancel(t *testing.T) {
	s := start(t, "")
	progress := make(chan *mcp.ProgressNotificationParams, 1000)
	session := s.mustConnect(t, "", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		progress <- r.Params
	}})
	params := &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"duration_ms": 600_000}}
	params.SetProgressToken("p1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, params)
		ended <- err
	}()
	last := -1.0
	for range 3 {
		p := <-progress
		if p.ProgressToken != "p1" || p.Progress <= last || p.Total < p.Progress {
			t.Errorf("progress %+v after %g", p, last)
		}
		last = p.Progress
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the cancelled call has a result")
	}
	execution := s.lastExecution(t)
	if f := execution.GetFinished(); f.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || !strings.Contains(f.GetCancellation().GetReason(), "MCP client has cancelled") {
		t.Errorf("on the server: %v", execution)
	}
}

// local returns a connection of the same principal that clients without credentials are.
func (s *testServer) local(t testing.TB) service.Conn {
	t.Helper()
	conn, err := s.Connect(auth.Principal{Name: auth.Local.Name, OnBehalfOf: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// lastExecution returns the newest execution once it has ended.
func (s *testServer) lastExecution(t testing.TB) *pb.Execution {
	t.Helper()
	tools := pb.NewToolServiceClient(s.local(t))
	list, err := tools.ListExecutions(t.Context(), &pb.ListExecutionsRequest{})
	if err != nil || len(list.GetExecutions()) == 0 {
		t.Fatal(err, list)
	}
	id := list.GetExecutions()[0].GetExecutionId()
	var execution *pb.Execution
	waitUntil(t, "the execution has ended", func() bool { // without following it
		got, err := tools.GetExecution(t.Context(), &pb.GetExecutionRequest{ExecutionId: id})
		if err != nil {
			t.Fatal(err)
		}
		execution = got.GetExecution()
		return execution.GetFinished() != nil
	})
	return execution
}

// TestClosedSession proves that a client that closes its session ends what it runs, and
// the session of the server that was made for it.
func TestClosedSession(t *testing.T) {
	s := start(t, "")
	began := make(chan struct{}, 100)
	session := s.mustConnect(t, "?session=new", &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { began <- struct{}{} }})
	params := &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"duration_ms": 600_000}}
	params.SetProgressToken(7)
	go session.CallTool(context.WithoutCancel(t.Context()), params)
	<-began
	request := s.request(t, "DELETE", "", session.ID())
	response, err := s.http.Client().Do(request)
	if err != nil || response.StatusCode != 204 {
		t.Fatal(err, response)
	}
	response.Body.Close()
	waitUntil(t, "the session is gone", func() bool {
		list, err := pb.NewSessionServiceClient(s.local(t)).ListSessions(t.Context(), &pb.ListSessionsRequest{})
		return err == nil && s.handler.Sessions() == 0 && !slices.ContainsFunc(list.GetSessions(), func(x *pb.Session) bool { return x.GetSessionId() != "default" })
	})
}

// waitUntil waits for what another goroutine brings about.
func waitUntil(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestSessions proves that clients choose the session they work in, and that the server
// says what they may choose.
func TestSessions(t *testing.T) {
	s := start(t, "sessions:\n  workspace: $DIR/ws\n  modes: [ask, plan]\n")
	s.write(t, "a.txt", "here")
	for query, sees := range map[string]bool{"": true, "?session=new": false, "?session=mine": false} {
		session := s.mustConnect(t, query, nil)
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}})
		if err != nil || result.IsError == sees {
			t.Errorf("%q: %v %+v", query, err, result)
		}
	}
	s.mustConnect(t, "?session=mine", nil) // it exists
	for query, want := range map[string]string{
		"?session=new&mode=allow": "mode", "?session=new&mode=x": "mode", "?mode=plan": "session", "?session=new&workspace=/etc": "workspace", "?session=a/b": "session",
	} {
		if _, err := s.connect(t, query, "", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: want an error about %s", query, err, want)
		}
	}
}

// TestElicitation proves that the person at the client is asked with the same preview,
// and that the answer counts.
func TestElicitation(t *testing.T) {
	for _, c := range []struct {
		action  string
		content map[string]any
		runs    bool
		comment string
	}{
		{"accept", map[string]any{"answer": "allow"}, true, ""},
		{"accept", map[string]any{"answer": "always 1"}, true, ""},
		{"accept", map[string]any{"answer": "deny", "comment": "use another name"}, false, "use another name"},
		{"decline", nil, false, ""},
	} {
		s := start(t, "")
		var asked *mcp.ElicitParams
		session := s.mustConnect(t, "", &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = r.Params
			return &mcp.ElicitResult{Action: c.action, Content: c.content}, nil
		}})
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "greetings\n"}})
		if err != nil || result.IsError == c.runs || !strings.Contains(textOf(result), c.comment) {
			t.Fatalf("%s %v: %v %s", c.action, c.content, err, textOf(result))
		}
		if asked == nil || !strings.Contains(asked.Message, "+greetings") || !strings.Contains(asked.Message, "b.txt") {
			t.Errorf("asked %+v", asked)
		}
		if _, err := os.Stat(filepath.Join(s.workspace, "b.txt")); (err == nil) != c.runs {
			t.Errorf("%s %v: the file: %v", c.action, c.content, err)
		}
	}
}

// TestQuestions proves that what a tool wants to know is asked at the client too, and that an
// answer that does not fit is told, and not waited upon.
func TestQuestions(t *testing.T) {
	for content, want := range map[string]string{`{"q1": "Blue"}`: "Blue", `{"username": "x"}`: "an answer that is none"} {
		testQuestion(t, content, want)
	}
}

func testQuestion(t *testing.T, content, want string) {
	t.Helper()
	s := start(t, "")
	session := s.mustConnect(t, "", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		result := &mcp.ElicitResult{Action: "accept"}
		return result, json.Unmarshal([]byte(content), &result.Content)
	}})
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask_user", Arguments: map[string]any{"questions": []any{map[string]any{
		"question": "Which colour?", "header": "Colour", "options": []any{map[string]any{"label": "Red", "description": "warm"}, map[string]any{"label": "Blue", "description": "cold"}},
	}}}})
	if err != nil || !strings.Contains(textOf(result), want) {
		t.Errorf("%s: %v %s", content, err, textOf(result))
	}
}

// TestPendingApprovals proves that a question waits for somebody else where the client
// cannot ask, and that the client is told.
func TestPendingApprovals(t *testing.T) {
	s := start(t, "")
	progress := make(chan string, 100)
	session := s.mustConnect(t, "", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message }})
	params := &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "x"}}
	params.SetProgressToken("t")
	type end struct {
		result *mcp.CallToolResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := session.CallTool(t.Context(), params)
		ended <- end{result, err}
	}()
	message := <-progress
	approvals := pb.NewApprovalServiceClient(s.local(t))
	list, err := approvals.ListApprovals(t.Context(), &pb.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 || !strings.Contains(message, list.GetApprovals()[0].GetApprovalId()) {
		t.Fatalf("%v %v; told %q", err, list, message)
	}
	if _, err := approvals.ResolveApproval(t.Context(), &pb.ResolveApprovalRequest{ApprovalId: list.GetApprovals()[0].GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.err != nil || got.result.IsError {
		t.Errorf("%v %+v", got.err, got.result)
	}
}

// TestChangedTools: a client is told that its tools changed, each time, and finds the new ones.
func TestChangedTools(t *testing.T) {
	s := start(t, "sessions:\n  workspace: $DIR/ws\n  mode: allow\n")
	changed := make(chan struct{}, 100)
	session := s.mustConnect(t, "", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	has := func() bool {
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "dynamic__greet" {
				return true
			}
		}
		return false
	}
	for i, call := range []*mcp.CallToolParams{
		{Name: "tool_create", Arguments: map[string]any{
			"name": "greet", "description": "Greets.", "schema": map[string]any{"type": "object"}, "interpreter": "bash", "source": "echo hello",
		}},
		{Name: "tool_delete", Arguments: map[string]any{"name": "greet"}},
	} {
		result, err := session.CallTool(t.Context(), call)
		if err != nil || result.IsError {
			t.Fatalf("%s: %v %+v", call.Name, err, result)
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(call.Name, "was not told")
		}
		if want := i == 0; has() != want {
			t.Errorf("after %s the tool is listed: %v", call.Name, !want)
		}
	}
}
