// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolserver/toolserver/internal/cli"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// askingRoom makes a workspace and a policy that asks before anything is read.
func askingRoom(t *testing.T) (flags []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ask.yaml":  "version: 1\nrules:\n  - {name: look, action: ask, tools: [read_file], reads: ['**']}\n",
		"notes.txt": "the notes\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--workspace", dir, "--policy", filepath.Join(dir, "ask.yaml")}
}

// approvals returns a client of the server's approvals.
func (s *running) approvals(t *testing.T) pb.ApprovalServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewApprovalServiceClient(conn)
}

const allowPrompt = "[m]ore > "

func TestInlineAsk(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []string // what is typed at each prompt, and what then is shown
		code  int
		ends  string
	}{
		"yes":           {[]string{"y\n", "allowed by local\n"}, 0, "1\tthe notes\n"},
		"yes, in words": {[]string{"Yes go on\n", "allowed by local: go on\n"}, 0, "1\tthe notes\n"},
		"always": {[]string{"a\n", "\x1b[mread_file reading notes.txt\n", "", "(1 to 2; nothing goes back) > ", "2\n",
			"always allowed (read_file reading notes.txt) by local\n"}, 0, "1\tthe notes\n"},
		"always, at once": {[]string{"a 1\n", "always allowed (this exact call) by local\n"}, 0, "1\tthe notes\n"},
		"no":              {[]string{"n\n", "denied by local\n"}, cli.ExitDenied, ""},
		"no, and why":     {[]string{"n look elsewhere\n", "denied by local: look elsewhere\n"}, cli.ExitDenied, ""},
		"never":           {[]string{"d\n", "nothing goes back) > ", "1\n", "always denied (this exact call) by local\n"}, cli.ExitDenied, ""},
		"more, help, back": {[]string{"m\n", "\x1b[mread_file reading notes.txt\n", "", allowPrompt, "what?\n", "this once", "", allowPrompt,
			"a\n", "goes back) > ", "9\n", `"9" is not offered`, "", allowPrompt, "a\n", "goes back) > ", "\n", allowPrompt, "y\n", "allowed"}, 0, "1\tthe notes\n"},
		"nobody is there any more": {[]string{"\x04", "denied by local\n"}, cli.ExitDenied, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := onTerminal(t, 100, append([]string{"call", "read_file", "path=notes.txt", "--purpose", "to know"}, askingRoom(t)...)...)
			x.expect(t, "read_file\x1b[m needs approval by rule look")
			x.expect(t, "to know")
			x.expect(t, "reads notes.txt")
			x.expect(t, `{"path":"notes.txt"}`)
			x.expect(t, allowPrompt)
			for i := 0; i < len(test.steps); i += 2 {
				x.typeIn(t, test.steps[i])
				x.expect(t, strings.ReplaceAll(test.steps[i+1], "\n", "\r\n"))
			}
			code, shown := x.end(t)
			if code != test.code || !strings.HasSuffix(shown, test.ends) {
				t.Errorf("exit code %d, want %d: %q", code, test.code, shown)
			}
		})
	}
}

func TestInlineQuestions(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, 80, "call", "ask_user", `{"questions": [
		{"question": "Which\u001b[2J one?", "options": [{"label": "SQLite"}, {"label": "PostgreSQL"}], "options_only": true},
		{"question": "What name?"}]}`)
	x.expect(t, "Which^[[2J one?")
	x.expect(t, "PostgreSQL")
	x.expect(t, "Answer 1 of 2 > ")
	x.typeIn(t, "maybe\n")
	x.expect(t, `"maybe" is no answer`)
	x.expect(t, "Answer 1 of 2 > ")
	x.typeIn(t, "2\n")
	x.expect(t, "Answer 2 of 2 > ")
	x.typeIn(t, "call it ts\n")
	code, shown := x.end(t)
	if code != 0 || !strings.Contains(shown, "Chosen: PostgreSQL\n") || !strings.HasSuffix(shown, "Answer: call it ts\n") || strings.Contains(shown, "\x1b[2J") {
		t.Errorf("exit code %d: %q", code, shown)
	}
}

// TestInlineAskAnsweredElsewhere has somebody else answer while the terminal
// asks: the call goes on, and nobody has to press Enter.
func TestInlineAskAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	server := startServer(t, askingRoom(t)...)
	approvals := server.approvals(t)
	x := onTerminal(t, 80, "call", "--address", server.address, "read_file", "path=notes.txt")
	x.expect(t, allowPrompt)
	a, err := nextApproval(approvals, "read_file")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := approvals.ResolveApproval(context.Background(), &pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Digest: a.GetDigest(), Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE}); err != nil {
		t.Fatal(err)
	}
	x.expect(t, "allowed by local\r\n")
	if code, shown := x.end(t); code != 0 || !strings.HasSuffix(shown, "\n1\tthe notes\n") {
		t.Errorf("exit code %d: %q", code, shown)
	}
}

// TestTypedBefore proves that what was typed before a question was shown does
// not answer it.
func TestTypedBefore(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, 80, append([]string{"call", "read_file", "path=notes.txt"}, askingRoom(t)...)...)
	x.typeIn(t, "y\ny\n")
	x.expect(t, allowPrompt)
	x.typeIn(t, "n\n")
	if code, shown := x.end(t); code != cli.ExitDenied {
		t.Errorf("exit code %d: %q", code, shown)
	}
}

// TestSelfApproval has a caller approve its own call where that is not
// permitted: it is told so, and the call waits for somebody else.
func TestSelfApproval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ask.yaml": "version: 1\nrules:\n  - {name: pause, action: ask, tools: [sleep]}\n",
		"server.yaml": "sessions: {workspace_root: " + dir + "/root}\nauthentication:\n  tokens:\n" +
			"    - {principal: ann, token: 0123456789abcdef-ann}\n    - {principal: bob, approver: true, token: 0123456789abcdef-bob}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := startServer(t, "--config", filepath.Join(dir, "server.yaml"), "--policy", filepath.Join(dir, "ask.yaml"))
	cmd, stdout, stderr := startCall(t, "--address", server.address, "--token", "0123456789abcdef-ann", "--approve", "yes", "sleep", "duration_ms=0")
	line, ok := stderr.until("waits for approval ")
	if advice, _ := stderr.until("cannot approve its own calls"); !ok || !strings.Contains(advice, "'toolserver approvals watch --address ") {
		t.Fatalf("it does not say that it waits, and where it can be answered: %s", stderr)
	}
	id := strings.TrimSuffix(strings.Fields(line)[3], ":")
	allow := exec.Command("toolserver", "approvals", "allow", id, "--address", server.address, "--token", "0123456789abcdef-bob")
	if out, err := allow.CombinedOutput(); err != nil || !strings.Contains(string(out), "allowed by bob") {
		t.Fatalf("%v: %s", err, out)
	}
	stdout.rest()
	stderr.rest()
	if code := wait(t, cmd); code != 0 || !strings.Contains(stderr.String(), "allowed by bob") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestInterruptWhileAsked(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, 80, append([]string{"call", "read_file", "path=notes.txt"}, askingRoom(t)...)...)
	x.expect(t, allowPrompt)
	x.typeIn(t, "\x03")
	if code, shown := x.end(t); code != cli.ExitCancelled || !strings.Contains(shown, "withdrawn") {
		t.Errorf("exit code %d: %q", code, shown)
	}
}

func TestInlineAskOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []uint16{1, 10, 20} {
		x := onTerminal(t, width, append([]string{"call", "read_file", "path=notes.txt"}, askingRoom(t)...)...)
		x.expect(t, "> ")
		x.typeIn(t, "y\n")
		if code, shown := x.end(t); code != 0 {
			t.Errorf("%d columns: exit code %d: %q", width, code, shown)
		}
	}
}
