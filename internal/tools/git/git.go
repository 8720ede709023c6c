// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package git has the tools that tell of a repository. They run git inside the
// sandbox, where it can write nothing of the workspace, and nothing that the
// repository brings along is run: see repository.sh.
package git

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

const category = "git"

// Tools returns the tools that tell of a repository, which git is run for.
func Tools(runners *command.Runners) []tools.Tool {
	return []tools.Tool{Status(runners), Diff(runners), Log(runners), Show(runners), Blame(runners)}
}

//go:embed repository.sh
var script string

const (
	maxAnswer  = 32 << 20 // bytes of what git says
	maxExclude = 1000     // files that are left out by name
	timeout    = time.Minute
)

// spec returns what all specs of the family share.
func spec(name, label, summary, doc string) tools.Spec {
	return tools.Spec{
		Name: name, Label: label, Summary: summary, Description: doc,
		Category: category, Level: tools.ReadOnly, ConcurrencySafe: true,
		RequiredCapabilities: []string{command.Capability}, DefaultTimeout: timeout,
	}
}

// effects are those of running git over paths; none means the workspace.
func effects(env tools.Env, verb string, paths []string) []tools.Effect {
	list := []tools.Effect{{Kind: tools.RunsProgram, Program: "git", Argv: []string{"git", verb}, ReadOnly: true}}
	for _, p := range orTop(paths) {
		list = append(list, env.ReadsTree(p)...)
	}
	return list
}

func orTop(paths []string) []string {
	if len(paths) == 0 {
		return []string{"."}
	}
	return paths
}

// over returns a tool whose calls ask git about paths.
func over[In any](s tools.Spec, runners *command.Runners, verb string, paths func(In) []string, answer func(*repository, context.Context, In) (tools.Result, error)) tools.Tool {
	return tools.New(s,
		func(env tools.Env, in In) []tools.Effect { return effects(env, verb, paths(in)) },
		func(ctx context.Context, env tools.Env, in In, _ tools.Sink) (tools.Result, error) {
			r, err := find(runners, env, paths(in)...)
			if err != nil {
				return tools.Result{}, err
			}
			return answer(r, ctx, in)
		})
}

// A repository is one of the workspace, as a call sees it.
type repository struct {
	runners *command.Runners
	env     tools.Env
	top     string   // of its working tree, in the workspace
	paths   []string // that were asked for, relative to top; none means all
	named   []string // the same as they were named
}

// find returns the repository that has the paths; without any, that of the
// workspace.
func find(runners *command.Runners, env tools.Env, names ...string) (*repository, error) {
	names = orTop(names)
	r := &repository{runners: runners, env: env, named: names}
	for i, name := range names {
		at, err := env.Path(name)
		if err != nil {
			return nil, tools.Failf("outside_workspace", "%s is outside of the workspace: only what is inside can be asked about.", name)
		}
		top, err := topOf(env, at)
		if err != nil {
			return nil, err
		}
		if i > 0 && top != r.top {
			return nil, tools.Failf("several_repositories", "%s and %s are in different repositories. Ask about one repository at a time.", names[0], name)
		}
		r.top = top
		if at == top {
			r.paths = nil // all of it
			break
		}
		r.paths = append(r.paths, below(top, at))
	}
	return r, nil
}

// topOf returns the nearest directory at or above a path that has a .git.
func topOf(env tools.Env, at string) (string, error) {
	for dir := at; ; dir = path.Dir(dir) {
		if env.Workspace.Has(path.Join(dir, ".git")) {
			return dir, nil
		}
		if env.Workspace.Has(path.Join(dir, "HEAD")) && env.Workspace.Has(path.Join(dir, "objects")) && env.Workspace.Has(path.Join(dir, "refs")) {
			return "", tools.Failf("bare_repository", "%s is a bare repository, which has no files to work on, and is not looked into. Clone it into the workspace and ask about the clone.", dir)
		}
		if dir == "." {
			return "", tools.Failf("not_a_repository", "There is no git repository at %s or above it in the workspace. Name a path inside of one, or make one with git init.", at)
		}
	}
}

// below returns a path relative to a directory above it.
func below(top, at string) string {
	if top == "." {
		return at
	}
	return strings.TrimPrefix(at, top+"/")
}

// in returns a path of the repository as one of the workspace.
func (r *repository) in(name string) string { return path.Join(r.top, name) }

// withheld returns what reports whether a file of the repository is not to be
// shown; nil where all are.
func (r *repository) withheld() func(name string) bool {
	var withhold []func(string) bool
	for _, name := range r.named {
		if f := r.env.Withheld(name, true); f != nil {
			withhold = append(withhold, f)
		}
	}
	if withhold == nil {
		return nil
	}
	return func(name string) bool {
		for at := r.in(name); at != "."; at = path.Dir(at) {
			if slices.ContainsFunc(withhold, func(f func(string) bool) bool { return f(at) }) {
				return true
			}
		}
		return false
	}
}

// pathspecs returns the words that name the files, but for those that are left
// out.
func (r *repository) pathspecs(without []string) []string {
	words := []string{"--"}
	for _, p := range r.paths {
		words = append(words, ":(top,literal)"+p)
	}
	if len(r.paths) == 0 && len(without) > 0 {
		words = append(words, ":(top)")
	}
	for _, p := range without {
		words = append(words, ":(top,literal,exclude)"+p)
	}
	return words
}

// A query is one question to git.
type query struct {
	revisions []string // put in place of a word @
	words     []string // of git
	limit     int      // bytes of the answer; the rest is left out
}

// answer is what git said.
type answer struct {
	text []byte
	cut  bool // there was more
}

// ask runs git.
func (r *repository) ask(ctx context.Context, q query) (answer, error) {
	runner, err := r.runners.Of(r.env)
	if err != nil {
		return answer{}, err
	}
	args := append([]string{"-c", script, "git", strconv.Itoa(len(q.revisions))}, q.revisions...)
	args = append(append(args, "--"), q.words...)
	var (
		a       answer
		said    []byte
		running *command.Running
		started = make(chan struct{})
	)
	running, err = runner.Start(ctx, command.Command{Path: "/bin/bash", Args: args, Dir: r.top}, func(stream tools.Stream, data []byte) {
		if stream == tools.Stderr {
			said = append(said, data[:min(len(data), 4000-min(4000, len(said)))]...)
			return
		}
		if left := q.limit - len(a.text); len(data) > left {
			data = data[:left]
			if !a.cut {
				a.cut = true
				<-started
				running.Stop(errors.New("enough"))
			}
		}
		a.text = append(a.text, data...)
	})
	close(started)
	if err != nil {
		return answer{}, err
	}
	defer context.AfterFunc(ctx, func() { running.Stop(context.Cause(ctx)) })()
	outcome, err := running.Wait()
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case err != nil:
		return a, err
	case a.cut:
		return a, nil
	case outcome.Exit.Reason != tools.Exited:
		return a, tools.Failf("git_failed", "%s", cmp.Or(outcome.Exit.Message, "git was ended by a signal."))
	}
	return a, r.explain(outcome.Exit.Code, output.Clean(said))
}

// Exit statuses of the script; see there.
const (
	noRepository = 201
	noRevision   = 202
	noCommits    = 203
)

// explain says what an exit status means.
func (r *repository) explain(code int, said string) error {
	switch code {
	case 0:
		return nil
	case noRepository:
		return tools.Failf("not_a_repository", "%s is no git repository that can be read: its files are damaged, or lie outside of the workspace.", r.in(".git"))
	case noCommits:
		return tools.Failf("no_commits", "The repository has no commits yet. git_status tells what there is to commit.")
	case noRevision:
		return tools.Failf("no_such_revision", "There is no commit %s. Name a branch, a tag or the hash of a commit, as git_log lists them.", said)
	}
	said = strings.TrimPrefix(strings.TrimSpace(said), "fatal: ")
	switch {
	case strings.Contains(said, "no such path"), strings.Contains(said, "does not exist in"), strings.Contains(said, "exists on disk, but not in"):
		return tools.Failf("not_tracked", "git knows no such file there: %s. Check the path and the revision; git_status lists files that are not tracked.", said)
	case strings.Contains(said, "bad file"):
		return tools.Failf("not_a_file", "The path is a directory in that revision: name a file in it.")
	}
	return tools.Failf("git_failed", "git failed: %s", cmp.Or(said, fmt.Sprintf("exit status %d", code)))
}

// leftOut returns the files among those a query would tell of that are not to
// be shown. The words are those of the query, up to the paths, with what has git
// tell nothing but names.
func (r *repository) leftOut(ctx context.Context, revisions []string, words ...string) ([]string, error) {
	withheld := r.withheld()
	if withheld == nil {
		return nil, nil
	}
	a, err := r.ask(ctx, query{revisions: revisions, words: append(words, r.pathspecs(nil)...), limit: maxAnswer})
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range bytes.SplitSeq(a.text, []byte{0}) {
		// A list of commits has an end of line before the names of each.
		if name := strings.TrimLeft(string(name), "\n"); name != "" && withheld(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if a.cut || len(names) > maxExclude {
		return nil, tools.Failf("too_much", "Too many files were changed to leave out those that may not be read. Name paths, or ask for fewer commits.")
	}
	return names, nil
}

// notes are sentences in brackets below a text.
type notes []string

func (n *notes) add(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

// about tells what everybody should know of an answer.
func (r *repository) about(without []string) (n notes) {
	if r.top != "." {
		n.add("paths are relative to %s", r.top)
	}
	if len(without) > 0 {
		n.add("files that may not be read with others are left out: %d", len(without))
	}
	return n
}

// result returns the text with notes below it. What is too long for an answer is
// kept as an artifact.
func (r *repository) result(a answer, nothing string, n notes) tools.Result {
	text := a.text
	if a.cut {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		n.add("git says more than the %s that are kept of it: name paths, or ask for less", output.Size(maxAnswer))
	}
	shown := cmp.Or(output.Clean(text), nothing)
	if !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	content := r.env.Begin(shown, "git.txt")
	for _, note := range n {
		content[0] = content[0].(tools.Text) + tools.Text("("+note+")\n")
	}
	return tools.Result{Content: content}
}

// checkRevision finds what is no name of a commit.
func checkRevision(pointer, revision string) []tools.Problem {
	switch {
	case strings.HasPrefix(revision, "-"):
		return []tools.Problem{{Pointer: pointer, Message: "begins with -, which no revision does: name a branch, a tag or a commit"}}
	case strings.Contains(revision, ":"):
		return []tools.Problem{{Pointer: pointer, Message: "has a colon: name a commit, and a file of it with path"}}
	case strings.ContainsAny(revision, "\x00\n"):
		return []tools.Problem{{Pointer: pointer, Message: "has a NUL or an end of line, which no revision has"}}
	}
	return nil
}

// checkSingle is checkRevision for what must be one commit.
func checkSingle(pointer, revision string) []tools.Problem {
	if strings.Contains(revision, "..") {
		return []tools.Problem{{Pointer: pointer, Message: "is a range: name one commit"}}
	}
	return checkRevision(pointer, revision)
}

// checkText finds what no argument can have.
func checkText(pointer, text string) []tools.Problem {
	if strings.ContainsRune(text, 0) {
		return []tools.Problem{{Pointer: pointer, Message: "has a NUL character: leave it out"}}
	}
	return nil
}
