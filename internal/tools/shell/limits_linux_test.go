// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// hold is a command that has so many MiB of memory until it is ended.
const hold = `exec perl -e '$| = 1; $x = "x" x ($ARGV[0] << 20); print "held\n"; sleep 300' `

// TestSessionMemory has commands that together use more memory than a session
// may: the one that uses most ends, whatever kind it is, and is told why.
func TestSessionMemory(t *testing.T) {
	needs(t, "python3")
	k := newKit(t, func(c *command.Config) {
		c.Limits = command.Limits{Memory: 1 << 30}
		c.Limits.SessionMemory = 192 << 20
	})
	const why = "all commands of this session together, background processes and interpreters too, used more than the 192 MiB of memory they may"
	k.start(hold+"60", nil) // p1
	k.call("process_output", m{"id": "p1", "until": "held"})
	if got := k.failure("bash", m{"command": hold + "200"}); !strings.Contains(got, why) {
		t.Errorf("a call: %s", got)
	}
	k.start(hold+"150", nil) // p2
	if got, _ := k.call("process_output", m{"id": "p2", "until_end": true}); !strings.Contains(got, "p2 was ended: "+why) {
		t.Errorf("a background process: %s", got)
	}
	if got := k.failure("repl", m{"language": "python", "code": "x = bytearray(b'x') * (160 << 20)\nimport time\ntime.sleep(300)"}); !strings.Contains(got, why) {
		t.Errorf("an interpreter: %s", got)
	}
	if got, _ := k.call("process_list", m{"running_only": true}); !strings.HasPrefix(got, "p1 is running") {
		t.Errorf("what used less: %s", got)
	}
	other := kit{t: t, env: toolstest.Env(t, nil), tools: k.tools}
	other.start(hold+"150", nil)
	if got, _ := other.call("process_output", m{"id": "p1", "until": "held"}); !strings.Contains(got, "p1 is running") {
		t.Errorf("another session: %s", got)
	}
}

// TestServerMemory has sessions that stay under their own limits, and together
// use more memory than the server has for them.
func TestServerMemory(t *testing.T) {
	k := newKit(t, func(c *command.Config) {
		c.Limits.SessionMemory = 1 << 30
		c.Limits.ServerMemory = 192 << 20
	})
	k.start(hold+"80", nil)
	k.call("process_output", m{"id": "p1", "until": "held"})
	other := kit{t: t, env: toolstest.Env(t, nil), tools: k.tools}
	if got := other.failure("bash", m{"command": hold + "150"}); !strings.Contains(got, "more than the 192 MiB of memory this server has for them") {
		t.Error(got)
	}
	if got, _ := k.call("process_list", m{"running_only": true}); !strings.HasPrefix(got, "p1 is running") {
		t.Errorf("what used less: %s", got)
	}
}

// TestSessionProcesses has commands that together have too many processes.
func TestSessionProcesses(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Limits.SessionProcesses = 40 })
	k.start("for i in {1..15}; do sleep 300 & done; wait", nil)
	if got := k.failure("bash", m{"command": "for i in {1..35}; do sleep 300 & done; wait"}); !strings.Contains(got, "more than the 40 processes they may have at a time") {
		t.Error(got)
	}
	if got, _ := k.call("process_list", m{"running_only": true}); !strings.HasPrefix(got, "p1 is running") {
		t.Errorf("what has fewer: %s", got)
	}
}

// TestSessionCPU has a session use up its CPU time: what runs ends, and nothing
// is started any more.
func TestSessionCPU(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Limits.SessionCPU = time.Second })
	const why = "have used all of the 1s of CPU time that they may use together"
	k.start("echo begun; sleep 300", nil)
	k.call("process_output", m{"id": "p1", "until": "begun"})
	if got := k.failure("bash", m{"command": "while :; do :; done"}); !strings.HasPrefix(got, "The command was ended: ") || !strings.Contains(got, why) {
		t.Errorf("what computes: %s", got)
	}
	if got, _ := k.call("process_output", m{"id": "p1", "until_end": true}); !strings.Contains(got, why) {
		t.Errorf("what runs beside it: %s", got)
	}
	for tool, input := range map[string]m{
		"bash": {"command": "true"}, "repl": {"language": "bash", "code": "true"},
	} {
		if got := k.failure(tool, input); !strings.HasPrefix(got, "Nothing was started: ") || !strings.Contains(got, why) || !strings.Contains(got, "new session") {
			t.Errorf("%s afterwards: %s", tool, got)
		}
	}
	other := kit{t: t, env: toolstest.Env(t, nil), tools: k.tools}
	if got, code := other.call("bash", m{"command": "echo ok"}); got != "ok\n" || code != "" {
		t.Errorf("another session: %q %s", got, code)
	}
}

// TestBashFullDisk has no space left where the workspace and the files of the
// session are: what needs none runs, also what makes space.
func TestBashFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Skip("no file system can be made here: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	t.Run("", func(t *testing.T) {
		t.Setenv("TMPDIR", disk)
		k := newKit(t)
		long := strings.Repeat("#", 200_000) + "\necho long"
		for _, test := range []struct {
			input      m
			want, code string
		}{
			{m{"command": "head -c 1M /dev/zero >fill"}, "head: error writing 'standard output': No space left on device\n", "exit_status"},
			{m{"command": "echo short"}, "short\n", ""},
			{m{"command": "cat <<E\nhere\nE"}, "here\n", ""},
			{m{"command": long}, "", "disk_full"},
			{m{"command": "rm fill && echo freed"}, "freed\n", ""},
			{m{"command": long}, "long\n", ""},
		} {
			if text, code := k.call("bash", test.input); text != test.want || code != test.code {
				t.Errorf("%.30v: %q %s, want %q %s", test.input, text, code, test.want, test.code)
			}
		}
	})
}

// TestUsageProcesses: a result tells how many processes a command had.
func TestUsageProcesses(t *testing.T) {
	k := newKit(t, func(c *command.Config) { c.Limits.Processes = 10 })
	for text, least := range map[string]uint32{"true": 1, "for i in {1..30}; do sleep 300 & done; wait": 11} {
		input, err := json.Marshal(m{"command": text})
		if err != nil {
			t.Fatal(err)
		}
		result, _, _ := toolstest.Run(t, k.tools["bash"], k.env, string(input))
		if result.Usage == nil || result.Usage.Processes < least {
			t.Errorf("%s: %+v, want at least %d processes", text, result.Usage, least)
		}
	}
}

// TestBackgroundKeepsItsSession: a session is not idle while a process of it runs.
func TestBackgroundKeepsItsSession(t *testing.T) {
	k := newKit(t)
	session := k.env.Session.(*toolstest.Session)
	k.start("sleep 300", nil)
	if n := session.Uses(); n != 1 {
		t.Errorf("%d uses of the session, want that of the process", n)
	}
	k.call("process_signal", m{"id": "p1", "signal": "KILL"})
	k.call("process_output", m{"id": "p1", "until_end": true})
	if n := session.Uses(); n != 0 {
		t.Errorf("%d uses of the session after the end", n)
	}
}
