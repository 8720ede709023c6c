// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// kit has the tools of one runner, by name, and a session.
type kit struct {
	t     *testing.T
	env   tools.Env
	tools map[string]tools.Tool
}

func newKit(t *testing.T, change ...func(*command.Config)) kit {
	t.Helper()
	k := kit{t: t, env: toolstest.Env(t, nil), tools: make(map[string]tools.Tool)}
	for _, tool := range shell.Tools(running(t, change...)) {
		k.tools[tool.Spec().Name] = tool
	}
	return k
}

func (k kit) call(tool string, input m) (text, code string) {
	k.t.Helper()
	text, code, _ = call(k.t, k.tools[tool], k.env, input)
	return text, code
}

// failure returns the message of a call that fails.
func (k kit) failure(tool string, input m) string {
	k.t.Helper()
	encoded, _ := json.Marshal(input)
	_, _, err := toolstest.Run(k.t, k.tools[tool], k.env, string(encoded))
	f, ok := errors.AsType[*tools.Failure](err)
	if !ok {
		k.t.Fatalf("%s %s: %v, want a failure", tool, encoded, err)
	}
	return f.Message
}

func (k kit) start(command string, more m) {
	k.t.Helper()
	input := m{"command": command, "run_in_background": true}
	for key, value := range more {
		input[key] = value
	}
	if text, code := k.call("bash", input); code != "" || !strings.HasPrefix(text, "Started in the background as p") {
		k.t.Fatalf("%q %s", text, code)
	}
}

// TestBackground follows processes from their start to their end.
func TestBackground(t *testing.T) {
	k := newKit(t)
	k.start("echo ready; while read -r line; do echo got $line; done; echo bye >&2; exit 3", nil) // p1
	k.start("trap 'echo caught; exit 7' INT; echo set; while :; do sleep 0.01; done", nil)        // p2
	k.start("trap '' TERM; setsid sleep 300 & echo deaf; while :; do sleep 0.01; done", nil)      // p3
	k.start("stty -echo; tty >/dev/null && stty size && read -r x && echo read $x", m{"interactive": true, "rows": 30, "columns": 90})
	k.start("sleep 300", m{"timeout_ms": 20})                     // p5
	k.start("exec 0<&-; echo closed; sleep 300", nil)             // p6
	k.start("echo -n 'a prompt> '; sleep 300", nil)               // p7
	k.start("sleep 300", m{"quiet_timeout_ms": 20})               // p8
	k.start("cd sub && touch here", m{"workdir": "."})            // p9
	k.start(strings.Repeat("#", 200_000)+"\necho long text", nil) // p10

	for _, test := range []struct {
		tool       string
		input      m
		want, code string
	}{
		{"process_output", m{"id": "p1", "until": "^rea.y$"}, "ready\n[p1 is running. Next offset: 6.]", ""},
		{"process_output", m{"id": "p1"}, "[p1 is running. Next offset: 6.]", ""},
		{"process_output", m{"id": "p1", "until": "never", "wait_ms": 20}, "[p1 is running. Next offset: 6. What was waited for is not written yet.]", ""},
		{"process_input", m{"id": "p1", "text": "one\n"}, "Written. p1 has taken 4 bytes of input in all.", ""},
		{"process_input", m{"id": "p1", "text": "one\n", "offset": 0}, "Written. p1 has taken 4 bytes of input in all.", ""},
		{"process_input", m{"id": "p1", "text": "e\ntwo\n", "offset": 2}, "Written. p1 has taken 8 bytes of input in all.", ""},
		{"process_input", m{"id": "p1", "text": "x", "offset": 9}, "", "input_gap"},
		{"process_output", m{"id": "p1", "until": "two"}, "got one\ngot two\n[p1 is running. Next offset: 22.]", ""},
		{"process_output", m{"id": "p1", "offset": 2, "max_bytes": 4}, "ady\n[p1 is running. Next offset: 6. There are 16 bytes more: go on with process_output {\"id\":\"p1\",\"offset\":6,\"max_bytes\":4}.]", ""},
		{"process_output", m{"id": "p1", "offset": -4}, "two\n[p1 is running. Next offset: 22.]", ""},
		{"process_output", m{"id": "p1", "offset": 999}, "[p1 is running. Next offset: 22.]", ""},
		{"process_input", m{"id": "p1", "end": true}, "Written. p1 has taken 8 bytes of input in all.", ""},
		{"process_output", m{"id": "p1", "until_end": true}, "bye\n[p1 ended with exit status 3. Next offset: 26.]", ""},
		{"process_output", m{"id": "p1", "until": "never", "offset": 22}, "bye\n[p1 ended with exit status 3. Next offset: 26. What was waited for was not written.]", ""},
		{"process_input", m{"id": "p1", "text": "late"}, "", "process_ended"},
		{"process_input", m{"id": "p1", "text": "two\n", "offset": 4}, "Written. p1 has taken 8 bytes of input in all.", ""},
		{"process_signal", m{"id": "p1"}, "", "process_ended"},

		{"process_output", m{"id": "p2", "until": "set"}, "set\n[p2 is running. Next offset: 4.]", ""},
		{"process_signal", m{"id": "p2", "signal": "INT", "kill_after_ms": 60000}, "Signal INT was sent. p2 ended with exit status 7.", ""},
		{"process_output", m{"id": "p2"}, "caught\n[p2 ended with exit status 7. Next offset: 11.]", ""},

		{"process_output", m{"id": "p3", "until": "deaf"}, "deaf\n[p3 is running. Next offset: 5.]", ""},
		{"process_signal", m{"id": "p3", "kill_after_ms": 20}, "Signal TERM was sent. p3 was killed, with everything it had started.", ""},

		{"process_output", m{"id": "p4", "until": "30 90"}, "30 90\n[p4 is running. Next offset: 7.]", ""},
		{"process_input", m{"id": "p4", "text": "typed\n"}, "Written. p4 has taken 6 bytes of input in all.", ""},
		{"process_output", m{"id": "p4", "until_end": true}, "read typed\n[p4 ended with exit status 0. Next offset: 19.]", ""},

		{"process_output", m{"id": "p5", "until_end": true}, "[p5 was ended: its time was over. Next offset: 0.]", ""},
		{"process_output", m{"id": "p6", "until": "closed"}, "closed\n[p6 is running. Next offset: 7.]", ""},
		{"process_input", m{"id": "p6", "text": "x"}, "", "input_closed"},
		{"process_input", m{"id": "p6", "text": "x"}, "", "input_closed"},
		{"process_signal", m{"id": "p6", "signal": "KILL"}, "Signal KILL was sent. p6 was killed, with everything it had started.", ""},
		{"process_output", m{"id": "p7", "until": "> $"}, "a prompt> \n[p7 is running. Next offset: 10.]", ""},
		{"process_output", m{"id": "p8", "until_end": true}, "[p8 was ended: it had written nothing for 20ms. Next offset: 0.]", ""},
		{"process_output", m{"id": "p9", "until_end": true}, "bash: line 1: cd: sub: No such file or directory\n[p9 ended with exit status 1. Next offset: 49.]", ""},
		{"process_output", m{"id": "p10", "until_end": true}, "long text\n[p10 ended with exit status 0. Next offset: 10.]", ""},
		{"process_output", m{"id": "p99"}, "", "no_such_process"},
	} {
		if got, code := k.call(test.tool, test.input); got != test.want || code != test.code {
			t.Errorf("%s %v\ngot  %q %s\nwant %q %s", test.tool, test.input, got, code, test.want, test.code)
		}
	}
	if got := k.failure("process_signal", m{"id": "7"}); !strings.Contains(got, "There are: p1, p2,") {
		t.Errorf("an id that is not: %s", got)
	}
	if got, _ := k.call("process_list", m{"running_only": true}); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "p7 is running") {
		t.Errorf("those that run: %q", got)
	}
	if got, _ := k.call("process_list", m{}); strings.Count(got, "\n") != 10 || !strings.Contains(got, "p2 ended with exit status 7") {
		t.Errorf("all: %q", got)
	}
}

// TestBackgroundOfOthers proves that a session reaches no process of another.
// TestBackgroundAfter runs commands that are waited for, for a while.
func TestBackgroundAfter(t *testing.T) {
	k := newKit(t)
	if text, code := k.call("bash", m{"command": "echo out; cat; exit 3", "background_after_ms": 60_000}); text != "out\n" || code != "exit_status" {
		t.Errorf("one that ends in time: %q %s", text, code)
	}
	if text, code := k.call("bash", m{"command": "sleep 300", "background_after_ms": 60_000, "timeout_ms": 20}); code != tools.TimedOutCode {
		t.Errorf("one that has less time: %q %s", text, code)
	}
	if text, _ := k.call("process_list", m{}); strings.Contains(text, "p1") || strings.Contains(text, "p2") {
		t.Errorf("what has ended is listed: %s", text)
	}
	text, code := k.call("bash", m{"command": "read -r x; echo got $x; exit 4", "background_after_ms": 1, "interactive": true})
	if !strings.HasSuffix(text, "[It goes on in the background as p3. Read what it writes with process_output.]") || code != "" {
		t.Fatalf("one that goes on: %q %s", text, code)
	}
	if text, code := k.call("process_input", m{"id": "p3", "text": "this\n", "wait_ms": 60_000}); !strings.Contains(text, "got this\n[p3 ended with exit status 4.") || code != "" {
		t.Errorf("input, and what comes of it: %q %s", text, code)
	}
	if text, code := k.call("bash", m{"command": "sleep 300", "background_after_ms": 1}); code != "" {
		t.Errorf("one without input: %q %s", text, code)
	}
	if got := k.failure("process_input", m{"id": "p4", "text": "x"}); !strings.Contains(got, "p4 takes no input") {
		t.Error(got)
	}
	if text, code := k.call("process_signal", m{"id": "p4", "signal": "KILL"}); !strings.Contains(text, "p4 was killed") || code != "" {
		t.Errorf("%q %s", text, code)
	}
}

func TestBackgroundOfOthers(t *testing.T) {
	k := newKit(t)
	k.start("sleep 300", nil)
	other := kit{t: t, env: toolstest.Env(t, nil), tools: k.tools}
	for tool, input := range map[string]m{
		"process_output": {"id": "p1"}, "process_input": {"id": "p1", "text": "x"}, "process_signal": {"id": "p1", "signal": "KILL"},
	} {
		if got := other.failure(tool, input); !strings.Contains(got, "There is none in this session") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got, _ := other.call("process_list", m{}); got != "There is no background process." {
		t.Errorf("list: %q", got)
	}
	if got, _ := k.call("process_list", m{}); !strings.HasPrefix(got, "p1 is running") {
		t.Errorf("list: %q", got)
	}
}

// TestBackgroundEnds proves that processes end with their session.
func TestBackgroundEnds(t *testing.T) {
	k := newKit(t)
	k.start("trap '' TERM INT HUP; (sleep 300; true) & setsid sleep 300 & echo started; sleep 300; true", nil)
	k.call("process_output", m{"id": "p1", "until": "started"})
	if len(working(t, k.env)) == 0 {
		t.Fatal("nothing runs")
	}
	k.env.Session.(*toolstest.Session).Close()
	noneLeft(t, k.env)
}

// TestIdleEnds: what only waits for input is gone at once when its session ends, also
// interactive shells, which do not mind SIGTERM: nobody waits for the grace, which would
// take longer than this test may.
func TestIdleEnds(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Grace = time.Hour })
	k.call("repl", m{"language": "bash", "code": "true"})
	k.start("echo started; bash -i", nil)
	k.call("process_output", m{"id": "p1", "until": "started"})
	k.start("cat", nil)
	ended := make(chan struct{})
	go func() {
		k.env.Session.(*toolstest.Session).Close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the session does not end")
	}
	noneLeft(t, k.env)
}

// TestBackgroundOutput has a process write more than is kept, with nobody
// reading.
func TestBackgroundOutput(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Limits.Output = 1 << 20 })
	k.start("seq 1000000; echo end", nil) // 6,888,896 bytes
	text, _ := k.call("process_output", m{"id": "p1", "until_end": true, "max_bytes": 100})
	if want := "5840324 bytes before offset 5840324 are no longer kept.]"; !strings.Contains(text, want) {
		t.Errorf("%q lacks %q", text, want)
	}
	if text, _ := k.call("process_output", m{"id": "p1", "offset": -12}); text != "1000000\nend\n[p1 ended with exit status 0. Next offset: 6888900.]" {
		t.Errorf("the end is %q", text)
	}
	// All of it, piece by piece.
	var whole strings.Builder
	for i, next := 0, int64(5_840_324); next < 6_888_900; i++ {
		encoded, _ := json.Marshal(m{"id": "p1", "offset": next})
		result, _, err := toolstest.Run(t, k.tools["process_output"], k.env, string(encoded))
		var d struct {
			Offset     int64 `json:"offset"`
			NextOffset int64 `json:"next_offset"`
		}
		if err != nil || json.Unmarshal(result.Details, &d) != nil || d.Offset != next || i > 100 {
			t.Fatalf("%d: %+v %v", next, d, err)
		}
		text, _, _ := strings.Cut(toolstest.Text(result), "[p1 ended")
		whole.WriteString(text)
		next = d.NextOffset
	}
	if got := whole.Len(); got != 1<<20 {
		t.Errorf("%d bytes were read, want %d", got, 1<<20)
	}
}

// TestBackgroundLimits has more processes than a session may have, and more that
// ended than it remembers.
func TestBackgroundLimits(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Limits.PerSession = 2 })
	k.start("sleep 300", nil)
	k.start("sleep 300", nil)
	for _, input := range []m{{"command": "true"}, {"command": "true", "run_in_background": true}} {
		if _, code := k.call("bash", input); code != "too_many_commands" {
			t.Errorf("%v: %q", input, code)
		}
	}
	k.call("process_signal", m{"id": "p1", "signal": "KILL"})
	for i := range 35 {
		k.start("true", nil)
		k.call("process_output", m{"id": fmt.Sprintf("p%d", i+3), "until_end": true})
	}
	k.start("sleep 300", nil)
	text, _ := k.call("process_list", m{})
	if lines := strings.Count(text, "\n"); lines > 35 || !strings.Contains(text, "p2 is running") || !strings.Contains(text, "p37 ended") || strings.Contains(text, "p1 ") {
		t.Errorf("%d lines: %s", lines, text)
	}
}

// TestBackgroundReadOnly proves that a process that was judged to read only
// cannot write.
func TestBackgroundReadOnly(t *testing.T) {
	k := newKit(t)
	k.start("cat", nil)
	if _, code := k.call("process_input", m{"id": "p1", "text": "echoed\n", "end": true}); code != "" {
		t.Fatal(code)
	}
	if text, _ := k.call("process_output", m{"id": "p1", "until_end": true}); !strings.HasPrefix(text, "echoed\n[p1 ended with exit status 0.") {
		t.Errorf("%q", text)
	}
	// A program of the workspace takes the place of one that reads.
	dir := k.env.Workspace.Dir()
	if err := os.WriteFile(filepath.Join(dir, "cat"), []byte("#!/bin/sh\necho new >f\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	changed := newKit(t, func(c *command.Config) { c.Path = []string{dir, "/usr/bin", "/bin"} })
	changed.env = toolstest.Env(t, nil)
	changed.env.Workspace = k.env.Workspace
	changed.start("cat", nil)
	if text, _ := changed.call("process_output", m{"id": "p1", "until_end": true}); !strings.Contains(text, "denied") {
		t.Errorf("%q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("f: %v", err)
	}
}

// TestProcessBadInput has inputs that no call comes of.
func TestProcessBadInput(t *testing.T) {
	k := newKit(t)
	for _, test := range []struct{ tool, input, want string }{
		{"bash", `{"command":"x","run_in_background":true,"keep_workdir":true}`, "keep_workdir"},
		{"process_output", `{}`, "id"},
		{"process_output", `{"id":"p1","until":"("}`, "regular expression"},
		{"process_output", `{"id":"p1","until":"(?=x)"}`, "regular expression"},
		{"process_output", `{"id":"p1","until":"x","until_end":true}`, "until_end"},
		{"process_output", `{"id":"p1","wait_ms":0}`, "wait_ms"},
		{"process_input", `{"id":"p1"}`, "text"},
		{"process_input", `{"id":"p1","text":"x","offset":-1}`, "offset"},
		{"process_signal", `{"id":"p1","signal":"SEGV"}`, "signal"},
	} {
		_, err := k.tools[test.tool].Decode(&k.env, json.RawMessage(test.input))
		if _, ok := errors.AsType[*tools.InputError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v; want an input error about %s", test.tool, test.input, err, test.want)
		}
	}
}

// TestProcessStops has calls that wait end with their context, and the process
// go on.
func TestProcessStops(t *testing.T) {
	k := newKit(t)
	k.start("sleep 300", nil)
	toolstest.StopsSoon(t, k.tools["process_output"], `{"id":"p1","until_end":true}`, k.env)
	toolstest.StopsSoon(t, k.tools["process_input"], `{"id":"p1","text":"`+strings.Repeat("x", 100_000)+`"}`, k.env)
	if text, _ := k.call("process_list", m{}); !strings.HasPrefix(text, "p1 is running") {
		t.Errorf("%q", text)
	}
}

// TestReplGone has an interpreter end between two calls: the second says so.
func TestReplGone(t *testing.T) {
	k := newKit(t)
	if text, code := k.call("repl", m{"language": "bash", "code": "x=1; (until [ -e go ]; do sleep 0.01; done; kill -9 $$) &"}); code != "" {
		t.Fatalf("%q %s", text, code)
	}
	if err := os.WriteFile(filepath.Join(k.env.Workspace.Dir(), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for {
		switch text, code := k.call("repl", m{"language": "bash", "code": "echo [$x]"}); {
		case code == "interpreter_ended": // within the call
			return
		case text == "[1]\n": // it is still there
		case text != "[]\n(This is a new interpreter, and what was defined before is lost: the last one was ended by signal KILL.)":
			t.Fatalf("%q %s", text, code)
		default:
			return
		}
	}
}
