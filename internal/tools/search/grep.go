// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed grep.md
var grepDoc string

//go:embed grep_help.md
var grepHelp string

type grepInput struct {
	Pattern    string   `json:"pattern" check:"min=1,max=10000" jsonschema:"RE2 regular expression"`
	Path       string   `json:"path,omitempty" check:"max=4096" jsonschema:"file, directory or artifact:…; default the workspace"`
	Glob       string   `json:"glob,omitempty" check:"max=4096" jsonschema:"files to search: *.go, src/**/*.{ts,tsx}, !*_test.go"`
	Globs      []string `json:"globs,omitempty" check:"max=50"`
	Type       string   `json:"type,omitempty" check:"max=100" jsonschema:"as of ripgrep: go, py, ts …"`
	TypeNot    string   `json:"type_not,omitempty" check:"max=100"`
	OutputMode string   `json:"output_mode,omitempty" check:"enum=content|files_with_matches|count" jsonschema:"default content: the lines that match"`
	Literal    bool     `json:"literal,omitempty" jsonschema:"pattern is plain text"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	SmartCase  bool     `json:"smart_case,omitempty"`
	Word       bool     `json:"word,omitempty"`
	WholeLine  bool     `json:"whole_line,omitempty"`
	Invert     bool     `json:"invert,omitempty"`
	Multiline  bool     `json:"multiline,omitempty" jsonschema:"match over several lines"`
	DotAll     bool     `json:"dot_all,omitempty"`
	Context    int      `json:"context,omitempty" check:"min=0,max=100" jsonschema:"lines around each match"`
	Before     int      `json:"before,omitempty" check:"min=0,max=100"`
	After      int      `json:"after,omitempty" check:"min=0,max=100"`
	Limit      int      `json:"limit,omitempty" check:"min=1,max=10000" jsonschema:"matching lines or files; default 250"`
	Offset     int      `json:"offset,omitempty" check:"min=0,max=100000" jsonschema:"how many to skip"`
	MaxPerFile int      `json:"max_per_file,omitempty" check:"min=1,max=1000000" jsonschema:"default all"`
	MaxColumns int      `json:"max_columns,omitempty" check:"min=20,max=2000" jsonschema:"bytes of a line to show; default 400"`
	MaxDepth   int      `json:"max_depth,omitempty" check:"min=1,max=1000"`
	Hidden     bool     `json:"hidden,omitempty" jsonschema:"dot files too"`
	NoIgnore   bool     `json:"no_ignore,omitempty" jsonschema:"what .gitignore names too"`
	Follow     bool     `json:"follow,omitempty" jsonschema:"follow links"`
}

// Grep returns the tool that finds lines of text.
func Grep(engines *engine.Pool) tools.Tool {
	return tools.New(
		tools.Spec{
			Name:    "grep",
			Aliases: []string{"Grep", "grep_search", "search"},
			Keys: []tools.Key{
				{Other: "include", Name: "glob"}, {Other: "Glob", Name: "glob"}, {Other: "-i", Name: "ignore_case"},
				{Other: "-A", Name: "after"}, {Other: "-B", Name: "before"}, {Other: "-C", Name: "context"},
				{Other: "head_limit", Name: "limit"}, {Other: "max_matches_per_file", Name: "max_per_file"},
			},
			Label:           "Search text",
			Summary:         "Search the text of files for a regular expression or a plain text.",
			Description:     grepDoc,
			Help:            grepHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Pages:           true,
			Examples: []tools.Example{
				{Summary: "Where a function is defined", Input: json.RawMessage(`{"pattern":"func \\w*Admit\\(","type":"go"}`)},
				{Summary: "A plain text, whatever its case, with two lines around it", Input: json.RawMessage(`{"pattern":"out of memory","literal":true,"ignore_case":true,"context":2}`)},
				{Summary: "Files below src that have open tasks, without tests", Input: json.RawMessage(`{"pattern":"TODO|FIXME","path":"src","glob":"!*_test.go","output_mode":"files_with_matches"}`)},
				{Summary: "The next page of an answer", Input: json.RawMessage(`{"pattern":"err != nil","offset":250}`)},
			},
		},
		func(env tools.Env, in grepInput) []tools.Effect { return env.ViewsTree(cmp.Or(in.Path, ".")) },
		func(ctx context.Context, env tools.Env, in grepInput, out tools.Sink) (tools.Result, error) {
			view, err := env.View(cmp.Or(in.Path, "."))
			if err != nil {
				return tools.Result{}, explain(env, err, in.Path)
			}
			defer view.Close()
			e := engineOf(engines, view)
			p := page{env: env, in: in, out: out, limit: cmp.Or(in.Limit, 250), room: env.Shown(), view: view, scope: in.scope(view)}
			p.scope.Exclude = view.Withheld(true)
			return p.run(ctx, e)
		})
}

func (in *grepInput) pattern() engine.Pattern {
	return engine.Pattern{
		Text: in.Pattern, Literal: in.Literal, IgnoreCase: in.IgnoreCase, SmartCase: in.SmartCase, Word: in.Word,
		WholeLine: in.WholeLine, Invert: in.Invert, Multiline: in.Multiline, DotAll: in.DotAll,
	}
}

func (in *grepInput) scope(view *tools.View) engine.Scope {
	s := engine.Scope{Path: view.Path, Hidden: in.Hidden, NoIgnore: in.NoIgnore, Follow: in.Follow, MaxDepth: in.MaxDepth}
	if in.Glob != "" {
		s.Globs = append(s.Globs, globOf(view, in.Glob))
	}
	for _, glob := range in.Globs {
		s.Globs = append(s.Globs, globOf(view, glob))
	}
	if in.Type != "" {
		s.Types = []string{in.Type}
	}
	if in.TypeNot != "" {
		s.NotTypes = []string{in.TypeNot}
	}
	return s
}

func (in *grepInput) options(limit int) engine.Options {
	o := engine.Options{
		Before: cmp.Or(in.Before, in.Context), After: cmp.Or(in.After, in.Context), MaxPerFile: in.MaxPerFile,
		MaxColumns: cmp.Or(in.MaxColumns, 400), Limit: limit,
	}
	switch in.OutputMode {
	case "files_with_matches":
		o.Mode = engine.Files
	case "count":
		o.Mode = engine.Counts
	}
	return o
}

// partialText is how much is collected before it is reported.
const partialText = 2000

// page is the part of what is found that is shown.
type page struct {
	env   tools.Env
	in    grepInput
	out   tools.Sink
	limit int // of lines or files
	room  int // bytes of text there is room for
	view  *tools.View
	scope engine.Scope

	text     strings.Builder
	reported int // bytes of text that went out already
	seen     int // matching lines, or files
	shown    int
	files    int // that something is shown of
	more     bool
	lastPath string
	lastLine int
}

func (p *page) run(ctx context.Context, e *engine.Engine) (tools.Result, error) {
	options := p.in.options(p.in.Offset + p.limit + 1)
	sum, err := e.Grep(ctx, p.in.pattern(), p.scope, options, func(f engine.File) bool {
		p.add(f, options)
		p.report()
		return !p.more
	})
	if err != nil && !stopped(ctx, err) {
		return tools.Result{}, explain(p.env, err, cmp.Or(p.in.Path, "."))
	}
	for i, note := range p.notes(ctx, e, sum, err) {
		if i == 0 && p.shown > 0 && options.Mode == engine.Lines {
			p.text.WriteByte('\n')
		}
		p.text.WriteString("(" + note + ")\n")
	}
	result := tools.TextResult(p.text.String())
	details, failed := json.Marshal(grepDetails{
		Mode: cmp.Or(p.in.OutputMode, "content"), Shown: p.shown, Files: p.files, Offset: p.in.Offset, More: p.more,
		Searched: sum.Files, Binary: sum.Binary, Unreadable: sum.Problems, Complete: err == nil,
	})
	if failed != nil {
		return tools.Result{}, failed
	}
	result.Details = details
	return result, err
}

// grepDetails is what an agent runtime may want to know beside the text.
type grepDetails struct {
	Mode       string `json:"mode"`
	Shown      int    `json:"shown"`
	Files      int    `json:"files"`
	Offset     int    `json:"offset"`
	More       bool   `json:"more"`
	Searched   int    `json:"searched_files"`
	Binary     int    `json:"binary_files"`
	Unreadable int    `json:"unreadable"`
	Complete   bool   `json:"complete"`
}

// full reports whether nothing more of so many bytes fits on the page.
func (p *page) full(bytes int) bool {
	return p.shown >= p.limit || p.shown > 0 && p.text.Len()+bytes > p.room
}

// add shows what belongs on the page of a file.
func (p *page) add(f engine.File, o engine.Options) {
	if o.Mode == engine.Lines {
		p.addLines(f, o)
		return
	}
	if p.seen++; p.seen <= p.in.Offset {
		return
	}
	line := shown(p.view.Name(f.Path))
	if o.Mode == engine.Counts {
		line += ":" + strconv.Itoa(f.Count)
	}
	if p.full(len(line) + 1) {
		p.more = true
		return
	}
	p.shown++
	p.files++
	p.text.WriteString(line + "\n")
}

func (p *page) addLines(f engine.File, o engine.Options) {
	pending := 0 // lines of context that wait for a match
	after := 0   // number of the last line of context after one
	for i, l := range f.Lines {
		if l.Context {
			if l.Number <= after {
				p.line(f, l)
				pending = 0
			} else {
				pending++
			}
			continue
		}
		if p.seen++; p.seen <= p.in.Offset {
			pending = 0
			continue
		}
		// A match is shown with what is around it, or not at all.
		if p.full(size(f, i-pending, i+1+o.After)) {
			p.more = true
			return
		}
		for _, before := range f.Lines[i-pending : i] {
			if before.Number >= l.Number-o.Before {
				p.line(f, before)
			}
		}
		p.shown++
		p.line(f, l)
		pending, after = 0, l.Number+o.After
	}
}

// size returns how much text lines of a file have at most, with its name.
func size(f engine.File, from, to int) int {
	n := len(f.Path) + 60
	for _, l := range f.Lines[from:min(to, len(f.Lines))] {
		if n += len(l.Text) + 60; !utf8.Valid(l.Text) {
			n += 2 * len(l.Text) // what is not valid is spelled out
		}
	}
	return n
}

// line writes a line, below the name of its file.
func (p *page) line(f engine.File, l engine.Line) {
	switch {
	case f.Path != p.lastPath:
		if p.text.Len() > 0 {
			p.text.WriteByte('\n')
		}
		p.text.WriteString(shown(p.view.Name(f.Path)) + "\n")
		p.files++
	case l.Number != p.lastLine+1 && (p.in.Context > 0 || p.in.Before > 0 || p.in.After > 0):
		p.text.WriteString("--\n")
	}
	p.lastPath, p.lastLine = f.Path, l.Number
	p.text.WriteString(strconv.Itoa(l.Number))
	if l.Context {
		p.text.WriteByte('-')
	} else {
		p.text.WriteByte(':')
	}
	if l.Before > 0 {
		p.text.WriteString("… ")
	}
	text := bytes.TrimSuffix(l.Text, []byte("\r"))
	if p.view.Artifacts() { // as it was shown
		text = []byte(strings.ReplaceAll(output.Clean(text), "\n", "\u240a"))
	}
	p.text.Write(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	if l.After > 0 {
		p.text.WriteString(" …")
	}
	if cut := l.Before + l.After; cut > 0 {
		fmt.Fprintf(&p.text, " (%d bytes of the line are left out)", cut)
	}
	p.text.WriteByte('\n')
}

// report sends what was found since the last time, if it is worth it.
func (p *page) report() {
	if p.text.Len()-p.reported < partialText {
		return
	}
	text := p.text.String()[p.reported:]
	p.reported = p.text.Len()
	p.out.Emit(tools.Partial{Content: []tools.Content{tools.Text(text)}})
	p.out.Emit(tools.Progress{Message: tools.Count(p.shown, "match", "matches") + " so far", Done: float64(p.shown), Unit: "matches"})
}

// notes are sentences about what the text alone does not show.
func (p *page) notes(ctx context.Context, e *engine.Engine, sum engine.Summary, err error) []string {
	var notes []string
	unit := "matching line"
	if p.in.OutputMode == "files_with_matches" || p.in.OutputMode == "count" {
		unit = "file"
	}
	switch {
	case p.more:
		on := p.in
		on.Offset += p.shown
		notes = append(notes, "there is more: go on with "+p.env.Words.GoOn("grep", on))
	case err != nil:
	case p.seen == 0:
		notes = append(notes, "nothing matches in "+tools.Count(sum.Files, "file", "files")+p.hint(ctx, e, sum))
	case p.shown == 0:
		notes = append(notes, fmt.Sprintf("there is no more: offset %d is beyond the last %s", p.in.Offset, unit))
	}
	if err != nil {
		notes = append(notes, fmt.Sprintf("not everything was searched: the call was stopped after %s", tools.Count(sum.Files, "file", "files")))
	}
	if sum.Problems > 0 {
		notes = append(notes, fmt.Sprintf("%s could not be searched, the first is %s", tools.Count(sum.Problems, "file or directory", "files or directories"), sum.Problem))
	}
	return notes
}

// hint tells what might have been meant where nothing matches.
func (p *page) hint(ctx context.Context, e *engine.Engine, sum engine.Summary) string {
	if sum.Files > 0 {
		if sum.Binary > 0 {
			return fmt.Sprintf(", %d of them binary and not searched", sum.Binary)
		}
		return ""
	}
	scope := p.scope
	if scope.Hidden && scope.NoIgnore {
		return ""
	}
	scope.Hidden, scope.NoIgnore = true, true
	files, _, err := e.Glob(ctx, scope, engine.ByName)
	if err != nil || len(files) == 0 {
		return ": check " + keysThere(p.env.Words, "grep", "path", "glob", "type")
	}
	return fmt.Sprintf(": %s hidden or ignored%s", tools.Count(len(files), "file is", "files are"), unhide(p.env.Words, "grep", "; set %s to search them"))
}

// keysThere names those keys of a tool that the model has; path where it has none.
func keysThere(words tools.Words, tool string, keys ...string) string {
	var there []string
	for _, key := range keys {
		if name, ok := words.HasKey(tool, key); ok && !slices.Contains(there, name) {
			there = append(there, name)
		}
	}
	if last := len(there) - 1; last > 0 {
		return strings.Join(there[:last], ", ") + " and " + there[last]
	}
	return cmp.Or(strings.Join(there, ""), "path")
}
