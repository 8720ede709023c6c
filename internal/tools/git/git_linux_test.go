// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/git"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// workshop is a workspace with the tools.
type workshop struct {
	t       *testing.T
	env     tools.Env
	runners *command.Runners
	tools   map[string]tools.Tool
}

func newWorkshop(t *testing.T, files map[string]string) *workshop {
	t.Helper()
	s, err := sandbox.Open(sandbox.Config{Helper: sandboxtest.Helper()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := &workshop{t: t, env: toolstest.Env(t, files), tools: make(map[string]tools.Tool)}
	w.runners = command.New(command.Config{Sandbox: s, View: sandbox.View{Read: sandbox.SystemPaths()}, Network: tools.NetworkLoopback})
	for _, tool := range git.Tools(w.runners) {
		w.tools[tool.Spec().Name] = tool
	}
	return w
}

// sh runs a script in the workspace and with the home of the session, outside of
// the sandbox: it sets traps that no command may.
func (w *workshop) sh(text string) {
	w.t.Helper()
	runner, err := w.runners.Of(w.env)
	if err != nil {
		w.t.Fatal(err)
	}
	script := exec.Command("bash", "-ec", text)
	script.Dir = w.env.Workspace.Dir()
	script.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + runner.Home(), "TMPDIR=" + w.t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z",
	}
	if out, err := script.CombinedOutput(); err != nil {
		w.t.Fatalf("%s\n%v\n%s", text, err, out)
	}
}

// call runs a call and returns what the model reads, or the code of the failure.
func (w *workshop) call(tool, input string) (text, code string) {
	w.t.Helper()
	result, _, err := toolstest.Run(w.t, w.tools[tool], w.env, input)
	if f, ok := errors.AsType[*tools.Failure](err); ok {
		return f.Message, f.Code
	} else if err != nil {
		w.t.Fatalf("%s %s: %v", tool, input, err)
	}
	return toolstest.Text(result), ""
}

func TestContract(t *testing.T) {
	for name, tool := range newWorkshop(t, nil).tools {
		t.Run(name, func(t *testing.T) { toolstest.Test(t, tool) })
	}
}

// history is a repository with three commits, the last on a branch.
const history = `
git init -q -b main .
git add . && git commit -qm 'first: all files'
printf 'one\nTWO\nthree\n' >a.txt
git commit -qam 'second: change a' -m 'With a body.'
git checkout -q -b side
echo more >>dir/b.txt
git commit -qam 'third: more of b'
`

func files() map[string]string {
	return map[string]string{"a.txt": "one\ntwo\nthree\n", "dir/b.txt": "b\n", "dir/c d.txt": "c\n"}
}

func TestTools(t *testing.T) {
	w := newWorkshop(t, files())
	w.sh(history + `
		echo staged >>a.txt; git add a.txt; echo not >>a.txt
		git mv 'dir/c d.txt' 'dir/ü.txt'
		echo new >new.txt`)
	for _, test := range []struct {
		tool, input string
		want        []string // the text has them, in this order; with ! before it, has not
	}{
		{"git_status", `{}`, []string{"branch side\n", "MM a.txt\n", "R  dir/c d.txt -> dir/ü.txt\n", "?? new.txt\n", "!("}},
		{"git_status", `{"path":"dir"}`, []string{"branch side\n", "dir/ü.txt\n", "!a.txt"}},
		{"git_status", `{"path":"dir/b.txt"}`, []string{"branch side\n(nothing was changed)\n"}},
		{"git_diff", `{}`, []string{"+++ b/a.txt\n", " staged\n+not\n", "!+staged", "!new"}},
		{"git_diff", `{"staged":true}`, []string{"+staged\n", "rename from dir/c d.txt\n", "!+not"}},
		{"git_diff", `{"from":"HEAD","paths":["a.txt"]}`, []string{"+staged\n+not\n", "!dir/"}},
		{"git_diff", `{"from":"main","to":"side","name_only":true}`, []string{"M\tdir/b.txt\n", "!a.txt"}},
		{"git_diff", `{"from":"side~2","to":"main","stat":true}`, []string{"a.txt | 2 +-\n", "1 file changed"}},
		{"git_diff", `{"from":"side~2","to":"main","context":0}`, []string{"@@ -2 +2 @@", "-two\n+TWO\n", "!one\n "}},
		{"git_diff", `{"from":"main","to":"main"}`, []string{"Nothing was changed there.\n"}},
		{"git_log", `{}`, []string{"commit ", "(HEAD -> side)\nAuthor: agent <agent@localhost>\nDate:   2026-01-02T03:04:05", "    third: more of b\n", "    second: change a\n    \n    With a body.\n", "    first", "!there are more", "!\x01", "!␁"}},
		{"git_log", `{"oneline":true,"limit":2}`, []string{"2026-01-02 agent (HEAD -> side) third: more of b\n", "second: change a\n", "(there are more commits: go on with git_log {\"limit\":2,\"skip\":2,\"oneline\":true})\n", "!first"}},
		{"git_log", `{"oneline":true,"limit":2,"skip":2}`, []string{"first: all files\n", "!there are more", "!second"}},
		{"git_log", `{"oneline":true,"revision":"main..side"}`, []string{"third", "!second"}},
		{"git_log", `{"oneline":true,"revision":"main...side~2"}`, []string{"second", "!third", "!first"}},
		{"git_log", `{"oneline":true,"paths":["a.txt"]}`, []string{"second", "first", "!third"}},
		{"git_log", `{"oneline":true,"grep":"body"}`, []string{"second", "!third"}},
		{"git_log", `{"author":"nobody"}`, []string{"No commit matches.\n"}},
		{"git_log", `{"since":"2026-01-03"}`, []string{"No commit matches.\n"}},
		{"git_log", `{"until":"2026-01-03","limit":1,"patch":true}`, []string{"third", "+more\n", "(there are more commits: go on with git_log {\"limit\":1,\"skip\":1,"}},
		{"git_log", `{"stat":true,"revision":"main","limit":1}`, []string{"second", "a.txt | 2 +-\n"}},
		{"git_log", `{"paths":["gone.txt"]}`, []string{"No commit matches.\n"}},
		{"git_show", `{}`, []string{"commit ", "third", "dir/b.txt | 1 +\n", "+more\n", "!\x01"}},
		{"git_show", `{"revision":"main"}`, []string{"second", "-two\n+TWO\n"}},
		{"git_show", `{"revision":"main~1","path":"a.txt"}`, []string{"one\ntwo\nthree\n"}},
		{"git_show", `{"revision":"main~1","path":"a.txt","first_line":3}`, []string{"three\n", "!two"}},
		{"git_show", `{"path":"a.txt","first_line":30}`, []string{"The file has no such line.\n"}},
		{"git_show", `{"path":"dir/c d.txt"}`, []string{"c\n"}},
		{"git_blame", `{"path":"a.txt"}`, []string{"(agent", "2026-01-02 1) one\n", "2) TWO\n", "00000000 (Not Committed Yet", "5) not\n"}},
		{"git_blame", `{"path":"a.txt","revision":"main","first_line":2,"last_line":2}`, []string{"2) TWO\n", "!one", "!three"}},
	} {
		text, code := w.call(test.tool, test.input)
		rest := text
		for _, want := range test.want {
			if not, ok := strings.CutPrefix(want, "!"); ok {
				if strings.Contains(text, not) {
					t.Errorf("%s %s has %q:\n%s", test.tool, test.input, not, text)
				}
				continue
			}
			before, after, ok := strings.Cut(rest, want)
			if !ok || code != "" {
				t.Errorf("%s %s has no %q after %q (%s):\n%s", test.tool, test.input, want, before, code, text)
			}
			rest = after
		}
	}
}

func TestFailures(t *testing.T) {
	w := newWorkshop(t, files())
	w.sh(history + `
		echo new >new.txt
		mkdir -p other/empty && cd other/empty && git init -q . && echo x >x && cd ../..
		git init -q --bare bare
		mkdir broken && echo 'gitdir: /nowhere' >broken/.git
		mkdir damaged && mkdir damaged/.git`)
	for _, test := range []struct{ tool, input, code, want string }{
		{"git_log", `{"revision":"nowhere"}`, "no_such_revision", "no commit nowhere."},
		{"git_log", `{"revision":"main..nowhere"}`, "no_such_revision", "no commit nowhere."},
		{"git_diff", `{"from":"main","to":"nowhere"}`, "no_such_revision", "nowhere"},
		{"git_show", `{"revision":"main^{tree}"}`, "no_such_revision", "main^{tree}"},
		{"git_show", `{"path":"new.txt"}`, "not_tracked", "new.txt"},
		{"git_show", `{"path":"nowhere.txt"}`, "not_tracked", "nowhere.txt"},
		{"git_show", `{"path":"dir"}`, "not_a_file", "directory"},
		{"git_show", `{"path":"."}`, "not_a_file", "top"},
		{"git_blame", `{"path":"new.txt"}`, "not_tracked", "new.txt"},
		{"git_blame", `{"path":"a.txt","first_line":9}`, "no_such_line", "has only 3 lines"},
		{"git_log", `{"paths":["other/empty"]}`, "no_commits", "no commits yet"},
		{"git_show", `{"paths":["other/empty"]}`, "no_commits", "no commits yet"},
		{"git_status", `{"path":"bare"}`, "bare_repository", "Clone it"},
		{"git_status", `{"path":"broken"}`, "not_a_repository", "broken/.git"},
		{"git_status", `{"path":"damaged"}`, "not_a_repository", "damaged/.git"},
		{"git_status", `{"path":"/etc"}`, "outside_workspace", "/etc"},
		{"git_diff", `{"paths":["a.txt","other/empty/x"]}`, "several_repositories", "one repository at a time"},
	} {
		if text, code := w.call(test.tool, test.input); code != test.code || !strings.Contains(text, test.want) {
			t.Errorf("%s %s: %s %q; want %s with %q", test.tool, test.input, code, text, test.code, test.want)
		}
	}
	if text, code := w.call("git_status", `{"path":"other/empty"}`); code != "" || !strings.Contains(text, "No commits yet on") || !strings.Contains(text, "?? x\n(paths are relative to other/empty)") {
		t.Errorf("%s %q", code, text)
	}
	if text, code := newWorkshop(t, files()).call("git_status", `{"path":"dir/b.txt"}`); code != "not_a_repository" || !strings.Contains(text, "git init") {
		t.Errorf("%s %q", code, text)
	}
}

func TestBadInput(t *testing.T) {
	w := newWorkshop(t, nil)
	for _, test := range []struct{ tool, input, want string }{
		{"git_log", `{"revision":"--output=x"}`, "begins with -"},
		{"git_log", `{"revision":"HEAD:a.txt"}`, "colon"},
		{"git_log", `{"revision":":/text"}`, "colon"},
		{"git_log", `{"patch":true,"stat":true}`, "choose one"},
		{"git_log", `{"limit":0}`, "limit"},
		{"git_log", `{"grep":"a\u0000b"}`, "NUL"},
		{"git_diff", `{"from":"-O"}`, "begins with -"},
		{"git_diff", `{"from":"a..b"}`, "range"},
		{"git_diff", `{"to":"main"}`, "needs from"},
		{"git_diff", `{"paths":[""]}`, "empty"},
		{"git_diff", `{"staged":true,"from":"a","to":"b"}`, "does not go with to"},
		{"git_show", `{"revision":"--ext-diff"}`, "begins with -"},
		{"git_show", `{"path":"a","paths":["b"]}`, "choose one"},
		{"git_show", `{"first_line":2}`, "needs path"},
		{"git_blame", `{}`, "path"},
		{"git_blame", `{"path":"a","revision":"--contents=/etc/passwd"}`, "begins with -"},
		{"git_blame", `{"path":"a","first_line":5,"last_line":4}`, "before first_line"},
	} {
		_, err := w.tools[test.tool].Decode(&w.env, json.RawMessage(test.input))
		if _, ok := errors.AsType[*tools.InputError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v; want an input error with %q", test.tool, test.input, err, test.want)
		}
	}
}

// everything is a call of each kind.
var everything = [][2]string{
	{"git_status", `{}`}, {"git_diff", `{}`}, {"git_diff", `{"staged":true}`}, {"git_diff", `{"from":"HEAD~1"}`},
	{"git_diff", `{"from":"HEAD~1","to":"HEAD","stat":true}`}, {"git_log", `{}`}, {"git_log", `{"patch":true}`},
	{"git_log", `{"stat":true,"paths":["a.txt"]}`}, {"git_show", `{}`}, {"git_show", `{"path":"a.txt"}`},
	{"git_blame", `{"path":"a.txt"}`}, {"git_blame", `{"path":"a.txt","revision":"HEAD"}`},
}

// TestNothingIsRun has repositories that name programs in every way there is.
// Each would leave a file in the home of the session, which it may write.
func TestNothingIsRun(t *testing.T) {
	const trap = `"$HOME/trap"`
	for name, plant := range map[string]string{
		"clean filter":          `git config filter.x.clean ` + trap + `; echo '* filter=x' >.gitattributes`,
		"filter process":        `git config filter.x.process ` + trap + `; git config filter.x.required true; echo '* filter=x' >.gitattributes`,
		"smudge filter":         `git config filter.x.smudge ` + trap + `; echo '* filter=x' >.gitattributes`,
		"info attributes":       `git config filter.x.clean ` + trap + `; mkdir -p .git/info; echo '* filter=x' >.git/info/attributes`,
		"core.attributesFile":   `git config filter.x.clean ` + trap + `; echo '* filter=x' >.git/attr; git config core.attributesFile "$PWD/.git/attr"`,
		"external diff":         `git config diff.external ` + trap,
		"diff driver":           `git config diff.x.command ` + trap + `; echo '* diff=x' >.gitattributes`,
		"textconv":              `git config diff.x.textconv ` + trap + `; echo '* diff=x' >.gitattributes`,
		"fsmonitor":             `git config core.fsmonitor ` + trap,
		"pager":                 `git config core.pager ` + trap + `; git config pager.log ` + trap + `; git config pager.status ` + trap,
		"alias":                 `git config alias.status "!$HOME/trap"; git config alias.log "!$HOME/trap"; git config alias.cat-file "!$HOME/trap"`,
		"ssh and promisor":      `git config core.sshCommand ` + trap + `; git config remote.o.url ssh://localhost/x; git config remote.o.promisor true; git config extensions.partialClone o; rm -f .git/objects/$(git rev-parse HEAD~1:a.txt | sed 's,^..,&/,')`,
		"ext promisor":          `git config protocol.ext.allow always; git config remote.o.url "ext::$HOME/trap"; git config remote.o.promisor true; git config extensions.partialClone o; rm -f .git/objects/$(git rev-parse HEAD~1:a.txt | sed 's,^..,&/,')`,
		"upload pack":           `git config remote.o.uploadpack ` + trap + `; git config remote.o.url "$PWD"; git config remote.o.promisor true; git config extensions.partialClone o; rm -f .git/objects/$(git rev-parse HEAD~1:a.txt | sed 's,^..,&/,')`,
		"signatures":            `git config log.showSignature true; git config gpg.program ` + trap + `; printf 'tree %s\nparent %s\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\nsigned\n' $(git rev-parse HEAD^{tree}) $(git rev-parse HEAD) >"$HOME/c"; git update-ref HEAD $(git hash-object -t commit -w "$HOME/c")`,
		"include":               `printf '[core]\n\tfsmonitor = %s\n[diff]\n\texternal = %s\n' "$HOME/trap" "$HOME/trap" >.git/more; git config include.path more`,
		"worktree config":       `git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ` + trap,
		"configuration of home": `git config --global core.fsmonitor ` + trap + `; git config --global diff.external ` + trap,
		"configuration of XDG":  `mkdir -p "$HOME/.config/git"; printf '[core]\n\tfsmonitor = %s\n' "$HOME/trap" >"$HOME/.config/git/config"`,
		"hooks":                 `for h in post-index-change pre-commit post-checkout reference-transaction fsmonitor-watchman; do cp "$HOME/trap" .git/hooks/$h; done`,
		"hooks path":            `mkdir hooks; for h in post-index-change reference-transaction; do cp "$HOME/trap" hooks/$h; done; git config core.hooksPath hooks`,
		"interactive filter":    `git config interactive.diffFilter ` + trap + `; git config color.ui always`,
		"editor and askpass":    `git config core.editor ` + trap + `; git config core.askPass ` + trap + `; git config credential.helper "!$HOME/trap"`,
		"alternate refs":        `git config core.alternateRefsCommand ` + trap + `; git clone -q --bare . "$TMPDIR/alt.git"; echo "$TMPDIR/alt.git/objects" >.git/objects/info/alternates`,
		"submodule":             `git init -q sub; (cd sub; git commit -q --allow-empty -m x; echo f >f; git add f; git config core.fsmonitor "$HOME/trap"; git config filter.x.clean "$HOME/trap"; git config diff.external "$HOME/trap"; echo '* filter=x' >.gitattributes); git add sub 2>/dev/null; touch sub/f; echo g >sub/f; git config diff.submodule diff; git config status.submoduleSummary true; git config submodule.recurse true`,
		"worktree of a config":  `mkdir elsewhere; git config core.worktree "$PWD/elsewhere"; git config core.fsmonitor ` + trap,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, files())
			w.sh(history + `
				printf '#!/bin/sh\n: >"$HOME/sprung"\ncat\nexit 0\n' >"$HOME/trap"; chmod +x "$HOME/trap"
				printf 'one\ntwo\nTHREE\n' >a.txt
				` + plant + `
				rm -f "$HOME/sprung"; touch a.txt dir/b.txt`)
			runner, err := w.runners.Of(w.env)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range everything {
				text, code := w.call(call[0], call[1])
				if _, err := os.Stat(filepath.Join(runner.Home(), "sprung")); err == nil {
					t.Fatalf("%s %s has run what the repository named", call[0], call[1])
				}
				if code != "" && !strings.Contains(name, "promisor") && name != "upload pack" {
					t.Errorf("%s %s: %s %s", call[0], call[1], code, text)
				}
			}
		})
	}
}

// TestTrapsWork proves that the traps of TestNothingIsRun would spring.
func TestTrapsWork(t *testing.T) {
	w := newWorkshop(t, files())
	w.sh(history + `
		printf '#!/bin/sh\n: >"$HOME/sprung"\ncat\nexit 0\n' >"$HOME/trap"; chmod +x "$HOME/trap"
		sprung() { test -e "$HOME/sprung"; rm -f "$HOME/sprung"; }
		git config filter.x.clean "$HOME/trap"; echo '* filter=x' >.gitattributes; touch a.txt
		git -c core.fsmonitor=false -c core.hooksPath=/dev/null status >/dev/null; sprung
		rm .gitattributes; git config --unset filter.x.clean
		git config core.fsmonitor "$HOME/trap"; git status >/dev/null 2>&1; sprung; git config --unset core.fsmonitor
		git config diff.external "$HOME/trap"; echo x >>a.txt; git diff >/dev/null; sprung`)
}

// TestOptionsAreNoOptions has names that look like options and patterns.
func TestOptionsAreNoOptions(t *testing.T) {
	w := newWorkshop(t, map[string]string{"--output=x": "dash\n", "@": "at\n", "@:a": "colon\n", ":(top)": "magic\n", "*": "star\n", "a.txt": "a\n"})
	w.sh("git init -q . && git add -- . && git commit -qm one")
	for name, text := range map[string]string{"--output=x": "dash", "@": "at", "@:a": "colon", ":(top)": "magic", "*": "star"} {
		encoded, _ := json.Marshal(name)
		for tool, input := range map[string]string{
			"git_show": `{"path":` + string(encoded) + `}`, "git_blame": `{"path":` + string(encoded) + `}`,
		} {
			if got, code := w.call(tool, input); code != "" || !strings.Contains(got, text+"\n") {
				t.Errorf("%s %s: %s %q", tool, input, code, got)
			}
		}
		got, code := w.call("git_log", `{"patch":true,"paths":[`+string(encoded)+`]}`)
		if code != "" || !strings.Contains(got, "+"+text+"\n") || strings.Count(got, "diff --git") != 1 {
			t.Errorf("log of %s: %s %q", name, code, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(w.env.Workspace.Dir(), "x")); err == nil {
		t.Error("a name became an option")
	}
}

// TestWithheld has files that may not be read with others.
func TestWithheld(t *testing.T) {
	w := newWorkshop(t, files())
	w.sh(history + `
		mkdir keys && echo 'old secret' >keys/key.pem && echo open >open.txt && git add . && git commit -qm 'fourth: a key'
		mv keys/key.pem renamed.txt && git add -A && git commit -qm 'fifth: renamed'
		mv renamed.txt keys/key.pem && git add -A && git commit -qm 'sixth: back'
		echo 'new secret' >keys/key.pem; echo changed >open.txt; git add keys; echo 'newer secret' >keys/key.pem`)
	w.env.Restrictions = toolstest.Restrictions{Denies: func(path string) bool { return path == "keys" || path == "renamed.txt" }}
	for _, call := range [][2]string{
		{"git_status", `{}`}, {"git_diff", `{}`}, {"git_diff", `{"staged":true}`}, {"git_diff", `{"from":"HEAD~2"}`}, {"git_diff", `{"from":"main","to":"HEAD","name_only":true}`},
		{"git_log", `{"patch":true}`}, {"git_log", `{"stat":true}`}, {"git_show", `{}`}, {"git_show", `{"revision":"HEAD~2"}`}, {"git_show", `{"paths":["keys"],"revision":"HEAD~2"}`},
	} {
		text, code := w.call(call[0], call[1])
		if code != "" || strings.Contains(text, "secret") || strings.Contains(text, "key.pem") || !strings.Contains(text, "not be read with others are left out: ") {
			t.Errorf("%s %s: %s %s", call[0], call[1], code, text)
		}
	}
	if text, _ := w.call("git_diff", `{}`); !strings.Contains(text, "+changed") {
		t.Errorf("what may be read is left out too:\n%s", text)
	}
	if text, _ := w.call("git_show", `{"revision":"HEAD~2"}`); !strings.Contains(text, "+open") || !strings.Contains(text, "fourth") {
		t.Errorf("what may be read is left out too:\n%s", text)
	}
}

// TestMuch has answers that are too long.
func TestMuch(t *testing.T) {
	w := newWorkshop(t, map[string]string{"long.txt": strings.Repeat("a line of some length\n", 20_000)})
	w.sh("git init -q . && git add . && git commit -qm long && sed -i s/a/b/ long.txt && mkdir many && touch many/{1..6000}-long-enough-for-a-name.txt && git add many")
	for _, call := range [][2]string{
		{"git_diff", `{}`}, {"git_show", `{}`}, {"git_show", `{"path":"long.txt"}`}, {"git_blame", `{"path":"long.txt","revision":"HEAD"}`},
		{"git_log", `{"patch":true}`}, {"git_status", `{}`},
	} {
		if text, code := w.call(call[0], call[1]); code != "" || !strings.Contains(text, " left out: ") || len(text) > tools.DefaultAnswer || len(text) < tools.DefaultAnswer-5000 {
			t.Errorf("%s %s: %s, %d bytes, ends with %q", call[0], call[1], code, len(text), text[max(0, len(text)-200):])
		}
	}
	for i := range 25 {
		w.sh(fmt.Sprintf("git commit -q --allow-empty -m 'number %d'", i))
	}
	text, _ := w.call("git_log", `{"oneline":true}`)
	if tool, input := toolstest.GoOn(text); tool != "git_log" || input != `{"skip":20,"oneline":true}` {
		t.Errorf("go on with %s %s: %s", tool, input, text)
	}
}

// TestWorktrees has a repository whose files lie elsewhere, and one with another
// hash.
func TestWorktrees(t *testing.T) {
	w := newWorkshop(t, files())
	w.sh(history + `
		git worktree add -q tree main
		git clone -q . clone 2>/dev/null
		(cd clone; echo ahead >>a.txt; git commit -qam ahead)
		git init -q --object-format=sha256 long; cd long; echo l >l; git add l; git commit -qm 'long hash'`)
	for _, test := range []struct{ tool, input, want string }{
		{"git_status", `{"path":"tree"}`, "branch main\n"},
		{"git_log", `{"paths":["tree/a.txt"],"oneline":true}`, "second: change a\n"},
		{"git_status", `{"path":"clone"}`, "branch side...origin/side [ahead 1]\n"},
		{"git_log", `{"paths":["long"]}`, "    long hash\n"},
		{"git_blame", `{"path":"long/l"}`, "1) l\n"},
	} {
		if text, code := w.call(test.tool, test.input); code != "" || !strings.Contains(text, test.want) {
			t.Errorf("%s %s: %s %q; want %q", test.tool, test.input, code, text, test.want)
		}
	}
	// Nothing is left of what git was shown.
	runner, err := w.runners.Of(w.env)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(runner.Home(), "../tmp/git-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStops(t *testing.T) {
	w := newWorkshop(t, files())
	w.sh(history + `rm .git/index; mkfifo .git/index`)
	toolstest.StopsSoon(t, w.tools["git_status"], `{}`, w.env)
}
