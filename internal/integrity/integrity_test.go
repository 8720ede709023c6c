// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/tools"
)

// kit is a session on a workspace.
type kit struct {
	t         testing.TB
	dir, home string
	state     string
	keepers   *integrity.Keepers
	keeper    *integrity.Keeper
	reported  chan []string
}

func newKit(t testing.TB, begin string) *kit {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	k := &kit{t: t, dir: t.TempDir(), home: t.TempDir(), state: t.TempDir(), reported: make(chan []string, 100)}
	k.must(begin)
	k.join()
	t.Cleanup(k.keeper.Leave)
	return k
}

func (k *kit) join() {
	k.t.Helper()
	k.keepers = &integrity.Keepers{State: k.state}
	var err error
	k.keeper, err = k.keepers.Join(k.dir, integrity.Member{Homes: []string{k.home}, Tell: func(found []string) { k.reported <- found }})
	if err != nil {
		k.t.Fatal(err)
	}
}

// bash runs a script in the workspace.
func (k *kit) bash(script string) error {
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = k.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true",
		"GIT_AUTHOR_EMAIL=me@x", "GIT_COMMITTER_EMAIL=me@x", "GIT_AUTHOR_NAME=me", "GIT_COMMITTER_NAME=me",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}

func (k *kit) must(script string) {
	k.t.Helper()
	if err := k.bash(script); err != nil {
		k.t.Fatal(err)
	}
}

// run runs a script as a command of the session would, and returns what was taken
// back.
func (k *kit) run(script string, w integrity.Writer) string {
	k.t.Helper()
	mark := k.keeper.Begin(w)
	err := k.bash(script)
	found := strings.Join(mark.End(), "; ")
	if err != nil {
		k.t.Errorf("%v", err)
	}
	return found
}

const repository = `git init -q -b main . && git config user.name me && mkdir -p sub .husky && echo old >.husky/pre-commit &&
	printf '#!/bin/sh\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit &&
	echo f >f && git add . && git commit -qm one && echo g >f && git commit -qam two`

// TestPlanted has commands plant what runs later: it is taken back, and the rest
// of what they did stays.
func TestPlanted(t *testing.T) {
	bare := `git init -q --bare sub/deep/x.git; `
	for name, test := range map[string]struct {
		begin   string // before the session, behind the repository
		command string
		found   string // part of what is told; empty: nothing
		then    string // must succeed afterwards
		late    bool   // only the sweep finds it
	}{
		// What git and npm do.
		"husky install":     {command: `git config core.hooksPath .husky || true`, found: ".git/config: core.hooksPath = .husky would run programs later", then: `! grep -i hookspath .git/config`},
		"config of users":   {command: `git config user.email a@b; git config branch.main.rebase true; git config core.fsmonitor false; git config alias.st 'status -s'`, then: `git config user.email && git config alias.st`},
		"rest stays":        {command: `git config user.email a@b; git config core.pager ./evil; git remote add o https://x/y`, found: "core.pager = ./evil", then: `test $(git config user.email) = a@b && git config remote.o.url && ! git config core.pager`},
		"remote, push":      {command: `git init -q --bare sub/r.git && git remote add origin "$PWD/sub/r.git" && git push -q -u origin main`, then: `git config branch.main.remote`},
		"worktree":          {command: `git worktree add -q sub/wt -b side && cd sub/wt && git config extensions.worktreeConfig true && git config --worktree user.name you && echo x >x && git add x && git commit -qm x`, then: `git -C sub/wt log --oneline`},
		"submodule":         {command: `git init -q sub/m && git -C sub/m commit -q --allow-empty -m m && git -c protocol.file.allow=always submodule add -q ./sub/m mod/one && git commit -qm mod`, then: `git submodule status && test -f mod/one/.git`},
		"clone and remove":  {command: `git clone -q . x && rm -rf x`, then: `test ! -e x`},
		"clone":             {command: `git clone -q . sub/copy && git -C sub/copy log --oneline`, then: `test -e sub/copy/.git/config -a -e sub/copy/.husky/pre-commit`},
		"husky of another":  {begin: `git init -q sub/h && mkdir sub/h/.husky && echo theirs >sub/h/.husky/pre-commit && git -C sub/h add . && git -C sub/h commit -qm h`, command: `git clone -q sub/h x`, then: `test $(cat x/.husky/pre-commit) = theirs`},
		"commit":            {command: `echo h >h && git add h && git commit -qm three && git checkout -qb other && git tag v1 && git stash list && git gc -q`, then: `test -x .git/hooks/pre-commit`},
		"remove clone":      {begin: `git init -q sub/c && printf x >sub/c/.git/hooks/pre-push`, command: `rm -rf sub/c`, then: `test ! -e sub/c`},
		"move clone":        {begin: `git init -q sub/c && printf x >sub/c/.git/hooks/pre-push && git -C sub/c config core.pager less`, command: `mv sub/c d && touch d/x`, then: `test -e d/.git/hooks/pre-push && git -C d config core.pager`},
		"branches of husky": {begin: `git checkout -q -b none && git rm -rq .husky && git commit -qm none && git checkout -q main`, command: `git checkout -q none && test ! -e .husky && git checkout -q main`, then: `test $(cat .husky/pre-commit) = old`},
		"key removed":       {begin: `git config core.pager less`, command: `git config --unset core.pager`, then: `! git config core.pager`},
		"hooks off":         {command: `git config core.hooksPath /dev/null`, then: `git config core.hooksPath`},

		// Hooks.
		"hook changed":       {command: `echo evil >>.git/hooks/pre-commit`, found: ".git/hooks/pre-commit was changed, and put back", then: `test "$(cat .git/hooks/pre-commit)" = '#!/bin/sh' -a -x .git/hooks/pre-commit`},
		"hook made":          {command: `echo evil >.git/hooks/post-checkout`, found: ".git/hooks/post-checkout was made, and removed", then: `test ! -e .git/hooks/post-checkout`},
		"hook sample":        {command: `echo evil >.git/hooks/x.sample`, then: `test -e .git/hooks/x.sample`},
		"hook removed":       {command: `rm .git/hooks/pre-commit`, found: ".git/hooks/pre-commit was changed, and put back", then: `test -x .git/hooks/pre-commit`},
		"hook executable":    {begin: `echo x >.git/hooks/pre-push`, command: `chmod +x .git/hooks/pre-push`, found: ".git/hooks/pre-push was changed", then: `test ! -x .git/hooks/pre-push`},
		"hook by hard link":  {command: `ln .git/hooks/pre-commit sub/x; echo evil >>sub/x`, found: ".git/hooks/pre-commit was changed", then: `! grep evil .git/hooks/pre-commit`},
		"hook as link":       {command: `echo evil >sub/x; ln -s ../../sub/x .git/hooks/pre-push`, found: ".git/hooks/pre-push was made", then: `test ! -L .git/hooks/pre-push`},
		"hook behind link":   {begin: `echo x >sub/x; ln -s ../../sub/x .git/hooks/pre-push`, command: `echo evil >sub/x`, found: "sub/x was changed, and put back", then: `test $(cat sub/x) = x`},
		"hooks replaced":     {command: `mkdir e; echo evil >e/pre-commit; rm -r .git/hooks; ln -s ../e .git/hooks`, found: ".git/hooks was changed", then: `test -d .git/hooks -a ! -L .git/hooks -a -x .git/hooks/pre-commit && ! grep -r evil .git/hooks`},
		"hooks moved":        {command: `mv .git/hooks .git/h2; mkdir .git/hooks; echo evil >.git/hooks/pre-push`, found: "pre-push was made", then: `test -e .git/hooks/pre-commit -a ! -e .git/hooks/pre-push`},
		"10,000 hooks":       {command: `cd .git/hooks; echo evil >pre-push; touch 0{1..10100} 2>/dev/null || true`, found: ".git/hooks was filled with new hooks", then: `test ! -e .git/hooks/pre-push -a -x .git/hooks/pre-commit`},
		"husky":              {command: `echo evil >.husky/pre-commit`, found: ".husky/pre-commit was changed", then: `test $(cat .husky/pre-commit) = old`},
		"husky tree":         {command: `mkdir .husky/_; echo evil >.husky/_/h`, found: ".husky/_/h was made", then: `test ! -e .husky/_/h`},
		"hooksPath before":   {begin: `mkdir .githooks; git config core.hooksPath .githooks`, command: `echo evil >.githooks/pre-push`, found: ".githooks/pre-push was made", then: `test ! -e .githooks/pre-push`},
		"hooksPath worktree": {begin: `git config core.hooksPath .husky`, command: `git worktree add -q sub/wt -b side; echo evil >sub/wt/.husky/pre-push`, found: "sub/wt/.husky/pre-push was made", then: `test $(cat sub/wt/.husky/pre-commit) = old -a ! -e sub/wt/.husky/pre-push`},

		// Configuration.
		"fsmonitor":           {command: `git config core.fsmonitor 'x; echo fsmonitor = false'`, found: "core.fsmonitor = x; echo", then: `! grep echo .git/config`},
		"inline":              {command: `printf '[core] pager = evil\n[user] name = you\n' >>.git/config`, found: "core.pager = evil", then: `! grep evil .git/config && test $(git config user.name) = you`},
		"continued":           {command: `printf '[user]\n name = x\\\\\n y\n[co\n' >>.git/config; sed -i '$d' .git/config; printf '[core] ; c\\\n sshCommand = "ev\\\nil" # x\n' >>.git/config`, found: "core.sshCommand = evil", then: `! git config core.sshcommand`},
		"value changed":       {begin: `git config core.editor vi`, command: `git config core.editor evil; git config user.email e`, found: "core.editor = evil", then: `test $(git config core.editor) = vi -a $(git config user.email) = e`},
		"value added":         {begin: `git config --add credential.helper a`, command: `git config --add credential.helper '!evil'`, found: "credential.helper = !evil", then: `test "$(git config --get-all credential.helper)" = a`},
		"broken":              {command: `echo '[core' >>.git/config`, found: ".git/config was changed, and put back", then: `git config user.name`},
		"config as link":      {command: `cp .git/config sub/c; git config -f sub/c core.pager evil; ln -sf ../sub/c .git/config`, found: ".git/config was changed, and put back", then: `test ! -L .git/config && ! git config core.pager`},
		"config.worktree":     {command: `git config extensions.worktreeConfig true; git config --worktree core.pager evil`, found: ".git/config.worktree: core.pager = evil", then: `! git config core.pager`},
		"worktree of another": {begin: `git worktree add -q sub/wt; git config extensions.worktreeConfig true`, command: `git -C sub/wt config --worktree core.pager evil`, found: ".git/worktrees/wt/config.worktree: core.pager", then: `! git -C sub/wt config core.pager`},
		"worktree copies":     {begin: `git config extensions.worktreeConfig true; git config --worktree core.pager less`, command: `git worktree add -q sub/wt`, then: `git -C sub/wt log -1`},
		"commondir":           {command: `cp -r .git sub/e; echo evil >sub/e/hooks/pre-push; echo ../sub/e >.git/commondir`, found: ".git/commondir was made, and removed", then: `test ! -e .git/commondir`},
		"commondir elsewhere": {command: `git worktree add -q sub/wt -b s; cp -r .git sub/e; git config -f sub/e/config core.pager evil; echo "$PWD/sub/e" >.git/worktrees/wt/commondir`, found: "sub/e/config: core.pager = evil", then: `! grep -r evil sub/e/config`},
		"slash submodule":     {begin: `git init -q sub/m && git -C sub/m commit -q --allow-empty -m m && git -c protocol.file.allow=always submodule add -q ./sub/m a/b/c`, command: `git -C a/b/c config core.pager evil; echo evil >.git/modules/a/b/c/hooks/pre-push`, found: ".git/modules/a/b/c/config: core.pager = evil", then: `! grep -r evil .git/modules/a/b/c/config .git/modules/a/b/c/hooks`},
		"slash made":          {begin: `mkdir -p .git/modules/a/b`, command: `git init -q --bare .git/modules/a/b/c; echo evil >.git/modules/a/b/c/hooks/pre-push; echo "gitdir: ../.git/modules/a/b/c" >sub/.git`, found: ".git/modules/a/b/c/hooks/pre-push was made", then: `! grep -r evil .git/modules`},
		"ext":                 {command: `git remote add e 'ext::sh -c evil'; git config protocol.ext.allow always; git config branch.main.remote 'ext::sh -c evil'`, found: "remote.e.url = ext::sh -c evil", then: `! grep 'ext::' .git/config && ! git config protocol.ext.allow`},
		"helper by insteadOf": {command: `git config url.ext:.insteadOf foo; git config url.git@github.com:.insteadOf gh:`, found: "url.ext:.insteadOf = foo", then: `git config url.git@github.com:.insteadOf && ! git config url.ext:.insteadOf`},
		"include":             {command: `git config -f sub/inc core.pager evil; git config include.path ../sub/inc`, found: "include.path = ../sub/inc", then: `! git config include.path`},
		"included":            {begin: `git config -f inc user.name x; git config include.path ../inc`, command: `git config -f inc core.pager evil; git config -f inc user.name y`, found: "inc: core.pager = evil", then: `test "$(git config -f inc user.name)" = y && ! grep evil inc`},
		"home":                {command: `git config --global core.pager evil; git config --global user.email e`, found: "~/.gitconfig: core.pager = evil", then: `! git config core.pager && git config user.email`},
		"home, xdg":           {command: `mkdir -p ~/.config/git; echo '[alias] x = !evil' >~/.config/git/config`, found: "~/.config/git/config: alias.x = !evil", then: `! grep evil ~/.config/git/config`},
		"work tree":           {command: `git config core.worktree /home`, found: "core.worktree = /home", then: `! grep -i worktree .git/config`},
		"work tree of hooks":  {command: `git config core.worktree .`, found: "core.worktree = .", then: `! grep -i worktree .git/config`},
		"work tree elsewhere": {begin: `git init -q sub/o`, command: `git config core.worktree ../sub/o/.git/hooks`, found: "core.worktree = ../sub/o/.git/hooks", then: `! grep -i worktree .git/config`},
		"work tree, bare":     {command: bare + `git -C sub/deep/x.git config core.bare false; git -C sub/deep/x.git config core.worktree hooks`, found: "core.worktree = hooks", then: `! grep -i worktree sub/deep/x.git/config`},
		"work tree by a link": {begin: `mkdir sub/w; git config core.worktree ../sub/w`, command: `rmdir sub/w; ln -s ../.git sub/w`, found: "core.worktree = ../sub/w", then: `! grep -i worktree .git/config`},
		"work tree moved":     {command: `git config core.worktree ../sub`, then: `grep -i worktree .git/config`},

		// Rebases.
		"rebase":           {command: `GIT_SEQUENCE_EDITOR="sed -i 's/^pick/edit/'" git rebase -q -i HEAD~1 2>/dev/null && git rebase --continue 2>/dev/null`, then: `test ! -e .git/rebase-merge`},
		"rebase todo":      {begin: `GIT_SEQUENCE_EDITOR="sed -i 's/^pick/edit/'" git rebase -q -i HEAD~1 2>/dev/null`, command: `printf 'x evil\npick abc\n' >>.git/rebase-merge/git-rebase-todo`, found: "the line exec evil would run", then: `! grep evil .git/rebase-merge/git-rebase-todo && grep 'pick abc' .git/rebase-merge/git-rebase-todo`},
		"rebase todo made": {command: `mkdir .git/rebase-merge; echo 'exec evil' >.git/rebase-merge/git-rebase-todo`, found: "the line exec evil", then: `! grep evil .git/rebase-merge/git-rebase-todo`},

		"rebase strategy":  {command: `mkdir .git/rebase-merge; echo evil >.git/rebase-merge/strategy; echo x >.git/rebase-merge/other`, found: "rebase-merge/strategy: the strategy evil would run", then: `! grep evil .git/rebase-merge/strategy && test -e .git/rebase-merge/other`},
		"strategy of git":  {command: `! git checkout -q -b o HEAD~1 || ! { echo h >f && git commit -qam h && git rebase -q -s recursive -X patience main 2>/dev/null; } ; test -e .git/rebase-merge`, then: `grep recursive .git/rebase-merge/strategy`},
		"pick strategy":    {command: `mkdir .git/sequencer; printf '[options]\n\tedit = true\n\tstrategy = evil\n' >.git/sequencer/opts`, found: "sequencer/opts: the strategy evil would run", then: `! grep evil .git/sequencer/opts && grep edit .git/sequencer/opts`},
		"pick exec":        {command: `mkdir .git/sequencer; printf 'pick abc\nexec evil\n' >.git/sequencer/todo`, found: "sequencer/todo: the line exec evil", then: `! grep evil .git/sequencer/todo && grep pick .git/sequencer/todo`},
		"sequencer a link": {command: `mkdir s; printf 'exec evil\n' >s/todo; ln -s ../s .git/sequencer`, found: ".git/sequencer was made, and removed", then: `test ! -e .git/sequencer`},

		// Repositories that are new.
		"new hook":           {command: `git init -q sub/deep; echo evil >sub/deep/.git/hooks/pre-commit`, found: "sub/deep/.git/hooks/pre-commit was made, and removed", then: `test -d sub/deep/.git -a ! -e sub/deep/.git/hooks/pre-commit`},
		"new config":         {command: `git clone -q . sub/c; git -C sub/c config core.hooksPath /tmp; git -C sub/c config user.email e`, found: "sub/c/.git/config: core.hooksPath = /tmp", then: `test $(git -C sub/c config user.email) = e && ! git -C sub/c config core.hooksPath`},
		"bare":               {command: bare + `git -C sub/deep/x.git config core.pager evil`, found: "sub/deep/x.git/config: core.pager = evil", then: `! grep evil sub/deep/x.git/config`},
		"bare in the depth":  {begin: `mkdir -p sub/a/b/c`, command: `cd sub/a/b/c && git init -q --bare x && echo evil >x/hooks/update`, found: "sub/a/b/c/x/hooks/update was made", then: `test ! -e sub/a/b/c/x/hooks/update`, late: true},
		"clone in the depth": {begin: `mkdir -p sub/a/b/c`, command: `git clone -q . sub/a/b/c/x && git -C sub/a/b/c/x log`, then: `test -d sub/a/b/c/x/.git`, late: true},
		"in node_modules":    {begin: `mkdir -p node_modules/a`, command: `git init -q node_modules/a; git -C node_modules/a config core.fsmonitor evil`, found: "core.fsmonitor = evil", then: `! grep evil node_modules/a/.git/config`, late: true},
		"pointer outside":    {command: `git init -q --bare "$HOME/x.git"; echo "gitdir: $HOME/x.git" >sub/.git`, found: "sub/.git was made, and removed", then: `test ! -e sub/.git`},
		"pointer inside":     {command: bare + `echo evil >sub/deep/x.git/hooks/update; mkdir sub/w; echo "gitdir: ../deep/x.git" >sub/w/.git`, found: "sub/deep/x.git/hooks/update was made", then: `test -e sub/w/.git -a ! -e sub/deep/x.git/hooks/update`},
		"link":               {command: `git init -q --bare "$HOME/x.git"; ln -s "$HOME/x.git" sub/.git`, found: "sub/.git was made, and removed", then: `test ! -L sub/.git`},

		// The repository of the workspace.
		"git moved":    {command: `mv .git g; ln -s g .git; echo evil >g/hooks/pre-push`, found: ".git was moved to g, and moved back", then: `test ! -L .git -a ! -e .git/hooks/pre-push -a -x .git/hooks/pre-commit`},
		"git removed":  {command: `rm -rf .git`, found: ".git was removed, which cannot be undone", then: `test ! -e .git`},
		"git anew":     {command: `rm -rf .git; git init -q .`, found: ".git was removed, which cannot be undone", then: `test -e .git/config`},
		"git copied":   {command: `mv .git dg && mkdir -p .git/hooks && cp -r dg/* .git/ && echo x >.git/hooks/pre-push`, found: ".git/hooks/pre-push was made, and removed", then: `test ! -e .git/hooks/pre-push -a -x .git/hooks/pre-commit -a -x dg/hooks/pre-commit`},
		"git separate": {command: `git init -q --separate-git-dir=sub/g .`, then: `git log -1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, repository)
			if test.begin != "" {
				k.must(test.begin)
			}
			if got := k.run("touch t", integrity.Writer{}); got != "" {
				t.Errorf("of nothing: %s", got)
			}
			got := k.run("touch near; "+test.command, integrity.Writer{}) // so that it is looked at what is near
			if test.late {                                                // unless a sweep came by meanwhile
				k.keeper.Sweep(context.Background())
				got += k.run("true", integrity.Writer{})
			}
			if (test.found == "") != (got == "") || !strings.Contains(got, test.found) {
				t.Errorf("found %q, not %q", got, test.found)
			}
			if err := k.bash(test.then); err != nil {
				t.Error(err)
			}
			k.keeper.Sweep(context.Background())
			if got := k.run("touch t", integrity.Writer{}); got != "" {
				t.Errorf("afterwards: %s", got)
			}
			if err := k.bash(test.then); err != nil {
				t.Error("afterwards:", err)
			}
		})
	}
}

// TestRebases proves that a session may leave a rebase that runs commands, if its
// words say so.
func TestRebases(t *testing.T) {
	k := newKit(t, repository)
	stopped := `! git rebase -q --exec false HEAD~1 2>/dev/null`
	if got := k.run(stopped, integrity.Writer{Rebases: true}); got != "" {
		t.Error(got)
	}
	k.must(`git rebase --abort`)
	hidden := `! GIT_SEQUENCE_EDITOR="sed -i '1i break'" git rebase -q -i --exec false HEAD~1 2>/dev/null || true`
	if got := k.run(hidden, integrity.Writer{}); !strings.Contains(got, "the line exec false") {
		t.Errorf("%q", got)
	}
}

// TestKept tells what is looked after, wherever the configuration has it, there or not.
func TestKept(t *testing.T) {
	t.Parallel()
	k := newKit(t, repository+`; git init -q --bare deep/x.git; git -C deep/x.git config core.hooksPath scripts; git init -q tree
		git -C tree config core.hooksPath later/hooks; git -C tree config core.worktree ../../wt; echo x >sub/x; ln -s ../../sub/x .git/hooks/pre-push
		git config include.path ../inc; git config includeIf.onbranch:x.path ../inc2`)
	kept := k.keeper.Monitored(nil)
	for at, want := range map[string]string{
		"f": "", "sub": "", "sub/x": "sub/x", "inc": "inc", "inc2": "inc2", ".git/config": ".git/config", ".git/hooks/x/y": ".git/hooks",
		"deep/x.git/hooks/update": "deep/x.git/hooks", "deep/x.git/config": "deep/x.git/config", "deep/x.git/index": "deep/x.git/index", "deep/x.git/HEAD": "",
		"deep/x.git/scripts/update": "deep/x.git/scripts", "tree/later/hooks/update": "tree/later/hooks", "wt/later/hooks/update": "wt/later/hooks", "wt/later": "",
	} {
		if got := kept.At(at, false); got != want {
			t.Errorf("%s: %q, not %q", at, got, want)
		}
	}
	if got := kept.At("wt", true); got != "wt/later/hooks" {
		t.Errorf("below: %q", got)
	}
	k.must("git config core.hooksPath mine") // a person
	if got := k.keeper.Monitored(nil).At("mine/pre-push", false); got != "mine" {
		t.Errorf("of a person: %q", got)
	}
	mark := k.keeper.Begin(integrity.Writer{})
	k.must("git config core.hooksPath f")
	if got := k.keeper.Monitored(nil).At("f", false); got != "" {
		t.Errorf("of a command: %q", got)
	}
	mark.End()
}

// own protects one path and what is below it.
type own string

func (o own) Protects(at string) bool { return at == string(o) || strings.HasPrefix(at, string(o)+"/") }

// TestOwn has commands change what the operator protects.
func TestOwn(t *testing.T) {
	const begin = `mkdir -p infra/prod/deep free; echo old >infra/prod/f; chmod 640 infra/prod/f; echo old >infra/prod/deep/g; head -c 2M /dev/zero >infra/prod/large; echo x >free/f`
	const whole = `test "$(cat infra/prod/f infra/prod/deep/g)" = $'old\nold' && test "$(find infra | wc -l)" = 6`
	for name, test := range map[string]struct{ command, found, then string }{
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
			k := newKit(t, begin)
			w := integrity.Writer{Protection: own("infra/prod")}
			if got := k.run("touch free/g", w); got != "" {
				t.Error(got)
			}
			if got := k.run(test.command, w); !strings.Contains(got, test.found) || (got == "") != (test.found == "") {
				t.Errorf("%q", got)
			}
			if err := k.bash(test.then); err != nil {
				t.Error(err)
			}
			if got := k.run("touch free/g", w); got != "" {
				t.Error(got)
			}
		})
	}
	k := newKit(t, begin)
	k.run("true", integrity.Writer{Protection: own("infra/prod")})
	if got := k.run("echo new >infra/prod/f; echo evil >free/f", integrity.Writer{Protection: own("free")}); got != "free/f was changed, and put back" {
		t.Errorf("another protection: %q", got)
	}
}

// TestLasting has something that is part of no call plant things: it is told, and
// ended when it does so again.
func TestLasting(t *testing.T) {
	k := newKit(t, repository)
	again := make(chan string, 10)
	older := k.keeper.Begin(integrity.Writer{Lasting: true, Again: func() { again <- "older" }})
	mark := k.keeper.Begin(integrity.Writer{Lasting: true, Again: func() { again <- "younger" }})
	k.must("git config core.pager evil")
	k.keeper.Examine()
	if got := <-k.reported; len(got) != 1 || !strings.Contains(got[0], "core.pager = evil") {
		t.Error(got)
	}
	if got := mark.Unreported(); len(got) != 1 || !strings.Contains(got[0], "core.pager = evil") {
		t.Error(got)
	}
	if got := mark.Unreported(); len(got) != 0 {
		t.Error(got)
	}
	// A call is blamed for what happens while it runs.
	if got := k.run("git config core.pager evil", integrity.Writer{}); !strings.Contains(got, "core.pager") {
		t.Error(got)
	}
	if len(again) > 0 {
		t.Error("ended too early")
	}
	k.must("echo evil >.git/hooks/pre-push")
	k.keeper.Examine()
	if got := <-again; got != "younger" {
		t.Error(got)
	}
	mark.End()
	older.End()
	if got := older.Found(); len(got) != 2 {
		t.Error(got)
	}
	k.must("! git config core.pager && test ! -e .git/hooks/pre-push")
}

// TestSessions has two sessions in one workspace.
func TestSessions(t *testing.T) {
	k := newKit(t, repository)
	other, err := k.keepers.Join(k.dir, integrity.Member{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Leave()
	a, b := k.keeper.Begin(integrity.Writer{}), other.Begin(integrity.Writer{})
	k.must("git config core.pager evil")
	for _, mark := range []*integrity.Mark{a, b} {
		if got := mark.End(); len(got) != 1 || !strings.Contains(got[0], "core.pager") {
			t.Error(got)
		}
	}
	if got := other.Begin(integrity.Writer{}).End(); len(got) != 0 {
		t.Error(got)
	}
}

// TestCrash proves that what was planted before a crash is not trusted after it,
// and that what a person changed while nothing ran is.
func TestCrash(t *testing.T) {
	k := newKit(t, repository+"; echo old >own")
	w := integrity.Writer{Protection: own("own")}
	k.run("touch x", w)
	k.keeper.Begin(w)
	k.must("git config core.pager evil; echo evil >.git/hooks/pre-push; echo evil >own; git init -q sub/n; git -C sub/n config core.pager evil")
	k.join() // as another process would
	defer k.keeper.Leave()
	got := k.run("true", w)
	for _, want := range []string{".git/config: core.pager", ".git/hooks/pre-push was made", "own was changed, and put back", "sub/n/.git/config: core.pager"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	k.must("! git config core.pager && ! git -C sub/n config core.pager && test $(cat own) = old -a -x .git/hooks/pre-commit")

	// Now it ends while nothing runs.
	for range 100 {
		k.keeper.Sweep(context.Background())
		if files, _ := filepath.Glob(k.state + "/*.idle"); len(files) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	k.must("git config core.pager less")
	k.join()
	if got := k.run("true", w); got != "" {
		t.Error(got)
	}
	k.must("git config core.pager")
	k.keeper.Leave()
	if files, _ := os.ReadDir(k.state); len(files) != 0 {
		t.Error("what is left:", files)
	}
}

// TestLeave proves that the end of the last session finds what no look has seen.
func TestLeave(t *testing.T) {
	k := newKit(t, "mkdir -p a/b/c")
	k.run("git init -q a/b/c/d && echo evil >a/b/c/d/.git/hooks/pre-push", integrity.Writer{})
	k.join()
	k.run("true", integrity.Writer{})
	k.keeper.Leave()
	k.must("test ! -e a/b/c/d/.git/hooks/pre-push")
}

// TestMany has a command make more repositories than are kept in mind.
func TestMany(t *testing.T) {
	k := newKit(t, repository+"; echo old >own")
	w := integrity.Writer{Protection: own("own")}
	k.run("touch x", w)
	got := k.run(`mkdir -p d/r{1..520}/{objects,refs} && for i in {1..520}; do echo x >d/r$i/HEAD; echo '[core] pager = evil' >d/r$i/config; done`, w)
	k.keeper.Sweep(context.Background())
	if got += k.run("true", w); !strings.Contains(got, "/config: core.pager = evil") {
		t.Error(got)
	}
	k.must("! grep -r evil d && test $(cat own) = old")
}

// TestGitAsWorkspace has a session whose workspace is a directory of git.
func TestGitAsWorkspace(t *testing.T) {
	k := newKit(t, "git init -q --bare .")
	if got := k.run("git config core.pager evil; echo evil >hooks/update", integrity.Writer{}); !strings.Contains(got, "config: core.pager") || !strings.Contains(got, "hooks/update was made") {
		t.Error(got)
	}
}

// TestAllAtOnce has tools, uploads, commands, sweeps and sessions at one time: each comes
// to its end.
func TestAllAtOnce(t *testing.T) {
	k := newKit(t, repository)
	join := func() *integrity.Keeper {
		other, err := k.keepers.Join(k.dir, integrity.Member{})
		if err != nil {
			t.Error(err)
		}
		return other
	}
	var all sync.WaitGroup
	for name, do := range map[string]func(){
		"tool":    func() { defer k.keeper.Writing(nil)(); k.must("echo x >tool") },
		"tools":   func() { defer k.keeper.Writing(nil)(); defer k.keeper.Receiving(nil)() },
		"upload":  func() { defer k.keeper.Receiving(nil)(); k.keeper.Sweep(context.Background()) },
		"command": func() { k.run("git config user.email e", integrity.Writer{}) },
		"sweep":   func() { k.keeper.Sweep(context.Background()) },
		"session": func() {
			other := join()
			done := other.Writing(nil)
			mark := other.Begin(integrity.Writer{})
			done()
			mark.End()
			other.Leave()
		},
	} {
		all.Go(func() {
			for range 20 {
				do()
			}
			t.Log(name, "has ended")
		})
	}
	all.Wait()
	if got := k.run("echo evil >.git/hooks/pre-push", integrity.Writer{}); !strings.Contains(got, "pre-push was made") {
		t.Errorf("found %q", got)
	}
}

// BenchmarkLook tells what a command pays that may write.
func BenchmarkLook(b *testing.B) {
	for _, test := range []struct{ name, begin string }{
		{"empty", "true"},
		{"repository", repository},
		{"20000 flat", repository + "; mkdir d{1..20000}"},
		{"20000 nested", repository + "; mkdir -p d{1..20}/d{1..50}/d{1..20}"},
		{"50 repositories", repository + "; for i in {1..50}; do git init -q r$i; done"},
	} {
		b.Run(test.name, func(b *testing.B) {
			k := newKit(b, test.begin)
			k.keeper.Begin(integrity.Writer{}).End()
			for b.Loop() {
				mark := k.keeper.Begin(integrity.Writer{})
				// As if a file were made, which takes far longer by itself.
				if err := os.Chtimes(k.dir, time.Time{}, time.Now()); err != nil {
					b.Fatal(err)
				}
				if found := mark.End(); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
	}
}

var _ tools.Protection = own("")
