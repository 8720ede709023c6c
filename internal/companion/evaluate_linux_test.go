// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
)

// evaluations are pieces of code and what comes of them, one after the other.
type evaluations []struct{ code, want, failure string }

// test evaluates with a language that is always there.
func (list evaluations) test(t *testing.T, language, program string) {
	t.Helper()
	k := newKit(t, companion.Config{})
	k.needs(program)
	list.in(k, language)
}

// testOf evaluates with a language that an operator has added, which may read a file.
func (list evaluations) testOf(t *testing.T, program string, l companion.Language, reads ...string) {
	t.Helper()
	k := newKit(t, companion.Config{Languages: []companion.Language{l}}, func(c *command.Config) { c.View.Read = append(c.View.Read, reads...) })
	k.needs(program)
	list.in(k, l.Name)
}

func (list evaluations) in(k kit, language string) {
	k.t.Helper()
	for _, test := range list {
		got, failure := k.evaluate(language, test.code)
		if got != test.want || failure != test.failure {
			k.t.Errorf("%s\ngot  %q %s\nwant %q %s", test.code, got, failure, test.want, test.failure)
		}
	}
}

const noValue = "(The code wrote nothing, and has no value.)"

func TestEvaluatePython(t *testing.T) {
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

func TestEvaluateNode(t *testing.T) {
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

func TestEvaluateBash(t *testing.T) {
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

// TestEvaluateDriven has a language whose driver is a file of the operator.
func TestEvaluateDriven(t *testing.T) {
	driver, err := os.ReadFile("../../examples/repl.pl")
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
	}.testOf(t, "perl", companion.Driven("perl", []string{"perl", path}), path)
}

// TestEvaluateLines has languages of programs that know nothing of the server.
func TestEvaluateLines(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		evaluations{
			{"create table t(a, b);\ninsert into t values(1, 'x'), (2, 'y');", noValue, ""},
			{"select * from t;", "a|b\n1|x\n2|y\n", ""},
			{"select count(*) as n from t", "n\n2\n", ""}, // the mark ends it
			{"select c from t;", "Parse error near line 12: no such column: c\n  select c from t;\n         ^--- error here\n", ""},
			{"select 'still here' as s;", "s\nstill here\n", ""},
			{".quit", noValue, "interpreter_ended"},
			{"select * from t;", "Parse error near line 2: no such table: t\n", ""},
		}.testOf(t, "sqlite3", companion.Lines("sqlite", []string{"sqlite3", "-batch", ":memory:"}, ".headers on", ";\n.print {mark}"))
	})
	t.Run("tcl", func(t *testing.T) {
		evaluations{
			{"set x 40", "40\n", ""},
			{"puts [expr {$x + 2}]; puts stderr err", "42\nerr\n", ""},
			{"puts -nonewline {no line end}", "no line end", ""},
			{"proc f {} {\n  return 7\n}\nputs [f]", "7\n", ""},
		}.testOf(t, "tclsh", companion.Lines("tcl", []string{"tclsh"}, "set tcl_interactive 1; set tcl_prompt1 {}; set tcl_prompt2 {}; fconfigure stdout -buffering none", "puts {mark}"))
	})
	t.Run("bc", func(t *testing.T) {
		evaluations{
			{"x = 2^100; scale = 5", noValue, ""},
			{"x", "1267650600228229401496703205376\n", ""},
			{"1/3", ".33333\n", ""},
		}.testOf(t, "bc", companion.Lines("bc", []string{"bc", "-q"}, "", `print "{mark}\n"`))
	})
}

// TestEvaluateControl is P-186: code writes to whatever the driver has open, and
// forges marks. The calls after it are answered as if nothing had been.
func TestEvaluateControl(t *testing.T) {
	const forged = `"\0" + "0" * 32 + "0\0"`
	for name, code := range map[string]string{
		"every file": "import os\nfor fd in range(1, 64):\n    try: os.write(fd, b'{}')\n    except OSError: pass",
		"requests":   "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'evil\\0print(666)\\0')\n    except OSError: pass",
		"marks":      "import os\nfor fd in (1, 2): os.write(fd, (" + forged + ").encode())",
		"closing":    "import os\nos.close(1); os.close(2)",
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, companion.Config{})
			k.needs("python3")
			if text, failure := k.evaluate("python", code); failure != "" {
				t.Errorf("%q %s", text, failure)
			}
			for _, code := range []string{"6 * 7", "40 + 2"} {
				if text, failure := k.evaluate("python", code); text != "=> 42" || failure != "" {
					t.Errorf("%s: %q %s", code, text, failure)
				}
			}
		})
	}
}
