// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
)

// This file has the operations that language servers answer.

// relations are the operations that lead from a name to places.
var relations = map[string]lsp.Relation{
	"goto_definition": lsp.Definition, "goto_declaration": lsp.Declaration, "goto_type_definition": lsp.TypeDefinition,
	"goto_implementation": lsp.Implementation, "find_references": lsp.References,
}

// directions are the operations that go through a hierarchy.
var directions = map[string]lsp.Direction{
	"get_callers": lsp.Callers, "get_callees": lsp.Callees, "get_supertypes": lsp.Supertypes, "get_subtypes": lsp.Subtypes,
}

// edits are the operations that change files, unless dry_run is not set to false.
var edits = []string{"rename_symbol", "format", "organize_imports", "apply_code_action"}

// asksServer reports whether a language server answers an operation.
func (in input) asksServer() bool {
	_, relation := relations[in.Operation]
	_, direction := directions[in.Operation]
	return relation || direction || slices.Contains(edits, in.Operation) ||
		slices.Contains([]string{"get_hover", "get_signature", "get_completions", "get_diagnostics", "get_code_actions"}, in.Operation)
}

// hasTarget reports whether it is said what an operation is about.
func (in input) hasTarget() bool {
	return in.SymbolName != "" || in.file() != "" && in.Row > 0 && in.Column > 0
}

func (in input) target() lsp.Target {
	return lsp.Target{Path: in.file(), Line: in.Row, Column: in.Column, Symbol: in.SymbolName}
}

// span is the piece of code that actions are asked for.
func (in input) span() lsp.Span {
	return lsp.Span{Path: in.file(), Line: in.Row, Column: in.Column, EndLine: in.EndRow}
}

// ask answers an operation of language servers. Where there is none it says what does
// without.
func (c *call) ask(ctx context.Context) (tools.Result, error) {
	result, err := c.askServer(ctx)
	if failure, ok := errors.AsType[*tools.Failure](err); ok && failure.Code == "no_language_server" {
		without := "grep and read_file"
		if c.pool.Available() {
			without = "lookup_symbols, search_symbols, get_document_symbols, pattern_search and grep"
		}
		return result, tools.Failf(failure.Code, "%s What does without a language server: %s.", failure.Message, without)
	}
	return result, err
}

func (c *call) askServer(ctx context.Context) (tools.Result, error) {
	asker := c.servers.For(c.env, func(p tools.Progress) { c.out.Emit(p) })
	switch c.in.Operation {
	case "get_hover":
		return c.words(asker.Hover(ctx, c.in.target()))
	case "get_signature":
		return c.words(asker.Signature(ctx, c.in.target()))
	case "get_completions":
		return c.completions(asker.Completions(ctx, c.in.target()))
	case "get_diagnostics":
		if c.in.Text != nil {
			return c.whatIf(asker.WhatIf(ctx, map[string]string{c.in.file(): *c.in.Text}))
		}
		return c.problems(asker.Diagnostics(ctx, c.in.file()))
	case "get_code_actions":
		return c.actions(asker.Actions(ctx, c.in.span(), c.in.Kind))
	}
	if direction, ok := directions[c.in.Operation]; ok {
		return c.steps(asker.Hierarchy(ctx, direction, c.in.target()))
	}
	if relation, ok := relations[c.in.Operation]; ok {
		return c.places(ctx, asker, relation)
	}
	return c.edit(ctx)
}

// answered returns a result of what a page shows of the answer of a server.
func (c *call) answered(p *page, about lsp.About) (tools.Result, error) {
	if p.more {
		on := c.in
		on.Offset += p.shown
		p.note("there is more: go on with " + c.env.Words.GoOn("code", on))
	}
	if about.Indexing != "" {
		p.note(about.Server + " is still busy with " + about.Indexing + ": the answer may lack something, ask again in a while")
	}
	if about.Trouble != "" {
		p.note(about.Server + " says: " + about.Trouble)
	}
	if about.Unwatched {
		p.note("the workspace has more files than are watched: " + about.Server + " may not know of all changes")
	}
	if about.Unseen > 0 {
		p.note(tools.Count(about.Unseen, "more file has", "more files have") + " names of it and " + about.Server + " was not given them, for there are too many: the answer may lack something")
	}
	p.note("answered by " + about.Server)
	return tools.Detailed(p.text.String(), details{Operation: c.in.Operation, AnsweredBy: about.Server, Shown: p.shown, Found: p.seen, More: p.more, Change: p.change})
}

// line shows a place.
func line(l lsp.Location) string {
	return fmt.Sprintf("%s:%d:%d: %s\n", plain(l.Path), l.Line, l.Column, clip(strings.TrimSpace(l.Text)))
}

func (c *call) places(ctx context.Context, asker *lsp.Asker, relation lsp.Relation) (tools.Result, error) {
	found, err := asker.Find(ctx, relation, c.in.target())
	if failure, ok := errors.AsType[*tools.Failure](err); ok && failure.Code == "no_language_server" && relation == lsp.Definition && c.pool.Available() {
		return c.declared(ctx, failure)
	}
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(100)
	for _, l := range found.List {
		p.add(func() string { return line(l) })
	}
	if p.seen == 0 {
		p.note("there is none")
	}
	p.leftOut(found.More)
	return c.answered(p, found.About)
}

// word is a name in a line of code.
var word = regexp.MustCompile(`[\p{L}\p{N}_$]+`)

// declared answers goto_definition by syntax alone, which knows names and not what they refer to.
func (c *call) declared(ctx context.Context, noServer *tools.Failure) (tools.Result, error) {
	file := c.in.file()
	if file != "" && c.in.Row > 0 {
		path, err := c.env.Path(file)
		if err != nil {
			return tools.Result{}, err
		}
		text, err := c.engine.Read(path)
		if err != nil {
			return tools.Result{}, err
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if c.in.Row > len(lines) {
			return tools.Result{}, tools.Failf("no_such_position", "Line %d is not in %s, which has %d lines.", c.in.Row, plain(file), len(lines))
		}
		line := lines[c.in.Row-1]
		names := word.FindAllStringIndex(line, -1)
		wanted := c.in.SymbolName[strings.LastIndexAny(c.in.SymbolName, ".:#")+1:]
		at := slices.IndexFunc(names, func(n []int) bool {
			if wanted != "" {
				return line[n[0]:n[1]] == wanted
			}
			return utf8.RuneCountInString(line[:n[0]]) < c.in.Column && c.in.Column <= utf8.RuneCountInString(line[:n[1]])+1
		})
		if at < 0 {
			return tools.Result{}, tools.Failf("no_such_symbol", "There is no name %s in line %d of %s, which is: %s", wanted, c.in.Row, plain(file), clip(line))
		}
		c.in.SymbolName = cmp.Or(c.in.SymbolName, line[names[at][0]:names[at][1]])
	}
	if c.in.SymbolName == "" {
		return tools.Result{}, noServer
	}
	if file != "" && c.in.Language == "" {
		c.in.Language = syntax.LanguageOf(file)
	}
	c.in.Operation, c.in.Path, c.in.FilePath, c.in.Row, c.in.Column = "lookup_symbols", "", "", 0, 0
	return c.symbols(ctx, "there is no language server for it: these are the symbols of that name")
}

func (c *call) words(answer *lsp.Text, err error) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(1)
	if answer.Text == "" {
		p.note("nothing is known of it")
	} else {
		p.add(func() string { return answer.Text + "\n" })
	}
	return c.answered(p, answer.About)
}

func (c *call) completions(answer *lsp.Completions, err error) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(50)
	for _, one := range answer.List {
		p.add(func() string {
			return strings.TrimRight(fmt.Sprintf("%s  (%s)  %s", one.Label, one.Kind, one.Detail), " ") + "\n"
		})
	}
	if p.seen == 0 {
		p.note("there is none")
	}
	p.leftOut(answer.More)
	return c.answered(p, answer.About)
}

func (c *call) steps(answer *lsp.Steps, err error) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(100)
	for _, s := range answer.List {
		p.add(func() string {
			text := fmt.Sprintf("%s %s  %s", s.Kind, s.Name, line(s.Location))
			for _, site := range s.Sites {
				text += "    " + line(site)
			}
			return text
		})
	}
	if p.seen == 0 {
		p.note("there is none")
	}
	if answer.More {
		p.note("there are more, which are left out")
	}
	return c.answered(p, answer.About)
}

// problem shows what is wrong.
func problem(one lsp.Problem) string {
	source := strings.TrimSpace(one.Source + " " + one.Code)
	if source != "" {
		source = " (" + source + ")"
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s%s\n    %s\n", plain(one.Path), one.Line, one.Column, one.Severity, one.Message, source, clip(strings.TrimSpace(one.Location.Text)))
}

func (c *call) problems(answer *lsp.Problems, err error) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(100)
	for _, one := range answer.List {
		p.add(func() string { return problem(one) })
	}
	if p.seen == 0 {
		p.note("nothing is wrong with it")
	}
	return c.finish(p, answer.Late, answer.About)
}

func (c *call) finish(p *page, late bool, about lsp.About) (tools.Result, error) {
	if late {
		p.note(about.Server + " did not tell of everything in time: ask again")
	}
	return c.answered(p, about)
}

func (c *call) whatIf(answer *lsp.Change, err error) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(100)
	for _, one := range answer.New {
		p.add(func() string { return "new: " + problem(one) })
	}
	for _, one := range answer.Fixed {
		p.add(func() string { return "fixed: " + problem(one) })
	}
	if p.seen == 0 {
		p.note("nothing would become wrong or right")
	}
	p.note("nothing was written")
	return c.finish(p, answer.Late, answer.About)
}

func (c *call) actions(answer *lsp.Actions, err error) (tools.Result, error) {
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(50)
	for _, a := range answer.List {
		p.add(func() string {
			text := fmt.Sprintf("%s  (%s)", a.Title, a.Kind)
			if a.Disabled != "" {
				text += "  not now: " + a.Disabled
			}
			return text + "\n"
		})
	}
	if p.seen == 0 {
		p.note("there is none")
	}
	return c.answered(p, answer.About)
}

// An editPlan is what a server would change. As with a rewrite, what is judged and shown is
// what is written.
type editPlan struct {
	edit *lsp.Edit
	err  error
}

type editKey struct{}

func plannedEdit(env tools.Env, in input, servers *lsp.Set) *editPlan {
	return env.Once(editKey{}, func() any {
		ctx, cancel := context.WithTimeoutCause(context.Background(), maxPlanning, tools.Failf(tools.TimedOutCode, "It takes longer than %v to find what would be changed.", maxPlanning))
		defer cancel()
		return newEdit(ctx, servers.For(env, nil), in)
	}).(*editPlan)
}

func newEdit(ctx context.Context, asker *lsp.Asker, in input) *editPlan {
	var p editPlan
	switch in.Operation {
	case "rename_symbol":
		p.edit, p.err = asker.Rename(ctx, in.target(), in.NewName)
	case "format":
		p.edit, p.err = asker.Format(ctx, in.file())
	case "organize_imports":
		p.edit, p.err = asker.Action(ctx, lsp.Span{Path: in.file()}, lsp.OrganizeImports, "")
	case "apply_code_action":
		p.edit, p.err = asker.Action(ctx, in.span(), in.Kind, in.Title)
	}
	return &p
}

func (p *editPlan) paths() []string {
	if p.edit == nil {
		return nil
	}
	return p.edit.Paths()
}

func (p *editPlan) diff() string { return output.ValidText(p.edit.Diff(plain)) }

// maxLeft is how many files are named that a rename leaves.
const maxLeft = 5

// left says which files have the name that is renamed and are not changed; "" where there are none.
func (p *editPlan) left() string {
	n := len(p.edit.Left)
	if n == 0 {
		return ""
	}
	var names []string
	for _, path := range p.edit.Left[:min(n, maxLeft)] {
		names = append(names, plain(path))
	}
	if n > maxLeft {
		names = append(names, fmt.Sprintf("and %d more", n-maxLeft))
	}
	return fmt.Sprintf("the word %s is in %s that %s does not change: %s", p.edit.Name, tools.Count(n, "more file", "more files"), p.edit.Server, strings.Join(names, ", "))
}

// edit answers the operations that change files.
func (c *call) edit(ctx context.Context) (tools.Result, error) {
	var plan *editPlan
	if c.in.writes() {
		plan = plannedEdit(c.env, c.in, c.servers)
	} else {
		plan = newEdit(ctx, c.servers.For(c.env, func(p tools.Progress) { c.out.Emit(p) }), c.in)
	}
	if plan.err != nil {
		return tools.Result{}, plan.err
	}
	p := c.page(1)
	what := tools.Count(len(plan.edit.Files), "file", "files")
	switch {
	case len(plan.edit.Files) == 0:
		p.note("nothing would change")
		return c.answered(p, plan.edit.About)
	case !c.in.writes():
		fmt.Fprintf(&p.text, "Would change %s. Nothing was written: set dry_run to false to do it.\n\n", what)
	default:
		for _, path := range plan.paths() { // what was not judged is not written
			if _, err := c.env.Path(path); err != nil {
				return tools.Result{}, err
			}
		}
		record, err := plan.edit.Apply(c.env, "code")
		if err != nil {
			return tools.Result{}, err
		}
		p.change = record.ID
		fmt.Fprintf(&p.text, "Changed %s.\n", what)
		if record.Lost != "" {
			p.note("this cannot be undone: " + record.Lost)
		}
		p.text.WriteByte('\n')
	}
	p.seen, p.shown = len(plan.edit.Files), len(plan.edit.Files)
	if left := plan.left(); left != "" {
		p.text.WriteString("(" + left + ")\n\n")
	}
	p.text.WriteString(plan.diff()) // what does not fit is kept as an artifact
	return c.answered(p, plan.edit.About)
}
