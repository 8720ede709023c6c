// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"slices"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed show.md
var showDoc string

//go:embed show_help.md
var showHelp string

type showInput struct {
	Revision  string   `json:"revision,omitempty" check:"max=1000" jsonschema:"commit, branch or tag; default HEAD"`
	Path      string   `json:"path,omitempty" check:"max=4096" jsonschema:"file to show as it is in that commit"`
	Paths     []string `json:"paths,omitempty" check:"max=100" jsonschema:"without path: only changes of these"`
	FirstLine int      `json:"first_line,omitempty" check:"min=1,max=100000000" jsonschema:"with path: first line; default 1"`
}

func (in showInput) Check() []tools.Problem {
	problems := slices.Concat(checkSingle("/revision", in.Revision), checkText("/path", in.Path), checkPaths(in.Paths))
	if in.Path != "" && len(in.Paths) > 0 {
		problems = append(problems, tools.Problem{Pointer: "/paths", Message: "does not go with path: choose one"})
	}
	if in.FirstLine > 0 && in.Path == "" {
		problems = append(problems, tools.Problem{Pointer: "/first_line", Message: "needs path: it counts the lines of a file"})
	}
	return problems
}

// Show returns the tool that shows a commit, or a file as it was in one.
func Show(runners *command.Runners) tools.Tool {
	s := spec("git_show", "Git show", "Show a commit with what it changed, or a file as it was in a commit.", showDoc)
	s.Help = showHelp
	s.Aliases = []string{"GitShow"}
	s.Examples = []tools.Example{
		{Summary: "The last commit", Input: json.RawMessage(`{}`)},
		{Summary: "A file as it was three commits ago", Input: json.RawMessage(`{"revision":"HEAD~3","path":"go.mod"}`)},
	}
	return tools.New(s,
		func(env tools.Env, in showInput) []tools.Effect {
			if in.Path == "" {
				return effects(env, "show", in.Paths)
			}
			return append(effects(env, "show", []string{in.Path})[:1], env.Reads(in.Path)...)
		},
		func(ctx context.Context, env tools.Env, in showInput, _ tools.Sink) (tools.Result, error) {
			revisions := []string{cmp.Or(in.Revision, "HEAD")}
			if in.Path != "" {
				r, err := find(runners, env, in.Path)
				if err != nil {
					return tools.Result{}, err
				}
				return r.file(ctx, revisions, in)
			}
			r, err := find(runners, env, in.Paths...)
			if err != nil {
				return tools.Result{}, err
			}
			return r.commit(ctx, revisions)
		})
}

// commit shows a commit and what it changed.
func (r *repository) commit(ctx context.Context, revisions []string) (tools.Result, error) {
	without, err := r.leftOut(ctx, revisions, slices.Concat([]string{"show", "--format=tformat:"}, onlyNames, []string{"@"})...)
	if err != nil {
		return tools.Result{}, err
	}
	words := slices.Concat([]string{"show", "--date=iso-strict", whole, "--no-show-signature", "--stat=200", "--patch"}, plain, []string{"@"}, r.pathspecs(without))
	a, err := r.ask(ctx, query{revisions: revisions, words: words, limit: maxAnswer})
	if err != nil {
		return tools.Result{}, err
	}
	a.text, _, _ = firstCommits(a.text, 1)
	return r.result(a, "The commit changed nothing there.", r.about(without)), nil
}

// file shows a file as it is in a commit.
func (r *repository) file(ctx context.Context, revisions []string, in showInput) (tools.Result, error) {
	if len(r.paths) == 0 {
		return tools.Result{}, tools.Failf("not_a_file", "%s is the top of a repository: name a file in it.", in.Path)
	}
	a, err := r.ask(ctx, query{revisions: revisions, words: []string{"cat-file", "blob", "@:" + r.paths[0]}, limit: maxAnswer})
	if err != nil {
		return tools.Result{}, err
	}
	if bytes.IndexByte(a.text[:min(len(a.text), 8000)], 0) >= 0 {
		return tools.Result{}, tools.Failf("binary_file", "%s is a binary file there, of which there is no text to show.", in.Path)
	}
	first := max(1, in.FirstLine)
	text, line := a.text, 1
	for ; line < first && len(text) > 0; line++ {
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		} else {
			text = nil
		}
	}
	nothing := "The file is empty."
	if first > 1 {
		nothing = "The file has no such line."
	}
	return r.result(answer{text, a.cut}, nothing, nil), nil
}
