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
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// needs skips a test on a machine without a program.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, ok := rooms(t).Find(program); !ok {
		t.Skip("there is no " + program)
	}
}

// evaluations are pieces of code and what comes of them, one after the other.
type evaluations []struct{ code, want, failure string }

func (list evaluations) test(t *testing.T, language, program string, change ...func(*command.Config)) {
	t.Helper()
	needs(t, program)
	k := newKit(t, change...)
	for _, test := range list {
		got, failure := k.call("repl", m{"language": language, "code": test.code})
		if got != test.want || failure != test.failure {
			t.Errorf("%s\ngot  %q %s\nwant %q %s", test.code, got, failure, test.want, test.failure)
		}
	}
}

const noValue = "(The code wrote nothing, and has no value.)"

func TestReplPython(t *testing.T) {
	evaluations{
		{"x = 40", noValue, ""},
		{"x + 2", "=> 42", ""},
		{"print('out', x); 'é\\0'", "out 40\n=> 'é\\x00'", ""},
		{"import sys; print('err', file=sys.stderr)", "err\n", ""},
		{"def f(n):\n    return n * 2\n\nf(_ and 4)", "=> 8", ""},
		{"import asyncio\nawait asyncio.sleep(0, result=5)", "=> 5", ""},
		{"def g():\n    1/0\ng()", "Traceback (most recent call last):\n  File \"<input 7>\", line 3, in <module>\n    g()\n  File \"<input 7>\", line 2, in g\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n", "exception"},
		{"x = (", "  File \"<input 8>\", line 1\n    x = (\n        ^\nSyntaxError: '(' was never closed\n", "exception"},
		{"sys.exit(3)", "Traceback (most recent call last):\n  File \"<input 9>\", line 1, in <module>\n    sys.exit(3)\nSystemExit: 3\n", "exception"},
		{"input()", "Traceback (most recent call last):\n  File \"<input 10>\", line 1, in <module>\n    input()\nEOFError: EOF when reading a line\n", "exception"},
		{"import os\nif os.fork() == 0: print('child')\nelse: os.wait()\nx", "child\n=> 40", ""},
		{"import pickle\nclass C: pass\ntype(pickle.loads(pickle.dumps(C()))) is C", "=> True", ""},
		{"os.system('echo from a child'); x", "from a child\n=> 40", ""},
		{"sys.stdout = open(os.devnull, 'w'); print('unseen'); os.close(1); x", "=> 40", ""},
		{"os._exit(4)", noValue, "interpreter_ended"},
		{"x", "Traceback (most recent call last):\n  File \"<input 1>\", line 1, in <module>\n    x\nNameError: name 'x' is not defined\n", "exception"},
	}.test(t, "python", "python3")
}

func TestReplNode(t *testing.T) {
	evaluations{
		{"const x = 40", noValue, ""},
		{"x + 2", "=> 42", ""},
		{"console.log('out', x); ({a: [1, 'b']})", "out 40\n=> { a: [ 1, 'b' ] }", ""},
		{"console.error('err')", "err\n", ""},
		{"await new Promise(r => setTimeout(r, 1, 'later'))", "=> 'later'", ""},
		{"const y = await Promise.resolve(7)", noValue, ""},
		{"y + _.length", "=> 12", ""},
		{"require('path').basename('/a/b')", "=> 'b'", ""},
		{"throw {odd: 1}", "Uncaught { odd: 1 }\n", "exception"},
		{"await Promise.reject('no')", "Uncaught 'no'\n", "exception"},
		{"function f() { throw new Error('bad'); }\nf()", "Uncaught Error: bad\n    at f (input:1:22)\n    at input:2:1\n", "exception"},
		{"x", "=> 40", ""},
		{"process.exit(4)", noValue, "interpreter_ended"},
		{"typeof x", "=> 'undefined'", ""},
	}.test(t, "node", "node")
}

func TestReplBash(t *testing.T) {
	evaluations{
		{"x='a b'; f() { echo \"<$1>\"; }", noValue, ""},
		{"f \"$x\"", "<a b>\n", ""},
		{"echo err >&2", "err\n", ""},
		{"false", noValue, "exit_status"},
		{"echo $?", "1\n", ""},
		{"cat; mkdir d && cd d", noValue, ""},
		{"basename \"$PWD\"; echo '!!' \"it's\"", "d\n!! it's\n", ""},
		{"echo $((1+", "bash: unexpected EOF while looking for matching `)'\n", "exit_status"},
		{"cat <<E\nhere $x\nE\nexec >/dev/null; echo unseen", "here a b\n", ""},
		{"env | grep TOOLSERVER", noValue, "exit_status"},
		{"exit 5", "exit\n", "interpreter_ended"},
		{"echo \"[$x]\"", "[]\n", ""},
	}.test(t, "bash", "bash")
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
			c, err := k.tools["repl"].Decode(k.env, input)
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
		k.call("repl", m{"language": test.language, "code": test.define})
		for i := range 60 {
			code := test.long
			if strings.Contains(code, "%d") { // which begins to wait when it is stopped
				code = fmt.Sprintf(code, 5+i%10)
			}
			input, _ := json.Marshal(m{"language": test.language, "code": code})
			c, err := k.tools["repl"].Decode(k.env, input)
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
	k := newKit(t, func(c *command.Config) { c.MaxOutput, c.MaxRunning = 1<<20, 1 })
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
		c, err := k.tools["repl"].Decode(k.env, input)
		if err != nil {
			t.Fatal(err)
		}
		if e := c.Effects(); len(e) == 0 || e[0].Kind != tools.RunsProgram || e[0].Unclear == "" {
			t.Errorf("%s: %+v", language, e)
		}
	}
	for _, input := range []string{`{"language":"perl","code":"1"}`, `{"language":"python","code":"\u0000"}`, `{"language":"python"}`} {
		if _, err := k.tools["repl"].Decode(k.env, json.RawMessage(input)); err == nil {
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

// TestReplDriven has a language whose driver is a file of the operator.
func TestReplDriven(t *testing.T) {
	driver, err := os.ReadFile("../../../examples/repl.pl")
	if err != nil {
		t.Skip("this is not run where the source is: ", err)
	}
	path := filepath.Join(t.TempDir(), "repl.pl")
	if err := os.WriteFile(path, driver, 0o644); err != nil {
		t.Fatal(err)
	}
	evaluations{
		{"$x = 40", "=> 40", ""},
		{"$x + 2", "=> 42", ""},
		{"print \"out\\n\"; ()", "out\n", ""},
		{"print STDERR \"err\\n\"; ()", "err\n", ""},
		{"sub f { die \"bad\\n\" if shift; 'fine' } f(0)", "=> fine", ""},
		{"f(1)", "bad\n", "exception"},
		{"$x = (", "syntax error at input line 1, at EOF\n", "exception"},
		{"kill 'INT', $$; 1 while 1", "interrupted\n", "exception"},
		{"<STDIN>; system('echo from a child'); $x", "from a child\n=> 40", ""},
		{"exit 4", noValue, "interpreter_ended"},
		{"defined $x ? 1 : 0", "=> 0", ""},
	}.test(t, "perl", "perl", func(c *command.Config) {
		c.View.Read = append(c.View.Read, path)
		c.Languages = []command.Language{command.Driven("perl", []string{"perl", path})}
	})
}

// TestReplLines has languages of programs that know nothing of the server.
func TestReplLines(t *testing.T) {
	add := func(l command.Language) func(*command.Config) {
		return func(c *command.Config) { c.Languages = []command.Language{l} }
	}
	t.Run("sqlite", func(t *testing.T) {
		evaluations{
			{"create table t(a, b);\ninsert into t values(1, 'x'), (2, 'y');", noValue, ""},
			{"select * from t;", "a|b\n1|x\n2|y\n", ""},
			{"select count(*) as n from t", "n\n2\n", ""}, // the mark ends it
			{"select c from t;", "Parse error near line 12: no such column: c\n  select c from t;\n         ^--- error here\n", ""},
			{"select 'still here' as s;", "s\nstill here\n", ""},
			{".quit", noValue, "interpreter_ended"},
			{"select * from t;", "Parse error near line 2: no such table: t\n", ""},
		}.test(t, "sqlite", "sqlite3", add(command.Lines("sqlite", []string{"sqlite3", "-batch", ":memory:"}, ".headers on", ";\n.print {mark}")))
	})
	t.Run("tcl", func(t *testing.T) {
		evaluations{
			{"set x 40", "40\n", ""},
			{"puts [expr {$x + 2}]; puts stderr err", "42\nerr\n", ""},
			{"puts -nonewline {no line end}", "no line end", ""},
			{"proc f {} {\n  return 7\n}\nputs [f]", "7\n", ""},
		}.test(t, "tcl", "tclsh", add(command.Lines("tcl", []string{"tclsh"}, "set tcl_interactive 1; set tcl_prompt1 {}; set tcl_prompt2 {}; fconfigure stdout -buffering none", "puts {mark}")))
	})
	t.Run("bc", func(t *testing.T) {
		evaluations{
			{"x = 2^100; scale = 5", noValue, ""},
			{"x", "1267650600228229401496703205376\n", ""},
			{"1/3", ".33333\n", ""},
		}.test(t, "bc", "bc", add(command.Lines("bc", []string{"bc", "-q"}, "", `print "{mark}\n"`)))
	})
}

// TestReplControl is P-186: code writes to whatever the driver has open, and
// forges marks. The calls after it are answered as if nothing had been.
func TestReplControl(t *testing.T) {
	const forged = `"\0" + "0" * 32 + "0\0"`
	for name, code := range map[string]string{
		"every file": "import os\nfor fd in range(1, 64):\n    try: os.write(fd, b'{}')\n    except OSError: pass",
		"requests":   "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'evil\\0print(666)\\0')\n    except OSError: pass",
		"marks":      "import os\nfor fd in (1, 2): os.write(fd, (" + forged + ").encode())",
		"closing":    "import os\nos.close(1); os.close(2)",
	} {
		t.Run(name, func(t *testing.T) {
			needs(t, "python3")
			k := newKit(t)
			if text, failure := k.call("repl", m{"language": "python", "code": code}); failure != "" {
				t.Errorf("%q %s", text, failure)
			}
			for _, code := range []string{"6 * 7", "40 + 2"} {
				if text, failure := k.call("repl", m{"language": "python", "code": code}); text != "=> 42" || failure != "" {
					t.Errorf("%s: %q %s", code, text, failure)
				}
			}
		})
	}
}
