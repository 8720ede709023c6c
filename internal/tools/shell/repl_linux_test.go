// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// needs skips a test on a machine without a program.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, ok := runners(t).Find(program); !ok {
		t.Skip("there is no " + program)
	}
}

// TestReplInterrupt is P-187, and more: code that is stopped loses nothing that
// was defined before, unless it cannot be stopped.
func TestReplInterrupt(t *testing.T) {
	for _, test := range []struct {
		language, program string
		define            string
		long              map[string]bool // by whether it can be interrupted
		ask, want         string
	}{
		{"python", "python3", "x = 7", map[string]bool{
			"print('begun')\nwhile True: pass":                                                                   true,
			"import time; print('begun'); time.sleep(300)":                                                       true,
			"import asyncio; print('begun'); await asyncio.sleep(300)":                                           true,
			"import asyncio; print('begun')\nwhile True: await asyncio.sleep(0.001); print('left over')":         true,
			"import asyncio; print('begun')\ntry: await asyncio.sleep(300)\nfinally: await asyncio.sleep(0.001)": true,
			"import os; os.system('echo begun; exec sleep 300'); x = 7":                                          true,
			"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\nwhile True: pass":      false,
		}, "import asyncio; await asyncio.sleep(0.05); x", "=> 7"},
		{"node", "node", "var x = 7", map[string]bool{
			"console.log('begun'); for (;;);": true,
			"await new Promise(r => { setTimeout(() => console.log('begun'), 10); setTimeout(r, 300000) })": true,
			"await new Promise(r => setTimeout(r, 1)); console.log('begun'); for (;;);":                     false,
		}, "x", "=> 7"},
		{"bash", "bash", "x=7", map[string]bool{
			"echo begun; sleep 300; echo unseen": true,
			"echo begun; while :; do :; done":    true,
			"trap '' INT; echo begun; sleep 300": false,
		}, "echo $x", "7\n"},
	} {
		needs(t, test.program)
		for long, can := range test.long {
			k := newKit(t)
			k.call("repl", m{"language": test.language, "code": test.define})
			input, _ := json.Marshal(m{"language": test.language, "code": long})
			c, err := k.tools["repl"].Decode(&k.env, input)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			var out stopAt
			out.stop = func() { cancel(errors.New("enough")) }
			result, err := c.Run(ctx, toolstest.RightsOf(c), &out)
			text := toolstest.Text(result)
			if !errors.Is(err, context.Canceled) || !strings.Contains(text, "beg") || strings.Contains(text, "unseen") || strings.Contains(text, "is kept") != can {
				t.Errorf("%s: %q %v", long, text, err)
			}
			if text, _ := k.call("repl", m{"language": test.language, "code": test.ask}); (text == test.want) != can {
				t.Errorf("%s: then x is %q", long, text)
			}
		}
	}
}

// TestReplInterruptAnywhere stops code that computes and waits by turns, at any
// moment: what was defined before is there afterwards, every time.
func TestReplInterruptAnywhere(t *testing.T) {
	for _, test := range []struct{ language, program, define, long, ask, want string }{
		{"python", "python3", "x = 7", "import time\nwhile True:\n    for _ in range(2000): pass\n    time.sleep(0.0001)", "x", "=> 7"},
		{"python", "python3", "x = 7", "import asyncio\nwhile True:\n    for _ in range(2000): pass\n    await asyncio.sleep(0.0001)", "x", "=> 7"},
		{"node", "node", "var x = 7, on", "on = {}; for (const mine = on; mine === on;) { for (let i = 0; i < 1e5; i++); await new Promise(r => setTimeout(r, 0)); }", "on = null; x", "=> 7"},
		{"node", "node", "var x = 7", "for (let end = Date.now() + %d; Date.now() < end;); await new Promise(r => setTimeout(r, 20))", "x", "=> 7"},
		{"bash", "bash", "x=7", "while :; do for i in {1..20}; do :; done; sleep 0.001; done", "echo $x", "7\n"},
	} {
		needs(t, test.program)
		k := newKit(t)
		r := runners(t)
		// On a busy machine an interpreter takes seconds to come back, which is not what this is about.
		for _, tool := range shell.Tools(r, companion.New(r, companion.Config{InterruptPatience: time.Minute})) {
			k.tools[tool.Spec().Name] = tool
		}
		k.call("repl", m{"language": test.language, "code": test.define})
		for i := range soaktest.Times(15, 500) {
			code := test.long
			if strings.Contains(code, "%d") { // which begins to wait when it is stopped
				code = fmt.Sprintf(code, 5+i%10)
			}
			input, _ := json.Marshal(m{"language": test.language, "code": code})
			c, err := k.tools["repl"].Decode(&k.env, input)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(2000+rand.IntN(20_000))*time.Microsecond)
			result, err := c.Run(ctx, toolstest.RightsOf(c), new(toolstest.Recorder))
			cancel()
			if text := toolstest.Text(result); err != nil && strings.Contains(text, "lost") {
				t.Fatalf("%s, %d: %q %v", test.long, i, text, err)
			}
			if text, _ := k.call("repl", m{"language": test.language, "code": test.ask}); text != test.want {
				t.Fatalf("%s, %d: then x is %q", test.long, i, text)
			}
		}
	}
}

// TestReplLimits has interpreters under the limits of every command.
func TestReplLimits(t *testing.T) {
	needs(t, "python3")
	k := newKit(t, func(c *command.Config) { c.Limits.Output, c.Limits.PerSession = 1<<20, 1 })
	k.call("repl", m{"language": "bash", "code": "x=1"})
	if _, code := k.call("repl", m{"language": "python", "code": "1"}); code != "too_many_commands" {
		t.Errorf("one too many: %q", code)
	}
	if _, code := k.call("repl", m{"language": "bash", "code": "yes"}); code != "output_limit" {
		t.Errorf("yes: %q", code)
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "echo $x"}); text != "1\n" || code != "" {
		t.Errorf("afterwards: %q %s", text, code)
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "echo [$x]", "restart": true}); text != "[]\n" || code != "" {
		t.Errorf("restarted: %q %s", text, code)
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "(sleep 0.05; echo later) &"}); !strings.HasPrefix(text, "[1] ") || code != "" {
		t.Errorf("something that goes on: %q %s", text, code)
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "wait"}); !strings.Contains(text, "later\n") || code != "" {
		t.Errorf("what was written meanwhile: %q %s", text, code)
	}
	k.env.Session.(*toolstest.Session).Close()
}

// TestReplUnclear proves that no code passes without a person.
func TestReplUnclear(t *testing.T) {
	k := newKit(t)
	for _, language := range []string{"python", "node", "bash"} {
		input, _ := json.Marshal(m{"language": language, "code": "ls"})
		c, err := k.tools["repl"].Decode(&k.env, input)
		if err != nil {
			t.Fatal(err)
		}
		if e := c.Effects(); len(e) == 0 || e[0].Kind != tools.RunsProgram || e[0].Unclear == "" {
			t.Errorf("%s: %+v", language, e)
		}
	}
	for _, input := range []string{`{"language":"perl","code":"1"}`, `{"language":"python","code":"\u0000"}`, `{"language":"python"}`} {
		if _, err := k.tools["repl"].Decode(&k.env, json.RawMessage(input)); err == nil {
			t.Errorf("%s decodes", input)
		}
	}
	none := newKit(t, func(c *command.Config) { c.Path = []string{t.TempDir()} })
	if got := none.failure("repl", m{"language": "node", "code": "1"}); !strings.Contains(got, "There is no program node on this machine") {
		t.Errorf("without node: %s", got)
	}
}

// TestPowershell runs something in the place of pwsh that says how it was called.
func TestPowershell(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, shell.PowerShell), []byte("#!/bin/bash\nprintf '[%s]' \"$@\"; basename \"$PWD\"; exit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	k := newKit(t, func(c *command.Config) {
		c.Path = append([]string{dir}, command.DefaultPath...)
		c.View.Read = append(c.View.Read, dir)
	})
	if err := os.Mkdir(filepath.Join(k.env.Workspace.Dir(), "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, code := k.call("powershell", m{"command": "Get-Item 'a b'", "workdir": "sub"})
	if text != "[-NoProfile][-NonInteractive][-Command][Get-Item 'a b']sub\n" || code != "exit_status" {
		t.Errorf("%q %s", text, code)
	}
	if _, code := k.call("powershell", m{"command": "x", "workdir": ".."}); code != "outside_workspace" {
		t.Errorf("outside: %s", code)
	}
	registry := &tools.Registry{Capabilities: []string{command.Capability}}
	if err := registry.Replace("builtin", k.tools["powershell"]); err != nil {
		t.Fatal(err)
	}
	if entry, _ := registry.Lookup("PowerShell", nil); !strings.Contains(entry.Unavailable, shell.PowerShell) {
		t.Errorf("without pwsh: %q", entry.Unavailable)
	}
}
