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
