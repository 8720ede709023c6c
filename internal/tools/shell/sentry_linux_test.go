// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/shell"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// TestProtected has commands change what other programs run by themselves: it is
// put back and told. What git and npm do by themselves stays.
func TestProtected(t *testing.T) {
	const begin = `git init -q . && git config user.name me && mkdir -p .husky sub && echo old >.husky/pre-commit &&
		printf '#!/bin/sh\n' >.git/hooks/pre-commit && echo f >f && git add f && git -c core.hooksPath=/dev/null commit -qm one`
	for name, test := range map[string]struct {
		command string
		undone  string // part of what is told; empty: nothing
		then    string // a command that must succeed outside of the sandbox
	}{
		"hook changed":      {`echo evil >>.git/hooks/pre-commit`, ".git/hooks/pre-commit was changed", `test "$(cat .git/hooks/pre-commit)" = '#!/bin/sh'`},
		"hook made":         {`echo evil >.git/hooks/post-checkout`, ".git/hooks/post-checkout was made", `test ! -e .git/hooks/post-checkout`},
		"hook removed":      {`rm .git/hooks/pre-commit`, ".git/hooks/pre-commit was changed", `test -e .git/hooks/pre-commit`},
		"hook by hard link": {`ln .git/hooks/pre-commit sub/x; echo evil >sub/x`, ".git/hooks/pre-commit was changed", `! grep evil .git/hooks/pre-commit`},
		"hooks replaced":    {`mkdir evil; echo evil >evil/pre-commit; rm -r .git/hooks; ln -s ../evil .git/hooks`, ".git/hooks was changed", `test -d .git/hooks -a ! -L .git/hooks && ! grep -r evil .git/hooks`},
		"hooks moved":       {`mv .git/hooks .git/h2; mkdir .git/hooks; echo evil >.git/hooks/pre-push`, "pre-push was made", `test -e .git/hooks/pre-commit -a ! -e .git/hooks/pre-push`},
		"config":            {`git config core.fsmonitor /tmp/evil`, ".git/config was changed", `! grep evil .git/config`},
		"config.worktree":   {`echo '[core]' >.git/config.worktree`, ".git/config.worktree was made", `test ! -e .git/config.worktree`},
		"git moved":         {`mv .git g; ln -s g .git; echo evil >g/hooks/pre-push`, ".git was moved", `test ! -L .git -a ! -e .git/hooks/pre-push`},
		"husky":             {`echo evil >.husky/pre-commit`, ".husky/pre-commit was changed", `test "$(cat .husky/pre-commit)" = old`},
		"husky made":        {`mkdir sub/.husky; echo evil >sub/.husky/pre-commit`, "sub/.husky was made", `test ! -e sub/.husky`},
		"nested hook":       {`git init -q sub/deep; echo evil >sub/deep/.git/hooks/pre-commit`, "sub/deep/.git/hooks/pre-commit was made", `test -d sub/deep/.git -a ! -e sub/deep/.git/hooks/pre-commit`},
		"nested config":     {`git init -q sub/deep; git -C sub/deep config core.hooksPath /tmp`, "sub/deep/.git/config was made", `! grep -i hookspath sub/deep/.git/config`},
		"pointer":           {`mkdir sub/r; git init -q --bare sub/other; echo 'gitdir: ../other' >sub/r/.git`, "sub/r/.git was made", `test ! -e sub/r/.git`},
		"git commit":        {`echo g >g && git add g && git commit -qm two && git log --oneline | wc -l | grep -x 2`, "", `test -e .git/hooks/pre-commit`},
		"git branch":        {`git checkout -qb other && git tag v1 && git stash list`, "", `true`},
		"git init":          {`git init -q sub/fresh`, "", `test -e sub/fresh/.git/config`},
		"git clone":         {`git clone -q . sub/copy && git -C sub/copy log --oneline`, "", `test -e sub/copy/.git/config`},
		"git worktree":      {`git worktree add -q sub/tree`, "", `test -e sub/tree/.git`},
	} {
		t.Run(name, func(t *testing.T) {
			env := toolstest.Env(t, nil)
			inside := func(command string) error {
				cmd := exec.Command("bash", "-c", command)
				cmd.Dir = env.Workspace.Dir()
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_AUTHOR_EMAIL=me@x", "GIT_COMMITTER_EMAIL=me@x", "GIT_AUTHOR_NAME=me", "GIT_COMMITTER_NAME=me"}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Logf("%s: %v\n%s", command, err, out)
				}
				return err
			}
			if inside(begin) != nil {
				t.Fatal("cannot begin")
			}
			if err := os.Chmod(filepath.Join(env.Workspace.Dir(), ".git/hooks/pre-commit"), 0o755); err != nil {
				t.Fatal(err)
			}
			text, code, exit := call(t, shell.Bash(rooms(t)), env, m{"command": test.command})
			if test.undone == "" {
				if code != "" {
					t.Errorf("%s %q %+v", code, text, exit)
				}
			} else if code != "sandbox_violation" || exit.Reason != tools.SandboxViolation || !strings.Contains(exit.Message, test.undone) {
				t.Errorf("%s %q %+v", code, text, exit)
			}
			if inside(test.then) != nil {
				t.Errorf("%s does not hold", test.then)
			}
		})
	}
}

// TestOwnProtected has commands change what the operator protects, by ways that
// no analysis sees.
func TestOwnProtected(t *testing.T) {
	const begin = `mkdir -p infra/prod/deep free; echo old >infra/prod/f; chmod 640 infra/prod/f; echo old >infra/prod/deep/g; head -c 2M /dev/zero >infra/prod/large; echo x >free/f`
	const whole = `test "$(cat infra/prod/f infra/prod/deep/g)" = $'old\nold' && test "$(find infra | wc -l)" = 6`
	for name, test := range map[string]struct {
		command string
		undone  string // part of what is told; empty: nothing
		then    string
	}{
		"changed":      {`echo evil >>infra/prod/f`, "infra/prod/f was changed, and put back", whole},
		"mode":         {`chmod 666 infra/prod/f`, "infra/prod/f was changed, and put back", `test $(stat -c %a infra/prod/f) = 640`},
		"made":         {`mkdir infra/prod/n && echo evil >infra/prod/n/f`, "infra/prod/n was made, and removed", whole},
		"removed":      {`rm -r infra/prod/deep`, "infra/prod/deep/g was changed, and put back", whole},
		"by hard link": {`ln infra/prod/f free/l; echo evil >free/l`, "infra/prod/f was changed, and put back", whole},
		"replaced":     {`rm infra/prod/f; ln -s ../../free/f infra/prod/f`, "infra/prod/f was changed, and put back", whole},
		"moved":        {`mv infra other`, "infra/prod/large was changed, and could not be put back: it was too large", `test "$(cat infra/prod/f)" = old`},
		"large":        {`printf x | dd of=infra/prod/large conv=notrunc status=none`, "infra/prod/large was changed, and could not be put back: it was too large", whole},
		"not":          {`cat infra/prod/f; echo new >free/f; mkdir infra/test`, "", `test "$(cat free/f)" = new -a -d infra/test`},
	} {
		t.Run(name, func(t *testing.T) {
			env := toolstest.Env(t, nil)
			env.Guard = toolstest.Guard{Own: "infra/prod"}
			inside := func(command string) error {
				cmd := exec.Command("bash", "-c", command)
				cmd.Dir = env.Workspace.Dir()
				return cmd.Run()
			}
			if err := inside(begin); err != nil {
				t.Fatal(err)
			}
			tool := shell.Bash(rooms(t))
			if text, code, exit := call(t, tool, env, m{"command": "cat infra/prod/f; touch free/g"}); code != "" {
				t.Errorf("nothing was changed: %s %q %+v", code, text, exit)
			}
			text, code, exit := call(t, tool, env, m{"command": test.command})
			if test.undone == "" {
				if code != "" {
					t.Errorf("%s %q %+v", code, text, exit)
				}
			} else if code != "sandbox_violation" || !strings.Contains(exit.Message, test.undone) {
				t.Errorf("%s %q %+v", code, text, exit)
			}
			if err := inside(test.then); err != nil {
				t.Errorf("%s does not hold", test.then)
			}
		})
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

// TestProtectedBackground has what runs beside calls change what is protected: it
// is put back while it runs, and told.
func TestProtectedBackground(t *testing.T) {
	for name, test := range map[string]struct{ command, undone, then string }{
		"hook made":    {`echo evil >.git/hooks/post-checkout`, ".git/hooks/post-checkout was made, and removed", `test ! -e .git/hooks/post-checkout`},
		"hook changed": {`echo evil >>.git/hooks/pre-commit`, ".git/hooks/pre-commit was changed, and put back", `! grep evil .git/hooks/pre-commit`},
		"config":       {`git config core.fsmonitor /tmp/evil`, ".git/config was changed, and put back", `! grep evil .git/config`},
		"own":          {`echo evil >f`, "f was changed, and put back", `test $(cat f) = old`},
		"own removed":  {`rm f`, "f was changed, and put back", `test $(cat f) = old`},
		"clone":        {`git clone -q . c && git -C c config core.hooksPath /tmp`, "c/.git/config was made, and removed", `! grep -r hooksPath c/.git`},
		"git removed":  {`while [ -e .git ]; do rm -rf .git; done`, ".git was removed, which cannot be undone", `test ! -e .git`}, // hooks that go first may be put back
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan string, 100)
			k := newKit(t, func(c *command.Config) { c.Violation = func(_, what string) { told <- what } })
			k.env.Guard = toolstest.Guard{Own: "f"}
			if k.outside(repository) != nil {
				t.Fatal("cannot begin")
			}
			k.start("read -r x; "+test.command+"; echo done; read -r x", nil)
			k.start("touch z; sleep 300", nil)
			k.call("process_input", m{"id": "p1", "text": "go\n"})
			k.call("process_output", m{"id": "p1", "until": "done"})
			k.eventually(test.then)
			for what := ""; !strings.Contains(what, test.undone); {
				select {
				case what = <-told:
				case <-time.After(time.Minute):
					t.Fatalf("the log ends with: %s", what)
				}
			}
			// It is a failure once, and part of how it stands from then on.
			k.call("process_output", m{"id": "p1"})
			text, code := k.call("process_output", m{"id": "p1"})
			if code != "" || !strings.Contains(text, test.undone) || !strings.Contains(text, "p1 is running") {
				t.Errorf("%q %s", text, code)
			}
			k.start("true", nil)
			if text, code := k.call("bash", m{"command": "touch y"}); code != "" {
				t.Errorf("a call afterwards: %q %s", text, code)
			}
			k.call("process_input", m{"id": "p1", "end": true})
			if text, _ := k.call("process_output", m{"id": "p1", "until_end": true}); !strings.Contains(text, test.undone) {
				t.Errorf("at its end: %q", text)
			}
			if text := k.failure("process_output", m{"id": "p2"}); !strings.Contains(text, "or something that ran beside it") || !strings.Contains(text, test.undone) {
				t.Errorf("of the one beside: %q", text)
			}
			if k.outside(test.then) != nil {
				t.Errorf("%s does not hold", test.then)
			}
		})
	}
}

// TestProtectedByAsking proves that who asks for a process has it looked after,
// and is told.
func TestProtectedByAsking(t *testing.T) {
	k := newKit(t)
	if k.outside(repository) != nil {
		t.Fatal("cannot begin")
	}
	k.start("echo evil >.git/hooks/pre-push; echo done; sleep 300", nil)
	text, code := k.call("process_output", m{"id": "p1", "until": "done"})
	if code != "sandbox_violation" || !strings.Contains(text, "done\n[p1 is running. ") || !strings.Contains(text, ".git/hooks/pre-push was made, and removed") {
		t.Errorf("%q %s", text, code)
	}
}

// TestProtectedByOthers has what is protected change while something runs in the
// background, by others than it.
func TestProtectedByOthers(t *testing.T) {
	k := newKit(t)
	k.env.Guard = toolstest.Guard{Own: "f"}
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
	place, _, _ = strings.Cut(place, ". ")
	if kept, err := os.ReadFile(place); code != "sandbox_violation" || !found || string(kept) != "by a person\n" {
		t.Errorf("%q %s: %q %v", text, code, kept, err)
	}
	// A call is blamed for what it did, and what it was allowed stays.
	if got := k.failure("bash", m{"command": "git clone -q . c; echo evil >f"}); !strings.Contains(got, "f was changed, and put back") {
		t.Error(got)
	}
	k.env.Guard = toolstest.Guard{Own: "g"} // the operator protects something else
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
	a := newKit(t)
	a.env.Guard = toolstest.Guard{Own: "f"}
	if a.outside(repository+"; echo old >g") != nil {
		t.Fatal("cannot begin")
	}
	b := kit{t: t, env: toolstest.Env(t, nil), tools: a.tools}
	b.env.Workspace, b.env.Guard = a.env.Workspace, toolstest.Guard{Own: "g"}
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
			k := newKit(t)
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
			k := newKit(t)
			k.env.Guard = toolstest.Guard{Own: "f"}
			if k.outside(repository) != nil {
				t.Fatal("cannot begin")
			}
			k.call("repl", m{"language": test.language, "code": test.define})
			if got := k.failure("repl", m{"language": test.language, "code": test.code}); !strings.Contains(got, ".git/hooks/pre-push was made, and removed") || !strings.Contains(got, "f was changed, and put back") {
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
	k := newKit(t)
	if k.outside(repository) != nil {
		t.Fatal("cannot begin")
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "(sleep 0.1; echo evil >.git/hooks/pre-push; touch later) &"}); code != "" {
		t.Errorf("%q %s", text, code)
	}
	k.eventually("test -e later")
	if got := k.failure("repl", m{"language": "bash", "code": "true"}); !strings.Contains(got, ".git/hooks/pre-push was made, and removed") {
		t.Error(got)
	}
	if text, code := k.call("repl", m{"language": "bash", "code": "git clone -q . c && cat c/x"}); text != "x\n" || code != "" {
		t.Errorf("%q %s", text, code)
	}
}
