// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// runners returns runners with a real sandbox.
func runners(t *testing.T, change ...func(*command.Config)) *command.Runners {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	config := command.Config{Sandbox: s, View: sandbox.View{Read: sandbox.SystemPaths()}, Network: tools.NetworkLoopback, Grace: 2 * time.Second}
	for _, f := range change {
		f(&config)
	}
	return command.New(config)
}

// running returns runners, and what lives between calls.
func running(t *testing.T, change ...func(*command.Config)) (*command.Runners, *companion.Set) {
	t.Helper()
	r := runners(t, change...)
	return r, companion.New(r, companion.Config{})
}

func TestContract(t *testing.T) {
	for _, tool := range shell.Tools(running(t)) {
		t.Run(tool.Spec().Name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

// call runs a call and returns what the model reads and the code of the failure.
func call(t *testing.T, tool tools.Tool, env tools.Env, input any) (text, code string, exit *tools.Exit) {
	t.Helper()
	encoded, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := toolstest.Run(t, tool, env, string(encoded))
	if f, ok := errors.AsType[*tools.Failure](err); ok {
		code = f.Code
	} else if err != nil {
		t.Fatalf("%s: %v", encoded, err)
	}
	return toolstest.Text(result), code, result.Exit
}

type m = map[string]any

func TestBash(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"sub/b.txt": "hello\n"})
	ws := env.Workspace.Dir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	tool := shell.Bash(running(t, func(c *command.Config) { c.Env = []string{"OPERATOR=says", "LANG=C"} }))
	t.Setenv("TOOLSERVER_TEST_SECRET", "must not be seen")

	const nothing = "(The command wrote nothing.)"
	for _, test := range []struct {
		input      m
		want, code string
	}{
		{m{"command": "cat sub/b.txt"}, "hello\n", ""},
		{m{"command": "echo err >&2; exit 3"}, "err\n", "exit_status"},
		{m{"command": "true"}, nothing, ""},
		{m{"command": "pwd", "workdir": "sub"}, ws + "/sub\n", ""},
		{m{"command": "pwd", "workdir": ".."}, "", "outside_workspace"},
		{m{"command": "pwd", "workdir": "nowhere"}, "", "no_such_directory"},
		{m{"command": "pwd", "workdir": "sub/b.txt"}, "", "no_such_directory"},
		{m{"command": "cd sub; true", "keep_workdir": true}, nothing, ""},
		{m{"command": "pwd"}, ws + "/sub\n", ""},
		{m{"command": "cd /; true", "keep_workdir": true}, nothing + "(Later calls begin in " + ws + "/sub as before: /, where this one ended, is outside of the workspace.)", ""},
		{m{"command": "pwd; cd ..", "keep_workdir": true}, ws + "/sub\n", ""},
		{m{"command": "pwd"}, ws + "\n", ""},
		{m{"command": "echo $A-$OPERATOR-$LANG-$TOOLSERVER_TEST_SECRET", "env": m{"A": "b c"}}, "b c-says-C-\n", ""},
		{m{"command": "cat"}, nothing, ""},
		{m{"command": "nosuchprogram"}, "bash: line 1: nosuchprogram: command not found\n", "exit_status"},
		{m{"command": "echo 'unterminated", "env": m{"A": "b"}}, // not in a shell that was ready, which says eval
			"bash: -c: line 1: unexpected EOF while looking for matching `''\n", "exit_status"},
		{m{"command": "kill -TERM $$"}, "", "signal"},
		{m{"command": "cat " + outside + " 2>/dev/null || echo closed"}, "closed\n", ""},
		{m{"command": "printf 'a\\x1b[31mred\\x1b[0m\\xff\\n10%%\\r20%%\\n'"}, "ared\uFFFD\n20%\n", ""},
		{m{"command": "tty >/dev/null && stty size", "interactive": true, "rows": 40, "columns": 100}, "40 100\n", ""},
		{m{"command": "grep unicorn sub/b.txt"}, "(Exit status 1: nothing was found.)", ""},
		{m{"command": "cd no 2>/dev/null && grep hello sub/b.txt"}, "", "exit_status"},
		{m{"command": "cd no && grep hello sub/b.txt", "interactive": true}, "bash: line 1: cd: no: No such file or directory\n", "exit_status"},
		{m{"command": "sleep 300 & a=$!; setsid sleep 300 & until [ $(cat /proc/$a/comm)$(cat /proc/$!/comm) = sleepsleep ]; do :; done; echo started"}, "started\n(Still running when the command ended, and ended with it: 2 times sleep 300. To keep something running, call again with run_in_background.)", ""},
		{m{"command": "mkfifo $TMPDIR/a; { : <$TMPDIR/a; } & { : <$TMPDIR/a; } & echo started"}, "started\n(Still running when the command ended, and ended with it: 2 times bash (a part of the command). To keep something running, call again with run_in_background.)", ""},
		{m{"command": "mkfifo $TMPDIR/b; { : <$TMPDIR/b; } & { : <$TMPDIR/b; } & echo started", "env": m{"A": "b"}}, "started\n(Still running when the command ended, and ended with it: 2 times bash (a part of the command). To keep something running, call again with run_in_background.)", ""},
		{m{"command": "sleep 300", "quiet_timeout_ms": 50}, "", "quiet"},
		{m{"command": strings.Repeat("#", 300_000) + "\necho long"}, "long\n", ""},
		{m{"command": "git init -q . && echo x >f && git add . && git commit -qm one && git log --format=%an:%s"}, "agent:one\n", ""},
	} {
		got, code, _ := call(t, tool, env, test.input)
		if got != test.want || code != test.code {
			t.Errorf("%.200v\ngot  %q %s\nwant %q %s", test.input, got, code, test.want, test.code)
		}
	}
}

// TestBashKeptDirectoryGone has calls begin where there is nothing any more: they
// say why, and how to go on.
func TestBashKeptDirectoryGone(t *testing.T) {
	k := newKit(t)
	for _, command := range []string{"mkdir build && cd build", "rmdir ../build"} {
		if _, code := k.call("bash", m{"command": command, "keep_workdir": true}); code != "" {
			t.Fatal(code)
		}
	}
	for _, background := range []bool{false, true} {
		if text := k.failure("bash", m{"command": "pwd", "run_in_background": background}); !strings.Contains(text, "build, where keep_workdir left off, is no directory any more") {
			t.Error(text)
		}
	}
	if _, code := k.call("bash", m{"command": "true", "workdir": ".", "keep_workdir": true}); code != "" {
		t.Error(code)
	}
	if text, code := k.call("bash", m{"command": "pwd"}); text != k.env.Workspace.Dir()+"\n" {
		t.Errorf("%q %s", text, code)
	}
}

// TestBashBadInput has inputs that no command comes of.
func TestBashBadInput(t *testing.T) {
	env := toolstest.Env(t, nil)
	tool := shell.Bash(running(t))
	for input, want := range map[string]string{
		`{}`:                                    "command",
		`{"command":""}`:                        "command",
		`{"command":" \n\t"}`:                   "blank",
		`{"command":"a\u0000b"}`:                "NUL",
		`{"command":"x","timeout_ms":0}`:        "timeout_ms",
		`{"command":"x","timeout_ms":99999999}`: "timeout_ms",
		`{"command":"x","env":{"1A":"b"}}`:      "no name of a variable",
		`{"command":"x","env":{"A":"b\u0000"}}`: "NUL",
		`{"command":"x","rows":0}`:              "rows",
	} {
		_, err := tool.Decode(&env, json.RawMessage(input))
		if _, ok := errors.AsType[*tools.InputError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an input error about %s", input, err, want)
		}
	}
}

// TestBashReadOnly proves that a command that was judged to read only cannot
// write, whatever it does.
func TestBashReadOnly(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": "old"})
	tool := shell.Bash(running(t))
	input := m{"command": "cat f"}
	if text, code, _ := call(t, tool, env, input); text != "old" || code != "" {
		t.Errorf("%q %s", text, code)
	}
	// A program of the workspace takes the place of one that reads.
	if err := os.WriteFile(filepath.Join(env.Workspace.Dir(), "cat"), []byte("#!/bin/sh\necho new >f\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	changed := shell.Bash(running(t, func(c *command.Config) { c.Path = []string{env.Workspace.Dir(), "/usr/bin", "/bin"} }))
	if text, code, _ := call(t, changed, env, input); code != "exit_status" || !strings.Contains(text, "denied") {
		t.Errorf("%q %s", text, code)
	}
	if text, _ := os.ReadFile(filepath.Join(env.Workspace.Dir(), "f")); string(text) != "old" {
		t.Errorf("f is %q", text)
	}
}

// TestBashDenied has a command be told what it may write: what its rights open.
func TestBashDenied(t *testing.T) {
	k := newKit(t)
	for confinement, want := range map[tools.Confinement]string{
		tools.Reading:     "this command was judged to read only, and writes to a temporary directory that goes with it, and to nothing else.",
		tools.Named:       "this command writes to what it was judged to write, its home and $TMPDIR, and to nothing else.",
		tools.SessionWide: "this command writes to the workspace, its home and $TMPDIR, and to nothing else.",
		tools.Unconfined:  "The command ended with exit status 1.",
	} {
		c, err := k.tools["bash"].Decode(&k.env, json.RawMessage(`{"command":"echo Permission denied; false"}`))
		if err != nil {
			t.Fatal(err)
		}
		c.Effects()
		_, err = c.Run(t.Context(), tools.Rights{Confinement: confinement}, new(toolstest.Recorder))
		if f, ok := errors.AsType[*tools.Failure](err); !ok || !strings.HasSuffix(f.Message, want) {
			t.Errorf("%v: %v\nwant %s", confinement, err, want)
		}
	}
}

// TestBashLimits has commands that use too much.
func TestBashLimits(t *testing.T) {
	env := toolstest.Env(t, nil)
	tool := shell.Bash(running(t, func(c *command.Config) {
		c.Limits = command.Limits{Memory: 64 << 20, Processes: 20, OpenFiles: 64, FileSize: 1 << 20}
		c.Limits.Output = 1 << 20
	}))
	for command, want := range map[string]tools.ExitReason{
		"yes":                           tools.OutputLimit,
		"cat /dev/zero":                 tools.OutputLimit,
		"x=a; while :; do x=$x$x; done": tools.OutOfMemory,
		"for i in {1..200}; do sleep 100 & done; wait": tools.ProcessLimit,
		"exec head -c 2M /dev/zero >big":               tools.FileSizeLimit,
	} {
		_, code, exit := call(t, tool, env, m{"command": command})
		if exit == nil || exit.Reason != want || code != want.String() {
			t.Errorf("%s: %+v, code %s; want %s", command, exit, code, want)
		}
	}
	// One that bash has started, and tells of by its exit status.
	_, _, err := toolstest.Run(t, tool, env, `{"command":"head -c 2M /dev/zero >big; (exit $?)"}`)
	if f, ok := errors.AsType[*tools.Failure](err); !ok || !strings.Contains(f.Message, "exit status 153. A program wrote a file larger than the 1 MiB that a file may have") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// TestBashStops has a command end with the context of its call, and what it
// wrote before be kept.
func TestBashStops(t *testing.T) {
	env := toolstest.Env(t, nil)
	tool := shell.Bash(running(t))
	c, err := tool.Decode(&env, json.RawMessage(`{"command":"trap '' TERM INT HUP; echo begun; sleep 300; sleep 300"}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var out stopAt
	out.stop = func() { cancel(errors.New("enough")) }
	result, err := c.Run(ctx, toolstest.RightsOf(c), &out)
	if !errors.Is(err, context.Canceled) || toolstest.Text(result) != "begun\n" || result.Exit.Reason != tools.Cancelled {
		t.Errorf("%q %+v %v", toolstest.Text(result), result.Exit, err)
	}
}

// TestTerminalHangsUp cancels what runs on a terminal: it is told as by a terminal that
// closes, and an interactive shell, which does not mind SIGTERM, ends by that. Nobody
// waits for the grace, which would take longer than this test may.
func TestTerminalHangsUp(t *testing.T) {
	tool := shell.Bash(running(t, func(c *command.Config) { c.Grace = time.Hour }))
	for name, command := range map[string]string{
		"interactive shell":   "exec bash --norc -i",
		"one in another":      "bash --norc -i; true",
		"with a job":          "exec bash --norc -ic 'sleep 300 & echo begun; read x; read x'",
		"trap of the hang-up": "trap 'echo told >told; exit' HUP; trap '' TERM; echo begun; while read x; do :; done",
	} {
		t.Run(name, func(t *testing.T) {
			env := toolstest.Env(t, nil)
			input, _ := json.Marshal(m{"command": command, "interactive": true})
			c, err := tool.Decode(&env, input)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			out := stopAt{stop: func() { cancel(errors.New("enough")) }}
			result, err := c.Run(ctx, toolstest.RightsOf(c), &out)
			if !errors.Is(err, context.Canceled) || result.Exit.Reason != tools.Cancelled {
				t.Errorf("%+v %v", result.Exit, err)
			}
			if strings.Contains(command, "told") {
				if text, err := os.ReadFile(filepath.Join(env.Workspace.Dir(), "told")); string(text) != "told\n" {
					t.Errorf("%q %v: it was not told", text, err)
				}
			}
			noneLeft(t, env)
		})
	}
}

// stopAt calls stop with the first output.
type stopAt struct {
	toolstest.Recorder
	stop func()
}

func (s *stopAt) Emit(r tools.Report) {
	if _, ok := r.(tools.Output); ok {
		s.stop()
	}
}

// A session that rests has a shell that is ready, which runs the next script.
func TestReadyShell(t *testing.T) {
	env := toolstest.Env(t, nil)
	tool := shell.Bash(running(t))
	for range 3 {
		call(t, tool, env, m{"command": "true"})
		waitReady(t, env)
		if text, _, _ := call(t, tool, env, m{"command": `echo "$BASH_EXECUTION_STRING"`}); !isReady([]byte(text)) {
			t.Errorf("another shell ran the script: %s", text)
		}
	}
}

// TestReadyShellSeesWhatIsNow has a shell that was made ready not be used when something
// is to be kept from commands since.
func TestReadyShellSeesWhatIsNow(t *testing.T) {
	k := newKit(t)
	k.needsNamespaces()
	k.call("bash", m{"command": "touch f"})
	waitReady(t, k.env)
	if err := os.MkdirAll(filepath.Join(k.env.Workspace.Dir(), ".git/hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if text, _ := k.call("bash", m{"command": "echo x >.git/hooks/pre-commit"}); !strings.Contains(text, "Read-only file system") {
		t.Errorf("hooks were written: %s", text)
	}
}

// waitReady returns when a shell waits for the next script.
func waitReady(t *testing.T, env tools.Env) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for _, line := range working(t, env) {
			if isReady(line) {
				return
			}
		}
	}
	t.Fatal("no shell was made ready")
}

// TestBashDescription is told what commands find on this server.
func TestBashDescription(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*command.Config)
		want   []string
		not    string
	}{
		{"nothing configured", func(*command.Config) {}, []string{"Network: Loopback of this session only", "temporary files (`$TMPDIR`", "beside the usual ones: "}, "{"},
		{"an open network", func(c *command.Config) { c.Network = tools.NetworkOpen }, []string{"Network: Open.\n"}, "None"},
		{"no programs", func(c *command.Config) { c.Path = []string{t.TempDir()} }, []string{"Programs beside the usual ones: none."}, "git"},
	} {
		text := shell.Bash(running(t, test.change)).Spec().Description
		for _, want := range test.want {
			if !strings.Contains(text, want) || strings.Contains(text, test.not) {
				t.Errorf("%s: %s", test.name, text)
			}
		}
	}
}
