// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed glob.md
var globDoc string

//go:embed glob_help.md
var globHelp string

type globInput struct {
	Pattern  string `json:"pattern" check:"min=1,max=4096" jsonschema:"**/*.go, src/**/*.{ts,tsx}; without a slash: names at any depth"`
	Path     string `json:"path,omitempty" check:"max=4096" jsonschema:"directory to look in; default the workspace"`
	Sort     string `json:"sort,omitempty" check:"enum=time|name" jsonschema:"default time: changed last comes first"`
	Limit    int    `json:"limit,omitempty" check:"min=1,max=10000" jsonschema:"default 200"`
	Offset   int    `json:"offset,omitempty" check:"min=0,max=100000" jsonschema:"how many to skip"`
	Hidden   bool   `json:"hidden,omitempty" jsonschema:"also find dot files"`
	NoIgnore bool   `json:"no_ignore,omitempty" jsonschema:"also find what .gitignore names"`
	Follow   bool   `json:"follow,omitempty" jsonschema:"follow links"`
	MaxDepth int    `json:"max_depth,omitempty" check:"min=1,max=1000" jsonschema:"1: path alone"`
}

// Glob returns the tool that finds files by name.
func Glob(engines *engine.Pool) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "glob",
			Aliases:         []string{"Glob", "glob_search", "find_files"},
			Keys:            []tools.Key{{Other: "max_results", Name: "limit"}},
			Label:           "Find files",
			Summary:         "Find files by a pattern of their names.",
			Description:     globDoc,
			Help:            globHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Pages:           true,
			Examples: []tools.Example{
				{Summary: "All Go files, the newest first", Input: json.RawMessage(`{"pattern":"**/*.go"}`)},
				{Summary: "TypeScript below src, by name", Input: json.RawMessage(`{"pattern":"**/*.{ts,tsx}","path":"src","sort":"name"}`)},
				{Summary: "Workflows, which are hidden", Input: json.RawMessage(`{"pattern":".github/workflows/*.yml"}`)},
			},
		},
		func(env tools.Env, in globInput) []tools.Effect {
			in.split(env)
			return env.ViewsTree(cmp.Or(in.Path, "."))
		},
		func(ctx context.Context, env tools.Env, in globInput, out tools.Sink) (tools.Result, error) {
			asked := in
			in.split(env)
			view, err := env.View(cmp.Or(in.Path, "."))
			if err != nil {
				return tools.Result{}, explain(env, err, in.Path)
			}
			defer view.Close()
			e := engineOf(engines, view)
			g := glob{env: env, globInput: in, asked: asked, engine: e, view: view, room: env.Shown(), exclude: view.Withheld(false)}
			g.Pattern = within(view.Workspace, view.Path, in.Pattern)
			return g.run(ctx)
		})
}

// split takes a pattern apart that is an absolute path of what may be read beside
// the workspace: the directories in it that are plain names are where to look.
func (in *globInput) split(env tools.Env) {
	if in.Path != "" || !path.IsAbs(in.Pattern) || strings.HasPrefix(in.Pattern, env.Workspace.Dir()+"/") {
		return
	}
	top := in.Pattern
	if i := strings.IndexAny(top, `*?[{\`); i >= 0 {
		top = top[:i]
	}
	if i := strings.LastIndexByte(top, '/'); i > 0 && env.Beside(top[:i]) {
		in.Path, in.Pattern = in.Pattern[:i], in.Pattern[i+1:]
	}
}

type glob struct {
	env tools.Env
	globInput
	asked   globInput // as the call has it
	engine  *engine.Engine
	view    *tools.View
	room    int                    // bytes of text there is room for
	exclude func(path string) bool // names of what nobody may read are not told
}

func (g *glob) scope() engine.Scope {
	return engine.Scope{
		Path: g.view.Path, Match: g.Pattern, Hidden: g.Hidden || namesHidden(g.Pattern), NoIgnore: g.NoIgnore, Follow: g.Follow, MaxDepth: g.MaxDepth, Exclude: g.exclude,
	}
}

// namesHidden reports whether a pattern asks for something hidden by name.
func namesHidden(pattern string) bool {
	return strings.HasPrefix(pattern, ".") || strings.Contains(pattern, "/.") || strings.Contains(pattern, "{.") || strings.Contains(pattern, ",.")
}

func (g *glob) run(ctx context.Context) (tools.Result, error) {
	order := engine.ByTime
	if g.Sort == "name" {
		order = engine.ByName
	}
	files, sum, err := g.engine.Glob(ctx, g.scope(), order)
	if err != nil && !stopped(ctx, err) {
		return tools.Result{}, explain(g.env, err, cmp.Or(g.Path, "."))
	}
	var text strings.Builder
	first := min(g.Offset, len(files))
	next := first
	for _, f := range files[first:min(len(files), first+cmp.Or(g.Limit, 200))] {
		line := shown(g.view.Name(f.Path)) + "\n"
		if next > first && text.Len()+len(line) > g.room {
			break
		}
		text.WriteString(line)
		next++
	}
	for _, note := range g.notes(ctx, files, first, next, sum, err) {
		text.WriteString("(" + note + ")\n")
	}
	result := tools.TextResult(text.String())
	details, failed := json.Marshal(globDetails{Files: len(files), Shown: next - first, Offset: first, More: next < len(files), Unreadable: sum.Problems, Complete: err == nil})
	if failed != nil {
		return tools.Result{}, failed
	}
	result.Details = details
	return result, err
}

// globDetails is what an agent runtime may want to know beside the list.
type globDetails struct {
	Files      int  `json:"files"`
	Shown      int  `json:"shown"`
	Offset     int  `json:"offset"`
	More       bool `json:"more"`
	Unreadable int  `json:"unreadable"`
	Complete   bool `json:"complete"`
}

// notes are sentences about what the list alone does not show.
func (g *glob) notes(ctx context.Context, files []engine.File, first, next int, sum engine.Summary, err error) []string {
	var notes []string
	switch {
	case err != nil:
		notes = append(notes, "not everything was looked at: the call was stopped")
	case len(files) == 0:
		notes = append(notes, "no file matches"+g.hint(ctx))
	case first == len(files):
		notes = append(notes, fmt.Sprintf("%s: offset %d is beyond the last", tools.Count(len(files), "file matches", "files match"), g.Offset))
	case next < len(files):
		on := g.asked
		on.Offset = next
		notes = append(notes, fmt.Sprintf("%d of %d files are shown: go on with %s", next-first, len(files), g.env.Words.GoOn("glob", on)))
	}
	if sum.Problems > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be looked at, the first is %s", tools.Count(sum.Problems, "directory or file", "directories or files"), sum.Problem))
	}
	return notes
}

// hint tells what would have matched: something below a directory, or something
// hidden or ignored.
func (g *glob) hint(ctx context.Context) string {
	if path.IsAbs(g.Pattern) || strings.HasPrefix(g.Pattern, "../") {
		return ": a pattern is relative to path, and leads nowhere outside of the workspace"
	}
	scope := g.scope()
	scope.Match = path.Join(g.Pattern, "**")
	if files, _, err := g.engine.Glob(ctx, scope, engine.ByName); err == nil && len(files) > 0 {
		return fmt.Sprintf("; directories are not listed: %s shows what is below", scope.Match)
	}
	scope = g.scope()
	if scope.Hidden && scope.NoIgnore {
		return ""
	}
	scope.Hidden, scope.NoIgnore = true, true
	files, _, err := g.engine.Glob(ctx, scope, engine.ByName)
	if err != nil || len(files) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s hidden or ignored%s", tools.Count(len(files), "file that matches is", "files that match are"), unhide(g.env.Words, "glob", ": set %s to see them"))
}

// unhide tells of the keys with which a tool shows what is hidden or ignored; nothing
// where the model has none for both.
func unhide(words tools.Words, tool, how string) string {
	hidden, ok := words.HasKey(tool, "hidden")
	ignored, also := words.HasKey(tool, "no_ignore")
	if !ok || !also {
		return ""
	}
	if hidden != ignored {
		hidden += " and " + ignored
	}
	return fmt.Sprintf(how, hidden)
}
