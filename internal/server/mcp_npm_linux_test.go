// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// npmServer is the configuration of a source whose server was installed by npm; "make test"
// does that.
func npmServer(t *testing.T, name, more string, args ...string) string {
	t.Helper()
	modules, err := filepath.EvalSymlinks("../../.bin/npm")
	if override := os.Getenv("TOOLSERVER_TEST_NPM"); override != "" {
		modules, err = override, nil
	}
	modules = filepath.Join(modules, "node_modules")
	program := filepath.Join(modules, "@modelcontextprotocol/server-"+name, "dist/index.js")
	if _, missing := os.Stat(program); err != nil || missing != nil {
		t.Fatalf("npm has not installed server-%s: make ripgrep does: %v", name, missing)
	}
	if modules, err = filepath.Abs(modules); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("- name: %s\n  command: [node, %s, %s]\n  read: [%s]\n%s", name, filepath.Join(modules, "@modelcontextprotocol/server-"+name, "dist/index.js"), strings.Join(args, ", "), modules, more)
}

// TestMCPEverything calls each tool of the server with which the protocol's maintainers try
// clients.
func TestMCPEverything(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "mcp:\n"+npmServer(t, "everything", "", "stdio"))
	s.waitForTool("everything__echo", true)
	calls := []struct{ tool, input, want string }{
		{"echo", `{"message":"hello"}`, `Echo: hello`},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`, `Error: .* \| image/png of \d+ bytes`},
		{"get-env", `{}`, `(?s).*"HOME".*`},
		{"get-resource-links", `{"count":2}`, `(?s).*\[resource demo://resource/.*read_resource reads it].*`},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, `(?s).*\[resource demo://resource/dynamic/text/1, text/plain].*`},
		{"get-structured-content", `{"location":"New York"}`, `json \{"conditions":"Cloudy","humidity":82,"temperature":33}`},
		{"get-sum", `{"a":2,"b":40}`, `The sum of 2 and 40 is 42\.`},
		{"get-tiny-image", `{}`, `.*image/png of \d+ bytes.*`},
		{"gzip-file-as-resource", `{"name":"x.gz","data":"data:text/plain,hello","outputType":"resource"}`, `(?s).*artifact application/gzip of \d+ bytes`},
		// Tasks are not for clients of this kind.
		{"simulate-research-query", `{"topic":"tools"}`, `tool_failed: .*requires task augmentation.*`},
		{"toggle-simulated-logging", `{}`, `(?s)Started simulated.*`},
		{"toggle-subscriber-updates", `{}`, `(?s)Started simulated.*`},
		{"trigger-long-running-operation", `{"duration":0.2,"steps":2}`, `Long running operation completed.*`},
		{"list_resources", `{}`, `(?s).*demo://resource/.*`},
		{"read_resource", `{"uri":"demo://resource/dynamic/text/7"}`, `(?s)\[resource demo://resource/dynamic/text/7, text/plain].*`},
		{"get_prompt", `{}`, `(?s).*simple-prompt.*`},
		{"get_prompt", `{"name":"simple-prompt"}`, `\[user] \| This is a simple prompt.*`},
	}
	called := map[string]bool{"everything__trigger-elicitation-request": true}
	for _, call := range calls {
		name := "everything__" + call.tool
		called[name] = true
		if got := describe(s.run(name, call.input)); !regexp.MustCompile(`^(` + call.want + `)$`).MatchString(got) {
			t.Errorf("%s: %.300s, want %s", name, got, call.want)
		}
	}
	list, err := s.ListTools(t.Context(), &pb.ListToolsRequest{Kind: pb.ToolKind_TOOL_KIND_MCP})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.GetTools() {
		if !called[tool.GetName()] {
			t.Errorf("%s was not called", tool.GetName())
		}
	}
	// A person declines.
	asked := 0
	_, end := s.call(&pb.ExecuteToolRequest{Tool: "everything__trigger-elicitation-request", InputJson: []byte("{}")}, func(q *pb.Approval) pb.AnswerKind {
		asked = len(q.GetQuestions())
		return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
	})
	if got := describe(end); asked == 0 || !strings.Contains(got, "User declined") {
		t.Errorf("asked %d questions: %s", asked, got)
	}
}

// TestMCPFilesystem has the files of a directory changed by a server that may write it.
func TestMCPFilesystem(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	says := "  write: [" + dir + "]\n  says: [{tools: [\"read_*\", \"list_*\"], read_only: true}, {tools: [write_file], writes: [path], complete: true}]\n"
	s := serveAllowing(t, "mcp:\n"+npmServer(t, "filesystem", says, dir))
	s.waitForTool("filesystem__write_file", true)
	if got := describe(s.run("filesystem__write_file", fmt.Sprintf(`{"path":%q,"content":"by MCP"}`, filepath.Join(dir, "new")))); !strings.Contains(got, "Successfully wrote") {
		t.Error(got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new")); string(text) != "by MCP" {
		t.Errorf("%q, %v", text, err)
	}
	if got := describe(s.run("filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "new")))); !strings.Contains(got, "by MCP") {
		t.Error(got)
	}
	if got := describe(s.run("filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(other, "x")))); !strings.Contains(got, "tool_failed") {
		t.Error(got)
	}
}
