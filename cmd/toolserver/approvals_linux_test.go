// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/cli"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestTwoTerminals has a call ask on one terminal and somebody answer on another:
// always, at a tier. The next such call runs unasked, until the grant is revoked.
func TestTwoTerminals(t *testing.T) {
	t.Parallel()
	server := startServer(t, askingRoom(t)...)
	call := func() *terminal {
		return onTerminal(t, 80, "call", "--address", server.address, "--purpose", "to know", "read_file", "path=notes.txt")
	}
	watch := openPane(t, 80, 24, server.address)
	watch.line("toolserver approvals watch; echo code $?")
	watch.until("nothing waits")

	first := call()
	first.expect(t, allowPrompt)
	watch.until(`(?s)1 waiting.*needs approval by rule look.*to know.*{"path":"notes.txt"}.*^y yes`)
	watch.keys("a")
	watch.until("^Always allow")
	watch.keys("2")
	watch.until(`always allowed \(read_file reading notes.txt\) by local`)
	first.expect(t, "always allowed (read_file reading notes.txt) by local")
	if code, shown := first.end(t); code != 0 || !strings.HasSuffix(shown, "1\tthe notes\n") {
		t.Fatalf("exit code %d: %q", code, shown)
	}

	if code, shown := call().end(t); code != 0 || strings.Contains(shown, "approval") {
		t.Fatalf("the second call: exit code %d: %q", code, shown)
	}

	grants, err := server.approvals(t).ListGrants(context.Background(), &pb.ListGrantsRequest{})
	if err != nil || len(grants.GetGrants()) != 1 {
		t.Fatalf("%v, %v, want one grant", grants, err)
	}
	revoke := exec.Command("toolserver", "grants", "revoke", "--address", server.address, grants.GetGrants()[0].GetGrantId())
	if out, err := revoke.CombinedOutput(); err != nil || !strings.Contains(string(out), "revoked") {
		t.Fatalf("%v: %s", err, out)
	}

	third := call()
	third.expect(t, allowPrompt)
	watch.until("(?s)needs approval by rule look.*^y yes")
	watch.keys("c", "not again", "Enter", "n")
	watch.until(`(?s)^  comment  not again.*^y yes`)
	watch.keys("n")
	third.expect(t, "denied by local: not again")
	if code, shown := third.end(t); code != cli.ExitDenied {
		t.Errorf("the third call: exit code %d: %q", code, shown)
	}

	watch.until("nothing waits")
	watch.keys("q")
	watch.until(`^code 0$`)
}

// TestWatchGivesTheTerminalBack leaves the screen in every way there is.
func TestWatchGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for name, test := range map[string]struct {
		leave func(x *terminal)
		code  int
	}{
		"q":      {func(x *terminal) { x.typeIn(t, "q") }, 0},
		"Ctrl-C": {func(x *terminal) { x.typeIn(t, "\x03") }, cli.ExitCancelled},
		"killed": {func(x *terminal) { x.cmd.Process.Signal(syscall.SIGTERM) }, cli.ExitCancelled},
		"hangup": {func(x *terminal) { x.cmd.Process.Signal(syscall.SIGHUP) }, cli.ExitCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := onTerminal(t, 80, "approvals", "watch", "--address", server.address)
			x.expect(t, "nothing waits")
			if raw := x.settings(t); raw.Lflag&(syscall.ICANON|syscall.ECHO) != 0 {
				t.Errorf("keys are not told as they are pressed: %#x", raw.Lflag)
			}
			test.leave(x)
			code, shown := x.end(t)
			if code != test.code || !strings.Contains(shown, leftScreen) {
				t.Errorf("exit code %d, want %d: %q", code, test.code, shown)
			}
			const usual = syscall.ICANON | syscall.ECHO | syscall.ISIG
			if after := x.settings(t); after.Lflag&usual != usual || after.Oflag&syscall.OPOST == 0 {
				t.Errorf("the terminal is not as it was: %#x %#x", after.Lflag, after.Oflag)
			}
		})
	}
	code, shown := onTerminal(t, 80, "approvals", "watch", "--address", "127.0.0.1:1").end(t)
	if code != cli.ExitRefused || !strings.Contains(shown[strings.LastIndex(shown, leftScreen)+1:], "toolserver: the server cannot be reached") {
		t.Errorf("no server: exit code %d: %q", code, shown)
	}
}

func TestWatchFollowsTheSize(t *testing.T) {
	t.Parallel()
	server := startServer(t, askingRoom(t)...)
	p := openPane(t, 80, 24, server.address)
	p.line("toolserver approvals watch")
	p.until("nothing waits")
	cmd, _, _ := startCall(t, "--address", server.address, "read_file", "path=notes.txt")
	p.until("reads notes.txt")
	p.resize(30, 10)
	p.until(`(?s)1 wait….* MORE LINES.*^y yes  a always  n no  d neve…`)
	p.resize(10, 3)
	p.until(`(?s)^ toolserv….*^y yes  a …`)
	p.resize(2, 1)
	p.until(`^y…`)
	p.resize(200, 50)
	p.until(`d never .* quit`)
	p.keys("y")
	p.until("nothing waits")
	if code := wait(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestWatchIsSafe shows what a hostile call says on a real terminal.
func TestWatchIsSafe(t *testing.T) {
	t.Parallel()
	server := startServer(t, askingRoom(t)...)
	x := onTerminal(t, 80, "approvals", "watch", "--address", server.address)
	x.expect(t, "nothing waits")
	startCall(t, "--address", server.address, "--purpose", "\x1b]0;owned\x07 \u202efdp", "read_file", `{"path": "a\u001b[2J\u009b31m\u200b\t\rb"}`)
	x.expect(t, "^[]0;owned^G <U+202E>fdp")
	x.expect(t, "reads a^[[2J<U+009B>31m<U+200B>")
	x.typeIn(t, "q")
	if code, shown := x.end(t); code != 0 || strings.Contains(shown, "\x1b]0") || strings.ContainsAny(shown, "\u202e\u009b\u200b\x07\t") {
		t.Errorf("exit code %d: %q", code, shown)
	}
}

func TestWatchWithoutATerminal(t *testing.T) {
	t.Parallel()
	server := startServer(t, askingRoom(t)...)
	approvals := server.approvals(t)
	watch := func(args ...string) *lines {
		cmd := exec.Command("toolserver", append([]string{"approvals", "watch", "--address", server.address}, args...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return newLines(out)
	}
	startCall(t, "--address", server.address, "read_file", "path=notes.txt")
	a, err := nextApproval(approvals, "read_file")
	if err != nil {
		t.Fatal(err)
	}
	text, json := watch(), watch("--json")
	if line, ok := text.until(" asked "); !ok || !strings.Contains(line, a.GetApprovalId()[:8]+" local/default: read_file reads notes.txt") {
		t.Errorf("asked: %q", line)
	}
	if line, ok := json.until("snapshot"); !ok || !strings.HasPrefix(line, `{"snapshot":{"approvals":[{"approvalId":"`+a.GetApprovalId()) {
		t.Errorf("asked: %q", line)
	}
	request := &pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Digest: a.GetDigest(), Kind: pb.AnswerKind_ANSWER_KIND_DENY_ONCE}
	request.Comment = "no\x1b[2J"
	if _, err := approvals.ResolveApproval(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	if line, ok := text.until(" ended "); !ok || !strings.HasSuffix(line, a.GetApprovalId()[:8]+" denied by local: no^[[2J") {
		t.Errorf("ended: %q", line)
	}
	if line, ok := json.until("ended"); !ok || !strings.Contains(line, "ANSWER_KIND_DENY_ONCE") {
		t.Errorf("ended: %q", line)
	}
}
