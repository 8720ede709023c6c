// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// TestOwnProtectedBackground proves that what changed while a process ran in the
// background is told and left: a person may have done it.
func TestOwnProtectedBackground(t *testing.T) {
	k := newKit(t)
	k.env.Guard = toolstest.Guard{Own: "f"}
	file := filepath.Join(k.env.Workspace.Dir(), "f")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	k.start("read -r x; touch g", nil)
	if err := os.WriteFile(file, []byte("by a person"), 0o644); err != nil {
		t.Fatal(err)
	}
	k.call("process_input", m{"id": "p1", "end": true})
	if got, _ := k.call("process_output", m{"id": "p1", "until_end": true}); !strings.Contains(got, "f was changed, by it or beside it") {
		t.Errorf("%q", got)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "by a person" {
		t.Errorf("%q %v", text, err)
	}
}
