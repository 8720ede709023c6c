// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const failuresPolicy = `
version: 1
protected: [infra/prod/]
rules:
  - {name: secrets, action: deny, reads: [.env], reason: "Secrets are not for agents."}
  - {name: deletions, action: ask, tools: [delete_file]}
limits:
  - {name: naps, tools: [sleep], rate: 1/h, burst: 1, per: session}
loop_guard: {repeat: 4}
approvals: {expire: %s}
`

// failing is a server on which calls fail, and a client of it.
type failing struct {
	t         *testing.T
	workspace string
	pb.ToolServiceClient
	pb.SessionServiceClient
	pb.ApprovalServiceClient
}

func newFailing(t *testing.T, expire string) *failing {
	t.Helper()
	f := &failing{t: t, workspace: filepath.Join(t.TempDir(), "work")}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := errors.Join(os.Mkdir(f.workspace, 0o755), os.WriteFile(file, fmt.Appendf(nil, failuresPolicy, expire), 0o600)); err != nil {
		t.Fatal(err)
	}
	prepare := exec.Command("bash", "-c", `
set -e
mkdir -p cmd/server docs scripts infra/prod full
printf 'package main\n\nfunc main() {\n\tserve()\n}\n' > main.go
printf 'package server\n' > cmd/server/server.go
printf 'one\ntwo\ntwo\nthree\n' > notes.txt
printf 'guide\n' > docs/guide.md
printf '\x00\x01\x02\x03' > data.bin
printf 'TOKEN=x\n' > .env
printf '#!/bin/bash\necho linted\n' > scripts/lint && chmod +x scripts/lint
printf '#!/bin/bash\necho ran\n' > scripts/run.sh
printf '#!/bin/bash\nexec 3<>/dev/tcp/example.invalid/80\n' > scripts/fetch && chmod +x scripts/fetch
printf 'x\n' > full/file
`)
	prepare.Dir = f.workspace
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := config.Default()
	c.Policy.File, c.Sessions.Workspace, c.Sessions.WorkspaceRoot = file, f.workspace, t.TempDir()
	c.Sessions.Mode = tools.ModeAllow
	c.Sandbox.Helper = os.Getenv("TOOLSERVER_SANDBOX_HELPER")
	c.Sandbox.Limits.Memory, c.Sandbox.Limits.Output, c.Sandbox.Limits.FileSize = 256<<20, 1<<20, 1<<20
	conn := serveConfig(t, c)
	f.ToolServiceClient, f.SessionServiceClient, f.ApprovalServiceClient = pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewApprovalServiceClient(conn)
	return f
}

// call makes a call and returns the whole text that the model gets. What happens
// on the way is told to each, if it is set.
func (f *failing) call(request *pb.ExecuteToolRequest, each func(*pb.Event)) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	stream, err := f.ExecuteTool(ctx, request)
	if err != nil {
		f.t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			f.t.Fatal("no end")
		}
		if err != nil {
			return f.plain("status " + status.Code(err).String() + "\n" + status.Convert(err).Message() + "\n")
		}
		if each != nil {
			each(response.GetEvent())
		}
		end := response.GetEvent().GetFinished()
		if end == nil {
			continue
		}
		text := strings.TrimPrefix(end.GetOutcome().String(), "OUTCOME_")
		if code := end.GetFailure().GetCode(); code != "" {
			text += " " + code
		}
		text += "\n"
		for _, content := range end.GetContent() {
			if artifact := content.GetArtifact(); artifact != nil {
				text += "[artifact " + artifact.GetName() + "]"
			}
			text += strings.TrimSuffix(content.GetText()+content.GetJson(), "\n") + "\n"
		}
		return f.plain(text)
	}
}

// volatile matches times, durations, ids, and what programs say in many ways.
var volatile = regexp.MustCompile(`(after|again in|ended at|kept until|last written at|as execution) [-\w.:]*\d[-\w:]*(\.\d+m?s)?|(line 1:) +\d+ File size.*|(example.invalid:) .*`)

// plain returns a text without what differs from run to run.
func (f *failing) plain(text string) string {
	text = strings.ReplaceAll(text, f.workspace, "$WORK")
	text = strings.ReplaceAll(text, filepath.Dir(f.workspace), "$TOP")
	return volatile.ReplaceAllString(text, "$1$3$4 …")
}

// A failureCase is one way in which the day of an agent goes wrong.
type failureCase struct {
	name  string
	tool  string
	input string

	before  []string                                          // calls made first, "tool input"
	session *pb.CreateSessionRequest                          // another session than the default
	each    func(f *failing, id string) func(event *pb.Event) // what happens on the way
	do      func(f *failing) (call string, answer string)     // in place of a call
	expire  string                                            // how long questions wait; 1m
	request func(request *pb.ExecuteToolRequest)              // changes the request
}

var failureCases = []failureCase{
	{name: "file misspelt", tool: "read_file", input: `{"path":"mian.go"}`},
	{name: "file elsewhere", tool: "read_file", input: `{"path":"src/server.go"}`},
	{name: "file nowhere", tool: "read_file", input: `{"path":"src/zebra.txt"}`},
	{name: "edit of a file that is not there", tool: "edit_file", input: `{"path":"note.txt","old_string":"a","new_string":"b"}`},
	{name: "edit of a directory", tool: "edit_file", input: `{"path":"docs","old_string":"a","new_string":"b"}`},
	{name: "offset beyond the end", tool: "read_file", input: `{"path":"notes.txt","offset":100}`},
	{name: "binary file", tool: "read_file", input: `{"path":"data.bin"}`},
	{name: "old_string not found", tool: "edit_file", input: `{"path":"main.go","old_string":"  serve()","new_string":"  run()"}`},
	{name: "old_string not unique", tool: "edit_file", input: `{"path":"notes.txt","old_string":"two","new_string":"2"}`},
	{name: "edit without a change", tool: "edit_file", input: `{"path":"notes.txt","old_string":"one","new_string":"one"}`},
	{name: "one of several edits", tool: "multi_edit", input: `{"path":"notes.txt","edits":[{"old_string":"one","new_string":"1"},{"old_string":"four","new_string":"4"}]}`},
	{name: "stale file", tool: "write_file", input: `{"path":"notes.txt","content":"new\n","expected_hash":"00000000000000000000000000000000"}`},
	{name: "file exists", tool: "write_file", input: `{"path":"notes.txt","content":"new\n","create_only":true}`},
	{name: "move onto a file", tool: "move_file", input: `{"from":"notes.txt","to":"main.go"}`},
	{name: "patch does not apply", tool: "apply_patch", input: `{"patch":"*** Begin Patch\n*** Update File: notes.txt\n@@\n one\n-zwei\n+2\n*** End Patch"}`},
	{name: "patch without a beginning", tool: "apply_patch", input: `{"patch":"change two to 2 in notes.txt"}`},
	{name: "nothing to undo", tool: "undo", input: `{}`},
	{name: "not a directory", tool: "list_dir", input: `{"path":"notes.txt"}`},
	{name: "outside the workspace", tool: "write_file", input: `{"path":"../elsewhere.txt","content":"x"}`},
	{name: "protected path", tool: "write_file", input: `{"path":"infra/prod/main.tf","content":"x"}`},
	{name: "hook of git", tool: "write_file", input: `{"path":".git/hooks/pre-commit","content":"x"}`},
	{name: "the whole workspace", tool: "bash", input: `{"command":"rm -rf ."}`},
	{name: "denied by a rule", tool: "read_file", input: `{"path":".env"}`},
	{name: "denied to a command", tool: "bash", input: `{"command":"cat .env"}`},
	{name: "denied in a list of commands", tool: "bash", input: `{"command":"ls && cat .env && git status"}`},
	{name: "above the level", tool: "write_file", input: `{"path":"a.txt","content":"x"}`, session: &pb.CreateSessionRequest{Level: pb.Level_LEVEL_READ_ONLY}},
	{name: "plan mode", tool: "edit_file", input: `{"path":"notes.txt","old_string":"one","new_string":"1"}`, session: &pb.CreateSessionRequest{Mode: pb.Mode_MODE_PLAN}},
	{name: "tool misspelt", tool: "read_fle", input: `{"path":"main.go"}`},
	{name: "tool of another system", tool: "str_replace_editor", input: `{}`},
	{name: "unknown key", tool: "read_file", input: `{"path":"main.go","ofset":10}`},
	{name: "missing key", tool: "grep", input: `{"path":"."}`},
	{name: "wrong type", tool: "read_file", input: `{"path":"main.go","limit":"many"}`},
	{name: "out of range", tool: "grep", input: `{"pattern":"x","context":500}`},
	{name: "not one of the choices", tool: "grep", input: `{"pattern":"x","output_mode":"lines"}`},
	{name: "bad JSON", tool: "read_file", input: `{"path":"main.go"`},
	{name: "bad regular expression", tool: "grep", input: `{"pattern":"func main("}`},
	{name: "look-around", tool: "grep", input: `{"pattern":"(?<=func )main"}`},
	{name: "bad glob", tool: "glob", input: `{"pattern":"src/[a-"}`},
	{name: "search in nothing", tool: "grep", input: `{"pattern":"x","path":"doc"}`},
	{name: "unknown type of files", tool: "grep", input: `{"pattern":"x","type":"golang"}`},
	{name: "nothing matches", tool: "grep", input: `{"pattern":"unicorn"}`},
	{name: "program misspelt", tool: "bash", input: `{"command":"sha256summ main.go"}`},
	{name: "program of the workspace", tool: "bash", input: `{"command":"lint"}`},
	{name: "script not there", tool: "bash", input: `{"command":"./scripts/lnt"}`},
	{name: "script not executable", tool: "bash", input: `{"command":"./scripts/run.sh"}`},
	{name: "exit status", tool: "bash", input: `{"command":"echo broken >&2; exit 3"}`},
	{name: "grep without a hit", tool: "bash", input: `{"command":"grep -rn unicorn docs"}`},
	{name: "syntax error", tool: "bash", input: `{"command":"echo \"unterminated"}`},
	{name: "timed out", tool: "bash", input: `{"command":"echo begun; sleep 60","timeout_ms":3000}`},
	{name: "timed out in silence", tool: "bash", input: `{"command":"sleep 60","timeout_ms":300}`},
	{name: "too much memory", tool: "bash", input: `{"command":"x=$(head -c 400M /dev/zero | tr '\\0' a); echo ${#x}"}`},
	{name: "too large a file", tool: "bash", input: `{"command":"head -c 4M /dev/zero > big"}`},
	{name: "no network", tool: "bash", input: `{"command":"h=example; bash -c \"exec 3<>/dev/tcp/$h.invalid/80\""}`},
	{name: "no network for a script", tool: "bash", input: `{"command":"./scripts/fetch"}`},
	{name: "write outside by a command", tool: "bash", input: `{"command":"bash -c 'd=/usr; echo x > $d/x'"}`},
	{name: "working directory not there", tool: "bash", input: `{"command":"ls","workdir":"script"}`},
	{name: "cancelled", tool: "bash", input: `{"command":"echo begun; sleep 60"}`, each: func(f *failing, id string) func(*pb.Event) {
		return func(event *pb.Event) {
			if event.GetOutput() != nil {
				if _, err := f.Cancel(f.t.Context(), &pb.CancelRequest{CallId: id, Reason: "the user pressed stop"}); err != nil {
					f.t.Error(err)
				}
			}
		}
	}},
	{name: "approval declined", tool: "delete_file", input: `{"path":"full","recursive":true}`, each: func(f *failing, _ string) func(*pb.Event) {
		return func(event *pb.Event) {
			if asked := event.GetApprovalRequested(); asked != nil {
				if _, err := f.ResolveApproval(f.t.Context(), &pb.ResolveApprovalRequest{
					ApprovalId: asked.GetApproval().GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE, Comment: "keep it until Friday",
				}); err != nil {
					f.t.Error(err)
				}
			}
		}
	}},
	{name: "approval expired", tool: "delete_file", input: `{"path":"full","recursive":true}`, expire: "1s"},
	{name: "directory not empty", tool: "delete_file", input: `{"path":"full"}`, each: func(f *failing, _ string) func(*pb.Event) {
		return func(event *pb.Event) {
			if asked := event.GetApprovalRequested(); asked != nil {
				if _, err := f.ResolveApproval(f.t.Context(), &pb.ResolveApprovalRequest{
					ApprovalId: asked.GetApproval().GetApprovalId(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE,
				}); err != nil {
					f.t.Error(err)
				}
			}
		}
	}},
	{name: "rate limited", tool: "sleep", input: `{"duration_ms":2}`, before: []string{`sleep {"duration_ms":1}`}},
	{name: "in a circle", tool: "read_file", input: `{"path":"main.go"}`, before: []string{
		`read_file {"path":"main.go"}`, `read_file {"path":"main.go"}`, `read_file {"path":"main.go"}`, `read_file {"path":"main.go"}`}},
	{name: "background process unknown", tool: "process_output", input: `{"id":"p7"}`},
	{name: "no repository", tool: "git_log", input: `{}`},
	{name: "unknown session", tool: "read_file", input: `{"path":"main.go"}`, request: func(r *pb.ExecuteToolRequest) { r.SessionId = "gone" }},
	{name: "closed session", do: func(f *failing) (string, string) {
		if _, err := f.CreateSession(f.t.Context(), &pb.CreateSessionRequest{SessionId: "short"}); err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.CloseSession(f.t.Context(), &pb.CloseSessionRequest{SessionId: "short"}); err != nil {
			f.t.Fatal(err)
		}
		return "read_file in a session that was closed", f.call(&pb.ExecuteToolRequest{SessionId: "short", Tool: "read_file", InputJson: []byte(`{"path":"main.go"}`)}, nil)
	}},
	{name: "artifact unknown", do: func(f *failing) (string, string) {
		stream, err := f.ReadArtifact(f.t.Context(), &pb.ReadArtifactRequest{Uri: "artifact:none"})
		if err == nil {
			_, err = stream.Recv()
		}
		return "ReadArtifact artifact:none", f.plain("status " + status.Code(err).String() + "\n" + status.Convert(err).Message() + "\n")
	}},
	{name: "call id used before", do: func(f *failing) (string, string) {
		id := "same"
		f.call(&pb.ExecuteToolRequest{CallId: &id, Tool: "read_file", InputJson: []byte(`{"path":"main.go"}`)}, nil)
		return `read_file with the call id of another call`, f.call(&pb.ExecuteToolRequest{CallId: &id, Tool: "read_file", InputJson: []byte(`{"path":"notes.txt"}`)}, nil)
	}},
}

// TestFailureTexts makes the commonest failures happen and compares the whole text
// that a model gets with testdata/failures.txtar. With UPDATE_GOLDEN=1 the file is
// written instead: read it aloud then.
func TestFailureTexts(t *testing.T) {
	const golden = "testdata/failures.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil && os.Getenv("UPDATE_GOLDEN") != "1" {
		t.Fatal(err)
	}
	want := make(map[string]string)
	if archive != nil {
		for _, file := range archive.Files {
			want[file.Name] = string(file.Data)
		}
	}
	servers := map[string]*failing{"": newFailing(t, "1m"), "1s": newFailing(t, "1s")}
	got := &txtar.Archive{Comment: []byte("What a model is told when a call fails: the call, how it ended, and the whole text.\n\n")}
	for i, test := range failureCases {
		t.Run(test.name, func(t *testing.T) {
			f := *servers[test.expire]
			f.t = t
			answer := f.run(fmt.Sprint("call-", i), test)
			got.Files = append(got.Files, txtar.File{Name: test.name, Data: []byte(answer)})
			if answer != want[test.name] && os.Getenv("UPDATE_GOLDEN") != "1" {
				t.Errorf("got\n%s\nwant\n%s\nIf it is meant to be, run with UPDATE_GOLDEN=1 and read it aloud.", answer, want[test.name])
			}
			if rpc := namesRPC.FindString(answer); rpc != "" && !strings.Contains(answer, "status ") {
				t.Errorf("a model is told of %s, which it cannot call:\n%s", rpc, answer)
			}
		})
	}
	if len(failureCases) < 40 || len(want) != len(failureCases) && os.Getenv("UPDATE_GOLDEN") != "1" {
		t.Errorf("%d failures, and %d texts", len(failureCases), len(want))
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(golden, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneRuleOfMasking shows a secret of a file by every tool that shows files: no
// event of any has it.
func TestOneRuleOfMasking(t *testing.T) {
	f := newFailing(t, "1m")
	secret := "ghp_" + strings.Repeat("A1b2C3d4", 5)
	f.write("config.txt", "name: x\ntoken: "+secret+"\nport: 80\n")
	f.write("book.ipynb", `{"cells":[{"cell_type":"code","id":"a","metadata":{},"outputs":[],"execution_count":null,"source":["t = '`+secret+`'"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`)
	shown := 0
	for _, call := range []string{
		`read_file {"path":"config.txt"}`,
		`read_file {"operations":[{"path":"config.txt"}]}`,
		`read_file {"path":"book.ipynb"}`,
		`grep {"pattern":"token"}`,
		`bash {"command":"cat config.txt"}`,
		`repl {"language":"bash","code":"cat config.txt"}`,
		`edit_file {"path":"config.txt","old_string":"port: 80","new_string":"port: 81"}`,
		`edit_file {"path":"config.txt","old_string":"token:  ghp","new_string":"x"}`,
		`multi_edit {"path":"config.txt","edits":[{"old_string":"name: x","new_string":"name: y"}]}`,
		`bash {"command":"git init -q . && git add config.txt && git -c user.name=a -c user.email=a@b commit -qm config && sed -i s/81/82/ config.txt"}`,
		`git_diff {}`, `git_show {"path":"config.txt"}`, `git_blame {"path":"config.txt"}`,
		`move_file {"from":"config.txt","to":"moved.txt"}`,
		`undo {}`, `list_changes {}`,
	} {
		tool, input, _ := strings.Cut(call, " ")
		text := f.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}, func(event *pb.Event) {
			if strings.Contains(event.String(), secret[:20]) {
				t.Errorf("%s shows the secret: %v", call, event)
			}
		})
		if strings.Contains(text, "[masked: github token]") {
			shown++
		}
	}
	if shown < 9 {
		t.Errorf("%d answers show the mask, want 9", shown)
	}
	for _, call := range []string{
		`edit_file {"path":"config.txt","old_string":"token: [masked: github token]","new_string":"token: none"}`,
		`edit_file {"path":"config.txt","old_string":"name: y","new_string":"name: [masked: github token]"}`,
		`write_file {"path":"config.txt","content":"token: [masked: github token]\n"}`,
	} {
		tool, input, _ := strings.Cut(call, " ")
		if text := f.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}, nil); !strings.Contains(text, "stands for a secret") {
			t.Errorf("%s: %s", call, text)
		}
	}
	if text, err := os.ReadFile(filepath.Join(f.workspace, "config.txt")); err != nil || !strings.Contains(string(text), secret) {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func (f *failing) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.workspace, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// maxToolTokens is how much a model has to read of all tools before its first
// call, counting four characters as one.
const maxToolTokens = 14553

// TestToolTexts counts what the full view of all tools puts in front of a model:
// names, summaries, descriptions and schemas. What is longer belongs into help.
func TestToolTexts(t *testing.T) {
	f := newFailing(t, "1m")
	response, err := f.ListTools(t.Context(), &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, tool := range response.GetTools() {
		n := len(tool.GetName()) + len(tool.GetSummary()) + len(tool.GetDescription()) + len(tool.GetInputSchema())
		t.Logf("%5d %s: description %d, schema %d, help %d characters", n/4, tool.GetName(), len(tool.GetDescription()), len(tool.GetInputSchema()), len(tool.GetHelp()))
		total += n
	}
	t.Logf("%d tools: about %d tokens", len(response.GetTools()), total/4)
	if total/4 > maxToolTokens || len(response.GetTools()) < 30 {
		t.Errorf("%d tools take %d tokens, more than %d: move what is long to help", len(response.GetTools()), total/4, maxToolTokens)
	}
	page := f.call(&pb.ExecuteToolRequest{Tool: "help", InputJson: []byte(`{"tool":"Grep"}`)}, nil)
	for _, word := range []string{"SUCCEEDED\n# grep", "back-references", "-C for context", "Where a function is defined"} {
		if !strings.Contains(page, word) {
			t.Errorf("the help of grep does not have %q:\n%s", word, page)
		}
	}
	if page := f.call(&pb.ExecuteToolRequest{Tool: "help", InputJson: []byte(`{"tool":"grap"}`)}, nil); !strings.Contains(page, "Did you mean grep") {
		t.Errorf("the help of grap: %s", page)
	}
}

// namesRPC matches the name of an RPC.
var namesRPC = regexp.MustCompile(`\b(List|Get|Create|Watch|Read|Write|Close|Execute|Resolve|Check)[A-Z][a-z]+\b`)

// run makes a failure happen and returns the call and its answer.
func (f *failing) run(id string, test failureCase) string {
	if test.do != nil {
		call, answer := test.do(f)
		return "> " + call + "\n" + answer
	}
	for _, call := range test.before {
		tool, input, _ := strings.Cut(call, " ")
		f.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}, nil)
	}
	request := &pb.ExecuteToolRequest{Tool: test.tool, InputJson: []byte(test.input), CallId: &id}
	if test.session != nil {
		created, err := f.CreateSession(f.t.Context(), test.session)
		if err != nil {
			f.t.Fatal(err)
		}
		request.SessionId = created.GetSession().GetSessionId()
	}
	if test.request != nil {
		test.request(request)
	}
	var each func(*pb.Event)
	if test.each != nil {
		each = test.each(f, id)
	}
	return "> " + test.tool + " " + test.input + "\n" + f.call(request, each)
}
