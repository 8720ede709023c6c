// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/tools"
)

// TestPersons proves that what a person changes while nothing runs is trusted,
// in repositories that are known and in new ones.
func TestPersons(t *testing.T) {
	k := newKit(t, repository+"; mkdir -p sub/a/b")
	k.run("touch x", integrity.Writer{})
	time.Sleep(100 * time.Millisecond) // the clock of the file system must move on
	k.must(`git config core.pager less; echo mine >.git/hooks/pre-push; git clone -q . sub/a/b/c; git -C sub/a/b/c config core.pager less; echo mine >sub/a/b/c/.git/hooks/pre-push`)
	time.Sleep(100 * time.Millisecond)
	if got := k.run("git -C sub/a/b/c checkout -qb x; git config user.email e", integrity.Writer{}); got != "" {
		t.Error(got)
	}
	k.keeper.Sweep(context.Background())
	if got := k.run("true", integrity.Writer{}); got != "" {
		t.Error(got)
	}
	k.must(`test -e sub/a/b/c/.git/hooks/pre-push -a -e .git/hooks/pre-push && git config core.pager && git -C sub/a/b/c config core.pager`)
	if got := k.run("echo evil >sub/a/b/c/.git/hooks/pre-push; git -C sub/a/b/c config core.pager evil", integrity.Writer{}); !strings.Contains(got, "core.pager = evil") || !strings.Contains(got, "pre-push was changed") {
		t.Error(got)
	}
	k.must(`test $(git -C sub/a/b/c config core.pager) = less -a $(cat sub/a/b/c/.git/hooks/pre-push) = mine`)
}

// TestPersonsAtOnce has a person work right after a command, before what the command
// left has been looked for everywhere.
func TestPersonsAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t, repository)
	k.run("touch x", integrity.Writer{})
	time.Sleep(100 * time.Millisecond) // the clock of the file system must move on
	k.must(`git config core.pager less; echo mine >.git/hooks/pre-push; echo changed >.git/hooks/pre-commit`)
	k.keeper.Sweep(context.Background())
	k.must(`test $(git config core.pager) = less -a $(cat .git/hooks/pre-push) = mine -a $(cat .git/hooks/pre-commit) = changed`)
	if got := k.run("touch y", integrity.Writer{}); got != "" {
		t.Errorf("%q", got)
	}
	time.Sleep(100 * time.Millisecond)
	k.must(`rm .git/hooks/pre-push`)
	k.keeper.Sweep(context.Background())
	k.must(`test ! -e .git/hooks/pre-push`)
	if got := k.run("echo evil >.git/hooks/pre-push; git config core.pager evil", integrity.Writer{}); !strings.Contains(got, "pre-push was made") || !strings.Contains(got, "core.pager") {
		t.Errorf("%q", got)
	}
}

// TestRemovedMidway sweeps while a command removes a repository: what is gone comes back
// only if the rest is still there when the command ends.
func TestRemovedMidway(t *testing.T) {
	t.Parallel()
	k := newKit(t, repository+`; git init -q sub/c; echo x >sub/c/.git/hooks/pre-push`)
	k.run("touch x", integrity.Writer{})
	mark := k.keeper.Begin(integrity.Writer{})
	k.must(`rm -r sub/c/.git/hooks .git/hooks/pre-commit`)
	k.keeper.Sweep(context.Background())
	k.must(`rm -r sub/c`)
	if got := mark.End(); len(got) != 1 || got[0] != ".git/hooks/pre-commit was changed, and put back" {
		t.Errorf("%q", got)
	}
	k.must(`test -e .git/hooks/pre-commit -a ! -e sub/c`)
}

// TestHalfWritten sweeps while git writes hooks that are trusted to another work tree,
// and to this: they stay, as they are when they are complete.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	k := newKit(t, repository+`; git config core.hooksPath .husky`)
	k.run("touch x", integrity.Writer{})
	time.Sleep(100 * time.Millisecond) // the clock of the file system must move on
	k.must(`git checkout -qb other; echo other >.husky/pre-commit; git -c core.hooksPath=/dev/null commit -qam other`)
	time.Sleep(100 * time.Millisecond)
	k.run("touch x", integrity.Writer{})
	for try := 0; ; try++ {
		mark := k.keeper.Begin(integrity.Writer{})
		k.must(`git worktree add -q sub/wt main`)
		begun := time.Now()
		k.must(`: >sub/wt/.husky/pre-commit; rm .husky/pre-commit; : >.husky/pre-commit; echo evil >.husky/pre-push`)
		k.keeper.Sweep(context.Background())
		tookLong := time.Since(begun) > 900*time.Millisecond // than git would, so that it is none of git's
		k.bash(`echo old | tee sub/wt/.husky/pre-commit >.husky/pre-commit`)
		got := mark.End()
		if tookLong && try < 20 {
			k.run(`git worktree remove --force sub/wt`, integrity.Writer{})
			continue
		}
		if len(got) != 1 || got[0] != ".husky/pre-push was made, and removed" {
			t.Errorf("%q", got)
		}
		break
	}
	k.must(`test $(cat .husky/pre-commit) = old -a $(cat sub/wt/.husky/pre-commit) = old -a ! -e .husky/pre-push`)

	// Nobody holds that up for long.
	mark := k.keeper.Begin(integrity.Writer{Lasting: true})
	for i := 0; len(mark.Found()) == 0; i++ {
		if i == 500 {
			t.Fatal("it is never judged")
		}
		k.must(fmt.Sprintf(`echo evil%d >.husky/pre-commit`, i))
		k.keeper.Sweep(context.Background())
		time.Sleep(10 * time.Millisecond)
	}
	mark.End()
	k.must(`test $(cat .husky/pre-commit) = old`)
}

// TestMoved has commands move, to where git finds it, what was written while nothing
// ran: that was harmless where it lay, or trusted there, and is planted where it is
// now.
func TestMoved(t *testing.T) {
	const tree = `git init -q --bare x && git -C x config core.bare false && git -C x config core.fsmonitor evil && echo evil >x/hooks/pre-commit && chmod +x x/hooks/pre-commit`
	const gone = `! grep -rqs evil sub/.git/config sub/.git/hooks w/.git/config w/.git/hooks .git/config .git/hooks`
	for name, test := range map[string]struct {
		before  string // a command
		quiet   string // while nothing runs
		known   bool   // it is found, and trusted, before it is moved
		command string
		found   string
	}{
		"in place": {quiet: tree, command: `mv x sub/.git`, found: "sub/.git/hooks/pre-commit was made, and removed"},
		"config":   {quiet: tree, command: `mv x sub/.git`, found: "sub/.git/config: core.fsmonitor = evil"},
		"touched":  {quiet: tree, command: `mv x sub/.git; touch sub/.git/y sub/y`, found: "sub/.git/config: core.fsmonitor = evil"},
		"known":    {quiet: tree, known: true, command: `mv x sub/.git`, found: "sub/.git/hooks/pre-commit was made, and removed"},
		"around":   {quiet: `mkdir v v/r; ` + tree + `; rm x/HEAD; mv x v/r/.git`, command: `cp .git/HEAD v/r/.git; mv v/r w`, found: "w/.git/config: core.fsmonitor = evil"},
		"replaced": {
			before:  `mkdir -p y/hooks y/objects y/refs && touch y/hooks/pre-commit && chmod +x y/hooks/pre-commit`,
			quiet:   `cp -p y/hooks/pre-commit t; echo evil >t; mv t y/hooks/pre-commit; cp .git/HEAD t; mv t y/HEAD`,
			known:   true,
			command: `mv .git old && mv y .git`, found: ".git/hooks/pre-commit was made, and removed",
		},
		"copied": {quiet: tree, known: true, command: `cp -p x/hooks/pre-commit .git/hooks/pre-commit`, found: ".git/hooks/pre-commit was changed, and put back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, repository)
			k.run("true;"+test.before, integrity.Writer{})
			time.Sleep(100 * time.Millisecond) // the clock of the file system must move on
			k.must(test.quiet)
			time.Sleep(100 * time.Millisecond)
			if test.known {
				k.run("touch q", integrity.Writer{})
				k.keeper.Sweep(context.Background())
				k.run("touch q", integrity.Writer{})
			}
			got := k.run("touch near; "+test.command, integrity.Writer{})
			if !strings.Contains(got, test.found) {
				t.Errorf("found %q, not %q", got, test.found)
			}
			for range 2 {
				if err := k.bash(gone); err != nil {
					t.Error(err)
				}
				k.keeper.Sweep(context.Background())
				k.run("touch q", integrity.Writer{})
			}
		})
	}
}

// TestMovedByPersons proves that a person may move repositories while nothing runs,
// whether they were there from the first or not.
func TestMovedByPersons(t *testing.T) {
	const c = `git init -q c && echo mine >c/.git/hooks/pre-push && git -C c config core.pager less`
	for name, made := range map[string]bool{"from the first": false, "made": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := repository
			if !made {
				begin += " && " + c
			}
			k := newKit(t, begin)
			k.run("touch x", integrity.Writer{})
			time.Sleep(100 * time.Millisecond)
			if made {
				k.must(c)
				time.Sleep(100 * time.Millisecond)
				k.run("touch x", integrity.Writer{})
				time.Sleep(100 * time.Millisecond)
			}
			k.must("mv c d")
			time.Sleep(100 * time.Millisecond)
			for range 2 {
				if got := k.run("touch x d/x && git -C d add x && git -C d -c core.hooksPath=/dev/null commit -qm x; touch d/x2", integrity.Writer{}); got != "" {
					t.Error(got)
				}
				k.keeper.Sweep(context.Background())
				k.must("test $(cat d/.git/hooks/pre-push) = mine && git -C d config core.pager")
			}
		})
	}
}

// TestWriting has the server itself write what makes a repository, and where one is
// known already: it is judged as if a command had done it.
func TestWriting(t *testing.T) {
	const docs = `mkdir -p docs/objects docs/refs docs/hooks; cp .git/HEAD docs; echo '[core] fsmonitor = evil' >docs/config; echo evil >docs/hooks/pre-push`
	const begin = repository + `; git init -q --bare x.git; git -C x.git config core.hooksPath scripts; mkdir .githooks tree; echo mine >.githooks/pre-commit
		git config core.hooksPath .githooks; git config -f inc user.name x; git config include.path ../inc; git config core.worktree ../tree`
	const gone = `test -e docs/HEAD && ! grep -rqs evil docs .git .githooks inc tree x.git && test $(cat .githooks/pre-commit) = mine`
	for name, first := range map[string]string{"at first": "", "later": "touch x"} {
		for kind, writing := range map[string]func(*integrity.Keeper, tools.Protection) func(){"tool": (*integrity.Keeper).Writing, "upload": (*integrity.Keeper).Receiving} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				k := newKit(t, begin)
				if first != "" {
					k.run(first, integrity.Writer{})
				}
				write := func(script string) {
					t.Helper()
					time.Sleep(100 * time.Millisecond) // the clock of the file system must move on
					done := writing(k.keeper, nil)
					k.must(script)
					done()
					time.Sleep(100 * time.Millisecond)
				}
				write(`git config core.pager evil; echo evil >.git/hooks/pre-push; echo evil >.githooks/pre-commit; echo evil >.githooks/pre-push;
					git config -f inc core.pager evil; mkdir tree/.githooks; echo evil >tree/.githooks/pre-push;
					git -C x.git config core.pager evil; echo evil >x.git/hooks/update; mkdir x.git/scripts; echo evil >x.git/scripts/update`)
				write(docs)
				k.keeper.Sweep(context.Background())
				got := k.run("touch y", integrity.Writer{})
				for _, want := range []string{
					"docs/config: core.fsmonitor = evil", ".git/config: core.pager", ".git/hooks/pre-push", ".githooks/pre-commit was changed", ".githooks/pre-push was made",
					"inc: core.pager", "tree/.githooks/pre-push", "x.git/config: core.pager", "x.git/hooks/update", "x.git/scripts/update",
				} {
					if !strings.Contains(got, want) {
						t.Errorf("no %q in %q", want, got)
					}
				}
				k.must(gone)
				k.keeper.Sweep(context.Background())
				k.must(gone)
			})
		}
	}
}

// TestWritingMeanwhile begins a command, and another write, while an upload is under
// way: what came of it by then is not trusted.
func TestWritingMeanwhile(t *testing.T) {
	t.Parallel()
	k := newKit(t, repository)
	received := k.keeper.Receiving(nil)
	k.must("echo evil >.git/hooks/pre-push")
	k.keeper.Writing(nil)()
	k.must("test ! -e .git/hooks/pre-push; echo evil >.git/hooks/pre-push")
	if got := k.run("touch y", integrity.Writer{}); !strings.Contains(got, "pre-push was made") {
		t.Errorf("%q", got)
	}
	received()
	k.must("test ! -e .git/hooks/pre-push")
}
