// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package code is the tool that knows source code. Symbols, outlines and shapes come of its
// syntax alone; what a name means, what is wrong with a text and what a rename would change
// are asked of language servers.
package code

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

//go:embed code.md
var doc string

//go:embed code_help.md
var help string

type input struct {
	Operation     string   `json:"operation" check:"enum=search_symbols|lookup_symbols|get_document_symbols|get_enclosing_symbols|pattern_search|pattern_rewrite|generate_codebase_overview|search_codebase_map|goto_definition|goto_declaration|goto_type_definition|goto_implementation|find_references|get_hover|get_signature|get_completions|get_diagnostics|get_callers|get_callees|get_supertypes|get_subtypes|get_code_actions|apply_code_action|organize_imports|format|rename_symbol"`
	SymbolName    string   `json:"symbol_name,omitempty" check:"max=200"`
	Symbols       []string `json:"symbols,omitempty" check:"max=10"`
	Kind          string   `json:"kind,omitempty" check:"max=40"`
	IncludeSource bool     `json:"include_source,omitempty"`
	FilePath      string   `json:"file_path,omitempty" check:"max=4096"`
	Row           int      `json:"row,omitempty" check:"min=1" jsonschema:"line, from 1"`
	Column        int      `json:"column,omitempty" check:"min=1" jsonschema:"character, from 1"`
	EndRow        int      `json:"end_row,omitempty" check:"min=1"`
	NewName       string   `json:"new_name,omitempty" check:"max=500"`
	Title         string   `json:"title,omitempty" check:"max=500"`
	Text          *string  `json:"text,omitempty" check:"max=1000000" jsonschema:"what the file would have"`
	TopLevelOnly  bool     `json:"top_level_only,omitempty"`
	Path          string   `json:"path,omitempty" check:"max=4096" jsonschema:"where to look"`
	Language      string   `json:"language,omitempty" check:"max=40"`
	Pattern       string   `json:"pattern,omitempty" check:"max=10000"`
	Replacement   *string  `json:"replacement,omitempty" check:"max=10000"`
	DryRun        *bool    `json:"dry_run,omitempty"`
	Limit         int      `json:"limit,omitempty" check:"min=1,max=1000" jsonschema:"default 50"`
	Offset        int      `json:"offset,omitempty" check:"min=0,max=100000"`
}

// Check finds what an operation needs.
func (in input) Check() []tools.Problem {
	var problems []tools.Problem
	needs := func(key string, given bool) {
		if !given {
			problems = append(problems, tools.Problem{Pointer: "/" + key, Message: "is required for " + in.Operation})
		}
	}
	switch in.Operation {
	case "search_symbols":
		needs("symbol_name", in.SymbolName != "" || len(in.Symbols) == 1)
	case "lookup_symbols":
		needs("symbols", len(in.Symbols) > 0 || in.SymbolName != "")
	case "get_document_symbols":
		needs("file_path", in.file() != "")
	case "get_enclosing_symbols":
		needs("file_path", in.file() != "")
		needs("row", in.Row > 0)
	case "pattern_search":
		needs("pattern", in.Pattern != "")
	case "pattern_rewrite":
		needs("pattern", in.Pattern != "")
		if in.Replacement == nil {
			problems = append(problems, tools.Problem{Pointer: "/replacement", Message: "is required for pattern_rewrite: an empty text removes what matches"})
		}
	case "get_diagnostics", "get_code_actions", "organize_imports", "format":
		needs("file_path", in.file() != "")
	case "apply_code_action":
		needs("file_path", in.file() != "")
		needs("title", in.Title != "")
	case "rename_symbol":
		needs("new_name", in.NewName != "")
	}
	if in.asksServer() && !in.hasTarget() && !slices.Contains([]string{"get_diagnostics", "get_code_actions", "apply_code_action", "organize_imports", "format"}, in.Operation) {
		problems = append(problems, tools.Problem{Pointer: "/symbol_name", Message: "is required for " + in.Operation + ", or file_path with row and column"})
	}
	if in.Language != "" && !syntax.IsLanguage(in.Language) {
		near := nearest.Names(in.Language, syntax.Languages())
		problems = append(problems, tools.Problem{Pointer: "/language", Message: "is none that is known. " +
			tools.DidYouMean(near, "There are "+strings.Join(syntax.Languages(), ", ")+".")})
	}
	return problems
}

// file is the one file that an operation is about.
func (in input) file() string { return cmp.Or(in.FilePath, in.Path) }

// top is what an operation looks in.
func (in input) top() string { return cmp.Or(in.Path, in.FilePath, ".") }

// writes reports whether a call changes files.
func (in input) writes() bool {
	return (in.Operation == "pattern_rewrite" || slices.Contains(edits, in.Operation)) && in.DryRun != nil && !*in.DryRun
}

// ofFile reports whether an operation is about one file.
func (in input) ofFile() bool {
	return in.Operation == "get_document_symbols" || in.Operation == "get_enclosing_symbols"
}

// Tools returns the family.
func Tools(pool *syntax.Pool, servers *lsp.Set) []tools.Tool {
	tool := tools.New(
		tools.Spec{
			Name: "code",
			Keys: []tools.Key{
				{Other: "line", Name: "row"}, {Other: "query", Name: "symbol_name"}, {Other: "rewrite", Name: "replacement"},
			},
			Label:           "Know source code",
			Summary:         "Symbols, outlines and code of a shape: find, show and rewrite.",
			Description:     doc,
			Help:            help,
			Category:        "code",
			Level:           tools.WorkspaceWrite,
			LeastLevel:      tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "Where something is declared, with its code", Input: json.RawMessage(`{"operation":"lookup_symbols","symbols":["Server.Close"],"include_source":true}`)},
				{Summary: "The outline of a file", Input: json.RawMessage(`{"operation":"get_document_symbols","file_path":"main.go"}`)},
				{Summary: "Calls of a function with at least one argument", Input: json.RawMessage(`{"operation":"pattern_search","pattern":"foo($A, $$$)","language":"go"}`)},
				{Summary: "Who uses a function", Input: json.RawMessage(`{"operation":"find_references","symbol_name":"Server.Close"}`)},
				{Summary: "What a change would break", Input: json.RawMessage(`{"operation":"get_diagnostics","file_path":"main.go","text":"package main\n"}`)},
				{Summary: "Replace a call, once the diff was looked at", Input: json.RawMessage(`{"operation":"pattern_rewrite","pattern":"foo($A)","replacement":"bar($A, nil)","language":"go","path":"src","dry_run":false}`)},
			},
		},
		func(env tools.Env, in input) []tools.Effect { return effectsOf(pool, servers, env, in) },
		func(ctx context.Context, env tools.Env, in input, out tools.Sink) (tools.Result, error) {
			c := call{env: env, in: in, out: out, pool: pool, engine: pool.Engine(env.Workspace), servers: servers}
			result, err := c.run(ctx)
			return result, explain(ctx, env, in, err)
		})
	return []tools.Tool{tools.WithPreview(tool, func(ctx context.Context, env tools.Env, in input) tools.Preview {
		return preview(env, in, pool, servers)
	})}
}

func effectsOf(pool *syntax.Pool, servers *lsp.Set, env tools.Env, in input) []tools.Effect {
	if in.asksServer() { // which reads whatever it needs
		list := env.ReadsTree(".")
		if in.file() != "" {
			list = append(list, env.Reads(in.file())...)
		}
		if in.writes() {
			list = append(list, env.Writes(plannedEdit(env, in, servers).paths()...)...)
		}
		return list
	}
	if in.ofFile() {
		return env.Reads(in.file())
	}
	list := env.ReadsTree(in.top())
	if in.writes() {
		list = append(list, env.Writes(planned(env, in, pool).paths()...)...)
	}
	return list
}

// A call is one that runs.
type call struct {
	env    tools.Env
	in     input
	out    tools.Sink
	pool   *syntax.Pool
	engine *syntax.Engine

	servers *lsp.Set
}

func (c *call) run(ctx context.Context) (tools.Result, error) {
	if c.in.asksServer() {
		return c.ask(ctx)
	}
	if !c.pool.Available() {
		return tools.Result{}, syntax.ErrMissing
	}
	switch c.in.Operation {
	case "search_symbols", "lookup_symbols":
		return c.symbols(ctx)
	case "get_document_symbols", "get_enclosing_symbols":
		return c.outline(ctx)
	case "pattern_search":
		return c.search(ctx)
	case "pattern_rewrite":
		return c.rewrite(ctx)
	case "search_codebase_map":
		if c.in.SymbolName != "" || len(c.in.Symbols) > 0 || c.in.Pattern != "" {
			return c.searchMap(ctx)
		}
	}
	return c.overview(ctx)
}

// scope returns where a call looks.
func scope(env tools.Env, in input) (syntax.Scope, error) {
	path, err := env.Path(in.top())
	if err != nil {
		return syntax.Scope{}, err
	}
	info, err := env.Workspace.Stat(path)
	if err != nil {
		return syntax.Scope{}, err
	}
	s := syntax.Scope{Path: path, Language: in.Language, Exclude: env.Withheld(in.top(), true)}
	if s.Language == "" && !info.Mode.IsDir() {
		s.Language = syntax.LanguageOf(path)
	}
	if s.Language == "" && in.Operation == "pattern_rewrite" {
		return s, tools.Failf("language_needed", "Say with language which language the pattern is in. There are %s.", strings.Join(syntax.Languages(), ", "))
	}
	return s, nil
}

// maxNames is how many entries are looked at for the language of a directory.
const maxNames = 20_000

// spoken returns the languages that files of source code below a directory have, that of most
// files first.
func spoken(ws *workspace.Workspace, top string, exclude func(path string) bool) []string {
	files := make(map[string]int)
	_, _ = ws.Walk(context.Background(), top, maxNames, func(e workspace.Entry) error {
		if e.Mode.IsDir() {
			if base := filepath.Base(e.Path); e.Path != top && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "vendor") || exclude != nil && exclude(e.Path) {
				return workspace.SkipDir
			}
			return nil
		}
		if l := syntax.LanguageOf(e.Path); l != "" && !slices.Contains([]string{"html", "css", "json", "yaml", "toml", "markdown"}, l) {
			files[l]++
		}
		return nil
	})
	return slices.SortedFunc(maps.Keys(files), func(a, b string) int { return cmp.Or(files[b]-files[a], cmp.Compare(a, b)) })
}

// progress tells who waits that files are parsed.
func (c *call) progress(done, total int) {
	c.out.Emit(tools.Progress{Message: "files are parsed for the first time", Done: float64(done), Total: float64(total), Unit: "files"})
}

// details is what an agent runtime may want to know beside the text.
type details struct {
	Operation  string `json:"operation"`
	AnsweredBy string `json:"answered_by"`
	Shown      int    `json:"shown"`
	Found      int    `json:"found"`
	More       bool   `json:"more"`
	Files      int    `json:"files,omitempty"`
	Unparsed   int    `json:"unparsed_files,omitempty"`
	Missing    int    `json:"missing_files,omitempty"`
	Change     string `json:"change,omitempty"`
}

// answer returns a result of what a page shows.
func (c *call) answer(p *page, s syntax.Survey) (tools.Result, error) {
	if p.more {
		on := c.in
		on.Offset += p.shown
		p.note("there is more: go on with " + c.env.Words.GoOn("code", on))
	}
	if s.Unparsed > 0 {
		p.note(tools.Count(s.Unparsed, "file is", "files are") + " left out: too large to be parsed, or not readable")
	}
	if s.Waiting > 0 {
		p.note(tools.Count(s.Waiting, "file was", "files were") + " not looked at yet, since the time was over: call again for the rest")
	}
	p.note("answered by syntax")
	return tools.Detailed(p.text.String(), details{
		Operation: c.in.Operation, AnsweredBy: "syntax", Shown: p.shown, Found: p.seen, More: p.more,
		Files: s.Files, Unparsed: s.Unparsed, Missing: s.Waiting, Change: p.change,
	})
}

// explain gives failures the words agent runtimes act on.
func explain(ctx context.Context, env tools.Env, in input, err error) error {
	if _, ok := errors.AsType[*tools.Failure](err); ok || err == nil {
		return err
	}
	path := in.top()
	if in.ofFile() {
		path = in.file()
	}
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, syntax.ErrMissing):
		return tools.Failf("unavailable", "Source code cannot be parsed here: %v. Use grep and read_file instead.", err)
	case syntax.IsPattern(err):
		return tools.Failf("invalid_pattern", "The pattern cannot be used: %v.", err)
	case errors.Is(err, syntax.ErrLanguage):
		return tools.Failf("unknown_language", "%s: there is no grammar for files like it. There are those of %s. Use grep and read_file instead.", path, strings.Join(syntax.Languages(), ", "))
	case errors.Is(err, syntax.ErrBinary):
		return tools.Failf("binary_file", "%s is a binary file, not source code.", path)
	case errors.Is(err, syntax.ErrLimit):
		return tools.Failf("file_too_large", "%s: %v. Use grep, or read_file with offset and limit.", path, err)
	case errors.Is(err, syntax.ErrCrashed):
		return tools.Failf("cannot_be_parsed", "%s: %v. Use grep, or read_file with offset and limit.", path, err)
	case errors.Is(err, fs.ErrNotExist):
		return tools.Failf("file_not_found", "%s: there is no such file or directory. %s", path,
			tools.DidYouMean(effects.NearFiles(env, path), "Check the path: it is relative to the workspace root."))
	case errors.Is(err, workspace.ErrOutside):
		return tools.Failf("outside_workspace", "%v. Only source code of the workspace is known.", err)
	case errors.Is(err, workspace.ErrNotRegular):
		return tools.Failf("not_a_file", "%v. Name a file with file_path.", err)
	case errors.Is(err, workspace.ErrChanged):
		return tools.Failf("stale_file", "%v. Nothing was written. Call again.", err)
	case errors.Is(err, fs.ErrPermission):
		return tools.Failf("permission_denied", "%v", err)
	}
	return err
}
