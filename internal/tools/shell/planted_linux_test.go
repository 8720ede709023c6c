// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestPlanted has commands plant what runs later: it is taken back and told, and
// the command succeeds. What else is planted, and what git and npm may do, is
// tested in package integrity.
func TestPlanted(t *testing.T) {
	for name, test := range map[string]struct{ command, warning, then string }{
		"npm":     {`git config core.hooksPath .husky || true`, ".git/config: core.hooksPath = .husky would run programs later, and was taken back", `! git config core.hooksPath`},
		"hook":    {`echo evil >.git/hooks/pre-push; echo done`, ".git/hooks/pre-push was made, and removed", `test ! -e .git/hooks/pre-push`},
		"own":     {`echo evil >f`, "f was changed, and put back", `test $(cat f) = old`},
		"home":    {`git config --global core.pager evil`, "~/.gitconfig: core.pager = evil", `true`},
		"clone":   {`git clone -q . c && git -C c config core.pager evil && git -C c config user.email e`, "c/.git/config: core.pager = evil", `git -C c config user.email && ! git -C c config core.pager`},
		"rebase":  {`! git rebase -q --exec false --root`, "", `grep -q 'exec false' .git/rebase-merge/done`},
		"nothing": {`git config user.email e; git remote add o ../x; git branch b`, "", `git config user.email`},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, bare(t))
			k.env.Restrictions = toolstest.Restrictions{Own: "f"}
			if k.outside(repository) != nil {
				t.Fatal("cannot begin")
			}
			encoded, _ := json.Marshal(m{"command": test.command})
			result, _, err := toolstest.Run(t, k.tools["bash"], k.env, string(encoded))
			if err != nil || result.Exit.Reason != tools.Exited || result.Exit.Code != 0 {
				t.Fatalf("%v %+v %s", err, result.Exit, toolstest.Text(result))
			}
			text, warnings := toolstest.Text(result), strings.Join(result.Warnings, "; ")
			if (test.warning == "") != (warnings == "") || !strings.Contains(warnings, test.warning) || test.warning != "" && !strings.Contains(text, "Taken back: ") {
				t.Errorf("%q; %q", warnings, text)
			}
			if k.outside(test.then) != nil {
				t.Errorf("%s does not hold", test.then)
			}
		})
	}
}

// bare has no namespaces, as in a pod: there, hooks and what an operator protects
// can be written, and are put back.
func bare(t *testing.T) func(*command.Config) {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return func(c *command.Config) { c.Sandbox = s }
}

// TestFixed has commands write what stays as it is where there are namespaces.
func TestFixed(t *testing.T) {
	k := newKit(t)
	if k.outside(repository) != nil {
		t.Fatal("cannot begin")
	}
	k.env.Restrictions = toolstest.Restrictions{Own: "f"}
	text, _ := k.call("bash", m{"command": "echo evil >.git/hooks/pre-push; echo evil >f; echo more >g; cat f g"})
	if s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()}); err == nil && s.Namespaces() {
		if strings.Count(text, "Read-only file system") != 2 || !strings.Contains(text, "old\nmore") {
			t.Error(text)
		}
		s.Close()
	}
	if k.outside(`test ! -e .git/hooks/pre-push -a $(cat f) = old`) != nil {
		t.Error("it was written")
	}
}

// outside runs a command outside of the sandbox, in the workspace of a session.
func (k kit) outside(command string) error {
	k.t.Helper()
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir = k.env.Workspace.Dir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.t.TempDir(), "GIT_AUTHOR_EMAIL=me@x", "GIT_COMMITTER_EMAIL=me@x", "GIT_AUTHOR_NAME=me", "GIT_COMMITTER_NAME=me"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		k.t.Logf("%s: %v\n%s", command, err, out)
	}
	return err
}

// eventually waits for a command outside of the sandbox to succeed.
func (k kit) eventually(command string) {
	k.t.Helper()
	for range 200 {
		if exec.Command("bash", "-c", "cd "+k.env.Workspace.Dir()+"; "+command).Run() == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	k.t.Errorf("%s does not come to hold", command)
}

const repository = `git init -q . && printf '#!/bin/sh\n' >.git/hooks/pre-commit && echo old >f && echo x >x && git add x && git -c core.hooksPath=/dev/null commit -qm one`

// TestPlantedBackground has what runs beside calls plant something: it is taken
// back while it runs, and told.
func TestPlantedBackground(t *testing.T) {
	for name, test := range map[string]struct{ command, warning, then string }{
		"hook made":    {`echo evil >.git/hooks/post-checkout`, ".git/hooks/post-checkout was made, and removed", `test ! -e .git/hooks/post-checkout`},
		"hook changed": {`echo evil >>.git/hooks/pre-commit`, ".git/hooks/pre-commit was changed, and put back", `! grep evil .git/hooks/pre-commit`},
		"config":       {`git config core.fsmonitor /tmp/evil`, ".git/config: core.fsmonitor = /tmp/evil", `! grep evil .git/config`},
		"own removed":  {`rm f`, "f was changed, and put back", `test $(cat f) = old`},
		"clone":        {`git clone -q . c && git -C c config core.hooksPath /tmp`, "c/.git/config: core.hooksPath = /tmp", `! grep -r hooksPath c/.git`},
		"git removed":  {`while [ -e .git ]; do rm -rf .git; done`, ".git was removed, which cannot be undone", `test ! -e .git`}, // hooks that go first may be put back
	} {
		t.Run(name, func(t *testing.T) {
			warnings := make(chan string, 100)
			k := newKit(t, bare(t), func(c *command.Config) { c.Violation = func(_, what string) { warnings <- what } })
			k.env.Restrictions = toolstest.Restrictions{Own: "f"}
			if k.outside(repository) != nil {
				t.Fatal("cannot begin")
			}
			k.start("read -r x; "+test.command+"; echo done; read -r x", nil)
			k.call("process_input", m{"id": "p1", "text": "go\n"})
			k.call("process_output", m{"id": "p1", "until": "done"})
			k.eventually(test.then)
			for what := ""; !strings.Contains(what, test.warning); {
				select {
				case what = <-warnings:
				case <-time.After(time.Minute):
					t.Fatalf("the log ends with: %s", what)
				}
			}
			text, code := k.call("process_output", m{"id": "p1"})
			if code != "" || !strings.Contains(text, test.warning) {
				t.Errorf("%q %s", text, code)
			}
			if text, code := k.call("bash", m{"command": "touch y"}); code != "" || strings.Contains(text, "Taken back") {
				t.Errorf("a call afterwards: %q %s", text, code)
			}
			k.call("process_input", m{"id": "p1", "end": true})
			if text, _ := k.call("process_output", m{"id": "p1", "until_end": true}); !strings.Contains(text, test.warning) {
				t.Errorf("at its end: %q", text)
			}
			if k.outside(test.then) != nil {
				t.Errorf("%s does not hold", test.then)
			}
		})
	}
}

// TestPlantedAgain proves that a background process that plants for the second
// time is ended.
func TestPlantedAgain(t *testing.T) {
	k := newKit(t, bare(t))
	if k.outside(repository) != nil {
		t.Fatal("cannot begin")
	}
	k.start("while :; do echo evil >.git/hooks/pre-push; sleep 0.1; done", nil)
	text, code := k.call("process_output", m{"id": "p1", "until_end": true})
	if code != "" || !strings.Contains(text, "was ended: what it planted was taken back") || !strings.Contains(text, ".git/hooks/pre-push was made, and removed") {
		t.Errorf("%q %s", text, code)
	}
	if k.outside("test ! -e .git/hooks/pre-push") != nil {
		t.Error("it is there")
	}
}

// TestProtectedByOthers has what is protected change while something runs in the
// background, by others than it.
func TestProtectedByOthers(t *testing.T) {
	k := newKit(t, bare(t))
	k.env.Restrictions = toolstest.Restrictions{Own: "f"}
	if k.outside(repository) != nil {
		t.Fatal("cannot begin")
	}
	k.start("touch z; echo begun; sleep 300", nil)
	k.call("process_output", m{"id": "p1", "until": "begun"})
	// A person cannot be told from a process, so their work is kept.
	if k.outside("echo by a person >f") != nil {
		t.Fatal("cannot write")
	}
	text, code := k.call("process_output", m{"id": "p1"})
	_, place, found := strings.Cut(text, "f was changed, and put back, what it had become is kept as ")
	place, _, _ = strings.Cut(place, ". The rest")
	if kept, err := os.ReadFile(place); code != "" || !found || string(kept) != "by a person\n" {
		t.Errorf("%q %s: %q %v", text, code, kept, err)
	}
	// A call is blamed for what it did, and what it was allowed stays.
	if got, _ := k.call("bash", m{"command": "git clone -q . c; echo evil >f"}); !strings.Contains(got, "f was changed, and put back") {
		t.Error(got)
	}
	k.env.Restrictions = toolstest.Restrictions{Own: "g"} // the operator protects something else
	if text, code := k.call("bash", m{"command": "echo new >f"}); code != "" {
		t.Errorf("%q %s", text, code)
	}
	if text, code := k.call("process_output", m{"id": "p1", "wait_ms": 1}); code != "" {
		t.Errorf("%q %s", text, code)
	}
	if k.outside("test $(cat f) = new && test -e c/.git/config") != nil {
		t.Error("what was allowed is gone")
	}
}

// TestProtectedTogether has two sessions in one workspace, which protects different
// files for them: neither puts back what the other undid.
func TestProtectedTogether(t *testing.T) {
	a := newKit(t, bare(t))
	a.env.Restrictions = toolstest.Restrictions{Own: "f"}
	if a.outside(repository+"; echo old >g") != nil {
		t.Fatal("cannot begin")
	}
	b := kit{t: t, env: toolstest.Env(t, nil), tools: a.tools}
	b.env.Workspace, b.env.Restrictions = a.env.Workspace, toolstest.Restrictions{Own: "g"}
	a.start("read -r x; echo evil >.git/hooks/pre-push; echo evil >f; touch made; read -r x", nil)
	b.start("read -r x; echo evil >g; touch z; read -r x", nil)
	a.call("process_input", m{"id": "p1", "text": "go\n"})
	a.eventually("test -e made")
	b.start("touch y; read -r x", nil)
	if text, code := b.call("bash", m{"command": "touch w; sleep 0.1"}); code != "" {
		t.Errorf("a call beside: %q %s", text, code)
	}
	b.call("process_input", m{"id": "p1", "text": "go\n"})
	b.eventually("test -e z")
	for _, k := range []kit{a, b} {
		k.call("process_output", m{"id": "p1"})
		text, _ := k.call("process_output", m{"id": "p1"})
		for _, undone := range []string{".git/hooks/pre-push was made, and removed", "f was changed, and put back", "g was changed, and put back"} {
			if !strings.Contains(text, undone) {
				t.Errorf("%s is not told: %s", undone, text)
			}
		}
	}
	for range 3 {
		for _, k := range []kit{a, b} {
			k.call("bash", m{"command": "touch v"})
			if text, code := k.call("process_output", m{"id": "p1"}); code != "" {
				t.Errorf("%q %s", text, code)
			}
		}
	}
	if a.outside("test ! -e .git/hooks/pre-push && cat f g | sort -u | grep -x old && ! grep evil f g") != nil {
		t.Error("it is not as it was")
	}
}

// TestBackgroundWork has git and npm do in the background what they do elsewhere,
// while it is looked after as often as can be.
func TestBackgroundWork(t *testing.T) {
	for name, work := range map[string]struct{ needs, command string }{
		"git clone":    {"git", "for i in {1..10}; do git clone -q . c$i && git -C c$i log --oneline && git -C c$i checkout -qb other; done"},
		"git commit":   {"git", "for i in {1..10}; do echo $i >x && git commit -qam $i; done; git log --oneline | wc -l | grep -x 11"},
		"git worktree": {"git", "for i in {1..10}; do git worktree add -q w$i; done; git -C w7 log --oneline"},
		"npm":          {"npm", `mkdir -p dep p && echo '{"name":"dep","version":"1.0.0"}' >dep/package.json && cd p && npm init -y && npm install --offline --no-audit --no-fund ../dep && ls node_modules/dep/package.json`},
	} {
		t.Run(name, func(t *testing.T) {
			needs(t, work.needs)
			k := newKit(t, bare(t))
			if k.outside(repository+" && git checkout -q .") != nil {
				t.Fatal("cannot begin")
			}
			k.start("{ "+work.command+"; } && echo all is well", nil)
			for range 2000 {
				text, code := k.call("process_output", m{"id": "p1", "offset": 0})
				if code != "" {
					t.Fatalf("%q %s", text, code)
				}
				if !strings.Contains(text, "is running") {
					if !strings.Contains(text, "all is well") || !strings.Contains(text, "exit status 0") {
						t.Error(text)
					}
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
			t.Error("it does not end")
		})
	}
}

// TestProtectedRepl has code change what is protected, in its call and after it.
func TestProtectedRepl(t *testing.T) {
	for _, test := range []struct{ language, program, define, code, ask, want string }{
		{"bash", "bash", "x=7", "echo evil >.git/hooks/pre-push; echo evil >f", "echo $x", "7\n"},
		{"python", "python3", "x = 7", "open('.git/hooks/pre-push', 'w').write('evil'); open('f', 'w').write('evil')", "x", "=> 7"},
		{"node", "node", "var x = 7", "fs.writeFileSync('.git/hooks/pre-push', 'evil'); fs.writeFileSync('f', 'evil')", "x", "=> 7"},
	} {
		t.Run(test.language, func(t *testing.T) {
			needs(t, test.program)
			k := newKit(t, bare(t))
			k.env.Restrictions = toolstest.Restrictions{Own: "f"}
			if k.outside(repository) != nil {
				t.Fatal("cannot begin")
			}
			k.call("repl", m{"language": test.language, "code": test.define})
			if got, _ := k.call("repl", m{"language": test.language, "code": test.code}); !strings.Contains(got, ".git/hooks/pre-push was made, and removed") || !strings.Contains(got, "f was changed, and put back") {
				t.Error(got)
			}
			if k.outside("test ! -e .git/hooks/pre-push && test $(cat f) = old") != nil {
				t.Error("it was not undone")
			}
			if text, code := k.call("repl", m{"language": test.language, "code": test.ask}); text != test.want || code != "" {
				t.Errorf("afterwards: %q %s", text, code)
			}
		})
	}
	k := newKit(t, bare(t))
	if k.outside(repository) != nil {
		t.Fatal("cannot begin")
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "(until test -e go; do sleep 0.05; done; echo evil >.git/hooks/pre-push; touch later) &"}); code != "" {
		t.Errorf("%q %s", text, code)
	}
	k.eventually("touch go && test -e later")
	if got, _ := k.call("repl", m{"language": "bash", "code": "true"}); !strings.Contains(got, ".git/hooks/pre-push was made, and removed") {
		t.Error(got)
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "git clone -q . c && cat c/x"}); text != "x\n" || code != "" {
		t.Errorf("%q %s", text, code)
	}
}
