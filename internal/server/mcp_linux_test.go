// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// mcpServer is the configuration of a source whose server is testdata/mcp/server.py.
func mcpServer(t *testing.T, name, more string, args ...string) string {
	t.Helper()
	script, err := filepath.Abs("testdata/mcp/server.py")
	if err != nil {
		t.Fatal(err)
	}
	if more != "" {
		more = "  " + strings.ReplaceAll(more, "\n", "\n  ") + "\n"
	}
	return fmt.Sprintf("- name: %s\n  command: [python3, -u, %s, %s]\n  read: [%s]\n%s", name, script, strings.Join(append(args, "-"), ", "), script, more)
}

// waitForTool waits until a tool is listed, and can be called or cannot.
func (s *wholeServer) waitForTool(name string, callable bool) *pb.Tool {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	changes, err := s.WatchTools(ctx, &pb.WatchToolsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for {
		if _, err := changes.Recv(); err != nil { // the first tells how it is now
			s.t.Fatalf("%s did not become callable: %t, %v; sources: %v", name, callable, err, s.listSources())
		}
		list, err := s.ListTools(ctx, &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL, Names: []string{name}})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, tool := range list.GetTools() {
			if tool.GetName() == name && (tool.GetUnavailableReason() == "") == callable {
				return tool
			}
		}
	}
}

func (s *wholeServer) listSources() []*pb.Source {
	s.t.Helper()
	list, err := s.sources.ListSources(context.WithoutCancel(s.t.Context()), &pb.ListSourcesRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.GetSources()
}

// waitForSource waits until a source is as it should be.
func (s *wholeServer) waitForSource(name string, is func(*pb.Source) bool) *pb.Source {
	s.t.Helper()
	var last *pb.Source
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, one := range s.listSources() {
			if one.GetName() == name {
				if last = one; is(one) {
					return one
				}
			}
		}
	}
	s.t.Fatalf("source %s is not as it should be: %v", name, last)
	return nil
}

func (s *wholeServer) waitForLog(name, text string) {
	s.t.Helper()
	var lines []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		log, err := s.sources.ReadSourceLog(s.t.Context(), &pb.ReadSourceLogRequest{Name: name})
		if err != nil {
			s.t.Fatal(err)
		}
		if lines = log.GetLines(); strings.Contains(strings.Join(lines, "\n"), text) {
			return
		}
	}
	s.t.Fatalf("%s did not say %q: %q", name, text, lines)
}

// waitForAnswer waits until a source answers that was lost, or is about to be.
func (s *wholeServer) waitForAnswer(name string) {
	s.t.Helper()
	s.waitForSource(name, func(one *pb.Source) bool {
		if one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE {
			if _, err := s.sources.RetrySource(s.t.Context(), &pb.RetrySourceRequest{Name: name}); err != nil {
				s.t.Fatal(err)
			}
		}
		return describe(s.run(name+"__echo", `{"text":"back"}`)) == "back"
	})
}

// describe returns a result in a few words.
func describe(end *pb.Finished) string {
	var parts []string
	for _, c := range end.GetContent() {
		switch k := c.GetKind().(type) {
		case *pb.Content_Text:
			parts = append(parts, k.Text)
		case *pb.Content_Json:
			parts = append(parts, "json "+k.Json)
		case *pb.Content_Image:
			parts = append(parts, fmt.Sprintf("%s of %d bytes", k.Image.GetMediaType(), len(k.Image.GetData())))
		case *pb.Content_Artifact:
			parts = append(parts, fmt.Sprintf("artifact %s of %d bytes", k.Artifact.GetMediaType(), k.Artifact.GetSize()))
		}
	}
	text := strings.Join(parts, " | ")
	if f := end.GetFailure(); f != nil {
		text = f.GetCode() + ": " + text
	}
	return text
}

// callsOf returns how often calls of a source ended, by outcome.
func (s *wholeServer) callsOf(source string) map[string]float64 {
	s.t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	counted := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != "toolserver_source_calls_total" {
			continue
		}
		for _, metric := range family.GetMetric() { // labels are sorted
			if labels := metric.GetLabel(); labels[1].GetValue() == source {
				counted[labels[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return counted
}

// TestMCPCalls calls tools of a server, and looks at what comes back.
func TestMCPCalls(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "mcp:\n"+mcpServer(t, "test", "env: [GIVEN=1, GIVEN_ON]\ntools: {exclude: [put]}"))
	echo := s.waitForTool("test__echo", true)
	if echo.GetDescription() != "Says what it is told." || echo.GetKind() != pb.ToolKind_TOOL_KIND_MCP || echo.GetLevel() != pb.Level_LEVEL_WORKSPACE_WRITE {
		t.Errorf("what is invisible is told, or a claim is believed: %q", echo)
	}
	for _, test := range []struct{ tool, input, want string }{
		{"echo", `{"text":"hello"}`, "hello"},
		{"test__echo", `{"text":"hällo"}`, "hällo"},
		{"echo", `{"text":"hello","more":1}`, `invalid_input: .*/more: unknown key: want one of "text"`},
		{"test__add", `{"a":1,"b":2.5}`, `json {"sum":3.5}`},
		{"test__add", `{"a":"1","b":2}`, `json {"sum":3}`},
		{"test__add", `{"a":true,"b":2}`, `invalid_input: .*/a: want number, got boolean`},
		{"test__bad_sum", `{}`, `bad_result: no \| The tool returned a result that its own schema does not allow: /sum: want number, got string`},
		{"test__many", `{}`, `one \| image/png of 70 bytes \| artifact audio/wav of 70 bytes \| \[resource test://a, text/plain]\nembedded \| \[resource test://b, application/zip] \| artifact application/zip of 70 bytes \| \[resource test://c, named "c"; read_resource reads it]`},
		{"test__fail", `{}`, `tool_failed: the disk is on fire`},
		{"test__sample", `{}`, `.*client does not support.*`},
		{"test__list_resources", `{}`, `test://notes · notes · text/plain\ntest://\{name} \(fill in\) · any`},
		{"test__read_resource", `{"uri":"test://notes"}`, `\[resource test://notes]\nwhat is in test://notes`},
		{"test__get_prompt", `{}`, `greet · Greets\.\n  who \(required\)`},
		{"test__get_prompt", `{"name":"greet","arguments":{"who":"you"}}`, `\[user] \| Hello, you`},
		{"test__get_prompt", `{"name":"greet"}`, `mcp_error: test refused the call: .*KeyError.*`},
		{"test__put", `{"path":"x"}`, `.*no tool.*`},
	} {
		if got := describe(s.run(test.tool, test.input)); !regexp.MustCompile(`(?s)^(` + test.want + `)$`).MatchString(got) {
			t.Errorf("%s %s: %q, want %q", test.tool, test.input, got, test.want)
		}
	}
	if got := s.callsOf("test"); got["succeeded"] == 0 || got["failed"] == 0 || got["invalid_input"] == 0 {
		t.Errorf("its calls are counted as %v", got)
	}
	names := strings.Split(contentText(s.run("test__environment", "{}")), "\n")
	if !slices.Contains(names, "GIVEN") || !slices.Contains(names, "GIVEN_ON") || slices.Contains(names, "TOKEN_OF_THE_SERVER") {
		t.Errorf("its environment has %v", names)
	}
	one := s.waitForSource("test", func(*pb.Source) bool { return true })
	if all := strings.Join(one.GetRefused(), "\n"); !strings.Contains(all, "Ñame") || !strings.Contains(all, "tool bomb: the schema") {
		t.Errorf("refused: %s", all)
	}
	events, end := s.call(&pb.ExecuteToolRequest{Tool: "test__steps", InputJson: []byte(`{"n":3}`)}, nil)
	var progress []string
	for _, e := range events {
		if p := e.GetProgress(); p != nil {
			progress = append(progress, fmt.Sprintf("%s %v/%v", p.GetMessage(), p.GetDone(), p.GetTotal()))
		}
	}
	if len(progress) == 0 || !strings.HasPrefix(progress[0], "step ") || !strings.HasSuffix(progress[0], "/3") || contentText(end) != "done" {
		t.Errorf("progress %q, %v", progress, end)
	}
	s.waitForLog("test", "steps: all steps were made")
}

// TestMCPAfterTheStart: no program of a server is started before this one serves, and those
// that call before find everything else.
func TestMCPAfterTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, allowing(dir, "mcp:\n"+mcpServer(t, "test", "")+"- name: nobody\n  command: [no-such-program]\n"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(c, zap.NewNop(), prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := server.Forward("127.0.0.1:1", nil)
	s := &wholeServer{t: t, ToolServiceClient: pb.NewToolServiceClient(conn), sources: pb.NewSourceServiceClient(conn)}
	served := make(chan error, 1)
	defer func() {
		conn.Close()
		ShutDown(server, 0)
		<-served
	}()
	if end := s.run("bash", `{"command":"echo here"}`); !strings.Contains(contentText(end), "here") {
		t.Errorf("before it serves: %v", end)
	}
	for _, one := range s.listSources() {
		if one.GetState() != pb.SourceState_SOURCE_STATE_CONNECTING {
			t.Errorf("before it serves: %v", one)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { served <- server.Serve(listener) }()
	s.waitForTool("test__echo", true)
	s.waitForSource("nobody", func(one *pb.Source) bool {
		return one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE && strings.Contains(one.GetReason(), "no-such-program")
	})
}

// TestMCPCancel has the end of a call reach its server.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "mcp:\n"+mcpServer(t, "test", ""))
	s.waitForTool("test__wait", true)
	stream, err := s.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{Tool: "test__wait", InputJson: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if event := response.GetEvent(); event.GetProgress() != nil {
			if _, err := s.Cancel(t.Context(), &pb.CancelRequest{ExecutionId: event.GetExecutionId()}); err != nil {
				t.Fatal(err)
			}
		} else if end := event.GetFinished(); end != nil {
			if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
				t.Errorf("%v", end)
			}
			break
		}
	}
	s.waitForLog("test", "cancelled by the client")
	if got := describe(s.run("test__echo", `{"text":"still there"}`)); got != "still there" {
		t.Error(got)
	}
}

// peak returns the most memory that this process had since the last call.
func peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+)`).FindStringSubmatch(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// TestMCPHostile has servers do their worst: it is their own calls that fail, and they cost
// little. Cases P-172 to P-174 and P-176.
func TestMCPHostile(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "mcp:\n"+mcpServer(t, "bad", "")+mcpServer(t, "good", "")+
		mcpServer(t, "mute", "start_timeout: 1s", "silent")+mcpServer(t, "late", "", "once"))
	s.waitForTool("bad__echo", true)
	s.waitForTool("good__echo", true)
	// What is measured is what calls keep, not what the collector has yet to look at.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	for _, test := range []struct {
		tool, input, want string
		lost              bool
	}{
		{"strange", `{}`, "yours", false},
		{"flood", `{"n":10000}`, "flooded", false},
		{"huge", `{"n":20000000}`, "mcp_error: bad refused the call: the answer was thrown away: it wrote a message of more than 8388608 bytes", false},
		{"junk", `{"n":200000}`, "junk", false},
		{"huge", `{"n":134217728}`, "source_lost: .*it wrote a message of more than 8388608 bytes.*", true},
		{"junk", `{"n":20000000}`, "source_lost: .*more than 1048576 bytes to its standard output that are no messages.*", true},
		{"pester", `{}`, "asked|source_lost: .*waited for more than 32 answers.*", false},
		{"die", `{"status":3}`, "source_lost: .*it ended with exit status 3: the last words.*", true},
	} {
		s.waitForTool("bad__"+test.tool, true)
		before := peak(t)
		running, err := s.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{Tool: "good__wait", InputJson: []byte("{}"), SessionId: s.newSession(t)})
		if err != nil {
			t.Fatal(err)
		}
		end := s.run("bad__"+test.tool, test.input)
		if got := describe(end); !regexp.MustCompile(`^(` + test.want + `)$`).MatchString(got) {
			t.Errorf("%s %s: %.300q, want %q", test.tool, test.input, got, test.want)
		}
		if test.lost && !end.GetFailure().GetRetryable() {
			t.Errorf("%s: trying again is not said to help", test.tool)
		}
		if grown := peak(t) - before; grown > allowedGrowth {
			t.Errorf("%s %s took %d MiB", test.tool, test.input, grown>>20)
		}
		// A call that runs at another server does not notice.
		if got := describe(s.run("good__echo", `{"text":"here"}`)); got != "here" {
			t.Errorf("after %s: %s", test.tool, got)
		}
		first, err := running.Recv()
		if err != nil {
			t.Fatal(err)
		}
		s.Cancel(t.Context(), &pb.CancelRequest{ExecutionId: first.GetEvent().GetExecutionId()})
		for err == nil {
			var r *pb.ExecuteToolResponse
			if r, err = running.Recv(); r.GetEvent().GetFinished() != nil && r.GetEvent().GetFinished().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
				t.Errorf("during %s, a call elsewhere ended: %v", test.tool, r.GetEvent().GetFinished())
			}
		}
		s.waitForAnswer("bad")
	}
	s.waitForSource("mute", func(one *pb.Source) bool {
		return one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE && one.GetReason() == "it did not answer within 1s" && one.GetNextAttempt() != nil
	})
	s.waitForTool("late__echo", true)
	s.waitForLog("late", "not yet")
	s.stop()

	s = serveAllowing(t, "mcp:\n"+mcpServer(t, "crowd", "", "crowd")) // apart, since all are listed again and again
	crowd := s.waitForSource("crowd", func(one *pb.Source) bool { return one.GetState() == pb.SourceState_SOURCE_STATE_AVAILABLE })
	if crowd.GetTools() != 5000 || !strings.Contains(strings.Join(crowd.GetRefused(), "\n"), "at most 5000") {
		t.Errorf("of a crowd: %v", crowd)
	}
}

// newSession returns a new session, so that calls do not wait for each other.
func (s *wholeServer) newSession(t *testing.T) string {
	t.Helper()
	made, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetSession().GetSessionId()
}

// TestMCPConfined has a server do what its configuration does not allow.
func TestMCPConfined(t *testing.T) {
	t.Parallel()
	open, closed := t.TempDir(), t.TempDir()
	for _, dir := range []string{open, closed} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("what is there"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveAllowing(t, "mcp:\n"+mcpServer(t, "test", "write: ["+open+"]"))
	s.waitForTool("test__look", true)
	state := filepath.Join(s.state, "toolserver", "mcp", "pins", "test.json")
	if _, err := os.Stat(state); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ tool, input, want string }{
		{"look", filepath.Join(open, "file"), "what is there"},
		{"put", filepath.Join(open, "new"), "written"},
		{"put", "in-its-own-directory", "written"},
		{"look", filepath.Join(closed, "file"), "tool_failed: .*(No such file|Permission denied).*"},
		{"put", filepath.Join(closed, "new"), "tool_failed: .*(No such file|Permission denied).*"},
		{"look", filepath.Join(s.workspace, "x"), "tool_failed: .*(No such file|Permission denied).*"},
		{"put", state, "tool_failed: .*(No such file|Permission denied|Read-only).*"},
	} {
		if got := describe(s.run("test__"+test.tool, fmt.Sprintf(`{"path":%q}`, test.input))); !regexp.MustCompile(`^(` + test.want + `)$`).MatchString(got) {
			t.Errorf("%s %s: %s, want %s", test.tool, test.input, got, test.want)
		}
	}
	if got := describe(s.run("test__reach", `{"host":"127.0.0.1","port":22}`)); !strings.Contains(got, "no connection") {
		t.Errorf("with network none: %s", got)
	}
	s.run("test__fork", "{}")
	s.stop()
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range processes {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), "sleep\x0086399") || strings.Contains(string(text), "testdata/mcp/server.py") && strings.Contains(string(text), t.Name()) {
			t.Errorf("after the end, %s runs: %q", file, text)
		}
	}
}

// TestMCPChangedTool has a server change what a tool says: nobody calls it until an operator
// has looked. Case P-169.
func TestMCPChangedTool(t *testing.T) {
	t.Parallel()
	config := "mcp:\n" + mcpServer(t, "test", "")
	s := serveAllowing(t, config)
	s.waitForTool("test__echo", true)
	s.run("test__change", "{}")
	changed := s.waitForTool("test__echo", false)
	if strings.Contains(changed.String(), "id_rsa") || !strings.Contains(changed.GetUnavailableReason(), "toolserver mcp approve test echo") {
		t.Errorf("the tool is told as %v", changed)
	}
	if got := describe(s.run("test__echo", `{"text":"x"}`)); !strings.Contains(got, "was changed by test since it was approved") {
		t.Errorf("a call of it: %s", got)
	}
	if got := describe(s.run("test__add", `{"a":1,"b":1}`)); got != `json {"sum":2}` {
		t.Errorf("another tool: %s", got)
	}
	one := s.waitForSource("test", func(one *pb.Source) bool { return len(one.GetChangedTools()) == 1 })
	if c := one.GetChangedTools()[0]; c.GetTool() != "echo" || !strings.Contains(c.GetDescription(), "id_rsa") || c.GetApprovedDescription() != "Says what it is told." || c.GetSchemaChanged() {
		t.Errorf("an operator is shown %v", c)
	}
	if _, err := s.sources.ApproveTools(t.Context(), &pb.ApproveToolsRequest{Name: "test", Tools: []string{"add"}}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("what did not change was approved: %v", err)
	}
	approved, err := s.sources.ApproveTools(t.Context(), &pb.ApproveToolsRequest{Name: "test"})
	if err != nil || !slices.Equal(approved.GetApproved(), []string{"echo"}) {
		t.Fatalf("%v, %v", approved, err)
	}
	s.waitForTool("test__echo", true)
	s.waitForRecord(`"tools_approved"`)
	s.run("test__grow", "{}")
	s.waitForTool("test__grown", true)
	s.stop()

	// The server of the next start says again what it said first: that is another tool now.
	again := serveAgain(t, s, config)
	if tool := again.waitForTool("test__echo", false); !strings.Contains(tool.GetUnavailableReason(), "was changed") {
		t.Errorf("after a restart: %v", tool)
	}
}

// TestMCPAsks has a server ask a person.
func TestMCPAsks(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "mcp:\n"+mcpServer(t, "test", ""))
	s.waitForTool("test__ask", true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := s.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "test__ask", InputJson: []byte("{}")})
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if q := response.GetEvent().GetApprovalRequested().GetApproval(); q != nil {
			asked := q.GetQuestions()
			if len(asked) != 1 || !strings.HasPrefix(asked[0].GetText(), "The MCP server test asks: Which colour?") || len(asked[0].GetOptions()) != 2 {
				t.Errorf("a person is asked %v", asked)
			}
			_, err = s.approvals.ResolveApproval(ctx, &pb.ResolveApprovalRequest{ApprovalId: q.GetApprovalId(), Digest: q.GetDigest(), Kind: pb.AnswerKind_ANSWER_KIND_ANSWERED,
				Answers: []*pb.QuestionAnswer{{Chosen: []string{"green"}}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if end := response.GetEvent().GetFinished(); end != nil {
			if got := describe(end); !strings.Contains(got, `"action": "accept"`) || !strings.Contains(got, `"colour": "green"`) {
				t.Error(got)
			}
			return
		}
	}
	t.Fatal(err)
}

// TestMCPJudged has calls judged by what the operator says of a tool, and by nothing that its
// server says. Cases P-096 and P-158.
func TestMCPJudged(t *testing.T) {
	t.Parallel()
	says := "says: [{tools: [put], writes: [path], complete: true}, {tools: [look], reads: [path], complete: true}, {tools: [add], read_only: true}, {tools: [reach], reaches: [host]}]"
	s := serveAllowing(t, "mcp:\n"+mcpServer(t, "test", says)+mcpServer(t, "trusted", "trust_annotations: true"))
	s.waitForTool("test__echo", true)
	s.waitForTool("trusted__echo", true)
	session := func(mode pb.Mode, level pb.Level) string {
		made, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Mode: mode, Level: level})
		if err != nil {
			t.Fatal(err)
		}
		return made.GetSession().GetSessionId()
	}
	edits := session(pb.Mode_MODE_ACCEPT_EDITS, pb.Level_LEVEL_WORKSPACE_WRITE)
	reading := session(pb.Mode_MODE_ASK, pb.Level_LEVEL_READ_ONLY)
	policy := pb.NewPolicyServiceClient(s.conn)
	for _, test := range []struct {
		session, tool, input string
		want                 pb.Action
	}{
		{edits, "test__put", `{"path":".git/config"}`, pb.Action_ACTION_DENY},
		{edits, "test__put", `{"path":"file:///etc/passwd"}`, pb.Action_ACTION_DENY},
		{edits, "test__put", `{"path":"notes.txt"}`, pb.Action_ACTION_ALLOW},
		{edits, "test__put", `{"path":"/srv/elsewhere"}`, pb.Action_ACTION_DENY},
		{edits, "test__look", `{"path":"notes.txt"}`, pb.Action_ACTION_ALLOW},
		{edits, "test__echo", `{"text":"x"}`, pb.Action_ACTION_ASK},
		{edits, "test__add", `{"a":1,"b":2}`, pb.Action_ACTION_ALLOW},
		{edits, "trusted__echo", `{"text":"x"}`, pb.Action_ACTION_ALLOW},
		{edits, "trusted__put", `{"path":"x"}`, pb.Action_ACTION_ASK},
		{reading, "test__echo", `{"text":"x"}`, pb.Action_ACTION_DENY},
		{reading, "test__add", `{"a":1,"b":2}`, pb.Action_ACTION_ALLOW},
		{reading, "test__look", `{"path":"notes.txt"}`, pb.Action_ACTION_ALLOW},
		{reading, "test__put", `{"path":"notes.txt"}`, pb.Action_ACTION_DENY},
		{edits, "test__reach", `{"host":"169.254.169.254","port":80}`, pb.Action_ACTION_ASK},
	} {
		checked, err := policy.CheckCall(t.Context(), &pb.CheckCallRequest{SessionId: test.session, Tool: test.tool, InputJson: []byte(test.input)})
		if err != nil {
			t.Fatal(err)
		}
		if got := checked.GetVerdict().GetAction(); got != test.want {
			t.Errorf("%s %s: %s, want %s: %v", test.tool, test.input, got, test.want, checked)
		}
	}
}

// TestMCPNeverThere: who calls a tool of a server that never answered reads why, and when it
// is tried again; who has nothing of that server reads that there is no such tool.
func TestMCPNeverThere(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "mcp:\n- {name: gone, command: [bash, -c, 'echo I am ill >&2; exit 7']}\n")
	s.waitForSource("gone", func(one *pb.Source) bool { return one.GetState() == pb.SourceState_SOURCE_STATE_UNAVAILABLE })
	want := regexp.MustCompile(`^The tool gone__anything cannot be used for now: it comes from gone, which is not available: it ended with exit status 7: I am ill\. It is tried again at \d\d:\d\d:\d\d UTC\.$`)
	end := s.run("gone__anything", `{}`)
	if f := end.GetFailure(); f.GetCode() != "unavailable" || !want.MatchString(f.GetMessage()) {
		t.Errorf("%s: %s", f.GetCode(), f.GetMessage())
	}
	if _, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "without", Tools: &pb.ToolSelection{Exclude: []string{"@gone"}}}); err != nil {
		t.Fatal(err)
	}
	_, end = s.call(&pb.ExecuteToolRequest{SessionId: "without", Tool: "gone__anything", InputJson: []byte(`{}`)}, nil)
	if f := end.GetFailure(); f.GetCode() != "no_such_tool" || strings.Contains(f.GetMessage(), "ill") {
		t.Errorf("%s: %s", f.GetCode(), f.GetMessage())
	}
}
