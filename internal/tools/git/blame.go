// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed blame.md
var blameDoc string

//go:embed blame_help.md
var blameHelp string

type blameInput struct {
	Path      string `json:"path" check:"min=1,max=4096" jsonschema:"file to tell of"`
	Revision  string `json:"revision,omitempty" check:"max=1000" jsonschema:"commit, branch or tag; default: the file as it is"`
	FirstLine int    `json:"first_line,omitempty" check:"min=1,max=100000000" jsonschema:"default 1"`
	LastLine  int    `json:"last_line,omitempty" check:"min=1,max=100000000" jsonschema:"default the last"`
}

func (in blameInput) Check() []tools.Problem {
	problems := slices.Concat(checkSingle("/revision", in.Revision), checkText("/path", in.Path))
	if in.LastLine > 0 && in.LastLine < in.FirstLine {
		problems = append(problems, tools.Problem{Pointer: "/last_line", Message: "comes before first_line"})
	}
	return problems
}

// Blame returns the tool that tells who wrote the lines of a file.
func Blame(runners *command.Runners) tools.Tool {
	s := spec("git_blame", "Git blame", "Tell for each line of a file which commit wrote it, who and when.", blameDoc)
	s.Help = blameHelp
	s.Aliases = []string{"GitBlame"}
	s.Examples = []tools.Example{
		{Summary: "Ten lines of a file", Input: json.RawMessage(`{"path":"main.go","first_line":20,"last_line":29}`)},
	}
	return tools.New(s,
		func(env tools.Env, in blameInput) []tools.Effect {
			return append(effects(env, "blame", []string{in.Path})[:1], env.Reads(in.Path)...)
		},
		func(ctx context.Context, env tools.Env, in blameInput, _ tools.Sink) (tools.Result, error) {
			r, err := find(runners, env, in.Path)
			if err != nil {
				return tools.Result{}, err
			}
			return r.blame(ctx, in)
		})
}

func (r *repository) blame(ctx context.Context, in blameInput) (tools.Result, error) {
	if len(r.paths) == 0 {
		return tools.Result{}, tools.Failf("not_a_file", "%s is the top of a repository: name a file in it.", in.Path)
	}
	first := max(1, in.FirstLine)
	lines := strconv.Itoa(first) + ","
	if in.LastLine > 0 {
		lines += strconv.Itoa(in.LastLine)
	}
	words := []string{"blame", "--date=short", "-L", lines}
	if first == 1 && in.LastLine == 0 { // an empty file has not even a first line
		words = words[:2]
	}
	// A file that has never been committed is blamed on a commit, which there may not be.
	revisions := []string{cmp.Or(in.Revision, "HEAD")}
	if in.Revision != "" {
		words = append(words, "@")
	}
	a, err := r.ask(ctx, query{revisions: revisions, words: append(words, "--", "./"+r.paths[0]), limit: maxAnswer})
	if failure, ok := errors.AsType[*tools.Failure](err); ok && strings.Contains(failure.Message, "has only") {
		return tools.Result{}, tools.Failf("no_such_line", "%s, so there is no line %d.", strings.TrimPrefix(failure.Message, "git failed: "), first)
	}
	if err != nil {
		return tools.Result{}, err
	}
	return r.result(a, "The file is empty.", nil), nil
}
