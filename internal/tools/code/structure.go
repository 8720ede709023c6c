// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// maxGuesses is how many languages a pattern is tried in that names none.
const maxGuesses = 4

// search answers pattern_search. Where no language is named, it is the first one, by how many
// files are in it, that has code of the shape.
func (c *call) search(ctx context.Context) (tools.Result, error) {
	s, err := scope(c.env, c.in)
	if err != nil {
		return tools.Result{}, err
	}
	p := c.page(50)
	languages := []string{s.Language}
	if s.Language == "" {
		if languages = spoken(c.env.Workspace, s.Path, s.Exclude); len(languages) == 0 {
			return tools.Result{}, tools.Failf("no_source_code", "There is no source code in %s. There are grammars for %s.", plain(c.in.top()), strings.Join(syntax.Languages(), ", "))
		}
		languages = languages[:min(len(languages), maxGuesses)]
	}
	var found []syntax.Match
	var survey syntax.Survey
	var tried []string // what the pattern is code of
	for _, language := range languages {
		s.Language = language
		var wrong error
		if found, survey, wrong = c.engine.Match(ctx, s, c.in.Pattern, p.offset, p.limit); wrong != nil && !syntax.IsPattern(wrong) {
			return tools.Result{}, wrong
		}
		if wrong == nil {
			tried = append(tried, language)
		}
		err = cmp.Or(err, wrong)
		if len(found) > 0 {
			break
		}
	}
	if len(tried) == 0 {
		return tools.Result{}, err
	}
	guessed := c.in.Language == "" && len(languages) > 1
	if guessed && len(found) > 0 {
		c.in.Language = s.Language // so that the next page is of the same
	}
	last := ""
	for _, m := range found {
		p.add(func() string {
			text := numbered(strings.Split(m.Text, "\n"), m.Line, syntax.MaxLines)
			if more := m.EndLine - m.Line + 1 - syntax.MaxLines; more > 0 {
				text += "… " + tools.Count(more, "more line", "more lines") + "\n"
			}
			if m.Path != last {
				text = plain(m.Path) + "\n" + text
				if p.shown > 0 {
					text = "\n" + text
				}
			}
			last = m.Path
			return text
		})
	}
	if p.seen == 0 {
		p.note(fmt.Sprintf("nothing of %s has this shape; %s", strings.Join(tried, ", "), tools.Count(survey.Files, "file has its words", "files have its words")))
	}
	if guessed && p.seen > 0 {
		p.note("in " + tried[len(tried)-1] + ": say language for another")
	}
	return c.answer(p, survey)
}

// A plan is what a rewrite would change. It is made once for a call: what is judged
// and shown is what is written.
type plan struct {
	changes []syntax.Change
	survey  syntax.Survey
	err     error
}

// maxPlanning is how long it may take to find out what a rewrite writes.
const maxPlanning = 30 * time.Second

type planKey struct{}

func planned(env tools.Env, in input, pool *syntax.Pool) *plan {
	return env.Once(planKey{}, func() any {
		ctx, cancel := context.WithTimeoutCause(context.Background(), maxPlanning, tools.Failf(tools.TimedOutCode, "It takes longer than %v to find what would be changed. Name a directory with path.", maxPlanning))
		defer cancel()
		return newPlan(ctx, env, in, pool)
	}).(*plan)
}

func newPlan(ctx context.Context, env tools.Env, in input, pool *syntax.Pool) *plan {
	p := new(plan)
	s, err := scope(env, in)
	switch {
	case err != nil:
		p.err = err
	case !pool.Available():
		p.err = syntax.ErrMissing
	case strings.Contains(*in.Replacement, "[masked: "):
		p.err = tools.Failf("masked_text", "The replacement has [masked: …] in it, which stands for a secret that you were not shown. Nothing was written.")
	default:
		p.changes, p.survey, p.err = pool.Engine(env.Workspace).Rewrite(ctx, s, in.Pattern, *in.Replacement)
	}
	return p
}

func (p *plan) paths() []string {
	var paths []string
	for i := range p.changes {
		paths = append(paths, p.changes[i].Path)
	}
	return paths
}

// places counts what is replaced.
func (p *plan) places() int {
	n := 0
	for i := range p.changes {
		n += p.changes[i].Places
	}
	return n
}

// diff returns the plan as a unified diff.
func (p *plan) diff() string {
	var b strings.Builder
	for i := range p.changes {
		c := &p.changes[i]
		b.WriteString(udiff.Unified("a/"+plain(c.Path), "b/"+plain(c.Path), c.Before(), c.After()))
	}
	return output.ValidText(b.String())
}

// preview shows what a call would change.
func preview(env tools.Env, in input, pool *syntax.Pool, servers *lsp.Set) tools.Preview {
	if !in.writes() {
		return tools.Preview{Kind: tools.PreviewText, Text: "The call reads source code and changes nothing."}
	}
	var paths []string
	var err error
	var diff func() string
	if in.asksServer() {
		p := plannedEdit(env, in, servers)
		paths, err, diff = p.paths(), p.err, func() string {
			if left := p.left(); left != "" {
				return left + "\n\n" + p.diff()
			}
			return p.diff()
		}
	} else {
		p := planned(env, in, pool)
		paths, err, diff = p.paths(), p.err, p.diff
	}
	switch {
	case err != nil:
		return tools.Preview{Kind: tools.PreviewText, Text: "The call would fail as things are now:\n\n" + explain(context.Background(), env, in, err).Error()}
	case len(paths) == 0:
		return tools.Preview{Kind: tools.PreviewText, Text: "The call would change nothing."}
	}
	return tools.Preview{Kind: tools.PreviewDiff, Text: diff()}
}

// rewrite answers pattern_rewrite.
func (c *call) rewrite(ctx context.Context) (tools.Result, error) {
	var p *plan
	if c.in.writes() {
		p = planned(c.env, c.in, c.pool)
	} else {
		p = newPlan(ctx, c.env, c.in, c.pool)
	}
	if p.err != nil {
		return tools.Result{}, p.err
	}
	shown := c.page(1)
	what := tools.Count(p.places(), "place", "places") + " in " + tools.Count(len(p.changes), "file", "files")
	switch {
	case len(p.changes) == 0:
		shown.note("nothing has this shape, or the replacement is the same: nothing would change")
		return c.answer(shown, p.survey)
	case !c.in.writes():
		fmt.Fprintf(&shown.text, "Would change %s. Nothing was written: set dry_run to false to do it.\n\n", what)
	default:
		record, err := c.write(p)
		if err != nil {
			return tools.Result{}, err
		}
		shown.change = record.ID
		fmt.Fprintf(&shown.text, "Changed %s.\n", what)
		if record.Lost != "" {
			shown.note("this cannot be undone: " + record.Lost)
		}
		shown.text.WriteByte('\n')
	}
	shown.seen, shown.shown = p.places(), p.places()
	shown.text.WriteString(p.diff()) // what does not fit is kept as an artifact
	return c.answer(shown, p.survey)
}

// write carries a plan out, all of it or nothing.
func (c *call) write(p *plan) (*history.Record, error) {
	defer c.env.Workspace.Lock(p.paths()...)()
	batch := history.Begin(c.env.Workspace, c.env.Changes, c.env.CallID, "code")
	for i := range p.changes {
		change := &p.changes[i]
		err := c.unchanged(change)
		if err == nil {
			_, err = batch.Write(change.Path, change.New, workspace.KeepMode, change.Old)
		}
		if err != nil {
			return nil, errors.Join(err, batch.Rollback())
		}
	}
	return batch.Commit(), nil
}

// unchanged returns an error where a file is not the one that the plan was made of.
func (c *call) unchanged(change *syntax.Change) error {
	path, err := c.env.Path(change.Path)
	if err != nil {
		return err
	}
	now, err := c.env.Workspace.ReadFile(path, syntax.MaxText)
	if err != nil {
		return err
	}
	if !bytes.Equal(now.Data, change.Old.Data) {
		return tools.Failf("stale_file", "%s has changed since it was found what would be rewritten. Nothing was written. Call again.", plain(change.Path))
	}
	change.Old = now
	return nil
}
