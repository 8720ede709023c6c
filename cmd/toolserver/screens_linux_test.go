// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A pane is a shell in tmux, which draws as a terminal does. Its screens are
// compared with those in testdata/screens; UPDATE_GOLDEN=1 writes these.
type pane struct {
	t      *testing.T
	socket string
}

// openPane opens a shell with the prompt "$ ", in which toolserver talks to the
// server at an address.
func openPane(t *testing.T, width, height int, address string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux to draw screens with: 'make terminal' installs it")
	}
	dir, err := os.MkdirTemp("", "pane") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &pane{t, filepath.Join(dir, "s")}
	begin := filepath.Join(dir, "begin") // what a shell reads first
	if err := os.WriteFile(begin, []byte("PS1='$ '\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := exec.Command("tmux", "-u", "-f", "/dev/null", "-S", p.socket, "new-session", "-d", "-s", "pane",
		"-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "sh")
	start.Dir = dir
	start.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ENV="+begin, "TOOLSERVER_ADDRESS="+address, "NO_COLOR=1")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	p.until(`^\$`)
	return p
}

// do runs a command of tmux.
func (p *pane) do(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// keys presses keys, by the names that tmux has for them.
func (p *pane) keys(names ...string) { p.t.Helper(); p.do(append([]string{"send-keys"}, names...)...) }

// line types a line.
func (p *pane) line(text string) {
	p.t.Helper()
	p.do("send-keys", "-l", text)
	p.keys("Enter")
}

// resize changes the size of the terminal.
func (p *pane) resize(width, height int) {
	p.t.Helper()
	p.do("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

// until waits until the screen matches, and returns it.
func (p *pane) until(pattern string) string {
	p.t.Helper()
	wanted := regexp.MustCompile("(?m)" + pattern)
	screen := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if screen = p.do("capture-pane", "-p"); wanted.MatchString(screen) {
			return screen
		}
	}
	p.t.Fatalf("the screen never shows %q:\n%s", pattern, screen)
	return ""
}

var (
	anyDuration = regexp.MustCompile(`( *)\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|s)\b( *)`)
	anyGauge    = regexp.MustCompile(`\[=+ *\]`)
	anyFrame    = regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`)
)

// normalised returns a screen without what differs from run to run: ids, which
// are given, and durations.
func normalised(screen string, ids ...string) string {
	for _, id := range ids {
		screen = strings.ReplaceAll(screen, id, strings.Repeat("x", len(id)))
		for i := range len(id) - 1 { // which a narrow screen breaks somewhere
			before, after := id[:i+1], id[i+1:]
			screen = strings.ReplaceAll(screen, before+"\n"+after, strings.Repeat("x", len(before))+"\n"+strings.Repeat("x", len(after)))
		}
	}
	screen = anyDuration.ReplaceAllStringFunc(screen, func(text string) string {
		// The spaces around one are for its width.
		spaces := anyDuration.FindStringSubmatch(text)
		return spaces[1][:min(len(spaces[1]), 1)] + "TIME" + spaces[2][:min(len(spaces[2]), 1)]
	})
	screen = anyGauge.ReplaceAllString(screen, "[===       ]") // it leaves room for a duration
	screen = anyFrame.ReplaceAllString(screen, "⠋")            // of what moves
	var lines []string
	for line := range strings.Lines(screen) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// is compares the screen, once it matches, with the one that is kept.
func (p *pane) is(name, pattern string, ids ...string) {
	p.t.Helper()
	got := normalised(p.until(pattern), ids...)
	file := filepath.Join("testdata", "screens", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	if got != string(want) {
		p.t.Errorf("the screen is not %s:\n%s\nbut\n%s", file, want, got)
	}
}

// allowing starts a server that lets every command run that is contained, and
// returns the id of its next execution as a function.
func allowing(t *testing.T) (server *running, newest func() string) {
	t.Helper()
	server = startServer(t, "--config", writeFile(t, "c.yaml", "sessions: {mode: allow}\n"))
	client := server.client(t)
	return server, func() string {
		t.Helper()
		list, err := client.ListExecutions(t.Context(), &pb.ListExecutionsRequest{PageSize: 1})
		if err != nil || len(list.GetExecutions()) == 0 {
			t.Fatalf("no execution: %v", err)
		}
		return list.GetExecutions()[0].GetExecutionId()
	}
}

// TestScreensOfAttach runs a shell in a terminal, resizes it, leaves it, comes
// back, and ends it. The terminal is as it was.
func TestScreensOfAttach(t *testing.T) {
	t.Parallel()
	server, newest := allowing(t)
	p := openPane(t, 80, 16, server.address)
	p.line(`stty -g >before; clear; toolserver call bash interactive=true 'command=PS1="in: " exec bash --norc -i'`)
	p.until(`^in:`)
	id := newest()
	p.line("stty size; read -rp 'name? ' name; echo hello $name")
	p.until(`^name\?`)
	p.line("world")
	p.is("attach-1-call", `^hello world\n+in:`, id)

	p.resize(60, 12)
	p.line("until [ \"$(stty size)\" = '12 60' ]; do :; done; echo 12 60; sleep 600")
	p.until(`^12 60`)
	p.keys("C-c")
	p.is("attach-2-resized", `\^C\n+in:`, id)

	p.keys("C-]")
	p.until(`(?s)^detached.*^\$`)
	p.line("stty -g | diff before - && echo as before")
	p.is("attach-3-detached", `^as before\n+\$`, id)

	p.resize(80, 16)
	p.line("clear; toolserver attach --detach-keys ctrl-p,ctrl-q " + id)
	p.until(`(?s)Ctrl-P Ctrl-Q detaches.*\^C\n+in:`)
	p.line("until [ \"$(stty size)\" = '16 80' ]; do :; done; clear; echo 16 80; printf '\\033[?1049h\\033[?25l'; echo another screen; read -r x")
	p.until(`^another screen`)
	p.keys("C-p", "C-q")
	p.until(`(?s)^detached.*^\$`)
	p.line("stty -g | diff before - && echo as before")
	p.is("attach-4-other-screen", `^as before\n+\$`, id)

	p.line("clear; toolserver attach " + id)
	p.until(`^another screen`)
	p.keys("Enter")
	p.line("printf '\\033[?1049l'; clear; exit 3")
	p.until(`(?s)^failed: .*3.*^\$`)
	p.line(`echo code $?; stty -g | diff before - && echo as before`)
	p.is("attach-5-ended", `^as before\n+\$`, id)
}

// TestScreensOfReplay leaves a shell that has asked the terminal something, once
// in two parts, and comes back: the answer is not typed into it.
func TestScreensOfReplay(t *testing.T) {
	t.Parallel()
	server, newest := allowing(t)
	p := openPane(t, 160, 16, server.address)
	p.line(`clear; toolserver call bash interactive=true 'command=PS1="in: " exec bash --norc -i'`)
	p.until(`^in:`)
	p.line(`read -s -t 60 -d R -p $'\e[6n' x; printf '\e['; sleep 0.3; read -s -t 60 -d R -p 6n y; echo as''ked ${#x} ${#y}`)
	p.until(`^asked [1-9] [1-9]\n+in:`)
	p.keys("C-]")
	p.until(`(?s)^detached.*^\$`)
	p.line("clear; toolserver attach " + newest())
	p.until(`(?s)detaches.*^asked \d \d\n+in:`)
	p.line("echo no''thing typed")
	p.until(`^in: echo no''thing typed\nnothing typed$`)
}

// TestScreensOfPlan: a call asks on its own terminal, and offers no answer for ever where there
// is none.
func TestScreensOfPlan(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--config", writeFile(t, "c.yaml", "sessions: {mode: plan}\n"))
	p := openPane(t, 100, 24, server.address)
	p.line("clear; toolserver call exit_plan_mode plan='do it'")
	p.until(`\? \[y\]es, \[n\]o, \[m\]ore >`)
	p.line("y")
	p.until(`The plan was approved`)
}

// TestScreensOfApprovals answers a call on the screen of approvals.
func TestScreensOfApprovals(t *testing.T) {
	t.Parallel()
	server := startServer(t, askingRoom(t)...)
	p := openPane(t, 80, 24, server.address)
	p.line("clear; toolserver approvals watch")
	p.is("approvals-1-empty", `(?s)nothing waits.*q quit`)
	cmd, _, _ := startCall(t, "--address", server.address, "--purpose", "to know what is there", "read_file", "path=notes.txt")
	a, err := nextApproval(server.approvals(t), "read_file")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{a.GetApprovalId(), a.GetApprovalId()[:8], a.GetExecutionId()}
	p.is("approvals-2-asked", `(?s)1 waiting.*notes\.txt.*d never.*q quit`, ids...)
	p.keys("a")
	p.is("approvals-3-always", `Always allow`, ids...)
	p.keys("2")
	p.is("approvals-4-answered", `(?s)nothing waits.*always allowed.*q quit`, ids...)
	if code := wait(t, cmd); code != 0 {
		t.Errorf("the call that was allowed: exit code %d", code)
	}
	p.keys("q")
	p.until(`^\$`)
}

// TestScreensOfACall has a bar on the screen, and interrupts the call.
func TestScreensOfACall(t *testing.T) {
	t.Parallel()
	address, stop, err := serveWorkshop(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p := openPane(t, 80, 10, address)
	p.line("clear; toolserver call works")
	p.is("call-1-bar", `^reading \[=+ *\]`)
	p.keys("C-c")
	p.until(`(?s)^cancelled.*^\$`)
	p.line("echo code $?")
	p.is("call-2-interrupted", `^code 130\n+\$`)

	p = openPane(t, 40, 10, address)
	p.line("clear; toolserver call works")
	p.is("call-3-narrow", `^reading \[=+ *\]`)
}
