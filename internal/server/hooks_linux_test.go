// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/hook"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// hookEndpoint is a server that answers hooks.
type hookEndpoint struct {
	*httptest.Server
	mu     sync.Mutex
	events []hook.Event
	bad    []string
}

var key = []byte("a key of more than sixteen bytes")

func newEndpoint(t *testing.T, answer func(hook.Event) (int, string)) *hookEndpoint {
	e := new(hookEndpoint)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var event hook.Event
		err := json.Unmarshal(body, &event)
		e.mu.Lock()
		if err != nil || r.Header.Get(hook.SignatureHeader) != hook.Sign(key, r.Header.Get(hook.DeliveryHeader), r.Header.Get(hook.TimestampHeader), body) {
			e.bad = append(e.bad, fmt.Sprintf("%v %v %s", err, r.Header, body))
		}
		e.events = append(e.events, event)
		e.mu.Unlock()
		status, text := answer(event)
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(func() {
		e.Close()
		if len(e.bad) > 0 {
			t.Errorf("not signed, or not JSON: %q", e.bad)
		}
	})
	return e
}

// config returns hooks at the endpoint.
func (e *hookEndpoint) config(t *testing.T, more string) string {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, append(key, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("hooks:\n  - {name: remote, url: %q, secret_file: %s, %s}\n", e.URL, file, more)
}

// wait waits until the endpoint was told of a point.
func (e *hookEndpoint) wait(t *testing.T, point hook.Point) hook.Event {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		e.mu.Lock()
		i := slices.IndexFunc(e.events, func(event hook.Event) bool { return event.Point == point })
		if i >= 0 {
			defer e.mu.Unlock()
			return e.events[i]
		}
		e.mu.Unlock()
	}
	t.Fatalf("nobody was told of %s", point)
	return hook.Event{}
}

// TestHooksBeforeCalls: what a command says before a call, and everything that is no
// answer blocks it (P-183).
func TestHooksBeforeCalls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script, more string
		outcome            pb.Outcome
		hook               pb.HookOutcome
		says               string
	}{
		{"pass", `cat >/dev/null`, "", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_PASSED, ""},
		{"pass without reading", `exit 0`, "", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_PASSED, ""},
		{"empty answer", `echo "{}"`, "", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_PASSED, ""},
		{"context", `echo '{"context":"mind the gap"}'`, "", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_PASSED, "mind the gap"},
		{"blocks by status", `echo "not on fridays" >&2; exit 2`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_BLOCKED, "not on fridays"},
		{"blocks by answer", `echo '{"block":{"reason":"not on mondays"}}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_BLOCKED, "not on mondays"},
		{"exits 1", `exit 1`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "exit status 1"},
		{"not found", `no_such_program_at_all`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "exit status 127"},
		{"kills itself", `kill -9 $$`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "KILL"},
		{"garbage", `echo allow`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "one JSON object"},
		{"broken JSON", `echo '{"context":'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "not valid"},
		{"unknown key", `echo '{"decision":"allow"}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "decision"},
		{"key in capitals", `echo '{"Context":"x"}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "not valid"},
		{"key twice", `echo '{"context":"x","context":"y"}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "not valid"},
		{"two values", `echo '{}{}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "not valid"},
		{"no reason", `echo '{"block":{"reason":" "}}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "no reason"},
		{"means nothing here", `echo '{"suppress":true}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "means nothing"},
		{"hangs", `sleep 4321.5 & sleep 4321.5`, "timeout: 300ms", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "within 300ms"},
		{"prints 1 GiB", `head -c 1073741824 /dev/zero`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "wrote more than"},
		{"rewrites to another schema", `echo '{"rewrite":{"input":{"command":"ls"}}}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "does not take"},
		{"rewrites to no object", `echo '{"rewrite":{"input":"ls"}}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "does not take"},
		{"rewrites to what is denied", `echo '{"rewrite":{"input":{"path":".git/hooks/post-commit","content":"x"}}}'`, "", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_REWROTE, "protected"},
		{"rewrites", `echo '{"rewrite":{"input":{"path":"new.txt","content":"rewritten"}}}'`, "", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_REWROTE, "changed the input"},
		{"cannot write", `echo x > planted || exit 0; exit 2`, "", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_PASSED, ""},
		{"advisory", `exit 1`, "advisory: true", pb.Outcome_OUTCOME_SUCCEEDED, pb.HookOutcome_HOOK_OUTCOME_FAILED, ""},
		{"advisory blocks", `echo no >&2; exit 2`, "advisory: true", pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_BLOCKED, "no"},
		{"another tool", `exit 1`, "tools: [bash]", pb.Outcome_OUTCOME_SUCCEEDED, 0, ""},
		{"another effect", `exit 1`, `effects: ["writes *.go", reaches]`, pb.Outcome_OUTCOME_SUCCEEDED, 0, ""},
		{"this effect", `exit 1`, `tools: ["write_*"], effects: ["writes *.txt"]`, pb.Outcome_OUTCOME_DENIED, pb.HookOutcome_HOOK_OUTCOME_FAILED, "exit status 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			more := test.more
			if more != "" {
				more = ", " + more
			}
			s := serveAllowing(t, fmt.Sprintf("hooks:\n  - {name: checker, on: before_call, run: %q%s}\n", test.script, more))
			end := s.run("write_file", `{"path":"new.txt","content":"as sent"}`)
			if end.GetOutcome() != test.outcome || !strings.Contains(contentText(end), test.says) {
				t.Errorf("%s: %q, want %s with %q", end.GetOutcome(), contentText(end), test.outcome, test.says)
			}
			want := map[bool]string{true: "as sent"}[test.outcome == pb.Outcome_OUTCOME_SUCCEEDED]
			if test.name == "rewrites" {
				want = "rewritten"
			}
			if got := s.read("new.txt"); got != want {
				t.Errorf("the file has %q, want %q", got, want)
			}
			var got pb.HookOutcome
			if len(end.GetHooks()) > 0 {
				got = end.GetHooks()[0].GetOutcome()
			}
			if got != test.hook {
				t.Errorf("hooks %v, want %s", end.GetHooks(), test.hook)
			}
			if test.outcome == pb.Outcome_OUTCOME_DENIED && test.hook != pb.HookOutcome_HOOK_OUTCOME_REWROTE && end.GetVerdict().GetRule() != "hook checker" {
				t.Errorf("denied by %v", end.GetVerdict())
			}
			if test.hook != 0 {
				s.waitForRecord(`"step":"hook"`)
			}
			if got, want := s.counted(), strings.ToLower(strings.TrimPrefix(test.hook.String(), "HOOK_OUTCOME_")); test.hook != 0 && !slices.Equal(got, []string{want}) {
				t.Errorf("counted as %q, want %s", got, want)
			}
			if alive := withArgument("4321.5"); len(alive) > 0 {
				t.Errorf("left behind: %q", alive)
			}
		})
	}
}

// counted returns the outcomes of hooks that were counted.
func (s *wholeServer) counted() (outcomes []string) {
	families, err := s.metrics.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "toolserver_hooks_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" {
					outcomes = append(outcomes, label.GetValue())
				}
			}
		}
	}
	return outcomes
}

// withArgument returns the processes that have an argument.
func withArgument(argument string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		words, _ := os.ReadFile(file)
		if slices.Contains(strings.Split(string(words), "\x00"), argument) {
			found = append(found, string(words))
		}
	}
	return found
}

// TestHookAsks: a hook has a person asked, whatever was granted, and what is shown is
// what runs.
func TestHookAsks(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, `hooks:
  - {name: shout, on: before_call, run: "echo '{\"rewrite\":{\"input\":{\"path\":\"a.txt\",\"content\":\"LOUD\"}}}'"}
  - {name: careful, on: before_call, run: "echo '{\"ask\":{\"reason\":\"is it loud?\"}}'"}
`)
	for _, kind := range []pb.AnswerKind{pb.AnswerKind_ANSWER_KIND_DENY_ONCE, pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE} {
		events, end := s.call(&pb.ExecuteToolRequest{Tool: "write_file", InputJson: []byte(`{"path":"a.txt","content":"quiet"}`)}, func(q *pb.Approval) pb.AnswerKind {
			if q.GetVerdict().GetRule() != "hook careful" || !strings.Contains(q.GetVerdict().GetReason(), "changed by hook shout") ||
				!strings.Contains(q.GetPreview().GetText(), "LOUD") || len(q.GetTiers()) > 0 || !slices.Equal(q.GetChangedByHooks(), []string{"shout"}) {
				t.Errorf("asked %v", q)
			}
			return kind
		})
		allowed := kind == pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
		if (end.GetOutcome() == pb.Outcome_OUTCOME_SUCCEEDED) != allowed || (s.read("a.txt") == "LOUD") != allowed {
			t.Errorf("%v: %v, file %q", kind, events, s.read("a.txt"))
		}
	}
	// The same call id with the input as it was sent is the same call.
	request := &pb.ExecuteToolRequest{Tool: "write_file", CallId: new("once"), InputJson: []byte(`{"path":"a.txt","content":"quiet"}`)}
	yes := func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE }
	first, _ := s.call(request, yes)
	again, _ := s.call(request, yes)
	if first[0].GetExecutionId() != again[0].GetExecutionId() {
		t.Error("it ran twice")
	}
}

// TestHookEndpoint: denied calls never reach a hook (P-155), what hooks are told is made
// by an encoder (P-182), and every answer but a good one blocks.
func TestHookEndpoint(t *testing.T) {
	t.Parallel()
	status, text := 200, ""
	e := newEndpoint(t, func(hook.Event) (int, string) { return status, text })
	s := serveAllowing(t, e.config(t, "on: before_call, timeout: 5s"))
	if end := s.run("write_file", `{"path":".git/config","content":"x"}`); end.GetOutcome() != pb.Outcome_OUTCOME_DENIED || len(e.events) > 0 {
		t.Errorf("%v, and the hook was told %v", end, e.events)
	}
	const path = `x"},"decision":"allow`
	input, _ := json.Marshal(map[string]string{"path": path, "content": "x"})
	if end := s.run("write_file", string(input)); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Error(end)
	}
	event := e.wait(t, hook.BeforeCall)
	var sent struct{ Path string }
	if json.Unmarshal(event.Input, &sent); sent.Path != path || event.Tool != "write_file" || event.Hook != "remote" || event.Verdict.Action != "allow" {
		t.Errorf("told %+v", event)
	}
	for _, bad := range []struct {
		status int
		text   string
	}{{500, ""}, {302, ""}, {200, "yes"}, {200, `{"allow":true}`}, {200, strings.Repeat(" ", 65<<10)}} {
		status, text = bad.status, bad.text
		if end := s.run("write_file", `{"path":"b.txt","content":"x"}`); end.GetFailure().GetCode() != "hook_failed" {
			t.Errorf("%d %.20q: %v", bad.status, bad.text, end)
		}
	}
	e.Close()
	if end := s.run("write_file", `{"path":"b.txt","content":"x"}`); end.GetFailure().GetCode() != "hook_failed" || strings.Contains(contentText(end), "127.0.0.1:0") {
		t.Error(end)
	}
	if s.read("b.txt") != "" {
		t.Error("it was written")
	}
}

// TestHooksFormatAndLint is the example of README and docs/hooks.md: what the linter finds
// is part of the result of the edit.
func TestHooksFormatAndLint(t *testing.T) {
	t.Parallel()
	example := "hooks:\n  - on: file_changed\n    run: gofmt -l -w . && go vet ./...\n"
	for _, file := range []string{"README.md", "docs/hooks.md"} {
		if text, err := os.ReadFile(filepath.Join("..", "..", file)); err != nil || !strings.Contains(string(text), example) {
			t.Errorf("%s does not have the example: %v", file, err)
		}
	}
	s := serveAllowing(t, example)
	s.run("write_file", `{"path":"go.mod","content":"module example.com/m\n\ngo 1.21\n"}`)
	end := s.run("write_file", `{"path":"m.go","content":"package m\nfunc F(x int) int{x=x;return x}\n"}`)
	if got := contentText(end); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(got, "[hook gofmt]") || !strings.Contains(got, "m.go") || !strings.Contains(got, "self-assignment") {
		t.Errorf("%s: %s", end.GetOutcome(), got)
	}
	if got := s.read("m.go"); !strings.Contains(got, "func F(x int) int { x = x; return x }") {
		t.Errorf("not formatted: %q", got)
	}
	if end := s.run("read_file", `{"path":"m.go"}`); len(end.GetHooks()) > 0 {
		t.Errorf("reading changed something: %v", end.GetHooks())
	}
}

// TestHooksAfterCalls: what hooks say of results and changed files.
func TestHooksAfterCalls(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, `hooks:
  - {name: paths, on: file_changed, run: 'echo "changed: $*"; exit 1'}
  - {name: secrets, on: after_call, tools: [read_file, bash], run: 'if grep -q hush; then echo "it tells secrets" >&2; exit 2; fi; echo fine'}
  - {name: slow, on: after_call, tools: [list_dir], timeout: 300ms, run: 'sleep 60'}
`)
	end := s.run("write_file", `{"path":"-rf.txt","content":"hush"}`)
	if got := contentText(end); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED || !strings.Contains(got, "changed: ./-rf.txt") {
		t.Errorf("%s: %s", end.GetOutcome(), got)
	}
	end = s.run("read_file", `{"path":"-rf.txt"}`)
	if got := contentText(end); end.GetFailure().GetCode() != "hook_blocked" || !strings.Contains(got, "it tells secrets") || strings.Contains(got, "hush") {
		t.Errorf("%v", end)
	}
	end = s.run("bash", `{"command":"mkdir -p sub && echo x > sub/new.txt"}`)
	if got := contentText(end); !strings.Contains(got, "sub/new.txt\n") || !strings.Contains(got, "[hook secrets]\nfine") {
		t.Error(got)
	}
	// Files that are as old as they were, under new names and in new places.
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"sub/draft.go", "sub/told.go", "sub/other.go"} {
		path := filepath.Join(s.workspace, name)
		if err := os.WriteFile(path, []byte("package sub\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ tool, input, want string }{
		{"bash", `{"command":"mv sub/draft.go sub/a.go"}`, "sub/a.go sub/draft.go"},
		{"bash", `{"command":"cp -p sub/told.go sub/b.go"}`, "sub/b.go"},
		{"bash", `{"command":"python3 -c 'import os; os.rename(\"sub/other.go\", \"sub/c.go\")'"}`, "sub/c.go"},
		{"bash", `{"command":"touch -d 2020-01-01 sub/d.go"}`, "sub/d.go"},
		{"move_file", `{"from":"sub/d.go","to":"sub/e.go"}`, "sub/d.go sub/e.go"},
		{"bash", `{"command":"mv sub/e.go f.go"}`, "sub/e.go f.go"},
		{"bash", `{"command":"touch -d 2020-01-01 sub"}`, ""}, // in which something was just moved
		{"bash", `{"command":"mv sub moved"}`, "sub moved/a.go moved/new.txt"},
	} {
		_, got, _ := strings.Cut(contentText(s.run(test.tool, test.input)), "changed: ")
		if strings.Contains(got, "f.go/") {
			t.Errorf("%s: %q tells of what is below a file", test.input, got)
		}
		for name := range strings.FieldsSeq(test.want) {
			if !slices.Contains(strings.Fields(got), name) {
				t.Errorf("%s: %q does not tell of %s", test.input, got, name)
			}
		}
	}
	end = s.run("list_dir", `{"path":"."}`)
	if got := contentText(end); end.GetFailure().GetCode() != "hook_failed" || strings.Contains(got, "sub") {
		t.Errorf("%v", end)
	}
}

// TestCancelledWhileHooked: a call that is cancelled while a hook is asked ends as that,
// at once, and the hook has not failed.
func TestCancelledWhileHooked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		point   hook.Point
		command string
		kept    bool // what the tool returned is in the result
	}{{hook.AfterCall, "echo hush", false}, {hook.BeforeUpdate, "echo hush; sleep 1000", true}} {
		t.Run(string(test.point), func(t *testing.T) {
			var s *wholeServer
			cancelled, release := make(chan error, 10), make(chan struct{})
			e := newEndpoint(t, func(event hook.Event) (int, string) {
				_, err := s.Cancel(t.Context(), &pb.CancelRequest{ExecutionId: event.ExecutionID})
				cancelled <- err
				<-release
				return 204, ""
			})
			s = serveAllowing(t, e.config(t, "on: "+string(test.point)+", timeout: 1h"))
			defer close(release)
			end := s.run("bash", fmt.Sprintf(`{"command":%q}`, test.command))
			if err := <-cancelled; err != nil {
				t.Error(err)
			}
			if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED || strings.Contains(contentText(end), "hush") != test.kept || len(end.GetHooks()) > 0 {
				t.Errorf("%v", end)
			}
			if got := s.counted(); len(got) > 0 {
				t.Errorf("counted as %q", got)
			}
		})
	}
}

// TestHooksOfUpdates: what is kept back nobody sees.
func TestHooksOfUpdates(t *testing.T) {
	t.Parallel()
	var workspace string
	e := newEndpoint(t, func(event hook.Event) (int, string) {
		if event.Point == hook.BeforeUpdate && strings.Contains(event.Update.Text, "hush") {
			// What comes later is another update.
			if err := os.WriteFile(filepath.Join(workspace, "gate"), nil, 0o600); err != nil {
				t.Error(err)
			}
			return 200, `{"suppress":true}`
		}
		return 204, ""
	})
	s := serveAllowing(t, e.config(t, "on: [before_update, after_update], tools: [bash]"))
	workspace = s.workspace
	events, _ := s.call(&pb.ExecuteToolRequest{Tool: "bash", InputJson: []byte(`{"command":"echo hush; until [ -e gate ]; do sleep 0.01; done; echo loud"}`)}, nil)
	var seen string
	for _, event := range events {
		seen += string(event.GetOutput().GetData())
	}
	if strings.Contains(seen, "hush") || !strings.Contains(seen, "loud") {
		t.Errorf("seen %q", seen)
	}
	e.wait(t, hook.AfterUpdate)
}

// TestHooksAreTold: hooks that cannot change anything are told of it.
func TestHooksAreTold(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(hook.Event) (int, string) { return 204, "" })
	s := serveAllowing(t, e.config(t, "on: [approval_requested, denied, session_start, session_end]"))
	ctx := t.Context()
	created, err := s.sessions.CreateSession(ctx, &pb.CreateSessionRequest{Mode: pb.Mode_MODE_ASK})
	if err != nil {
		t.Fatal(err)
	}
	id := created.GetSession().GetSessionId()
	if event := e.wait(t, hook.SessionStart); event.SessionID != id || event.Mode != "ask" {
		t.Errorf("told %+v", event)
	}
	s.call(&pb.ExecuteToolRequest{SessionId: id, Tool: "write_file", InputJson: []byte(`{"path":"a.txt","content":"x"}`)},
		func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_DENY_ONCE })
	if event := e.wait(t, hook.ApprovalRequested); event.Verdict.Action != "ask" || !strings.Contains(event.Preview, "a.txt") {
		t.Errorf("told %+v", event)
	}
	if event := e.wait(t, hook.Denied); event.Tool != "write_file" || !strings.HasPrefix(event.Verdict.Rule, "approver") {
		t.Errorf("told %+v", event)
	}
	if _, err := s.sessions.CloseSession(ctx, &pb.CloseSessionRequest{SessionId: id, Reason: "done"}); err != nil {
		t.Fatal(err)
	}
	if event := e.wait(t, hook.SessionEnd); event.SessionID != id || !strings.Contains(event.Reason, "done") {
		t.Errorf("told %+v", event)
	}
}

// TestSessionHooksRunThere: commands at the beginning and the end of a session run in its
// workspace.
func TestSessionHooksRunThere(t *testing.T) {
	t.Parallel()
	s := serveAllowing(t, "hooks:\n  - {on: session_start, run: echo hello > started}\n  - {on: session_end, run: 'cp started ended'}\n")
	created, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Workspace: s.workspace})
	if err != nil {
		t.Fatal(err)
	}
	if s.read("started") != "hello\n" {
		t.Error("it did not run at the beginning")
	}
	if _, err := s.sessions.CloseSession(t.Context(), &pb.CloseSessionRequest{SessionId: created.GetSession().GetSessionId()}); err != nil {
		t.Fatal(err)
	}
	if s.read("ended") != "hello\n" {
		t.Error("it did not run at the end")
	}
}

// TestHookProgram: a call cannot change the program of a hook, and one that is gone blocks.
func TestHookProgram(t *testing.T) {
	t.Parallel()
	program := filepath.Join(programDir(t), "check")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ngrep -q forbidden && { echo it is forbidden >&2; exit 2; }\nrm -f \"$0\"\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := serveAllowing(t, "hooks:\n  - {on: before_call, run: ["+program+"]}\n")
	if end := s.run("write_file", `{"path":"a.txt","content":"forbidden"}`); end.GetVerdict().GetRule() != "hook check" || !strings.Contains(contentText(end), "it is forbidden") {
		t.Fatal(end)
	}
	s.run("bash", fmt.Sprintf(`{"command":"echo '#!/bin/sh' > %s; rm -f %[1]s; chmod 777 %[1]s"}`, program))
	if end := s.run("write_file", `{"path":"a.txt","content":"forbidden"}`); end.GetVerdict().GetRule() != "hook check" {
		t.Fatal(end)
	}
	if end := s.run("write_file", `{"path":"a.txt","content":"fine"}`); end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatal(end)
	}
	if err := os.WriteFile(program+".new", []byte("#!/bin/sh\necho another one >&2; exit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	if end := s.run("write_file", `{"path":"a.txt","content":"fine"}`); !strings.Contains(contentText(end), "another one") {
		t.Error(end)
	}
	os.Remove(program)
	if end := s.run("write_file", `{"path":"a.txt","content":"later"}`); end.GetFailure().GetCode() != "hook_failed" || s.read("a.txt") != "fine" {
		t.Error(end)
	}
}

// TestHookConfiguration: every mistake is found when the configuration is read.
func TestHookConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "ws", "check")
	plain := filepath.Join(dir, "plain")
	for file, mode := range map[string]os.FileMode{inside: 0o755, plain: 0o600} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for text, says := range map[string]string{
		"{on: before_cal, run: ls}": "before_call",
		"{run: ls}":                 "on",
		"{on: before_call}":         "neither run nor url",
		"{on: before_call, run: ls, url: 'https://x'}":                            "a command or an endpoint",
		"{on: before_call, run: ''}":                                              "want a command",
		"{on: before_call, run: [/no/such/program]}":                              "no program /no/such/program",
		"{on: before_call, run: [no_such_program]}":                               "no program no_such_program",
		"{on: before_call, run: [./check]}":                                       "workspace",
		"{on: before_call, run: [" + inside + "]}":                                "where calls can write",
		"{on: before_call, run: [" + plain + "]}":                                 "not executable",
		"{on: before_call, run: ls, tools: ['a[']}":                               "tool pattern",
		"{on: before_call, run: ls, effects: [eats]}":                             "no effect",
		"{on: before_call, run: ls, effects: ['writes a[']}":                      "writes a[",
		"{on: before_call, url: 'ftp://x', secret_file: /etc/hostname}":           "no address",
		"{on: before_call, url: 'https://a:b@x', secret_file: /etc/hostname}":     "name or password",
		"{on: before_call, url: 'https://x'}":                                     "secret_file",
		"{on: before_call, url: 'https://x', secret_file: /no/such/file}":         "no such file",
		"{on: before_call, run: ls, timeout: 2h}":                                 "out of bounds",
		"{on: before_call, run: ls, network: open}":                               "max_network",
		"{on: [before_call, before_call], run: ls}":                               "twice",
		"{on: before_call, run: ls, name: 'a b'}":                                 "no name",
		"{on: before_call, run: ls, name: x}\n  - {on: denied, run: ls, name: x}": "already",
		"{on: before_call, run: ls, rnu: x}":                                      "unknown key",
	} {
		_, err := load(t, allowing(dir, "hooks:\n  - "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "hooks[") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
