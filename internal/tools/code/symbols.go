// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
)

// maxSource is how many lines of a symbol are shown.
const maxSource = 200

// symbols answers search_symbols and lookup_symbols, with notes.
func (c *call) symbols(ctx context.Context, notes ...string) (tools.Result, error) {
	s, err := scope(c.env, c.in)
	if err != nil {
		return tools.Result{}, err
	}
	exact := c.in.Operation == "lookup_symbols"
	wanted := c.in.Symbols
	if len(wanted) == 0 {
		wanted = []string{c.in.SymbolName}
	}
	p := c.page(50)
	texts := texts{engine: c.engine, lines: make(map[string][]string)}
	var survey syntax.Survey
	var missing []string
	for _, name := range wanted {
		found, sum, err := c.engine.Find(ctx, s, syntax.Query{Name: name, Exact: exact, Kind: c.in.Kind}, c.progress)
		if err != nil {
			return tools.Result{}, err
		}
		survey = sum
		if len(found) == 0 {
			missing = append(missing, name)
		}
		for _, f := range found {
			p.add(func() string { return c.shown(&texts, f) })
		}
	}
	if len(missing) > 0 {
		note := fmt.Sprintf("no symbol is called %s in %s", strings.Join(missing, ", "), tools.Count(survey.Files, "file", "files"))
		if exact {
			note += "; search_symbols finds names that are like it"
		}
		p.note(note)
	}
	for _, note := range notes {
		p.note(note)
	}
	return c.answer(p, survey)
}

// shown returns a symbol as it is shown: where it is, and how it is declared.
func (c *call) shown(t *texts, f syntax.Found) string {
	name := f.Name
	if f.Container != "" {
		name = f.Container + "." + name
	}
	where := fmt.Sprintf("%s:%d", plain(f.Path), f.Line)
	if f.EndLine > f.Line {
		where += fmt.Sprintf("-%d", f.EndLine)
	}
	lines := t.of(f.Path, f.Line, f.EndLine)
	if c.in.IncludeSource {
		return fmt.Sprintf("%s  %s %s\n%s\n", where, f.Kind, name, numbered(lines, f.Line, maxSource))
	}
	first := ""
	if len(lines) > 0 {
		first = clip(strings.TrimSpace(lines[0]))
	}
	return fmt.Sprintf("%s  %s %s\n    %s\n", where, f.Kind, name, first)
}

// texts are the lines of files that were read.
type texts struct {
	engine *syntax.Engine
	lines  map[string][]string
}

// of returns lines of a file, by their numbers from 1; none where it cannot be read.
func (t *texts) of(path string, first, last int) []string {
	lines, ok := t.lines[path]
	if !ok {
		if text, err := t.engine.Read(path); err == nil {
			lines = strings.Split(string(text), "\n")
		}
		t.lines[path] = lines
	}
	return lines[min(first-1, len(lines)):min(last, len(lines))]
}

// outline answers get_document_symbols and get_enclosing_symbols.
func (c *call) outline(ctx context.Context) (tools.Result, error) {
	path, err := c.env.Path(c.in.file())
	if err != nil {
		return tools.Result{}, err
	}
	text, err := c.engine.Read(path)
	if err != nil {
		return tools.Result{}, err
	}
	o, err := c.engine.Outline(ctx, path, text)
	if err != nil {
		return tools.Result{}, err
	}
	if c.in.Row > o.Lines {
		return tools.Result{}, tools.Failf("outside_file", "%s has %s: there is no line %d.", plain(c.in.file()), tools.Count(o.Lines, "line", "lines"), c.in.Row)
	}
	p := c.page(500)
	for _, s := range o.Symbols {
		if c.in.Row > 0 && (c.in.Row < s.Line || c.in.Row > s.EndLine) || c.in.TopLevelOnly && s.Depth > 0 {
			continue
		}
		p.add(func() string { return entry(s) })
	}
	switch {
	case c.in.Row > 0 && p.seen == 0:
		p.note(fmt.Sprintf("line %d lies in no symbol", c.in.Row))
	case p.seen == 0:
		p.note("nothing is declared in it")
	}
	if o.Flawed {
		p.note("some of it does not parse as " + o.Language + ": symbols may be missing")
	}
	return c.answer(p, syntax.Survey{})
}

// entry returns a symbol as a line of an outline.
func entry(s syntax.Symbol) string {
	line := fmt.Sprint(s.Line)
	if s.EndLine > s.Line {
		line += fmt.Sprintf("-%d", s.EndLine)
	}
	line += "\t" + strings.Repeat("  ", s.Depth) + cmp.Or(s.Signature, s.Name) + "  (" + s.Kind + ")"
	if s.Doc != "" {
		line += "  " + s.Doc
	}
	return line + "\n"
}

// searchMap answers search_codebase_map of a name: the directories that have it in their path,
// and the symbols that are called like it.
func (c *call) searchMap(ctx context.Context) (tools.Result, error) {
	if c.in.SymbolName == "" && len(c.in.Symbols) == 0 {
		c.in.SymbolName, c.in.Pattern = c.in.Pattern, ""
	}
	s, err := scope(c.env, c.in)
	if err != nil {
		return tools.Result{}, err
	}
	o, _, err := c.engine.Overview(ctx, s, c.progress)
	if err != nil {
		return tools.Result{}, err
	}
	var notes []string
	for _, d := range o.Directories {
		name := strings.ToLower(cmp.Or(c.in.SymbolName, strings.Join(c.in.Symbols, " ")))
		if strings.Contains(strings.ToLower(d.Path), name) && len(notes) < maxDirectories {
			notes = append(notes, fmt.Sprintf("a directory is called so: %s/, with %s", plain(d.Path), tools.Count(d.Files, "file", "files")))
		}
	}
	return c.symbols(ctx, notes...)
}

// maxDirectories is how many directories are told of that are called like what is looked for.
const maxDirectories = 10

// overview answers generate_codebase_overview and search_codebase_map.
func (c *call) overview(ctx context.Context) (tools.Result, error) {
	s, err := scope(c.env, c.in)
	if err != nil {
		return tools.Result{}, err
	}
	o, survey, err := c.engine.Overview(ctx, s, c.progress)
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(200)
	if c.in.Offset == 0 {
		var languages []string
		for _, l := range o.Languages {
			languages = append(languages, fmt.Sprintf("%s %d", l.Name, l.Files))
		}
		fmt.Fprintf(&p.text, "%s, %s. By language: %s.\n", tools.Count(survey.Files, "file", "files"), tools.Count(o.Symbols, "symbol", "symbols"), cmp.Or(strings.Join(languages, ", "), "none that is known"))
		for i, e := range o.Entries {
			if i == 20 {
				fmt.Fprintf(&p.text, "… and %d more entry points\n", len(o.Entries)-i)
				break
			}
			p.text.WriteString(strings.TrimRight(fmt.Sprintf("entry point: %s:%d %s", plain(e.Path), e.Line, e.Name), " ") + "\n")
		}
	}
	// What fits is shared: with many directories, each shows less.
	each := 12
	for each > 2 && len(o.Directories)*each*40 > p.room {
		each--
	}
	for _, d := range o.Directories {
		p.add(func() string { return directory(d, each) })
	}
	return c.answer(p, survey)
}

// directory returns one as it is shown, with some of its symbols.
func directory(d syntax.Directory, most int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s/  (%s, %s)\n", strings.TrimSuffix(plain(d.Path), "/"), tools.Count(d.Files, "file", "files"), strings.Join(d.Languages, ", "))
	for _, s := range d.Symbols[:min(len(d.Symbols), most)] {
		fmt.Fprintf(&b, "  %s %s  %s:%d\n", s.Kind, s.Name, plain(s.Path[strings.LastIndexByte(s.Path, '/')+1:]), s.Line)
	}
	return b.String()
}
