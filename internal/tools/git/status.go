// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed status.md
var statusDoc string

//go:embed status_help.md
var statusHelp string

type statusInput struct {
	Path string `json:"path,omitempty" check:"max=4096" jsonschema:"default the whole repository"`
}

func (in statusInput) Check() []tools.Problem { return checkText("/path", in.Path) }

// Status returns the tool that tells what was changed since the last commit.
func Status(runners *command.Runners) tools.Tool {
	s := spec("git_status", "Git status", "Tell the branch and which files were changed since the last commit.", statusDoc)
	s.Help = statusHelp
	s.Aliases = []string{"GitStatus"}
	s.Examples = []tools.Example{
		{Summary: "The whole repository", Input: json.RawMessage(`{}`)},
		{Summary: "One directory", Input: json.RawMessage(`{"path":"internal/service"}`)},
	}
	return over(s, runners, "status", func(in statusInput) []string { return []string{cmp.Or(in.Path, ".")} },
		func(r *repository, ctx context.Context, _ statusInput) (tools.Result, error) {
			words := []string{"status", "--porcelain=v1", "-z", "--branch", "--ignore-submodules=dirty", "--untracked-files=normal"}
			a, err := r.ask(ctx, query{words: append(words, r.pathspecs(nil)...), limit: maxAnswer})
			if err != nil {
				return tools.Result{}, err
			}
			return r.status(a), nil
		})
}

// status returns what git status said, a line for each file.
func (r *repository) status(a answer) tools.Result {
	withheld := r.withheld()
	fields := strings.Split(strings.TrimSuffix(string(a.text), "\x00"), "\x00")
	lines := []string{strings.Replace(fields[0], "## ", "branch ", 1)}
	var without []string
	files := 0
	for fields = fields[1:]; len(fields) > 0; fields = fields[1:] {
		if len(fields[0]) < 4 {
			continue
		}
		kind, names := fields[0][:3], fields[0][3:]
		hidden := withheld != nil && withheld(names)
		if strings.ContainsAny(kind, "RC") && len(fields) > 1 {
			hidden = hidden || withheld != nil && withheld(fields[1])
			names = fields[1] + " -> " + names
			fields = fields[1:]
		}
		if hidden {
			without = append(without, names)
			continue
		}
		files++
		lines = append(lines, kind+strings.ReplaceAll(names, "\n", `\n`))
	}
	n := r.about(without)
	if files == 0 && len(without) == 0 && !a.cut {
		n.add("nothing was changed")
	}
	return r.result(answer{[]byte(strings.Join(lines, "\n") + "\n"), a.cut}, "", n)
}
