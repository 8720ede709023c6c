// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed diff.md
var diffDoc string

//go:embed diff_help.md
var diffHelp string

type diffInput struct {
	Staged   bool     `json:"staged,omitempty" jsonschema:"what is staged, instead of what is not"`
	From     string   `json:"from,omitempty" check:"max=1000" jsonschema:"commit, branch or tag to compare from"`
	To       string   `json:"to,omitempty" check:"max=1000" jsonschema:"to compare to; default: the files as they are"`
	Paths    []string `json:"paths,omitempty" check:"max=100" jsonschema:"files and directories; default all"`
	Context  *int     `json:"context,omitempty" check:"min=0,max=1000" jsonschema:"lines around each change; default 3"`
	Stat     bool     `json:"stat,omitempty" jsonschema:"only counts of lines by file"`
	NameOnly bool     `json:"name_only,omitempty" jsonschema:"only which files changed"`
}

func (in diffInput) Check() []tools.Problem {
	problems := slices.Concat(checkSingle("/from", in.From), checkSingle("/to", in.To), checkPaths(in.Paths))
	if in.To != "" && in.From == "" {
		problems = append(problems, tools.Problem{Pointer: "/to", Message: "needs from: name both commits"})
	}
	if in.To != "" && in.Staged {
		problems = append(problems, tools.Problem{Pointer: "/staged", Message: "does not go with to: what is staged is compared with from"})
	}
	if in.Stat && in.NameOnly {
		problems = append(problems, tools.Problem{Pointer: "/name_only", Message: "does not go with stat: choose one"})
	}
	return problems
}

func checkPaths(paths []string) []tools.Problem {
	var problems []tools.Problem
	for i, p := range paths {
		pointer := "/paths/" + strconv.Itoa(i)
		if p == "" {
			problems = append(problems, tools.Problem{Pointer: pointer, Message: "is empty: name a file or directory, or . for the workspace"})
		}
		problems = append(problems, checkText(pointer, p)...)
	}
	return problems
}

// plain are the words that have git show changes by itself.
var plain = []string{"--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=dirty"}

// onlyNames are the words that have git tell all files of changes by name.
var onlyNames = slices.Concat(plain, []string{"--name-only", "-z", "--no-renames"})

// Diff returns the tool that shows changes.
func Diff(runners *command.Runners) tools.Tool {
	s := spec("git_diff", "Git diff", "Show what changed in files: not committed yet, or between commits.", diffDoc)
	s.Help = diffHelp
	s.Aliases = []string{"GitDiff"}
	s.Examples = []tools.Example{
		{Summary: "What is not staged yet", Input: json.RawMessage(`{}`)},
		{Summary: "What the next commit will have, in one directory", Input: json.RawMessage(`{"staged":true,"paths":["internal"]}`)},
		{Summary: "Which files a branch changed", Input: json.RawMessage(`{"from":"main","to":"feature","name_only":true}`)},
	}
	return over(s, runners, "diff", func(in diffInput) []string { return in.Paths }, (*repository).diff)
}

func (r *repository) diff(ctx context.Context, in diffInput) (tools.Result, error) {
	var revisions, what []string
	if in.Staged {
		what = append(what, "--cached")
	}
	for _, revision := range []string{in.From, in.To} {
		if revision != "" {
			revisions = append(revisions, revision)
		}
	}
	if len(revisions) > 0 {
		what = append(what, "@")
	}
	without, err := r.leftOut(ctx, revisions, slices.Concat([]string{"diff"}, onlyNames, what)...)
	if err != nil {
		return tools.Result{}, err
	}
	words := slices.Concat([]string{"diff"}, plain)
	switch {
	case in.Stat:
		words = append(words, "--stat=200")
	case in.NameOnly:
		words = append(words, "--name-status")
	case in.Context != nil:
		words = append(words, "--unified="+strconv.Itoa(*in.Context))
	}
	words = slices.Concat(words, what, r.pathspecs(without))
	a, err := r.ask(ctx, query{revisions: revisions, words: words, limit: maxAnswer})
	if err != nil {
		return tools.Result{}, err
	}
	return r.result(a, "Nothing was changed there.", r.about(without)), nil
}
