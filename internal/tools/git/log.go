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
	"strconv"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed log.md
var logDoc string

//go:embed log_help.md
var logHelp string

type logInput struct {
	Revision string   `json:"revision,omitempty" check:"max=1000" jsonschema:"branch, tag, commit or a range such as main..feature; default HEAD"`
	Paths    []string `json:"paths,omitempty" check:"max=100" jsonschema:"only commits that changed these"`
	Limit    int      `json:"limit,omitempty" check:"min=1,max=1000" jsonschema:"default 20"`
	Skip     int      `json:"skip,omitempty" check:"min=0,max=1000000" jsonschema:"commits to leave out first, to go on"`
	Author   string   `json:"author,omitempty" check:"max=1000" jsonschema:"regular expression"`
	Since    string   `json:"since,omitempty" check:"max=100" jsonschema:"a date such as 2026-01-31 or 2 weeks ago"`
	Until    string   `json:"until,omitempty" check:"max=100"`
	Grep     string   `json:"grep,omitempty" check:"max=1000" jsonschema:"regular expression for the message"`
	Patch    bool     `json:"patch,omitempty" jsonschema:"with what each changed"`
	Stat     bool     `json:"stat,omitempty" jsonschema:"with counts of lines by file"`
	Oneline  bool     `json:"oneline,omitempty" jsonschema:"a line for each"`
}

func (in logInput) Check() []tools.Problem {
	problems := slices.Concat(checkRevision("/revision", in.Revision), checkPaths(in.Paths))
	for _, text := range [][2]string{{"/author", in.Author}, {"/since", in.Since}, {"/until", in.Until}, {"/grep", in.Grep}} {
		problems = append(problems, checkText(text[0], text[1])...)
	}
	if in.Patch && in.Stat {
		problems = append(problems, tools.Problem{Pointer: "/stat", Message: "does not go with patch: choose one"})
	}
	return problems
}

// A commit begins with a line that no message and no change can have.
const (
	mark    = "\x01"
	oneline = "--format=tformat:%x01%h %ad %an%d %s"
	whole   = "--format=tformat:%x01commit %H%d%nAuthor: %an <%ae>%nDate:   %ad%n%n%w(0,4,4)%B"
)

// Log returns the tool that lists commits.
func Log(runners *command.Runners) tools.Tool {
	s := spec("git_log", "Git log", "List commits, the newest first.", logDoc)
	s.Help = logHelp
	s.Aliases = []string{"GitLog"}
	s.Examples = []tools.Example{
		{Summary: "The last commits, briefly", Input: json.RawMessage(`{"oneline":true,"limit":50}`)},
		{Summary: "What changed a file this month, with the changes", Input: json.RawMessage(`{"paths":["go.mod"],"since":"1 month ago","patch":true}`)},
		{Summary: "What a branch has that main has not", Input: json.RawMessage(`{"revision":"main..feature"}`)},
	}
	return over(s, runners, "log", func(in logInput) []string { return in.Paths }, (*repository).log)
}

func (r *repository) log(ctx context.Context, in logInput) (tools.Result, error) {
	limit := cmp.Or(in.Limit, 20)
	revisions := []string{cmp.Or(in.Revision, "HEAD")}
	which := []string{"--max-count=" + strconv.Itoa(limit+1), "--skip=" + strconv.Itoa(in.Skip), "--no-show-signature"}
	for _, word := range [][2]string{{"--author=", in.Author}, {"--since=", in.Since}, {"--until=", in.Until}, {"--grep=", in.Grep}} {
		if word[1] != "" {
			which = append(which, word[0]+word[1])
		}
	}
	which = append(which, "@")
	var without []string
	if in.Patch || in.Stat {
		var err error
		without, err = r.leftOut(ctx, revisions, slices.Concat([]string{"log", "--format=tformat:"}, onlyNames, which)...)
		if err != nil {
			return tools.Result{}, err
		}
	}
	words := slices.Concat([]string{"log", "--date=iso-strict", whole}, plain)
	if in.Oneline {
		words[1], words[2] = "--date=short", oneline
	}
	switch {
	case in.Patch:
		words = append(words, "--patch")
	case in.Stat:
		words = append(words, "--stat=200")
	}
	a, err := r.ask(ctx, query{revisions: revisions, words: slices.Concat(words, which, r.pathspecs(without)), limit: maxAnswer})
	if err != nil {
		return tools.Result{}, err
	}
	text, commits, more := firstCommits(a.text, limit)
	n := r.about(without)
	if more {
		in.Skip += commits
		n.add("there are more commits: go on with %s", r.env.Words.GoOn("git_log", in))
	}
	return r.result(answer{text, a.cut && !more}, "No commit matches.", n), nil
}

// firstCommits returns the text of so many commits without their marks, how many
// there are, and whether another follows.
func firstCommits(text []byte, limit int) (first []byte, commits int, more bool) {
	for line := range bytes.Lines(text) {
		if rest, begins := bytes.CutPrefix(line, []byte(mark)); begins {
			if commits == limit {
				return bytes.TrimRight(first, "\n"), commits, true
			}
			commits++
			line = rest
		}
		first = append(first, line...)
	}
	return first, commits, false
}
