// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toolserver/toolserver/internal/hook"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// exampleAnswers are what the hook of the examples answers, by point.
var exampleAnswers = []struct {
	point  hook.Point
	answer string
	means  string
}{
	{hook.SessionStart, "", "There is nothing to answer: nothing is written, and the exit status is 0."},
	{hook.BeforeCall, `{"rewrite": {"input": {"command": "echo hello from the hook"}}, "context": "commands greet here"}`, "The call runs with another input, and the model is told so."},
	{hook.BeforeUpdate, `{"suppress": true}`, "Nobody sees this output while the call runs."},
	{hook.AfterUpdate, "", "There is nothing to answer."},
	{hook.AfterCall, `{"context": "reviewed: nothing to add"}`, "The model reads it after the result."},
	{hook.FileChanged, `{"context": "notes.txt: line 1 has no full stop"}`, "The model reads it after the result. A linter that only prints does the same."},
	{hook.ApprovalRequested, "", "There is nothing to answer."},
	{hook.Denied, "", "There is nothing to answer."},
	{hook.SessionEnd, "", "There is nothing to answer."},
}

// examplesOfHooks runs a session in which every point comes, and returns the first event of
// each as it was posted.
func examplesOfHooks(t *testing.T) map[hook.Point]string {
	var mu sync.Mutex
	events := make(map[hook.Point]string)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var event hook.Event
		if err := json.Unmarshal(body, &event); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		again := events[event.Point] != ""
		if !again {
			events[event.Point] = string(body)
		}
		for _, example := range exampleAnswers {
			if example.point == event.Point && !again {
				io.WriteString(w, example.answer)
			}
		}
	}))
	defer endpoint.Close()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	var points []string
	for _, example := range exampleAnswers {
		points = append(points, string(example.point))
	}
	s := serveAllowing(t, fmt.Sprintf("hooks:\n  - {name: example, url: %q, secret_file: %s, on: [%s]}\n", endpoint.URL, file, strings.Join(points, ", ")))
	created, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Mode: pb.Mode_MODE_ALLOW, Workspace: s.workspace})
	if err != nil {
		t.Fatal(err)
	}
	id := created.GetSession().GetSessionId()
	run := func(callID, tool, input string, asked func(*pb.Approval) pb.AnswerKind) *pb.Finished {
		_, end := s.call(&pb.ExecuteToolRequest{SessionId: id, CallId: &callID, Tool: tool, InputJson: []byte(input), Purpose: "show what hooks are told"}, asked)
		return end
	}
	end := run("call-1", "bash", `{"command":"echo hello; echo again"}`, nil)
	for _, want := range []string{"hello from the hook", "commands greet here", "reviewed: nothing to add"} {
		if !strings.Contains(contentText(end), want) {
			t.Errorf("the result does not have %q: %s", want, contentText(end))
		}
	}
	if end := run("call-2", "write_file", `{"path":"notes.txt","content":"remember this\n"}`, nil); !strings.Contains(contentText(end), "no full stop") {
		t.Errorf("%s", contentText(end))
	}
	if _, err := s.sessions.UpdateSession(t.Context(), &pb.UpdateSessionRequest{
		Session: &pb.Session{SessionId: id, Mode: pb.Mode_MODE_ASK}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"mode"}},
	}); err != nil {
		t.Fatal(err)
	}
	run("call-3", "write_file", `{"path":"notes.txt","content":"forget it\n"}`, func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_DENY_ONCE })
	if end := run("call-4", "bash", `{"command":"printf 'one\\n'; sleep 0.3; printf 'two\\n'"}`, func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE }); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Errorf("%v", end)
	}
	if _, err := s.sessions.CloseSession(t.Context(), &pb.CloseSessionRequest{SessionId: id, Reason: "the work is done"}); err != nil {
		t.Fatal(err)
	}
	got := 0
	waitUntil(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		got = len(events)
		return got == len(exampleAnswers)
	}, func() string { return fmt.Sprintf("told of %d points of %d", got, len(exampleAnswers)) })
	mu.Lock()
	defer mu.Unlock()
	known := strings.NewReplacer(s.workspace, "/srv/work", id, "SESSION")
	for point, text := range events {
		events[point] = known.Replace(text)
	}
	return events
}

// What is another in each run.
var varies = []struct {
	is *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`"execution_id": "[^"]*"`), `"execution_id": "EXECUTION"`},
	{regexp.MustCompile(`"duration_ms": \d+`), `"duration_ms": 3`},
	{regexp.MustCompile(`"mode": "-rw[^"]*"`), `"mode": "-rw-r--r--"`},
	{regexp.MustCompile(`"change": "[^"]*"`), `"change": "CHANGE"`},
}

// TestHookExamples: the examples of the page about hooks are what a run posts and takes;
// UPDATE_GOLDEN=1 writes them.
func TestHookExamples(t *testing.T) {
	t.Parallel()
	events := examplesOfHooks(t)
	var b strings.Builder
	for _, example := range exampleAnswers {
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(events[example.point]), "", "  "); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSpace(indented.String())
		for _, v := range varies {
			text = v.is.ReplaceAllString(text, v.by)
		}
		fmt.Fprintf(&b, "### `%s`\n\n```json\n%s\n```\n\n", example.point, text)
		if example.answer != "" {
			fmt.Fprintf(&b, "```json\n%s\n```\n\n", example.answer)
		}
		b.WriteString(example.means + "\n\n")
	}
	const file, begin, end = "../../docs/hooks.md", "<!-- examples: made by TestHookExamples -->\n\n", "<!-- end of examples -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for examples", file)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != b.String() {
		t.Errorf("the examples are others (UPDATE_GOLDEN=1 writes them): they have\n%s\nwant\n%s", old, b.String())
	}
}
