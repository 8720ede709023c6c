// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/cli"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// What a terminal gets back: the screen of before, and all that programs turn on.
const (
	leftScreen    = "\x1b[?1049l"
	usualTerminal = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l"
)

// usualFlags are those of a terminal that a shell has.
const usualFlags = syscall.ICANON | syscall.ECHO | syscall.ISIG

// TestAttachGivesTheTerminalBack leaves a terminal in every way there is.
func TestAttachGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	server, _ := allowing(t)
	const waits = `{"command": "stty -echo; printf '\\033[?1049hready'; read -r x; exit 4", "interactive": true}`
	for name, test := range map[string]struct {
		leave func(x *terminal)
		call  int // what call exits with
		watch int // what attach exits with
		shows string
	}{
		"keys":    {func(x *terminal) { x.typeIn(t, "a\x1d") }, 0, 0, "detached: it goes on"},
		"killed":  {func(x *terminal) { x.cmd.Process.Signal(syscall.SIGTERM) }, cli.ExitCancelled, cli.ExitCancelled, ""},
		"hangup":  {func(x *terminal) { x.cmd.Process.Signal(syscall.SIGHUP) }, cli.ExitCancelled, cli.ExitCancelled, ""},
		"quit":    {func(x *terminal) { x.cmd.Process.Signal(syscall.SIGQUIT) }, cli.ExitCancelled, cli.ExitCancelled, ""},
		"the end": {func(x *terminal) { x.typeIn(t, "\r") }, cli.ExitFailed, cli.ExitFailed, "exit status 4"},
	} {
		check := func(t *testing.T, x *terminal, want int) {
			x.until(t, "ready")
			if raw := x.settings(t); raw.Lflag&usualFlags != 0 || raw.Oflag&syscall.OPOST != 0 {
				t.Errorf("the program does not have the terminal: %#x %#x", raw.Lflag, raw.Oflag)
			}
			test.leave(x)
			code, shown := x.end(t)
			if code != want || !strings.Contains(shown, leftScreen+usualTerminal) || !strings.Contains(shown, test.shows) {
				t.Errorf("exit code %d, want %d: %q", code, want, shown)
			}
			if after := x.settings(t); after.Lflag&usualFlags != usualFlags || after.Oflag&syscall.OPOST == 0 {
				t.Errorf("the terminal is not as it was: %#x %#x", after.Lflag, after.Oflag)
			}
		}
		t.Run("call "+name, func(t *testing.T) {
			t.Parallel()
			check(t, onTerminal(t, 80, "call", "--address", server.address, "bash", waits), test.call)
		})
		t.Run("attach "+name, func(t *testing.T) {
			t.Parallel()
			stream, err := server.client(t).ExecuteTool(t.Context(), &pb.ExecuteToolRequest{
				Tool: "bash", InputJson: []byte(waits), OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_DETACH,
			})
			if err != nil {
				t.Fatal(err)
			}
			first, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			check(t, onTerminal(t, 80, "attach", "--address", server.address, first.GetEvent().GetExecutionId()), test.watch)
		})
	}
}

// TestDetachedGoesOn leaves a call and comes back by its call id; one in this
// process ends.
func TestDetachedGoesOn(t *testing.T) {
	t.Parallel()
	server, _ := allowing(t)
	x := onTerminal(t, 80, "call", "--address", server.address, "--call-id", "mine", "bash", "interactive=true", "command=read -r x; echo got $x; read -r y")
	x.until(t, "Ctrl-] detaches")
	x.typeIn(t, "one\r")
	x.until(t, "got one")
	x.typeIn(t, "\x1d")
	if code, shown := x.end(t); code != 0 || !strings.Contains(shown, "toolserver attach ") {
		t.Fatalf("exit code %d: %q", code, shown)
	}
	x = onTerminal(t, 80, "attach", "--address", server.address, "--call-id", "mine")
	x.until(t, "got one")
	x.typeIn(t, "\r")
	if code, shown := x.end(t); code != 0 {
		t.Errorf("exit code %d: %q", code, shown)
	}
	code, shown := onTerminal(t, 80, "attach", "--address", server.address, "--call-id", "mine").end(t)
	if code != cli.ExitRefused || !strings.Contains(shown, "has ended: 'toolserver watch") {
		t.Errorf("one that ended: exit code %d: %q", code, shown)
	}
}

func TestAttachWithoutTerminal(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	execute(t, server.client(t), "sleep", `{"duration_ms": 600000}`)
	list, err := server.client(t).ListExecutions(t.Context(), &pb.ListExecutionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	id := list.GetExecutions()[0].GetExecutionId()
	code, shown := onTerminal(t, 80, "attach", "--address", server.address, id).end(t)
	if code != cli.ExitRefused || !strings.Contains(shown, "has no terminal to attach to") || !strings.Contains(shown, "toolserver watch "+id) {
		t.Errorf("exit code %d: %q", code, shown)
	}
}
